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
use tokio::task::spawn_blocking;
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

    /// Runs until dropped. The future that `signal` makes ends when a reload is
    /// asked for whatever the files say (SIGHUP does); `told` gets every outcome.
    pub async fn run<F: Future>(mut self, mut signal: impl FnMut() -> F, mut told: impl FnMut(Outcome)) {
        let mut ticks = interval_at(Instant::now() + POLL, POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Kept over the ticks, so that no signal falls between two futures.
        let mut next_signal = Box::pin(signal());
        loop {
            let asked = tokio::select! {
                _ = &mut next_signal => {
                    next_signal.set(signal());
                    true
                }
                _ = ticks.tick() => false,
            };
            // A network file system may take its time; a worker has none.
            let (watch, outcome) = match spawn_blocking(move || self.look(asked)).await {
                Ok(looked) => looked,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is going down.
                    Err(_) => return,
                },
            };
            self = watch;
            if let Some(outcome) = outcome {
                told(outcome);
            }
        }
    }

    fn look(mut self, asked: bool) -> (Self, Option<Outcome>) {
        let seen = contents(&self.files, &self.env);
        if !asked && seen == self.seen {
            return (self, None);
        }
        // Taken before the load, so that what changes meanwhile is seen at the
        // next look; taken whatever the load says, so that one fault is told once.
        self.seen = seen;
        let outcome = self.reload();
        (self, Some(outcome))
    }

    fn reload(&mut self) -> Outcome {
        let (new, provenance) = match load(&self.flags, &self.env) {
            Ok(loaded) => loaded,
            Err(error) => return Outcome::Kept(error.into()),
        };
        match next(&self.current, new) {
            Ok(config) => {
                self.current = Arc::new(config);
                let files = watched(&provenance);
                if files != self.files {
                    self.seen = contents(&files, &self.env);
                    self.files = files;
                }
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

/// One number for what all the files hold. A file that can't be read is unlike
/// an empty one, so that its coming and going is a change.
fn contents(files: &[PathBuf], env: &Environment) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        env.read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::{Notify, mpsc};

    use super::super::CacheWhen;
    use super::*;

    fn flags(path: &Path) -> Flags {
        Flags { config: Some(path.to_owned()), ..Flags::default() }
    }

    /// A watch on `path` and what it tells.
    fn start(path: &Path) -> (Arc<Notify>, mpsc::Receiver<Outcome>, tokio::task::JoinSet<()>) {
        let env = Environment::with_files([]);
        let (config, provenance) = load(&flags(path), &env).unwrap();
        let watch = Watch::new(flags(path), env, Arc::new(config), &provenance);
        let asked = Arc::new(Notify::new());
        let (told, outcomes) = mpsc::channel(8);
        let mut tasks = tokio::task::JoinSet::new();
        let signals = Arc::clone(&asked);
        let signal = move || {
            let signals = Arc::clone(&signals);
            async move { signals.notified().await }
        };
        tasks.spawn(watch.run(signal, move |outcome| told.try_send(outcome).unwrap()));
        (asked, outcomes, tasks)
    }

    async fn changed(outcomes: &mut mpsc::Receiver<Outcome>) -> Arc<Config> {
        match outcomes.recv().await.unwrap() {
            Outcome::Changed(config) => config,
            Outcome::Kept(why) => panic!("{why}"),
        }
    }

    async fn kept(outcomes: &mut mpsc::Receiver<Outcome>) -> String {
        match outcomes.recv().await.unwrap() {
            Outcome::Changed(config) => panic!("{config:?}"),
            Outcome::Kept(why) => why.to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_file_is_taken_within_the_poll() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "drain = 1").unwrap();
        let (_asked, mut outcomes, _tasks) = start(&path);
        std::fs::write(&path, "drain = 2").unwrap();
        let before = Instant::now();
        assert_eq!(changed(&mut outcomes).await.drain, Duration::from_secs(2));
        assert!(before.elapsed() <= POLL);
        // The same content again, in a new file: nothing to tell for a minute.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "drain = 2").unwrap();
        let quiet = tokio::time::timeout(Duration::from_secs(60), outcomes.recv()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_symlink_swap_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (version, text) in [("v1", "drain = 1"), ("v2", "drain = 2")] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("c.toml"), text).unwrap();
        }
        std::os::unix::fs::symlink(at("v1"), at("data")).unwrap();
        let (_asked, mut outcomes, _tasks) = start(&at("data").join("c.toml"));
        std::os::unix::fs::symlink(at("v2"), at("new")).unwrap();
        std::fs::rename(at("new"), at("data")).unwrap();
        assert_eq!(changed(&mut outcomes).await.drain, Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_keeps_the_running_configuration_and_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "drain = 1").unwrap();
        let (_asked, mut outcomes, _tasks) = start(&path);
        std::fs::write(&path, "\ndrian = 2").unwrap();
        let why = kept(&mut outcomes).await;
        assert!(why.starts_with("the running configuration stays: "), "{why}");
        assert!(why.ends_with("c.toml:2:1: unknown key `drian`; did you mean `drain`?"), "{why}");
        let quiet = tokio::time::timeout(Duration::from_secs(60), outcomes.recv()).await;
        assert!(quiet.is_err(), "{quiet:?}");
        std::fs::remove_file(&path).unwrap();
        assert!(kept(&mut outcomes).await.contains("can't read the configuration file"));
        std::fs::write(&path, "drain = 3").unwrap();
        assert_eq!(changed(&mut outcomes).await.drain, Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_reloads_at_once_and_a_secret_file_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (path, key) = (dir.path().join("c.toml"), dir.path().join("key"));
        std::fs::write(&key, "k-1\n").unwrap();
        std::fs::write(&path, format!("[providers.openai]\napi_key = \"file:{}\"", key.display())).unwrap();
        let (asked, mut outcomes, _tasks) = start(&path);
        let before = Instant::now();
        asked.notify_one();
        changed(&mut outcomes).await;
        assert!(before.elapsed() < POLL);
        std::fs::write(&key, "k-2\n").unwrap();
        let config = changed(&mut outcomes).await;
        assert_eq!(config.providers[0].api_key.as_ref().unwrap().expose(), "k-2");
    }

    #[test]
    fn what_needs_a_restart_is_refused_whole() {
        let current = super::super::parse_text("").unwrap();
        let new = super::super::parse_text("drain = 5\nlisten = \"8081\"\ndata_dir = \"other\"").unwrap();
        let refused = next(&current, new).unwrap_err();
        assert_eq!(refused, Refused(vec!["`listen`", "`data_dir`"]));
        assert!(
            refused.to_string().starts_with("a change of `listen` and `data_dir` needs a restart"),
            "{refused}"
        );
        let kept =
            super::super::parse_text("[cache]\nwhen = \"never\"\nttl = 5\nmax_bytes = \"1MiB\"").unwrap();
        let cache = next(&current, kept).unwrap().cache;
        assert_eq!(
            (cache.when, cache.ttl, cache.max_bytes),
            (CacheWhen::Never, Duration::from_secs(5), 1 << 20)
        );
        let same = super::super::parse_text("drain = 5").unwrap();
        assert_eq!(next(&current, same).unwrap().drain, Duration::from_secs(5));
    }
}
