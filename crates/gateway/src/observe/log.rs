//! `tracing` for everything that is not a call: start, reload, trouble with a provider, shutdown.
//!
//! Events share the calls' sink, so they come out in order and can't hold up whoever logs. Other crates speak
//! only from warnings up, at any level: what a library traces may contain headers, and headers hold credentials.

use std::fmt;
use std::io::{self, Write};

use jiff::Timestamp;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::line::{Format, forges, time_of_day};
use super::record::clip;
use super::sink::Sink;

/// Longest event, in bytes. Calls' lines are shorter by their own rules.
const EVENT_MAX: usize = 8 << 10;

/// The crates whose level the operator chooses.
const OURS: [&str; 4] = ["sluicegate", "guard", "wire", "sim"];

/// Sends the process's events to `sink`. Once per process: the second call is the error.
pub fn init(format: Format, level: LevelFilter, sink: Sink) -> Result<(), TryInitError> {
    tracing_subscriber::registry().with(layer(format, level, sink)).try_init()
}

fn layer<S>(format: Format, level: LevelFilter, sink: Sink) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OURS.map(|target| (target, level)));
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
        let mut time = String::new();
        time_of_day(&mut time, Timestamp::now());
        out.write_str(&time)
    }
}

struct Rfc3339;

impl FormatTime for Rfc3339 {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        write!(out, "{:.3}", Timestamp::now())
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

    fn logged(format: Format, level: LevelFilter, events: impl FnOnce()) -> String {
        let page = Page::default();
        let sink = Sink::start(page.clone(), Counter::default()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer(format, level, sink.clone()));
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
}
