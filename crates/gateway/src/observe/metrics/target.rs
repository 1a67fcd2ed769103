//! Counters of one provider, resolved once and kept, so that a call only adds.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::fast::RandomState as FastHash;
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use smallvec::SmallVec;

use super::labels::{self, AttemptLabels, CallLabels, ShedLabels, TokenLabels, WaveLabels};
use super::{CallRecord, Families, Fate, MODELS_MAX};
use guard::window::Cause;

/// Stands for every model without a label of its own.
const OTHER: &str = "other";

/// Why a flight got no permit; the last one is for what is none of these.
const SHED: [&str; 5] = ["queue_full", "queue_timeout", "deadline", "shutdown", OTHER];

/// The counters of one provider.
#[derive(Debug)]
pub struct TargetHandles {
    provider: Arc<str>,
    families: Families,
    attempts: [OnceLock<Counter>; Outcome::ALL.len()],
    waves: [OnceLock<Counter>; Cause::ALL.len()],
    shed: [OnceLock<Counter>; SHED.len()],
    models: RwLock<HashMap<Arc<str>, Arc<ModelHandles>, FastHash>>,
    other: ModelHandles,
}

/// How an attempt at a provider ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer.
    Ok,
    /// The provider refused the request (a 4xx other than 429).
    Refused,
    /// The provider said 429.
    RateLimited,
    /// The provider failed (a 5xx, or an error inside a 200).
    Failed,
    /// No connection.
    Unreachable,
    /// Silent for longer than we wait.
    Timeout,
    /// Broken off before its end.
    Cut,
    /// The gate hung up: nobody waited for the answer any more.
    Abandoned,
}

impl Outcome {
    const ALL: [Outcome; 8] = [
        Outcome::Ok,
        Outcome::Refused,
        Outcome::RateLimited,
        Outcome::Failed,
        Outcome::Unreachable,
        Outcome::Timeout,
        Outcome::Cut,
        Outcome::Abandoned,
    ];

    /// Its label.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Refused => "refused",
            Outcome::RateLimited => "rate_limited",
            Outcome::Failed => "failed",
            Outcome::Unreachable => "unreachable",
            Outcome::Timeout => "timeout",
            Outcome::Cut => "cut",
            Outcome::Abandoned => "abandoned",
        }
    }
}

impl TargetHandles {
    pub(super) fn new(provider: Arc<str>, families: Families) -> Self {
        let other = ModelHandles::new(if provider.is_empty() { "".into() } else { OTHER.into() });
        TargetHandles {
            provider,
            families,
            attempts: Default::default(),
            waves: Default::default(),
            shed: Default::default(),
            models: RwLock::default(),
            other,
        }
    }

    /// The provider that these are the counters of; empty for calls that never got to one.
    pub fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// Counts one request to the provider that is over.
    pub fn attempt(&self, outcome: Outcome) {
        let labels = || AttemptLabels { provider: self.provider.clone(), outcome: outcome.as_str() };
        let make = || self.families.attempts.get_or_create_owned(&labels());
        self.attempts[outcome as usize].get_or_init(make).inc();
    }

    /// Counts a wave of so many calls that the provider's admission window let go.
    pub fn wave(&self, size: usize, cause: Cause) {
        let labels = || WaveLabels { provider: self.provider.clone(), cause: cause.as_str() };
        let make = || self.families.waves.get_or_create_owned(&labels());
        self.waves[cause as usize].get_or_init(make).inc();
        self.families.wave_size.observe(size as f64);
    }

    /// Books how long a call waited in the admission window.
    pub fn window_waited(&self, time: Duration) {
        self.families.window.observe(time.as_secs_f64());
    }

    /// Counts a flight that got no permit: `queue_full`, `queue_timeout`, `deadline` or `shutdown`; any other
    /// reason is `other`.
    pub fn shed(&self, reason: &str) {
        let at = SHED.iter().position(|known| *known == reason).unwrap_or(SHED.len() - 1);
        let labels = || ShedLabels { provider: self.provider.clone(), reason: SHED[at] };
        self.shed[at].get_or_init(|| self.families.shed.get_or_create_owned(&labels())).inc();
    }

    pub(super) fn count(&self, record: &CallRecord) {
        let Some(model) = record.model.as_deref().filter(|_| !self.provider.is_empty()) else {
            return self.other.count(record, self);
        };
        if let Some(known) = self.models.read().get(model) {
            return known.count(record, self);
        }
        match self.admit(model, record) {
            Some(new) => new.count(record, self),
            None => self.other.count(record, self),
        }
    }

    /// Gives a model its own label, where a provider has answered for it and there is room.
    fn admit(&self, model: &str, record: &CallRecord) -> Option<Arc<ModelHandles>> {
        let answered = matches!(record.status, 200..=299) && record.fate != Fate::Refused;
        if !answered || !labels::is_model_name(model) || self.models.read().len() >= MODELS_MAX {
            return None;
        }
        let mut models = self.models.write();
        // Looked at again under the write lock: others may have filled the last places meanwhile.
        if models.len() >= MODELS_MAX && !models.contains_key(model) {
            return None;
        }
        let name: Arc<str> = model.into();
        Some(models.entry(name.clone()).or_insert_with(|| Arc::new(ModelHandles::new(name))).clone())
    }
}

/// The counters of one model at one provider.
#[derive(Debug)]
struct ModelHandles {
    model: Arc<str>,
    /// A model is called in few ways, so a list is searched faster than a map.
    calls: RwLock<SmallVec<[(Cell, Counter); 4]>>,
    tokens: [OnceLock<Counter>; 5],
}

/// Protocol, fate, status.
type Cell = (&'static str, Fate, &'static str);

impl ModelHandles {
    fn new(model: Arc<str>) -> Self {
        ModelHandles { model, calls: RwLock::default(), tokens: Default::default() }
    }

    fn count(&self, record: &CallRecord, target: &TargetHandles) {
        self.count_call((record.protocol, record.fate, labels::status(record.status)), target);
        // A joined or cached answer names tokens too, but no provider was asked for them again.
        if matches!(record.fate, Fate::Miss | Fate::Bypass) || record.pays {
            self.count_tokens(record, target);
        }
    }

    fn count_call(&self, cell: Cell, target: &TargetHandles) {
        if let Some((_, counter)) = self.calls.read().iter().find(|(known, _)| *known == cell) {
            counter.inc();
            return;
        }
        let (protocol, fate, status) = cell;
        let counter = target.families.calls.get_or_create_owned(&CallLabels {
            protocol,
            provider: target.provider.clone(),
            model: self.model.clone(),
            fate: fate.as_str(),
            status,
        });
        counter.inc();
        let mut calls = self.calls.write();
        if !calls.iter().any(|(known, _)| *known == cell) {
            calls.push((cell, counter));
        }
    }

    fn count_tokens(&self, record: &CallRecord, target: &TargetHandles) {
        let kinds = [
            ("input", record.input_tokens),
            ("cached_input", record.cached_input_tokens),
            ("cache_write", record.cache_write_tokens),
            ("output", record.output_tokens),
            ("reasoning", record.reasoning_tokens),
        ];
        for ((kind, tokens), counter) in kinds.into_iter().zip(&self.tokens) {
            let Some(tokens) = tokens.filter(|tokens| *tokens > 0) else { continue };
            let labels =
                || TokenLabels { provider: target.provider.clone(), model: self.model.clone(), kind };
            counter.get_or_init(|| target.families.tokens.get_or_create_owned(&labels())).inc_by(tokens);
        }
    }
}
