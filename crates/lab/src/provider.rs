//! The provider behind all targets: a mock that can be steered and that counts, or a foreign one that can't.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use url::Url;

use crate::web::{Http, fetch};

/// For calls that were given up to reach their end at the provider.
const QUIET: Duration = Duration::from_secs(15);

pub struct Provider {
    http: Http,
    /// Without a path.
    origin: Url,
    /// How the mock was found, to be left like that.
    found: Option<Found>,
}

struct Found {
    script: String,
    limits: Value,
}

/// What the mock counted since its last reset.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Counts {
    pub arrived: u64,
    pub in_flight: u64,
    pub most_in_flight: u64,
    #[serde(default)]
    pub connections: Connections,
    #[serde(default)]
    pub groups: Groups,
}

/// Absent from a mock of an earlier version.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Connections {
    pub used: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Groups {
    pub count: Option<u64>,
    pub largest: Option<u64>,
}

impl Provider {
    /// Looks whether the provider at `base` is a mock.
    pub async fn at(http: Http, base: &Url) -> Result<Provider> {
        let mut origin = base.clone();
        origin.set_path("/");
        origin.set_query(None);
        let mut provider = Provider { http, origin, found: None };
        let counts = provider.get("/__stats").await.with_context(|| format!("nobody answers at {base}"))?;
        if serde_json::from_value::<Counts>(counts).is_ok() {
            let script = provider.get("/__script").await?;
            let script = script["script"].as_str().context("a mock without a script")?.to_owned();
            provider.found = Some(Found { script, limits: provider.get("/__limits").await? });
        }
        Ok(provider)
    }

    /// It is a mock: it can be told what to do, and it counts.
    pub fn steered(&self) -> bool {
        self.found.is_some()
    }

    /// Leaves a mock as it was found, but for its counts.
    pub async fn restore(&self) -> Result<()> {
        let Some(found) = &self.found else { return Ok(()) };
        self.limits(&found.limits).await?;
        self.script(&found.script).await
    }

    pub async fn script(&self, script: &str) -> Result<()> {
        self.post("/__script", script.to_owned()).await
    }

    pub async fn limits(&self, limits: &Value) -> Result<()> {
        self.post("/__limits", limits.to_string()).await
    }

    /// Counts begin again.
    pub async fn reset(&self) -> Result<()> {
        self.post("/__reset", String::new()).await
    }

    /// `None` of a foreign provider.
    pub async fn counts(&self) -> Result<Option<Counts>> {
        if !self.steered() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_value(self.get("/__stats").await?)?))
    }

    /// Waits until nothing is in flight any more, which it should soon be: what is left is nobody's call.
    pub async fn quiet(&self) -> Result<()> {
        let end = Instant::now() + QUIET;
        while let Some(counts) = self.counts().await?
            && counts.in_flight > 0
            && Instant::now() < end
        {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// What a control path says; nothing where it is none.
    async fn get(&self, path: &str) -> Result<Value> {
        let (status, body) = fetch(&self.http, Method::GET, &self.path(path)?, String::new()).await?;
        Ok(match status {
            StatusCode::OK => serde_json::from_slice(&body).unwrap_or_default(),
            _ => Value::Null,
        })
    }

    async fn post(&self, path: &str, body: String) -> Result<()> {
        let (status, answer) = fetch(&self.http, Method::POST, &self.path(path)?, body).await?;
        ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&answer));
        Ok(())
    }

    fn path(&self, path: &str) -> Result<Url> {
        self.origin.join(path).context("the provider's address takes no path")
    }
}
