//! `sluicegate`: reads the arguments and runs one command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
#[cfg(feature = "lab")]
use sluicegate::cli::bench;
use sluicegate::cli::serve;
use sluicegate::config::{Flags, check, schema};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A gate in front of LLM APIs
#[derive(Parser)]
#[command(version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gate
    Serve(Flags),
    /// Validate the configuration and print the effective one, with where each value came from
    Check(Flags),
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Run a scripted provider, for tests and demos
    Mock(sim::mock::Options),
    /// Run an experiment: direct and through proxies, side by side
    #[cfg(feature = "lab")]
    Bench(Box<lab::cli::Bench>),
    /// One call as an SDK would make it
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Call(lab::call::Call),
    /// What `bench` measures the gate beside
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Relay { listen: std::net::SocketAddr, upstream: std::net::SocketAddr },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Check(flags) => check::run(&flags),
        Command::Schema => {
            print!("{}", schema::render());
            ExitCode::SUCCESS
        }
        Command::Mock(options) => serve::mock(options),
        #[cfg(feature = "lab")]
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Call(arguments) => lab::call::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Relay { listen, upstream } => bench::relay(listen, upstream),
    }
}
