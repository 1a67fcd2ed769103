//! `sluicegate check`: is the configuration right, what is in force, and where
//! does each value come from?
//!
//! Promise: what it prints is safe to paste into a report; of a secret it shows
//! where it is from and nothing else.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::{Config, Environment, Flags, Limit, Provenance, ProviderConfig, duration, load, size};

/// Checks what `serve` with the same flags would run with; 1 where it wouldn't.
pub fn run(flags: &Flags) -> ExitCode {
    let (text, code) = match load(flags, &Environment::of_process()) {
        Ok((config, provenance)) => (report(&config, &provenance), ExitCode::SUCCESS),
        Err(error) => {
            let count = error.problems().len();
            let noun = if count == 1 { "error" } else { "errors" };
            // To standard error, so that a pipe never takes it for the configuration.
            let _ = writeln!(io::stderr().lock(), "{error}\n{count} {noun}");
            return ExitCode::FAILURE;
        }
    };
    // A reader that has gone needs no report.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    code
}

fn report(config: &Config, provenance: &Provenance) -> String {
    let mut text = effective(config, provenance);
    text.push_str(&match open_files() {
        Some((soft, hard)) if soft == hard => format!("\n# open files: {hard}\n"),
        Some((soft, hard)) => format!("\n# open files: {soft}, raised to {hard} at start\n"),
        None => "\n# open files: this system doesn't tell its limit\n".to_owned(),
    });
    for warning in &config.warnings {
        text.push_str(&format!("# warning: {warning}\n"));
    }
    text
}

/// The whole configuration as TOML, each line with its source.
pub fn effective(config: &Config, provenance: &Provenance) -> String {
    let mut page = Page { text: String::new(), provenance };
    page.line("", "listen", quoted(config.listen));
    page.line("", "admin_listen", quoted(config.admin_listen));
    page.line("", "data_dir", quoted(config.data_dir.display()));
    page.line("", "drain", time(config.drain));
    page.line("", "max_body", quoted(size::show(config.max_body)));
    page.line("", "usage_on_streams", config.usage_on_streams);
    page.line("", "keep_alive", time(config.keep_alive));
    page.line("", "header_timeout", time(config.header_timeout));
    page.line("", "hosts", list(&config.hosts));
    page.line("", "open", config.open);
    for provider in &config.providers {
        page.provider(provider, takes_defaults(config, provider));
    }
    for (index, alias) in config.models.iter().enumerate() {
        page.text.push_str("\n[[models]]\n");
        let table = format!("models.{index}");
        page.line(&table, "name", quoted(&alias.name));
        let (provider, model) = (quoted(&alias.provider), quoted(&alias.model));
        let most = alias.concurrency.map(|most| format!(", concurrency = {most}")).unwrap_or_default();
        page.line(&table, "targets", format!("[{{ provider = {provider}, model = {model}{most} }}]"));
    }
    page.table("cache");
    page.line("cache", "max_bytes", quoted(size::show(config.cache.max_bytes)));
    page.table("gate");
    page.line("gate", "max_in_flight", config.gate.max_in_flight);
    page.line("gate", "max_waiting", config.gate.max_waiting);
    page.line("gate", "wait", time(config.gate.wait));
    page.line("gate", "retry_after", config.gate.retry_after.map_or_else(|| quoted("measured"), time));
    page.table("log");
    page.line("log", "level", quoted(&config.log.level));
    page.line("log", "format", quoted(config.log.format));
    page.table("cors");
    page.line("cors", "origins", list(&config.cors_origins));
    page.table("admin");
    page.secret(
        "admin",
        "token",
        config.admin.token.is_some(),
        "none: the admin plane is for this machine alone",
    );
    page.secret("admin", "viewer_token", config.admin.viewer_token.is_some(), "none");
    page.line("admin", "hosts", list(&config.admin.hosts));
    page.text
}

/// Whether it gets the calls of its protocol that name no provider.
fn takes_defaults(config: &Config, provider: &ProviderConfig) -> bool {
    let mut same = config.providers.iter().filter(|other| other.kind.shape == provider.kind.shape);
    let first = same.clone().next();
    same.find(|other| other.default).or(first).is_some_and(|taker| taker.name == provider.name)
}

struct Page<'a> {
    text: String,
    provenance: &'a Provenance,
}

impl Page<'_> {
    fn table(&mut self, name: &str) {
        self.text.push_str(&format!("\n[{name}]\n"));
    }

    fn line(&mut self, table: &str, key: &str, value: impl Display) {
        let source = self.provenance.of(&super::layers::join(table, key));
        self.sourced(key, value, source);
    }

    fn sourced(&mut self, key: &str, value: impl Display, source: impl Display) {
        let setting = format!("{key} = {value}");
        self.text.push_str(&format!("{setting:<45} # {source}\n"));
    }

    fn secret(&mut self, table: &str, key: &str, set: bool, without: &str) {
        if set {
            self.line(table, key, "\"***\"");
        } else {
            self.text.push_str(&format!("# {key}: {without}\n"));
        }
    }

    fn provider(&mut self, provider: &ProviderConfig, takes_defaults: bool) {
        let table = format!("providers.{}", provider.name);
        self.table(&table);
        self.line(&table, "kind", quoted(provider.kind.name));
        self.line(&table, "base_url", quoted(&provider.base));
        match &provider.key_source {
            Some(from) => {
                let typed = self.provenance.of(&format!("{table}.api_key"));
                let same = typed.to_string() == *from;
                let source = if same { typed.to_string() } else { format!("{typed}, from {from}") };
                self.sourced("api_key", "\"***\"", source);
            }
            None => self.text.push_str("# api_key: none; the caller's own credentials are forwarded\n"),
        }
        self.line(&table, "concurrency", provider.concurrency);
        if takes_defaults && !provider.default {
            self.sourced("default", true, "the first of its protocol");
        } else {
            self.line(&table, "default", provider.default);
        }
        self.line(&table, "http", quoted(provider.http));
        self.line(&table, "coalesce.enabled", provider.coalesce.enabled);
        self.line(&table, "coalesce.finish_abandoned", provider.coalesce.finish_abandoned);
        self.line(&table, "cache.when", quoted(provider.cache.when));
        self.line(&table, "cache.ttl", time(provider.cache.ttl));
        let timeouts = &provider.timeouts;
        self.line(&table, "timeouts.connect", time(timeouts.connect));
        self.line(&table, "timeouts.first_byte", limit(timeouts.first_byte));
        self.line(&table, "timeouts.stall", limit(timeouts.stall));
        self.line(&table, "timeouts.total", time(timeouts.total));
        self.line(&table, "queue.max", provider.queue.max);
        self.line(&table, "queue.per_key", provider.queue.per_key);
        self.line(&table, "queue.max_bytes", quoted(size::show(provider.queue.max_bytes as usize)));
        let parallel = provider.queue.parallel_per_key;
        self.line(&table, "queue.parallel_per_key", if parallel == usize::MAX { 0 } else { parallel });
        self.line(&table, "queue.timeout", time(provider.queue.timeout));
        self.line(&table, "window.enabled", provider.window.enabled);
        self.line(&table, "window.max_size", provider.window.max_size);
        self.line(&table, "window.max_wait", time(provider.window.max_wait));
    }
}

/// A TOML string; JSON's escapes are TOML's too.
fn quoted(text: impl Display) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}

fn time(length: Duration) -> String {
    quoted(duration::show(length))
}

fn limit(limit: Limit) -> String {
    match limit {
        Limit::Learned => quoted("learned"),
        Limit::Fixed(length) => time(length),
    }
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// The soft and the hard limit of open files, as Linux tells them.
fn open_files() -> Option<(String, String)> {
    limits(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn limits(text: &str) -> Option<(String, String)> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut words = line.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_files_limit_is_read() {
        let text =
            "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024     524288     files \n";
        assert_eq!(limits(text), Some(("1024".to_owned(), "524288".to_owned())));
        assert_eq!(limits("Max processes 1 2"), None);
    }
}
