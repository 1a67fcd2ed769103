//! `sluicegate`: reads the arguments and runs one command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
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
    }
}
