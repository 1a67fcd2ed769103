//! What Linux says about a process: the CPU time it has had and the memory it holds.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::document::Machine;

/// `utime` and `stime` are counted in hundredths of a second, on every Linux platform.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of all threads of a process, user and kernel, from two books.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpu {
    /// Sum over the threads alive, to the nanosecond. Loses what a thread did before it ended.
    fine: Duration,
    /// The whole process with its ended threads, in ticks.
    coarse: Duration,
}

impl Cpu {
    pub fn of(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let mut fine = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end between the listing and the reading: then `coarse` has its time.
            if let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) {
                fine += parse_schedstat(&text)?;
            }
        }
        Ok(Self { fine, coarse: parse_stat(&stat)? })
    }

    /// CPU time spent since `earlier`. The finer book never says too much, and the coarser one is off
    /// by less than two ticks: it wins only where threads ended in between.
    pub fn since(self, earlier: Self) -> Duration {
        let fine = self.fine.saturating_sub(earlier.fine);
        let coarse = self.coarse.saturating_sub(earlier.coarse).saturating_sub(2 * TICK);
        fine.max(coarse)
    }
}

/// `/proc/PID/task/TID/schedstat`: time on a CPU in ns, time waiting for one, number of time slices.
fn parse_schedstat(text: &str) -> Result<Duration> {
    let run = text.split_whitespace().next().context("empty schedstat")?;
    Ok(Duration::from_nanos(run.parse()?))
}

/// `/proc/PID/stat`: the name stands in parentheses and may hold any character; after its last `)`
/// `utime` and `stime` are the 12th and 13th fields.
fn parse_stat(text: &str) -> Result<Duration> {
    let (_, fields) = text.rsplit_once(')').context("no process name in stat")?;
    let mut times = fields.split_whitespace().skip(11);
    let mut next = || -> Result<u32> { Ok(times.next().context("stat is too short")?.parse()?) };
    Ok(TICK * (next()? + next()?))
}

/// Resident memory in KiB: `rss` counts shared pages whole, `pss` divides them by their users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    pub rss: f64,
    pub pss: f64,
}

impl Memory {
    pub fn of(pid: u32) -> Result<Self> {
        parse_rollup(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?)
    }
}

fn parse_rollup(text: &str) -> Result<Memory> {
    let field = |name: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        Ok(number.with_context(|| format!("no {name} in smaps_rollup"))?.parse()?)
    };
    Ok(Memory { rss: field("Rss:")?, pss: field("Pss:")? })
}

/// Whoever started this process wants it to outlive its terminal.
pub fn ignores_hangup() -> bool {
    hangup_ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// `SigIgn` is a mask in hexadecimal digits; SIGHUP is the first signal.
fn hangup_ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Processor, cores, kernel, and how busy the machine is now.
pub fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown processor", |(_, name)| name);
    let release = read("/proc/sys/kernel/osrelease");
    Machine {
        cpu: model.to_owned(),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        os: if release.is_empty() {
            std::env::consts::OS.to_owned()
        } else {
            format!("Linux {}", release.trim())
        },
        load: read("/proc/loadavg").split_whitespace().take(3).filter_map(|load| load.parse().ok()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_name_with_spaces_and_parentheses() {
        let stat = "8739 (a) b (c)) S 1 2 3 0 -1 4194304 98 0 0 0 150 25 9 9 20 0 1 0 231253 3133440 394";
        assert_eq!(parse_stat(stat).unwrap(), Duration::from_millis(1750));
        assert!(parse_stat("8739 (a) S 1 2").is_err());
        assert!(parse_stat("").is_err());
    }

    #[test]
    fn schedstat_gives_nanoseconds_on_cpu() {
        assert_eq!(parse_schedstat("1499366 17 3\n").unwrap(), Duration::from_nanos(1_499_366));
        assert!(parse_schedstat("").is_err());
    }

    #[test]
    fn an_ignored_hangup_is_the_first_bit() {
        assert!(hangup_ignored("Name:\tbench\nSigIgn:\t0000000000001001\n"));
        assert!(!hangup_ignored("SigIgn:\t0000000000001002\n"));
        assert!(!hangup_ignored(""));
    }

    #[test]
    fn rollup_gives_rss_and_pss_and_not_their_namesakes() {
        let text =
            "55cc-7ffe ---p 00000000 00:00 0   [rollup]\nRss:   1852 kB\nPss_Dirty:  112 kB\nPss:   412 kB\n";
        assert_eq!(parse_rollup(text).unwrap(), Memory { rss: 1852.0, pss: 412.0 });
        assert!(parse_rollup("Rss: 1 kB\n").is_err());
    }

    #[test]
    fn time_of_ended_threads_is_not_lost() {
        let cpu =
            |fine, coarse| Cpu { fine: Duration::from_millis(fine), coarse: Duration::from_millis(coarse) };
        assert_eq!(cpu(1500, 1510).since(cpu(1000, 1000)), Duration::from_millis(500));
        assert_eq!(cpu(1100, 1500).since(cpu(1000, 1000)), Duration::from_millis(480));
    }

    #[test]
    fn this_very_process_can_be_read() {
        let pid = std::process::id();
        Cpu::of(pid).unwrap();
        assert!(Memory::of(pid).unwrap().rss > 0.0);
    }
}
