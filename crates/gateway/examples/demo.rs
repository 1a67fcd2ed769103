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
    let _mock = Mock::start(listener, options);
    let (_gate, address) = start_gate(provider).await?;

    println!(
        "A provider that takes {:.1} s for each answer, asked directly and through the gate.\n",
        LATENCY.as_secs_f64()
    );
    println!("{:<34} {:>9} {:>9}", "", "direct", "gate");
    let direct = distinct(provider).await?;
    let gate = distinct(address).await?;
    row(&format!("{DISTINCT} different calls at once, all"), direct.0, gate.0);
    row("the slowest of them", direct.1, gate.1);
    println!("\nDifferent calls never wait for each other: all of them take as long as one.");
    Ok(())
}

fn row(what: &str, direct: Duration, gate: Duration) {
    println!("{what:<34} {:>6.0} ms {:>6.0} ms", direct.as_secs_f64() * 1e3, gate.as_secs_f64() * 1e3);
}

/// Sends different prompts at once. Returns the time for all and for the slowest one.
async fn distinct(to: SocketAddr) -> Result<(Duration, Duration)> {
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..DISTINCT {
        calls.spawn(ask(to, format!("Tell me about the number {number}.")));
    }
    let mut slowest = Duration::ZERO;
    while let Some(took) = calls.join_next().await {
        slowest = slowest.max(took??);
    }
    Ok((start.elapsed(), slowest))
}

/// One call, as an SDK would make it. Returns how long it took.
async fn ask(to: SocketAddr, prompt: String) -> Result<Duration> {
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
        Ok(())
    };
    tokio::select! {
        answer = answer => answer?,
        ended = connection => ended.context("the connection ended before the answer")?,
    }
    Ok(start.elapsed())
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
