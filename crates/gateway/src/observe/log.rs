//! `tracing` for everything that is not a call: start, reload, trouble with a provider, shutdown.
//!
//! Events share the calls' sink, so they come out in order and can't hold up whoever logs. Other crates speak
//! only from warnings up, unless the operator names them: what a library traces may contain headers, and headers
//! hold credentials.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use jiff::Timestamp;
use tracing::level_filters::{LevelFilter, ParseLevelFilterError};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::line::{Format, forges};
use super::record::clip;
use super::sink::Sink;
use super::stamp::Stamp;

/// Longest event, in bytes. Calls' lines are shorter by their own rules.
const EVENT_MAX: usize = 8 << 10;

/// The crates whose level the operator chooses.
const OURS: [&str; 4] = ["sluicegate", "guard", "wire", "sim"];

/// How much is logged: a level, and other levels for some targets. Written `info` or
/// `info,sluicegate::upstream=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    level: LevelFilter,
    targets: Vec<(String, LevelFilter)>,
}

impl Levels {
    /// The level for whatever no target is named for; that of the calls' lines.
    pub fn level(&self) -> LevelFilter {
        self.level
    }

    fn filter(self) -> Targets {
        Targets::new()
            .with_default(self.level.min(LevelFilter::WARN))
            .with_targets(OURS.map(|target| (target, self.level)))
            .with_targets(self.targets)
    }
}

impl From<LevelFilter> for Levels {
    fn from(level: LevelFilter) -> Self {
        Levels { level, targets: Vec::new() }
    }
}

impl FromStr for Levels {
    type Err = ParseLevelFilterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut levels = Levels::from(LevelFilter::INFO);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.rsplit_once('=') {
                Some((target, level)) => {
                    levels.targets.push((target.trim().to_owned(), level.trim().parse()?))
                }
                None => levels.level = part.parse()?,
            }
        }
        Ok(levels)
    }
}

/// Sends the process's events to `sink`. Once per process: the second call is the error.
pub fn init(format: Format, levels: impl Into<Levels>, sink: Sink) -> Result<(), TryInitError> {
    tracing_subscriber::registry().with(layer(format, levels.into(), sink)).try_init()
}

fn layer<S>(format: Format, levels: Levels, sink: Sink) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = levels.filter();
    let events = tracing_subscriber::fmt::layer().with_ansi(false);
    match format {
        Format::Text => {
            let writer = move || TextEvents(sink.clone());
            events.with_timer(TimeOfDay).with_writer(writer).with_filter(filter).boxed()
        }
        Format::Json => {
            let writer = move || JsonEvents(sink.clone());
            let events = events.json().flatten_event(true);
            events.with_timer(Rfc3339).with_writer(writer).with_filter(filter).boxed()
        }
    }
}

struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        out.write_str(Stamp::new(Timestamp::now()).time_of_day())
    }
}

struct Rfc3339;

impl FormatTime for Rfc3339 {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        out.write_str(Stamp::new(Timestamp::now()).as_str())
    }
}

/// Takes one event per write, as the subscriber hands them over, and makes it one line of a bounded length.
struct TextEvents(Sink);

impl Write for TextEvents {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = clip(text.trim_end_matches('\n'), EVENT_MAX);
        let mut line = String::with_capacity(text.len() + 1);
        for c in text.chars() {
            if forges(c) { line.extend(c.escape_default()) } else { line.push(c) }
        }
        line.push('\n');
        self.0.push(line.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// JSON is escaped already, and cut it would be JSON no more.
struct JsonEvents(Sink);

impl Write for JsonEvents {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.push(event);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::metrics::counter::Counter;

    use super::*;
    use crate::observe::sink::tests::Page;

    fn logged(format: Format, levels: impl Into<Levels>, events: impl FnOnce()) -> String {
        let page = Page::default();
        let sink = Sink::start(page.clone(), Counter::default()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer(format, levels.into(), sink.clone()));
        tracing::subscriber::with_default(subscriber, events);
        assert!(sink.flush(Duration::from_secs(10)));
        page.text()
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let forged = "bad\r\n12:00:00.000 INFO call id=forged\u{1b}[2J\u{2028}x";
        for format in [Format::Text, Format::Json] {
            let log =
                logged(format, LevelFilter::INFO, || tracing::warn!(%forged, "upstream said: {forged}"));
            assert_eq!(log.lines().count(), 1, "{log}");
            assert!(!log.trim_end().contains(['\r', '\u{1b}']), "{log:?}");
        }
    }

    #[test]
    fn an_event_is_of_bounded_length_in_text() {
        let log = logged(Format::Text, LevelFilter::INFO, || tracing::warn!("{}", "é".repeat(1 << 20)));
        assert!(log.len() <= EVENT_MAX + 1, "{} bytes", log.len());
        assert!(log.ends_with('\n'));
    }

    #[test]
    fn json_events_have_the_calls_names() {
        let log = logged(
            Format::Json,
            LevelFilter::INFO,
            || tracing::info!(target: "sluicegate", port = 8080, "up"),
        );
        let row: serde_json::Value = serde_json::from_str(&log).unwrap();
        assert_eq!(
            (&row["level"], &row["message"], &row["port"]),
            (&"INFO".into(), &"up".into(), &8080.into())
        );
        assert!(row["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn other_crates_speak_from_warnings_up() {
        let log = logged(Format::Text, LevelFilter::TRACE, || {
            tracing::trace!(target: "hyper::proto", "authorization: Bearer secret");
            tracing::warn!(target: "hyper::proto", "trouble");
            tracing::debug!(target: "sluicegate::pool", "ours");
        });
        assert!(!log.contains("secret"), "{log}");
        assert!(log.contains("trouble") && log.contains("ours"), "{log}");
        assert_eq!(logged(Format::Text, LevelFilter::ERROR, || tracing::warn!("quiet")), "");
    }

    #[test]
    fn a_target_can_have_its_own_level() {
        let levels: Levels = "warn, sluicegate::upstream=debug,h2=info".parse().unwrap();
        assert_eq!(levels.level(), LevelFilter::WARN);
        let log = logged(Format::Text, levels, || {
            tracing::info!(target: "sluicegate::run", "hidden");
            tracing::debug!(target: "sluicegate::upstream::pool", "first");
            tracing::info!(target: "h2::codec", "second");
            tracing::info!(target: "rustls", "hidden");
        });
        assert!(log.contains("first") && log.contains("second") && !log.contains("hidden"), "{log}");
        assert!("loud".parse::<Levels>().is_err());
        assert_eq!("".parse::<Levels>().unwrap(), LevelFilter::INFO.into());
    }
}
