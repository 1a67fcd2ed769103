//! The processes that take part: the laboratory's own executable, run as mock, relay or gate. Each is ended when its
//! value is dropped, and nothing else ever is. One whose laboratory is gone without that, killed, ends by itself.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

const START: Duration = Duration::from_secs(20);
/// All that a child gets of the environment, so that nobody's keys and settings change an experiment.
const ENVIRONMENT: [&str; 4] = ["PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR"];

/// Tells a child that its standard input ends with the laboratory, and which directory it has to itself. Not one of the
/// gate's own variables, of which it would ask what setting that is.
const TIED: &str = "_SLUICEGATE_BENCH_DIRECTORY";
const PREFIX: &str = "sluicegate-bench-";

pub struct Process {
    child: Child,
    /// Where it takes calls.
    pub addr: SocketAddr,
    /// Its working directory, with its output in the file `log`.
    _dir: TempDir,
}

impl Process {
    /// Starts it in a directory of its own and waits until it says, with an `http://` address, where it listens.
    /// One that ends instead is an error with its last words.
    pub async fn start(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Process> {
        let dir = TempDir::with_prefix(PREFIX)?;
        let path = dir.path().join("log");
        let log = File::create(&path)?;
        let inherited = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(inherited)
            .envs(environment.iter().copied())
            .current_dir(dir.path())
            .env(TIED, dir.path())
            // The system closes it when this process is gone, however that came.
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut process = Process { child, addr: SocketAddr::from(([0, 0, 0, 0], 0)), _dir: dir };
        let end = Instant::now() + START;
        loop {
            let over = process.child.try_wait()?.is_some();
            let said = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(addr) = address(&said) {
                process.addr = addr;
                return Ok(process);
            }
            if over {
                bail!("{}", said.trim());
            }
            if Instant::now() > end {
                bail!("{arguments:?} does not say where it listens: {}", said.trim());
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// In a child of the laboratory: ends this process when the laboratory is gone, and removes its directory, since nobody
/// else will. Elsewhere it does nothing.
pub fn end_with_laboratory() {
    let Some(directory) = std::env::var_os(TIED).map(PathBuf::from) else { return };
    // A thread of its own: a read of standard input can't be given up, and must keep nothing from its end.
    let _without_it_nobody_watches =
        std::thread::Builder::new().name("laboratory".to_owned()).spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut nothing = [0; 64];
            // Nobody writes there: it is the end, or an error that comes to the same.
            while matches!(stdin.read(&mut nothing), Ok(1..)) {}
            let name = directory.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(PREFIX)) {
                let _gone_already = std::fs::remove_dir_all(&directory);
            }
            std::process::exit(1);
        });
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to tell.
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The first `http://` address in a whole line.
fn address(said: &str) -> Option<SocketAddr> {
    let line = said.split_inclusive('\n').find(|line| line.contains("http://") && line.ends_with('\n'))?;
    let (_, rest) = line.split_once("http://")?;
    rest.split([',', ' ', '\n', '/']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_a_whole_line() {
        let addr = Some(SocketAddr::from(([127, 0, 0, 1], 9001)));
        assert_eq!(
            address("sluicegate 0.1.0 serves http://127.0.0.1:9001, admin http://127.0.0.1:1\n"),
            addr
        );
        assert_eq!(address("mock provider on http://127.0.0.1:9001 (OpenAI)\n"), addr);
        assert_eq!(address("warming up\nrelay on http://127.0.0.1:9001\n"), addr);
        assert_eq!(address("relay on http://127.0.0.1:900"), None);
    }

    #[tokio::test]
    async fn one_that_ends_at_once_is_an_error_with_its_last_words() {
        let failed = Process::start(Path::new("/bin/sh"), &["-c", "echo no, thanks; exit 1"], &[]).await;
        assert_eq!(failed.err().unwrap().to_string(), "no, thanks");
    }

    #[tokio::test]
    async fn it_ends_with_its_value() {
        let script = "echo on http://127.0.0.1:9001; exec tail -f /dev/null";
        let process = Process::start(Path::new("/bin/sh"), &["-c", script], &[]).await.unwrap();
        let status = format!("/proc/{}", process.pid());
        assert!(Path::new(&status).exists());
        drop(process);
        assert!(!Path::new(&status).exists());
    }
}
