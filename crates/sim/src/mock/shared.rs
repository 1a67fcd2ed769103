//! What all calls of one mock share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use super::files::FileStore;
use super::limits::Limits;
use super::options::{MOST_CHUNKS, Options, Tuning};
use super::play::{Drawn, Player};
use super::prefix_cache::PrefixCache;
use super::recorder::Recorder;
use super::script::{Mode, Script};
use super::stats::Counters;

pub(crate) struct Shared {
    tuning: RwLock<Arc<Tuning>>,
    player: Player,
    /// For the paths that the script is not for.
    fine: Player,
    script_paths: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) h2_max_streams: u32,
    pub(crate) counters: Arc<Counters>,
    pub(crate) recorder: Recorder,
    pub(crate) limits: Limits,
    pub(crate) prompts: PrefixCache,
    pub(crate) files: FileStore,
    numbers: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            tuning: RwLock::new(Arc::new(usable(options.tuning))),
            player: Player::new(options.script),
            fine: Player::new(Script::always(Mode::Ok)),
            script_paths: options.script_paths,
            seed: options.seed,
            h2_max_streams: options.h2_max_streams,
            counters: Counters::new(),
            recorder: Recorder::default(),
            limits: Limits::new(),
            prompts: PrefixCache::default(),
            files: FileStore::default(),
            numbers: AtomicU64::new(0),
        }
    }

    pub(crate) fn tuning(&self) -> Arc<Tuning> {
        self.tuning.read().clone()
    }

    pub(crate) fn set_tuning(&self, tuning: Tuning) {
        *self.tuning.write() = Arc::new(usable(tuning));
    }

    pub(crate) fn script(&self) -> Script {
        self.player.script()
    }

    pub(crate) fn set_script(&self, script: Script) {
        self.player.set(script);
    }

    /// The phase that a call on this path falls into.
    pub(crate) fn draw(&self, path: &str) -> Drawn {
        let scripted = self.script_paths.is_empty()
            || self.script_paths.iter().any(|prefix| path.starts_with(prefix.as_str()));
        if scripted { self.player.draw() } else { self.fine.draw() }
    }

    /// The number of this call, from 1.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// As at the start, with the limits and the script that are in force now.
    pub(crate) fn reset(&self) {
        self.counters.reset();
        self.recorder.clear();
        self.limits.reset();
        self.prompts.clear();
        self.files.clear();
        self.player.set(self.player.script());
    }
}

/// Tunings made in code may ask for any number of chunks.
fn usable(tuning: Tuning) -> Tuning {
    Tuning { chunks: tuning.chunks.clamp(1, MOST_CHUNKS), ..tuning }
}
