//! `sluicegate bench`, and the bare relay that it measures the gate beside.

use std::net::SocketAddr;
use std::process::ExitCode;

/// Runs an experiment. Mock, relay and gate are this same executable, so that all are built alike.
pub fn run(arguments: &lab::cli::Bench) -> ExitCode {
    match std::env::current_exe() {
        Ok(program) => lab::cli::run(arguments, &program),
        Err(failed) => {
            eprintln!("sluicegate bench: where this executable lies can't be told: {failed}");
            ExitCode::FAILURE
        }
    }
}

/// Relays until the process is ended.
pub fn relay(listen: SocketAddr, upstream: SocketAddr) -> ExitCode {
    lab::process::end_with_laboratory();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(lab::relay::run(listen, upstream)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("sluicegate relay: {failed:#}");
            ExitCode::FAILURE
        }
    }
}
