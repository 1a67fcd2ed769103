//! What was typed to what is used: defaults, look-ups, and the rules that hold
//! between values.
//!
//! Precedence between a provider's own value and the global one: the higher
//! source wins (a flag or variable for all beats the file's line for one), and
//! of equal ones the provider's own.
//! Faults are collected, not returned: each leaves the default in place and the
//! work goes on, so that one run names them all. A caller uses the result only
//! where there are none.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::address;
use super::duration::Period;
use super::environment::Environment;
use super::file::{self, CacheWhen, File, LogFormat, RetryAfter};
use super::layers::{Source, Sources};
use super::names;
use super::problem::Problem;
use super::resolved::{Admin, Alias, Cache, Coalesce, Config, Gate, Log, ProviderConfig};
use super::secret::{Secret, SecretRef};
use super::size;
use super::suggest;
use super::variables;

pub(super) const LISTEN_PORT: u16 = 8080;
pub(super) const ADMIN_PORT: u16 = 9090;

/// Less holds no answer worth keeping.
const LEAST_CACHE: u64 = 1 << 20;
const GATE_WAIT: Duration = Duration::from_millis(500);
/// More is a slip of the pen.
const MOST_CACHE: u64 = 1 << 40;

pub(super) struct Resolver<'a> {
    pub env: &'a Environment,
    pub sources: Sources,
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
    /// Files that secrets were read from.
    pub files: Vec<PathBuf>,
}

impl Resolver<'_> {
    /// `order` is that of the providers, by which defaults are decided.
    pub(super) fn config(&mut self, file: &File, order: &[String]) -> Config {
        let open = file.open.unwrap_or(false);
        let listen = self.address("listen", file.listen.as_deref(), LISTEN_PORT);
        if !address::is_loopback(&listen) && !open {
            self.fault("listen", format!(
                "{listen} can be reached from other machines, and whoever reaches it would call providers with \
                 your keys; listen on 127.0.0.1, or accept that with --open (`open = true`)"
            ));
        }
        let admin_listen = self.address("admin_listen", file.admin_listen.as_deref(), ADMIN_PORT);
        if listen == admin_listen && listen.port() != 0 {
            self.fault("admin_listen", format!("{listen} is what `listen` takes already"));
        }
        let admin = self.admin(&file.admin);
        if !address::is_loopback(&admin_listen) && file.admin.token.is_none() && admin.token.is_none() {
            self.fault(
                "admin_listen",
                format!(
                    "{admin_listen} can be reached from other machines, so it needs `admin.token` \
                 (or the variable {})",
                    variables::ADMIN_TOKEN
                ),
            );
        }
        let coalesce = coalesce(file.coalesce.enabled, file.coalesce.finish_abandoned);
        let cache = self.cache(&file.cache);
        let mut providers = self.providers(file, order, cache.max_bytes);
        let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
        let models = self.aliases(&file.models, &names);
        self.caps(&models, &mut providers);
        Config {
            listen,
            admin_listen,
            data_dir: self.data_dir(file.data_dir.as_deref()),
            drain: seconds(file.drain, 30),
            max_body: file.max_body.map_or(64 << 20, |size| size.0),
            usage_on_streams: file.usage_on_streams.unwrap_or(true),
            keep_alive: self.positive("keep_alive", seconds(file.keep_alive, 15)),
            header_timeout: self.positive("header_timeout", seconds(file.header_timeout, 10)),
            hosts: self.each("hosts", file.hosts.as_deref(), names::host),
            open,
            cors_origins: self.each("cors.origins", file.cors.origins.as_deref(), names::origin),
            models,
            coalesce,
            cache,
            gate: self.gate(&file.gate),
            admin,
            log: self.log(&file.log),
            warnings: std::mem::take(&mut self.warnings),
            providers: providers.into_iter().map(Arc::new).collect(),
        }
    }

    /// One fault for each place in the file: what was refused there already is
    /// not called missing too.
    pub(super) fn fault(&mut self, path: &str, message: impl Into<String>) {
        let source = self.sources.nearest(path);
        let in_file = matches!(source, Source::File { .. });
        if !in_file || self.problems.iter().all(|known| known.source != source) {
            self.problems.push(Problem::new(source, message));
        }
    }

    pub(super) fn warn(&mut self, path: &str, message: &str) {
        self.warnings.push(Problem::new(self.sources.nearest(path), message).to_string());
    }

    fn address(&mut self, path: &str, text: Option<&str>, port: u16) -> std::net::SocketAddr {
        let default = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        text.map_or(Ok(default), |text| address::parse(text, port)).unwrap_or_else(|message| {
            self.fault(path, message);
            default
        })
    }

    fn data_dir(&mut self, text: Option<&str>) -> PathBuf {
        if text.is_some_and(|text| text.is_empty() || text.contains('\0')) {
            self.fault("data_dir", "`data_dir` must name a directory");
        }
        PathBuf::from(text.unwrap_or("sluicegate-data"))
    }

    pub(super) fn positive(&mut self, path: &str, duration: Duration) -> Duration {
        if duration.is_zero() {
            let key = path.rsplit('.').next().unwrap_or(path);
            self.fault(path, format!("`{key}` must be more than 0"));
        }
        duration
    }

    /// Every text of a list, made canonical or reported.
    fn each(
        &mut self,
        path: &str,
        texts: Option<&[String]>,
        parse: fn(&str) -> Result<String, String>,
    ) -> Vec<String> {
        let mut parsed = Vec::new();
        for (index, text) in texts.unwrap_or_default().iter().enumerate() {
            match parse(text) {
                Ok(text) => parsed.push(text),
                Err(message) => self.fault(&format!("{path}.{index}"), message),
            }
        }
        parsed
    }

    fn cache(&mut self, typed: &file::Cache) -> Cache {
        let max_bytes = typed.max_bytes.map_or(256 << 20, |size| size.0);
        if !(LEAST_CACHE..=MOST_CACHE).contains(&(max_bytes as u64)) {
            let message = format!(
                "`max_bytes` must be from 1MiB to 1TiB, not {}; to keep no answers, set `cache.when` to `never`",
                size::show(max_bytes)
            );
            self.fault("cache.max_bytes", message);
        }
        self.cache_at("cache", typed.when, typed.ttl, max_bytes)
    }

    /// The table at `path`, whose values are settled.
    pub(super) fn cache_at(
        &mut self,
        path: &str,
        when: Option<CacheWhen>,
        ttl: Option<Period>,
        max_bytes: usize,
    ) -> Cache {
        let ttl = self.positive(&format!("{path}.ttl"), seconds(ttl, 300));
        Cache { when: when.unwrap_or(CacheWhen::Always), ttl, max_bytes }
    }

    fn log(&mut self, log: &file::Log) -> Log {
        let level = log.level.as_deref().unwrap_or("info").trim().to_owned();
        if let Err(message) = names::log_levels(&level) {
            self.fault("log.level", message);
        }
        Log { level, format: log.format.unwrap_or(LogFormat::Text) }
    }

    fn admin(&mut self, admin: &file::Admin) -> Admin {
        let token = self.token("admin.token", admin.token.as_ref(), variables::ADMIN_TOKEN);
        let viewer_token =
            self.token("admin.viewer_token", admin.viewer_token.as_ref(), variables::VIEWER_TOKEN);
        if let (Some(operator), Some(viewer)) = (&token, &viewer_token)
            && operator.expose() == viewer.expose()
        {
            self.fault(
                "admin.viewer_token",
                "it is the operator's token too, so every viewer would be an operator",
            );
        }
        Admin { token, viewer_token, hosts: self.each("admin.hosts", admin.hosts.as_deref(), names::host) }
    }

    fn token(&mut self, path: &str, typed: Option<&SecretRef>, variable: &str) -> Option<Secret> {
        match typed {
            Some(reference) => self.secret(path, reference),
            None if self.env.get(variable).is_some() => {
                self.sources.set(path, Source::Variable(variable.to_owned()));
                self.secret(path, &SecretRef::Env(variable.to_owned()))
            }
            None => None,
        }
    }

    pub(super) fn secret(&mut self, path: &str, reference: &SecretRef) -> Option<Secret> {
        if let (SecretRef::Plain(_), Source::File { .. }) = (reference, self.sources.of(path)) {
            let text = format!("`{path}` stands in the file as it is; `env:NAME` or `file:PATH` keep it out");
            self.warn(path, &text);
        }
        self.files.extend(reference.file().map(PathBuf::from));
        reference.read(self.env).map_err(|message| self.fault(path, message)).ok()
    }

    fn aliases(&mut self, typed: &[file::Alias], providers: &[&str]) -> Vec<Alias> {
        let mut seen = HashSet::new();
        let mut aliases = Vec::new();
        for (index, alias) in typed.iter().enumerate() {
            let path = format!("models.{index}");
            let name = alias.name.as_deref().unwrap_or_default();
            if let Err(message) = names::model(name) {
                self.fault(&format!("{path}.name"), format!("an alias needs a `name`: {message}"));
            } else if !seen.insert(name) {
                self.fault(&format!("{path}.name"), format!("the alias `{name}` is there twice"));
            }
            match alias.targets.first() {
                Some(target) => aliases.extend(self.target(&path, name, target, providers)),
                None => {
                    self.fault(&path, "an alias needs a target: `targets = [{ provider = …, model = … }]`")
                }
            }
        }
        aliases
    }

    fn target(&mut self, path: &str, name: &str, target: &file::Target, providers: &[&str]) -> Option<Alias> {
        let path = format!("{path}.targets.0");
        let provider = target.provider.as_deref().unwrap_or_default();
        if !providers.contains(&provider) {
            let hint = suggest::hint(provider, providers.iter().copied());
            let message = match provider {
                "" => "a target needs a `provider`".to_owned(),
                _ => format!("no provider is named `{}`{hint}", provider.escape_debug()),
            };
            self.fault(&format!("{path}.provider"), message);
        }
        let model = target.model.as_deref().unwrap_or_default();
        if let Err(message) = names::model(model) {
            self.fault(&format!("{path}.model"), format!("a target needs a `model`: {message}"));
            return None;
        }
        let (provider, model) = (provider.to_owned(), model.to_owned());
        let concurrency = target.concurrency.map(|most| most as usize);
        Some(Alias { name: name.to_owned(), provider, model, concurrency })
    }

    /// Gives each provider the bounds that aliases set for its models.
    fn caps(&mut self, models: &[Alias], providers: &mut [ProviderConfig]) {
        for (index, alias) in models.iter().enumerate() {
            let provider = providers.iter_mut().find(|provider| provider.name == alias.provider);
            let (Some(provider), Some(most)) = (provider, alias.concurrency) else { continue };
            match provider.caps.iter().find(|(model, _)| *model == alias.model) {
                Some((_, other)) if *other != most => self.fault(
                    &format!("models.{index}.targets.0.concurrency"),
                    format!("`{}` of `{}` has a bound of {other} already", alias.model, alias.provider),
                ),
                Some(_) => {}
                None => provider.caps.push((alias.model.clone(), most)),
            }
        }
    }

    fn gate(&mut self, typed: &file::Gate) -> Gate {
        let retry_after = match typed.retry_after {
            Some(RetryAfter::Fixed(period)) => Some(self.positive("gate.retry_after", period.0)),
            Some(RetryAfter::Measured) | None => None,
        };
        let gate = Gate {
            max_in_flight: typed.max_in_flight.unwrap_or(0) as usize,
            max_waiting: typed.max_waiting.unwrap_or(0) as usize,
            wait: typed.wait.map_or(GATE_WAIT, |period| period.0),
            retry_after,
        };
        if gate.max_in_flight == 0 && gate.max_waiting > 0 {
            self.warn(
                "gate.max_waiting",
                "`gate.max_waiting` does nothing: `gate.max_in_flight` is 0, so nobody waits",
            );
        }
        gate
    }
}

pub(super) fn coalesce(enabled: Option<bool>, finish_abandoned: Option<bool>) -> Coalesce {
    Coalesce { enabled: enabled.unwrap_or(true), finish_abandoned: finish_abandoned.unwrap_or(false) }
}

pub(super) fn seconds(typed: Option<Period>, default: u64) -> Duration {
    typed.map_or(Duration::from_secs(default), |period| period.0)
}
