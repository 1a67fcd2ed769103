//! The processes that take part. Each is killed when its value is dropped, and nothing else ever is.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::load::fetch;

const START_LIMIT: Duration = Duration::from_secs(20);

/// What stands between client and upstream.
#[derive(Clone, Debug)]
pub enum Proxy {
    Relay,
    Gate(PathBuf),
}

/// The protocol of the provider that a gate has. The upstream speaks both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speaks {
    Chat,
    /// The gate has to translate.
    Messages,
}

pub struct Process {
    child: Child,
    /// Where it takes calls.
    pub addr: SocketAddr,
    /// Where a gate tells of itself.
    pub admin: Option<SocketAddr>,
    /// Just before it was spawned.
    pub since: Instant,
    /// Its working directory, with its output in the file `log`.
    dir: TempDir,
}

impl Process {
    pub async fn upstream() -> Result<Self> {
        let addr = free_addr()?;
        Self::start(Command::new(sibling("upstream")?).arg(addr.to_string()), addr, None).await
    }

    /// Starts a proxy before `upstream`, a gate as its users start it, and waits until it accepts connections.
    pub async fn proxy(kind: &Proxy, upstream: SocketAddr) -> Result<Self> {
        Self::proxy_with(kind, upstream, Speaks::Chat, &[]).await
    }

    /// The same with variables and a provider for a gate; a relay has nothing to set.
    pub async fn proxy_with(
        kind: &Proxy,
        upstream: SocketAddr,
        speaks: Speaks,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let addr = free_addr()?;
        match kind {
            Proxy::Relay => {
                let mut command = Command::new(sibling("relay")?);
                Self::start(command.args([addr.to_string(), upstream.to_string()]), addr, None).await
            }
            Proxy::Gate(path) => {
                let admin = free_addr()?;
                let mut command = gate(path, addr, admin, upstream, speaks);
                Self::start(command.envs(variables.iter().copied()), addr, Some(admin)).await
            }
        }
    }

    async fn start(command: &mut Command, addr: SocketAddr, admin: Option<SocketAddr>) -> Result<Self> {
        let dir = TempDir::with_prefix("proof-")?;
        let log = File::create(dir.path().join("log"))?;
        command.current_dir(dir.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let since = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        let mut process = Self { child, addr, admin, since, dir };
        process.accepting().await?;
        Ok(process)
    }

    async fn accepting(&mut self) -> Result<()> {
        while TcpStream::connect(self.addr).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status}): {}", self.log());
            }
            if self.since.elapsed() > START_LIMIT {
                bail!("it accepts no connection: {}", self.log());
            }
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an operator does.
    pub fn terminate(&self) -> Result<()> {
        let sent = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        anyhow::ensure!(sent.success(), "cannot send a signal to {}", self.pid());
        Ok(())
    }

    /// Waits for its end, and says its exit code.
    pub async fn ended(&mut self, limit: Duration) -> Result<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return status.code().context("it was killed");
            }
            if start.elapsed() > limit {
                bail!("it runs on: {}", self.log().lines().last().unwrap_or_default());
            }
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// A gate's metrics.
    pub async fn metrics(&self) -> Result<String> {
        fetch(self.admin.context("only a gate has metrics")?, "/metrics").await
    }

    /// What it has written to standard output and standard error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Lines written so far to standard output and standard error.
    pub fn log_lines(&self) -> usize {
        self.log().lines().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The gate as its users start it: logging at its default level, metrics on, no configuration file.
fn gate(path: &Path, addr: SocketAddr, admin: SocketAddr, upstream: SocketAddr, speaks: Speaks) -> Command {
    let mut command = Command::new(path);
    command.args(["serve", "--listen", &addr.to_string(), "--admin-listen", &admin.to_string()]);
    let provider = match speaks {
        Speaks::Chat => format!("openai=http://{upstream}/v1"),
        Speaks::Messages => format!("anthropic=http://{upstream}"),
    };
    command.args(["--provider", &provider, "--data-dir", "data"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SLUICEGATE_") {
            command.env_remove(name);
        }
    }
    command.env("OPENAI_API_KEY", "sk-proof").env("ANTHROPIC_API_KEY", "sk-proof").env_remove("RUST_LOG");
    command
}

/// A binary built beside this one.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!("no {name} beside {}: build the whole package first", own.display());
    }
    Ok(path)
}

/// An address whose port nobody had a moment ago.
fn free_addr() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
