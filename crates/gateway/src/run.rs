//! The life of the process: start, serve, drain.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::config::{Config, LogFormat};
use crate::gateway::Gateway;
use crate::net::life::Step;
use crate::net::port::Port;

/// For errors to reach their clients after a cut drain.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A connection that is closed while its client sends the next call on it costs that call its answer. So for this long
/// whoever still calls is told to go elsewhere, which ends its connection in order, before those that are idle are closed.
const STRAGGLERS: Duration = Duration::from_millis(250);
/// For connections and tasks to end once no call is left.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves until a signal has ended it. The exit code is 0 after a whole drain, 1 after a cut one.
pub async fn run(gate: Arc<Gateway>, data: TcpListener) -> io::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let port = Port::open(&gate, data);
    gate.tasks.spawn(gate.clone().sweep());
    signals.next().await;
    let whole = drain(&gate, &port, &mut signals).await;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ends the gate's life in order. Returns whether every call got its own answer.
async fn drain(gate: &Gateway, port: &Port, again: &mut Signals) -> bool {
    let patience = gate.snapshot().config.drain;
    tracing::info!(
        calls = gate.life.calls(),
        seconds = patience.as_secs_f64(),
        "draining; another signal ends it at once"
    );
    gate.drain();
    let whole = tokio::select! {
        () = gate.life.empty() => true,
        () = sleep(patience) => false,
        () = again.next() => false,
    };
    if !whole {
        tracing::warn!(calls = gate.life.calls(), "the drain is cut: what is left ends with an error");
        gate.life.advance(Step::Cut);
        let _given_up = timeout(LAST_WORDS, gate.life.empty()).await;
    }
    tokio::select! { () = sleep(STRAGGLERS) => {}, () = again.next() => {} }
    port.close().await;
    gate.life.advance(Step::Closed);
    let _given_up = timeout(GOODBYE, gate.tasks.ended()).await;
    whole
}

/// SIGTERM and SIGINT mean the same.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.terminate.recv() => {}, _ = self.interrupt.recv() => {} }
    }
}

/// What a person who starts the gate wants to know, in five lines. `data` and `admin` are what is listened on:
/// where port 0 was asked for, the system has chosen one.
pub fn welcome(config: &Config, data: SocketAddr, admin: SocketAddr) {
    let base = match data.ip().is_unspecified() {
        true => format!("http://<this machine>:{}", data.port()),
        false => format!("http://{data}"),
    };
    let mut open = 0;
    let providers: Vec<String> = config
        .providers
        .iter()
        .map(|provider| match &provider.key_source {
            Some(source) => {
                open += 1;
                format!("{} (key from {source})", provider.name)
            }
            None if provider.kind.keyless => format!("{} (needs no key)", provider.name),
            None => format!("{} (the caller's own key)", provider.name),
        })
        .collect();
    let who = if open > 0 { "any program that reaches this address" } else { "whoever brings a key" };
    let lines = [
        format!("sluicegate {} serves {base}, admin http://{admin}", env!("CARGO_PKG_VERSION")),
        format!("providers: {}", providers.join(", ")),
        format!("OpenAI SDKs: base URL {base}/v1 · Anthropic SDKs: base URL {base}"),
        format!("open to {who}; web pages are refused unless [cors] lists them"),
        "`sluicegate check` shows every setting and where it came from; Ctrl-C drains and ends".to_owned(),
    ];
    match config.log.format {
        LogFormat::Text => lines.iter().for_each(|line| eprintln!("{line}")),
        LogFormat::Json => lines.iter().for_each(|line| tracing::info!("{line}")),
    }
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
}
