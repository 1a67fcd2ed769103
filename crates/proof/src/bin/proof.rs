//! `proof`: measures the gate beside the relay and prints each figure beside its limit.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use lab::procfs::machine;
use proof::process::{Proxy, sibling};
use proof::report::{Pass, Report, Row, SECOND_RELAY};
use proof::scenarios::{Bench, SCENARIOS, Sizes};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A full pass takes about 25 minutes; one that takes this long hangs.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// RFC 3339, as precise as anybody needs it.
const SECONDS: &str = "%Y-%m-%dT%H:%M:%SZ";

#[derive(Parser)]
#[command(about = "Measures the gate beside a bare hyper relay, on loopback", version)]
struct Arguments {
    /// The gate's binary [default: beside this one, else target/dist/sluicegate]
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Measure a second relay in the gate's place: shows how far two equals lie apart here
    #[arg(long, conflicts_with = "gate")]
    null: bool,
    /// Fewer and shorter rounds, about four minutes in all
    #[arg(long)]
    quick: bool,
    /// Only these scenarios
    #[arg(long, value_delimiter = ',', value_name = "SCENARIO", value_parser = SCENARIOS)]
    only: Vec<String>,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a figure is over its limit or could not be measured
    #[arg(long)]
    judge: bool,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut terminate = signal(SignalKind::terminate())?;
    // However this ends, the processes that it started are dropped, and so killed.
    let report = tokio::select! {
        report = tokio::time::timeout(LIMIT, measure(&arguments)) => report.context("took too long")??,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.table());
    }
    Ok(ExitCode::from(u8::from(arguments.judge && report.failed())))
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let (start, machine) = (Instant::now(), machine());
    // 2,000 streams need a descriptor each; the processes under test inherit the limit.
    rlimit::increase_nofile_limit(u64::MAX)?;
    let kind = if arguments.null { Proxy::Relay } else { Proxy::Gate(gate(arguments.gate.clone())?) };
    let (gate, built) = describe(&kind)?;
    eprintln!("measuring {gate}");
    let sizes = if arguments.quick { Sizes::QUICK } else { Sizes::FULL };
    let bench = Bench::start(kind, sizes).await?;
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        if arguments.only.is_empty() || arguments.only.iter().any(|name| name == scenario) {
            eprintln!("{:>4} s  {scenario}", start.elapsed().as_secs());
            let pass = Pass {
                started: jiff::Timestamp::now().strftime(SECONDS).to_string(),
                built: built.clone(),
                load: lab::procfs::machine().load.first().copied(),
                quick: arguments.quick,
            };
            rows.extend(bench.run(scenario).await.into_iter().map(|row| Row { pass: pass.clone(), ..row }));
        }
    }
    Ok(Report { machine, gate, optimised: !cfg!(debug_assertions), rows })
}

/// What is measured, by the version that it tells of itself, and when its binary was made.
fn describe(kind: &Proxy) -> Result<(String, String)> {
    let Proxy::Gate(path) = kind else {
        return Ok((SECOND_RELAY.to_owned(), String::new()));
    };
    let told = Command::new(path).arg("--version").output();
    let told = told.with_context(|| format!("cannot start {}", path.display()))?;
    let version = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let made: jiff::Timestamp = path.metadata()?.modified()?.try_into()?;
    Ok((version, made.strftime(SECONDS).to_string()))
}

fn gate(named: Option<PathBuf>) -> Result<PathBuf> {
    let path =
        named.or_else(|| sibling("sluicegate").ok()).unwrap_or_else(|| "target/dist/sluicegate".into());
    path.canonicalize()
        .with_context(|| format!("no gate at {}: build it or name it with --gate", path.display()))
}
