//! The configuration as the gate uses it: parsed, looked up, checked.
//!
//! Invariant: nothing here has to be parsed or can fail any more. A [`Config`]
//! is a snapshot; a reload builds a whole new one.
//! Not here: what was typed (`file`) and where each value came from (`layers`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wire::base::BaseUrl;
use wire::provider::Kind;

use super::file::{CacheWhen, HttpVersion, LogFormat};
use super::secret::Secret;

#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    pub data_dir: PathBuf,
    pub drain: Duration,
    /// Bytes of a request's body.
    pub max_body: usize,
    pub usage_on_streams: bool,
    pub keep_alive: Duration,
    pub header_timeout: Duration,
    pub hosts: Vec<String>,
    /// The operator accepts that whoever reaches `listen` spends the keys.
    pub open: bool,
    /// In the order that decides defaults: flags, environment, file.
    pub providers: Vec<Arc<ProviderConfig>>,
    pub models: Vec<Alias>,
    /// What the providers start from; each one's own is what counts for a call.
    pub coalesce: Coalesce,
    /// Likewise, save `max_bytes`, which bounds the one cache that they share.
    pub cache: Cache,
    pub gate: Gate,
    pub cors_origins: Vec<String>,
    pub admin: Admin,
    pub log: Log,
    /// What the operator should know, though it stops nothing.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct ProviderConfig {
    pub name: String,
    pub kind: &'static Kind,
    pub base: BaseUrl,
    /// Without one the caller's own credentials are forwarded.
    pub api_key: Option<Secret>,
    /// Where the key came from; never a character of it.
    pub key_source: Option<String>,
    /// Most calls in flight at once.
    pub concurrency: usize,
    /// Marked to take what names no provider, among those of its protocol; with
    /// none marked the first one does.
    pub default: bool,
    pub http: HttpVersion,
    pub coalesce: Coalesce,
    pub cache: Cache,
    pub timeouts: Timeouts,
    pub queue: Queue,
    pub window: Window,
    /// Models that have a bound of their own: most calls in flight at once.
    pub caps: Vec<(String, usize)>,
}

/// Equal calls at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesce {
    /// They share one call of the provider.
    pub enabled: bool,
    /// A call that all have left goes on, where its answer can be kept.
    pub finish_abandoned: bool,
}

/// Kept answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub when: CacheWhen,
    /// More than 0.
    pub ttl: Duration,
    /// Of all providers together, and the same in each one's settings.
    pub max_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    pub first_byte: Limit,
    pub stall: Limit,
    /// From arrival, all waits included.
    pub total: Duration,
}

/// A deadline: set, or learned from the target's own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Learned,
    Fixed(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    pub max: usize,
    pub per_key: usize,
    /// Of all requests that wait.
    pub max_bytes: u64,
    /// Calls of one key that are in flight; `usize::MAX` for as many as there are permits.
    pub parallel_per_key: usize,
    pub timeout: Duration,
}

/// An admission window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub enabled: bool,
    /// At least 1.
    pub max_size: usize,
    /// More than 0.
    pub max_wait: Duration,
}

/// The door of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// 0: there is none.
    pub max_in_flight: usize,
    pub max_waiting: usize,
    pub wait: Duration,
    /// What whoever is turned away is told; none: what was measured.
    pub retry_after: Option<Duration>,
}

/// A name that clients ask for, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub name: String,
    pub provider: String,
    pub model: String,
    /// A bound of the model's own, that its provider has among its `caps`.
    pub concurrency: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Admin {
    pub token: Option<Secret>,
    pub viewer_token: Option<Secret>,
    pub hosts: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Log {
    /// A level, and others for parts of the program: `info,sluicegate::net=debug`.
    pub level: String,
    pub format: LogFormat,
}
