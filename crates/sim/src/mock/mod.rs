//! A scripted LLM provider.
//!
//! It plays OpenAI (Chat Completions, Completions, Embeddings, Responses, Models, Files, Speech), Anthropic
//! (Messages, token counting, Models, Files) and llama.cpp (`/completion`) on one port, answers the same
//! prompt with the same words, fails as its [`Script`] says, and counts exactly what arrived.
//!
//! All its times are on tokio's clock, so tests may pause it. With [`Mock::connect`] and
//! [`Mock::serve_stream`] there is no socket at all.
//!
//! Not here: TLS, stored conversations, batches, and any knowledge of language.

mod answer;
mod body;
mod call;
mod caps;
mod chat;
mod completions;
mod control;
mod duration;
mod embeddings;
mod events;
mod files;
mod hash;
mod limits;
mod llamacpp;
mod messages;
mod models;
mod options;
mod play;
mod prefix_cache;
mod prompt;
mod recorder;
mod reply;
mod responses;
mod routes;
mod run;
mod schema;
mod script;
mod server;
mod shared;
mod signature;
mod speech;
mod stats;
mod strict;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;

pub use duration::parse_duration;
pub use options::{Jitter, Options, Tuning};
pub use recorder::Received;
pub use run::run;
pub use script::{Length, Mode, Phase, Script};
pub use stats::{Connections, HangUps, PathStats, Stats};

use server::Tasks;
use shared::Shared;

/// What an in-memory connection holds before its writer waits.
const DUPLEX_BUFFER: usize = 64 << 10;

/// A running mock; everything it does ends when this is dropped.
pub struct Mock {
    addr: SocketAddr,
    shared: Arc<Shared>,
    tasks: Tasks,
}

impl Mock {
    /// Serves on a listener. Needs a tokio runtime; `options.listen` is not looked at.
    pub fn start(listener: TcpListener, options: Options) -> Self {
        let mut mock = Self::in_memory(options);
        mock.addr = listener.local_addr().unwrap_or(mock.addr);
        mock.tasks.spawn(server::accept(listener, mock.shared.clone(), mock.tasks.clone()));
        mock
    }

    /// Serves on a free port of the loopback interface.
    pub async fn start_local(options: Options) -> std::io::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        Ok(Self::start(listener, options))
    }

    /// Serves only what is handed to [`Self::serve_stream`].
    pub fn in_memory(options: Options) -> Self {
        let addr = SocketAddr::from(([0, 0, 0, 0], 0));
        Self { addr, shared: Arc::new(Shared::new(options)), tasks: Tasks::new() }
    }

    /// Serves HTTP/1.1 or HTTP/2 on one connection of any kind.
    pub fn serve_stream<T>(&self, io: T)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.tasks.spawn(server::serve(io, Arc::default(), self.shared.clone(), self.tasks.clone()));
    }

    /// A new connection to this mock, in memory.
    pub fn connect(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(DUPLEX_BUFFER);
        self.serve_stream(server);
        client
    }

    /// Where it listens; port 0 if nowhere.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What `GET /__stats` tells.
    pub fn stats(&self) -> Stats {
        self.shared.counters.snapshot()
    }

    /// Starts another script; calls that hang in the old one are dropped.
    pub fn set_script(&self, script: Script) {
        self.shared.set_script(script);
    }

    /// The times and limits in force.
    pub fn tuning(&self) -> Tuning {
        Tuning::clone(&self.shared.tuning())
    }

    /// Changes times and limits for the calls to come.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.shared.set_tuning(tuning);
    }

    /// The last `count` requests, oldest first; at most a thousand are kept.
    pub fn requests(&self, count: usize) -> Vec<Received> {
        self.shared.recorder.last(count)
    }

    /// As at the start, with the limits and the script that are in force now.
    pub fn reset(&self) {
        self.shared.reset();
    }

    /// Drops every connection and waits until all tasks have ended.
    pub async fn shutdown(self) {
        self.tasks.cancel();
        self.tasks.ended().await;
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}
