//! Which providers there are, and each one's settings.

use std::time::Duration;

use wire::base::BaseUrl;
use wire::provider::{self, KINDS, Kind};

use super::file::{self, File, HttpVersion};
use super::layers::Source;
use super::names;
use super::resolve::{Resolver, coalesce, seconds};
use super::resolved::{Cache, Coalesce, Limit, ProviderConfig, Queue, Timeouts, Window};
use super::secret::{Secret, SecretRef};
use super::suggest;

/// The ones that are there without any configuration, keys or not.
const ALWAYS: [&str; 2] = ["openai", "anthropic"];
/// How long a window is open.
const MAX_WAIT: Duration = Duration::from_millis(20);
/// Less is below what timers can tell.
const SHORTEST_WINDOW: Duration = Duration::from_millis(1);
/// More is a slip of the pen: it would hold up every call.
const LONGEST_WINDOW: Duration = Duration::from_secs(60);

impl Resolver<'_> {
    /// Those that are named; with none named, the built-in ones that can be used.
    pub(super) fn providers(
        &mut self,
        file: &File,
        order: &[String],
        cache_bytes: usize,
    ) -> Vec<ProviderConfig> {
        let none = file::Provider::default();
        let providers: Vec<ProviderConfig> = if file.providers.is_empty() {
            let kinds = ALWAYS.iter().filter_map(|name| provider::kind(name));
            let keyed = KINDS.iter().copied().filter(|kind| {
                !ALWAYS.contains(&kind.name) && kind.key_env.iter().any(|name| self.env.get(name).is_some())
            });
            let found: Vec<&'static Kind> = kinds.chain(keyed).collect();
            found.into_iter().filter_map(|kind| self.provider(kind.name, &none, file, cache_bytes)).collect()
        } else {
            let named = order.iter().filter_map(|name| file.providers.get_key_value(name));
            named.filter_map(|(name, typed)| self.provider(name, typed, file, cache_bytes)).collect()
        };
        self.one_default(&providers);
        providers
    }

    fn provider(
        &mut self,
        name: &str,
        typed: &file::Provider,
        file: &File,
        cache_bytes: usize,
    ) -> Option<ProviderConfig> {
        let path = format!("providers.{name}");
        if let Err(message) = names::provider(name) {
            self.fault(&path, message);
            return None;
        }
        let kind = self.kind(&path, name, typed.kind.as_deref())?;
        let base = self.base(&path, kind, typed.base_url.as_deref())?;
        let (api_key, key_source) = self.key(&path, kind, typed.api_key.as_ref());
        let concurrency = self.own_or_global(name, "concurrency", typed.concurrency, file.concurrency);
        Some(ProviderConfig {
            name: name.to_owned(),
            kind,
            base,
            api_key,
            key_source,
            concurrency: concurrency.map_or(4096, |most| most as usize),
            default: typed.default.unwrap_or(false),
            http: typed.http.unwrap_or(HttpVersion::One),
            coalesce: self.coalesce(name, &typed.coalesce, &file.coalesce),
            cache: self.provider_cache(name, &typed.cache, &file.cache, cache_bytes),
            timeouts: self.timeouts(name, &typed.timeouts, &file.timeouts),
            queue: self.queue(name, &typed.queue, &file.queue),
            window: self.window(name, &typed.window, &file.window),
            caps: Vec::new(),
        })
    }

    fn kind(&mut self, path: &str, name: &str, typed: Option<&str>) -> Option<&'static Kind> {
        let wanted = typed.unwrap_or(name);
        let kind = provider::kind(wanted);
        if kind.is_none() {
            let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            let hint = suggest::hint(wanted, known.iter().copied());
            let (wanted, known) = (wanted.escape_debug(), known.join(", "));
            match typed {
                Some(_) => {
                    let message = format!("`{wanted}` is no kind of provider{hint} (there are: {known})");
                    self.fault(&format!("{path}.kind"), message);
                }
                None => {
                    let message = format!(
                        "`{wanted}` is no built-in provider, so it needs a `kind`{hint} (one of: {known})"
                    );
                    self.fault(path, message);
                }
            }
        }
        kind
    }

    fn base(&mut self, path: &str, kind: &'static Kind, typed: Option<&str>) -> Option<BaseUrl> {
        let path = format!("{path}.base_url");
        let text = typed.unwrap_or(kind.base);
        if text.is_empty() {
            self.fault(&path, format!("a provider of the kind {} needs a `base_url`", kind.name));
            return None;
        }
        match BaseUrl::parse(text, kind) {
            Ok((base, warning)) => {
                if let Some(warning) = warning {
                    self.warn(&path, &warning);
                }
                Some(base)
            }
            Err(error) => {
                self.fault(&path, error.to_string());
                None
            }
        }
    }

    /// The key and where it is from: what was typed, else the first variable
    /// that the provider's own SDK would read.
    fn key(
        &mut self,
        path: &str,
        kind: &'static Kind,
        typed: Option<&SecretRef>,
    ) -> (Option<Secret>, Option<String>) {
        let path = format!("{path}.api_key");
        let reference = match typed {
            Some(reference) => reference.clone(),
            None => match kind.key_env.iter().find(|name| self.env.get(name).is_some()) {
                Some(name) => {
                    self.sources.set(path.clone(), Source::Variable((*name).to_owned()));
                    SecretRef::Env((*name).to_owned())
                }
                None => return (None, None),
            },
        };
        let key = self.secret(&path, &reference);
        let source = key.is_some().then(|| reference.origin(&self.sources.of(&path)));
        (key, source)
    }

    fn coalesce(&mut self, name: &str, own: &file::Coalesce, global: &file::Coalesce) -> Coalesce {
        let enabled = self.own_or_global(name, "coalesce.enabled", own.enabled, global.enabled);
        let finish = "coalesce.finish_abandoned";
        let finish_abandoned =
            self.own_or_global(name, finish, own.finish_abandoned, global.finish_abandoned);
        coalesce(enabled, finish_abandoned)
    }

    fn provider_cache(
        &mut self,
        name: &str,
        own: &file::ProviderCache,
        global: &file::Cache,
        max_bytes: usize,
    ) -> Cache {
        let when = self.own_or_global(name, "cache.when", own.when, global.when);
        let ttl = self.own_or_global(name, "cache.ttl", own.ttl, global.ttl);
        self.cache_at(&format!("providers.{name}.cache"), when, ttl, max_bytes)
    }

    fn timeouts(&mut self, name: &str, own: &file::Timeouts, global: &file::Timeouts) -> Timeouts {
        let connect = self.own_or_global(name, "timeouts.connect", own.connect, global.connect);
        let first_byte = self.own_or_global(name, "timeouts.first_byte", own.first_byte, global.first_byte);
        let stall = self.own_or_global(name, "timeouts.stall", own.stall, global.stall);
        let total = self.own_or_global(name, "timeouts.total", own.total, global.total);
        let at = |key: &str| format!("providers.{name}.timeouts.{key}");
        Timeouts {
            connect: self.positive(&at("connect"), seconds(connect, 5)),
            first_byte: self.limit(&at("first_byte"), first_byte),
            stall: self.limit(&at("stall"), stall),
            total: self.positive(&at("total"), seconds(total, 600)),
        }
    }

    fn limit(&mut self, path: &str, typed: Option<file::Limit>) -> Limit {
        match typed {
            Some(file::Limit::Fixed(period)) => Limit::Fixed(self.positive(path, period.0)),
            Some(file::Limit::Learned) | None => Limit::Learned,
        }
    }

    fn queue(&mut self, name: &str, own: &file::Queue, global: &file::Queue) -> Queue {
        let max = self.own_or_global(name, "queue.max", own.max, global.max);
        let per_key = self.own_or_global(name, "queue.per_key", own.per_key, global.per_key);
        let max_bytes = self.own_or_global(name, "queue.max_bytes", own.max_bytes, global.max_bytes);
        let parallel = "queue.parallel_per_key";
        let parallel = self.own_or_global(name, parallel, own.parallel_per_key, global.parallel_per_key);
        let timeout = self.own_or_global(name, "queue.timeout", own.timeout, global.timeout);
        let max = max.map_or(1024, |most| most as usize);
        Queue {
            max,
            per_key: per_key.map_or(max, |most| most as usize),
            max_bytes: max_bytes.map_or(256 << 20, |size| size.0 as u64),
            parallel_per_key: parallel.filter(|most| *most > 0).map_or(usize::MAX, |most| most as usize),
            timeout: seconds(timeout, 10),
        }
    }

    fn window(&mut self, name: &str, own: &file::Window, global: &file::Window) -> Window {
        let enabled = self.own_or_global(name, "window.enabled", own.enabled, global.enabled);
        let max_size = self.own_or_global(name, "window.max_size", own.max_size, global.max_size);
        let max_wait = self.own_or_global(name, "window.max_wait", own.max_wait, global.max_wait);
        let max_wait = max_wait.map_or(MAX_WAIT, |period| period.0);
        if !(SHORTEST_WINDOW..=LONGEST_WINDOW).contains(&max_wait) {
            let path = format!("providers.{name}.window.max_wait");
            self.fault(&path, "`window.max_wait` must be from 1ms to 60s");
        }
        let max_size = max_size.map_or(16, |most| most as usize);
        Window { enabled: enabled.unwrap_or(false), max_size, max_wait }
    }

    /// The higher source wins; of equal ones the provider's own. The path under
    /// the provider gets the winner's source.
    fn own_or_global<T>(&mut self, name: &str, key: &str, own: Option<T>, global: Option<T>) -> Option<T> {
        let own_path = format!("providers.{name}.{key}");
        let global_source = self.sources.of(key);
        let beaten =
            own.is_some() && global.is_some() && global_source.rank() > self.sources.of(&own_path).rank();
        if own.is_some() && !beaten {
            return own;
        }
        if global.is_some() {
            self.sources.set(own_path, global_source);
        }
        global
    }

    /// Two that are marked would leave open which one takes a call.
    fn one_default(&mut self, providers: &[ProviderConfig]) {
        let mut marked: Vec<&ProviderConfig> = Vec::new();
        for provider in providers.iter().filter(|provider| provider.default) {
            if let Some(other) = marked.iter().find(|other| other.kind.shape == provider.kind.shape) {
                let (name, other) = (&provider.name, &other.name);
                let message =
                    format!("`{name}` can't be the default: `{other}` is that of its protocol already");
                self.fault(&format!("providers.{name}.default"), message);
            }
            marked.push(provider);
        }
    }
}
