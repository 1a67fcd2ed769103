//! A running gate takes a new configuration, or keeps the one it has.
//!
//! Promise: a reload is whole or not at all. A file with an error, and a change
//! that needs a restart, leave the running configuration in force and say why.
//! Content is compared, not times or file ids, so a ConfigMap's symlink swap and
//! a network file system are seen too; so are the files that hold secrets.
//! Not here: putting the new configuration in force, which is the caller's.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{Config, ConfigError, Environment, Flags, Provenance, load};

/// How often the files are looked at.
pub const POLL: Duration = Duration::from_secs(2);

/// What became of a reload.
#[derive(Debug)]
pub enum Outcome {
    /// Put this in force.
    Changed(Arc<Config>),
    /// The running one stays; the reason is for the log.
    Kept(Kept),
}

#[derive(Debug, Error)]
pub enum Kept {
    #[error("the running configuration stays: {0}")]
    Wrong(#[from] ConfigError),
    #[error("the running configuration stays: {0}")]
    Refused(#[from] Refused),
}

/// A change that a running process can't make.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "a change of {} needs a restart, so nothing of the new configuration was taken; \
     what is open now belongs to calls that are running",
    .0.join(" and ")
)]
pub struct Refused(pub Vec<&'static str>);

/// The configuration that follows the current one.
pub fn next(current: &Config, new: Config) -> Result<Config, Refused> {
    let mut changed = Vec::new();
    if current.listen != new.listen {
        changed.push("`listen`");
    }
    if current.admin_listen != new.admin_listen {
        changed.push("`admin_listen`");
    }
    if current.data_dir != new.data_dir {
        changed.push("`data_dir`");
    }
    if changed.is_empty() { Ok(new) } else { Err(Refused(changed)) }
}

/// Watches what a configuration was loaded from.
pub struct Watch {
    flags: Flags,
    env: Environment,
    current: Arc<Config>,
    files: Vec<PathBuf>,
    seen: u64,
}

impl Watch {
    /// From here on, for a process that was started with these.
    pub fn new(flags: Flags, env: Environment, current: Arc<Config>, provenance: &Provenance) -> Self {
        let files = watched(provenance);
        let seen = contents(&files, &env);
        Self { flags, env, current, files, seen }
    }

    /// Runs until dropped. `hup` resolves at each signal to reload (on Unix
    /// `signal.recv()`); `told` gets every outcome.
    pub async fn run<F: Future>(mut self, mut hup: impl FnMut() -> F, mut told: impl FnMut(Outcome)) {
        let mut ticks = interval_at(Instant::now() + POLL, POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut signal = Box::pin(hup());
        loop {
            let asked = tokio::select! {
                _ = &mut signal => {
                    signal.set(hup());
                    true
                }
                _ = ticks.tick() => false,
            };
            let seen = contents(&self.files, &self.env);
            if asked || seen != self.seen {
                told(self.reload());
            }
        }
    }

    fn reload(&mut self) -> Outcome {
        // Before the load: what changes while it reads is seen at the next look.
        self.seen = contents(&self.files, &self.env);
        let (new, provenance) = match load(&self.flags, &self.env) {
            Ok(loaded) => loaded,
            Err(error) => return Outcome::Kept(error.into()),
        };
        match next(&self.current, new) {
            Ok(config) => {
                self.current = Arc::new(config);
                self.files = watched(&provenance);
                self.seen = contents(&self.files, &self.env);
                Outcome::Changed(Arc::clone(&self.current))
            }
            Err(refused) => Outcome::Kept(refused.into()),
        }
    }
}

fn watched(provenance: &Provenance) -> Vec<PathBuf> {
    let mut files = vec![provenance.file.clone()];
    files.extend(provenance.secret_files.iter().cloned());
    files
}

/// One number for what all the files hold; an unreadable one counts as empty
/// of its own kind, so that it coming and going is a change.
fn contents(files: &[PathBuf], env: &Environment) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        env.read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}
