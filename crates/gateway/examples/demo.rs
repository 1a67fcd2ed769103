//! The gate against its own scripted provider, with direct calls beside it: what a user sees in the first minute.
//!
//! Real sockets, the default configuration, no key. Each line is measured while it is printed.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use sim::mock::{Mock, Options, Tuning};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const EQUAL: usize = 200;
const DISTINCT: usize = 20;
const LATENCY: Duration = Duration::from_millis(1500);

/// A gate in a process of its own, which ends with this value.
struct Gate(Child);

impl Drop for Gate {
    fn drop(&mut self) {
        let _already_gone = self.0.kill();
        let _already_gone = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let provider = listener.local_addr()?;
    let tuning = Tuning { latency: LATENCY, ..Tuning::default() };
    let options = Options { tuning, ..Options::default() };
    let mock = Mock::start(listener, options);
    let (_gate, address) = start_gate(provider).await?;

    println!(
        "A provider that takes {:.1} s for each answer, asked directly and through the gate.\n",
        LATENCY.as_secs_f64()
    );
    println!("{:<36} {:>9} {:>9}", "", "direct", "gate");
    let same = |_| "Tell me about sluices.".to_owned();
    let direct = at_once(&mock, provider, EQUAL, same).await?;
    let gate = at_once(&mock, address, EQUAL, same).await?;
    anyhow::ensure!(gate.answers == direct.answers, "the answers differ");
    row(&format!("{EQUAL} equal calls at once, all"), direct.took, gate.took);
    counts("calls that the provider got", direct.calls, gate.calls);
    let direct = at_once(&mock, provider, 1, same).await?;
    let gate = at_once(&mock, address, 1, same).await?;
    row("the same call once more", direct.took, gate.took);
    counts("calls that the provider got", direct.calls, gate.calls);

    let other = |number| format!("Tell me about the number {number}.");
    let direct = at_once(&mock, provider, DISTINCT, other).await?;
    let gate = at_once(&mock, address, DISTINCT, other).await?;
    anyhow::ensure!(gate.answers == direct.answers, "the answers differ");
    row(&format!("{DISTINCT} different calls at once, all"), direct.took, gate.took);
    row("the slowest of them", direct.slowest, gate.slowest);
    counts("calls that the provider got", direct.calls, gate.calls);
    println!("\nEqual calls share one answer, whether they come together or later.");
    println!("Different calls never wait for each other: all of them take as long as one.");
    Ok(())
}

fn row(what: &str, direct: Duration, gate: Duration) {
    println!("{what:<36} {:>6.0} ms {:>6.0} ms", direct.as_secs_f64() * 1e3, gate.as_secs_f64() * 1e3);
}

fn counts(what: &str, direct: u64, gate: u64) {
    println!("{what:<36} {direct:>9} {gate:>9}");
}

/// What became of calls that were sent at once.
struct Crowd {
    took: Duration,
    slowest: Duration,
    /// How many the provider got.
    calls: u64,
    /// Each caller's, in the order of the callers.
    answers: Vec<Bytes>,
}

async fn at_once(
    mock: &Mock,
    to: SocketAddr,
    callers: usize,
    prompt: impl Fn(usize) -> String,
) -> Result<Crowd> {
    let before = mock.stats().arrived;
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..callers {
        let call = ask(to, prompt(number));
        calls.spawn(async move { call.await.map(|(took, answer)| (number, took, answer)) });
    }
    let mut slowest = Duration::ZERO;
    let mut answers = vec![Bytes::new(); callers];
    while let Some(done) = calls.join_next().await {
        let (number, took, answer) = done??;
        slowest = slowest.max(took);
        answers[number] = answer;
    }
    Ok(Crowd { took: start.elapsed(), slowest, calls: mock.stats().arrived - before, answers })
}

/// One call, as an SDK would make it. Returns how long it took, and the answer.
async fn ask(to: SocketAddr, prompt: String) -> Result<(Duration, Bytes)> {
    let start = Instant::now();
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let body = serde_json::json!({"model": "gpt-5-mini", "messages": [{"role": "user", "content": prompt}]});
    let request = Request::post("/v1/chat/completions")
        .header("host", to.to_string())
        .header("content-type", "application/json")
        .header("authorization", "Bearer demo")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        anyhow::ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    };
    let answer = tokio::select! {
        answer = answer => answer?,
        ended = connection => {
            ended?;
            anyhow::bail!("the connection ended before the answer");
        }
    };
    Ok((start.elapsed(), answer))
}

/// Starts the built gate on free ports and waits until it answers.
async fn start_gate(provider: SocketAddr) -> Result<(Gate, SocketAddr)> {
    let binary = std::env::current_exe()?
        .parent()
        .and_then(std::path::Path::parent)
        .context("no target directory")?
        .join("sluicegate");
    anyhow::ensure!(binary.exists(), "{} is not built; use `make demo`", binary.display());
    let (address, admin) = (free().await?, free().await?);
    let child = Command::new(binary)
        .args(["serve", "--listen", &address.to_string(), "--admin-listen", &admin.to_string()])
        .args(["--provider", &format!("openai=http://{provider}/v1"), "--log-level", "warn"])
        .env_clear()
        .stderr(Stdio::null())
        .spawn()?;
    let gate = Gate(child);
    let start = Instant::now();
    while TcpStream::connect(address).await.is_err() {
        anyhow::ensure!(start.elapsed() < Duration::from_secs(5), "the gate did not start");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok((gate, address))
}

async fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}
