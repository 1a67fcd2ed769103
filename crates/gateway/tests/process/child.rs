//! The binary as child processes, each killed when its guard is dropped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{self, Client};
use crate::until::{secs, until};

/// For a debug binary on a machine that does other things too.
const START: Duration = secs(20);

/// One child process, its directory and what it has written so far.
pub(crate) struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    dir: TempDir,
}

impl Running {
    /// Runs `sluicegate ARGUMENTS` with nothing but `environment`, in a directory of its own.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)], files: &[(&str, &str)]) -> Running {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("a file");
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        collect(child.stdout.take().expect("a pipe"), &lines);
        collect(child.stderr.take().expect("a pipe"), &lines);
        Running { child, lines, dir }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Sends a signal, such as `TERM`, to this process.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.pid())]).status();
        assert!(sent.expect("a shell").success());
    }

    /// All that it has written.
    pub(crate) fn log(&self) -> String {
        self.lines.lock().join("\n")
    }

    /// Waits for a line with `text` in it.
    pub(crate) async fn says(&self, text: &str) -> String {
        let found = async || self.lines.lock().iter().find(|line| line.contains(text)).cloned();
        let what = format!("a line with {text:?}");
        until(&what, START, found).await
    }

    /// Waits for the end. `None` if a signal ended it.
    pub(crate) async fn exit(&mut self, within: Duration) -> Option<i32> {
        let ended = async || self.child.try_wait().expect("our own child");
        until("the process ends", within, ended).await.code()
    }

    /// How long processors have worked for it.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("Linux");
        let (_, after_name) = stat.rsplit_once(')').expect("a name");
        let ticks: u64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<u64>().expect("a number"))
            .sum();
        // A tick is 10 ms for whoever reads this file.
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
        kib * 1024
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the process wrote:\n{}\n---", self.log());
        }
    }
}

fn collect(output: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) {
    let lines = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            lines.lock().push(line);
        }
    });
}

/// A running gate.
pub(crate) struct Gate {
    pub(crate) process: Running,
    pub(crate) at: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Gate {
    /// A gate before `mock`, as OpenAI and Anthropic, with top-level `settings` and this environment.
    pub(crate) async fn before(mock: &Mock, settings: &str) -> Gate {
        Gate::with(&config(settings, mock.at), &[]).await
    }

    /// A gate that runs under `config`, as the file `sluicegate.toml`.
    pub(crate) async fn with(config: &str, environment: &[(&str, &str)]) -> Gate {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        Gate::up(Running::start(&arguments, environment, &[("sluicegate.toml", config)])).await
    }

    /// A gate whose addresses stand in its file.
    pub(crate) async fn by_file(config: &str) -> Gate {
        Gate::up(Running::start(&["serve"], &[], &[("sluicegate.toml", config)])).await
    }

    /// Waits until a gate that was started says where it listens.
    pub(crate) async fn up(process: Running) -> Gate {
        let line = process.says(" serves http://").await;
        let mut addresses = line.split("http://").skip(1).map(|rest| {
            let end = rest.find(',').unwrap_or(rest.len());
            rest[..end].parse().expect("an address")
        });
        let (at, admin) = (addresses.next().expect("data"), addresses.next().expect("admin"));
        Gate { process, at, admin }
    }

    /// The status of a GET on the admin listener.
    pub(crate) async fn admin(&self, path: &str) -> u16 {
        client::get(self.admin, path).await.status.as_u16()
    }

    /// Opens a client connection.
    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.at).await
    }
}

/// The configuration of a gate before one mock that plays both protocols.
pub(crate) fn config(settings: &str, mock: SocketAddr) -> String {
    format!(
        "{settings}\n[providers.openai]\nbase_url = \"http://{mock}/v1\"\n\
         [providers.anthropic]\nbase_url = \"http://{mock}\"\n"
    )
}

/// A running scripted provider.
pub(crate) struct Mock {
    _process: Running,
    pub(crate) at: SocketAddr,
}

impl Mock {
    pub(crate) async fn start(arguments: &[&str]) -> Mock {
        let all = [&["mock", "--strict", "--listen", "127.0.0.1:0"], arguments].concat();
        let process = Running::start(&all, &[], &[]);
        let line = process.says("mock provider on http://").await;
        let (_, rest) = line.split_once("http://").expect("an address");
        let at = rest.split_once(' ').expect("more text").0.parse().expect("an address");
        Mock { _process: process, at }
    }

    pub(crate) async fn stats(&self) -> Value {
        client::get(self.at, "/__stats").await.json()
    }

    pub(crate) async fn requests(&self, last: usize) -> Vec<Value> {
        let all = client::get(self.at, &format!("/__requests?last={last}")).await.json();
        all["requests"].as_array().expect("a list").clone()
    }

    pub(crate) async fn steer(&self, path: &str, body: &str) {
        let request = client::request(http::Method::POST, path, body.to_owned());
        let reply = Client::connect(self.at).await.send(request).await.whole().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    /// Waits until so many calls are in flight.
    pub(crate) async fn in_flight(&self, calls: u64) {
        let what = format!("{calls} calls in flight");
        until(&what, secs(20), async || {
            (self.stats().await["in_flight"].as_u64() == Some(calls)).then_some(())
        })
        .await;
    }
}
