//! `sluicegate serve` and `sluicegate mock`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use crate::admin::{self, Access, AdminState, Shown};
use crate::config::reload::{self, Outcome};
use crate::config::{self, Config, Environment, Flags, LogFormat};
use crate::gateway::Gateway;
use crate::net::listen;
use crate::observe::{Format, Levels, Lines, Metrics, NullLog, Observer, Sink, log};
use crate::run;
use crate::world::World;

/// For the log to be written at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// Runs the gate until a signal ends it.
pub fn run(flags: &Flags) -> ExitCode {
    match start(flags) {
        Ok(code) => code,
        Err(failed) => {
            eprintln!("sluicegate: {failed:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(flags: &Flags) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    let (config, provenance) = config::load(flags, &environment)?;
    let config = Arc::new(config);
    let reloads = reload::Watch::new(flags.clone(), environment, config.clone(), &provenance);
    raise_open_files();
    make_room_for_open_files();
    // It makes a thread, and so comes after that.
    #[cfg(feature = "lab")]
    lab::process::end_with_laboratory();
    let observer = Arc::new(observe(&config)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let gate = Gateway::new(config.clone(), World::real(), observer.clone());
    let outcome = runtime.block_on(serve(gate, &config, reloads));
    runtime.shutdown_timeout(Duration::from_millis(100));
    observer.flush(FLUSH);
    outcome
}

async fn serve(gate: Arc<Gateway>, config: &Config, reloads: reload::Watch) -> anyhow::Result<ExitCode> {
    let data =
        listen::bind(config.listen).with_context(|| format!("can't listen on {} (listen)", config.listen))?;
    let admin = listen::bind(config.admin_listen)
        .with_context(|| format!("can't listen on {} (admin_listen)", config.admin_listen))?;
    let (data_at, admin_at) = (data.local_addr()?, admin.local_addr()?);
    let ready = gate.clone();
    let shown = Shown { metrics: gate.metrics(), bus: gate.bus().clone() };
    let state = AdminState::new(admin_at, access(config), shown, move || ready.ready());
    gate.tasks.spawn(admin::serve(admin, state.clone(), gate.life.closing()));
    gate.tasks.spawn(follow(gate.clone(), reloads, state)?);
    run::welcome(config, data_at, admin_at);
    run::run(gate, data).await.map_err(Into::into)
}

/// Takes over what changes in the configuration, until the gate has closed.
fn follow(
    gate: Arc<Gateway>,
    reloads: reload::Watch,
    admin: AdminState,
) -> std::io::Result<impl Future<Output = ()>> {
    let hangup = Arc::new(Mutex::new(signal(SignalKind::hangup())?));
    let adopting = gate.clone();
    let told = move |outcome| match outcome {
        Outcome::Changed(config) => {
            config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            admin.set_access(access(&config));
            adopting.adopt(config);
            tracing::info!("the configuration was reloaded");
        }
        Outcome::Kept(why) => tracing::error!("{why}"),
    };
    let signals = move || {
        let hangup = hangup.clone();
        async move { hangup.lock().await.recv().await }
    };
    Ok(async move {
        let closing = gate.life.closing();
        let _closed = closing.run_until_cancelled(reloads.run(signals, told)).await;
    })
}

fn access(config: &Config) -> Access {
    Access {
        token: config.admin.token.as_ref().map(|token| token.expose().to_owned().into()),
        viewer_token: config.admin.viewer_token.as_ref().map(|token| token.expose().to_owned().into()),
        hosts: config.admin.hosts.clone(),
    }
}

fn observe(config: &Config) -> anyhow::Result<Observer> {
    let metrics = Arc::new(Metrics::default());
    let sink = Sink::start(std::io::stderr(), metrics.log_dropped())?;
    let levels: Levels = config.log.level.parse()?;
    let format = match config.log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let lines = Lines::new(format, levels.level(), sink.clone());
    log::init(format, levels, sink)?;
    Ok(Observer::new(metrics, lines, Arc::new(NullLog)))
}

/// A connection is a file: as many as the system allows this user.
fn raise_open_files() {
    if let Ok((soft, hard)) = rlimit::Resource::NOFILE.get()
        && soft < hard
    {
        let _keeps_the_soft_limit = rlimit::Resource::NOFILE.set(hard, hard);
    }
}

/// The system's table of this process's open files grows by doubling. In a process with threads each time holds up the one
/// that opens a connection, and all that wait for it, by 10 ms and more, until every core has let go of the old table.
/// So it grows now, while there is one thread; a table does not shrink.
fn make_room_for_open_files() {
    const FILES: usize = 4_000;
    let Ok(nothing) = std::fs::File::open("/dev/null") else { return };
    let _all: Vec<_> = std::iter::from_fn(|| nothing.try_clone().ok()).take(FILES).collect();
}

/// Runs the scripted provider until a signal ends it.
pub fn mock(options: sim::mock::Options) -> ExitCode {
    #[cfg(feature = "lab")]
    lab::process::end_with_laboratory();
    let served = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(sim::mock::run(options)).map_err(Into::into));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("sluicegate mock: {failed:#}");
            ExitCode::FAILURE
        }
    }
}
