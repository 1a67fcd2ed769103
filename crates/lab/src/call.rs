//! `sluicegate call`: one call as an SDK would make it, and what it did. So a caller can be held against the real SDK
//! (`tests/sdk`); an experiment's report does not tell of single waits.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use http::HeaderName;
use serde_json::json;
use sim::mock::parse_duration;
use tokio::time::timeout;
use url::Url;

use crate::client::sdk::{SDKS, Sdk};
use crate::client::{Ask, Client, Place, Seen};
use crate::web;

#[derive(Clone, Debug, clap::Args)]
pub struct Call {
    /// Whose retries, waits and headers the caller has
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SDKS.iter().map(|sdk| sdk.name)))]
    sdk: String,
    /// The base URL as the SDK takes it
    #[arg(long, value_name = "URL")]
    url: Url,
    /// What is asked
    #[arg(long, value_name = "NAME", default_value = "gpt-5-mini")]
    model: String,
    /// The caller's key
    #[arg(long, value_name = "KEY", default_value = "sk-lab")]
    key: String,
    /// Ask for a stream
    #[arg(long)]
    stream: bool,
    /// Retries after the first attempt [default: the SDK's]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// The timeout that the SDK is told [default: its own]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// From 0 to 1: how much of what may be random is taken off the waits
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    random: f64,
    /// How long the caller is watched
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    watch: Duration,
}

/// Makes the call and prints one JSON document.
pub fn run(call: &Call) -> ExitCode {
    let printed = make(call).and_then(|done| Ok(writeln!(std::io::stdout(), "{done}")?));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("sluicegate call: {failed:#}");
            ExitCode::FAILURE
        }
    }
}

fn make(call: &Call) -> Result<serde_json::Value> {
    let mut sdk = *Sdk::named(&call.sdk).context("no SDK of that name")?;
    sdk.retries = call.retries.unwrap_or(sdk.retries);
    sdk.patience = call.timeout.unwrap_or(sdk.patience);
    let place = Place::new(&sdk, &call.url, &call.key, HeaderName::from_static("x-sluicegate-cache"))?;
    let ask = Ask::new(sdk.protocol, &call.model, "Tell me about sluices.", call.stream);
    let client = Client { http: web::client()?, sdk };
    let mut seen = Seen::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Whoever is not done by then is found waiting.
        let _ = timeout(call.watch, client.call(&place, &ask, &mut seen, || call.random)).await;
    });
    Ok(json!({
        "sdk": sdk.name,
        "version": sdk.version,
        "outcome": seen.outcome.to_string(),
        "attempts": seen.attempts,
        "waits": seen.waits.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
    }))
}
