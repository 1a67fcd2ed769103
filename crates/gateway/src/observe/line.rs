//! The line that each call leaves in the log: one call, one line, whatever the call contained.
//!
//! Invariant: nothing that a caller or a provider sent can end a line, begin another or move a terminal's
//! cursor: in text, values with anything else than plain characters are quoted and escaped. Values are cut as in
//! [`CallRecord`]. No body and no credential can be in a line, because none is in the record.

use std::cell::RefCell;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tracing::level_filters::LevelFilter;

use super::record::{CallRecord, ERROR_MAX, NAME_MAX, clip};
use super::sink::Sink;
use super::stamp::Stamp;

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `key=value`, for people.
    #[default]
    Text,
    /// One JSON object, for log shippers.
    Json,
}

/// Writes the lines of calls.
#[derive(Clone, Debug)]
pub struct Lines {
    format: Format,
    level: LevelFilter,
    sink: Sink,
}

thread_local! {
    /// Kept, so that a line allocates nothing.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Lines {
    /// Lines to `sink`. Calls that failed are warnings, all others information; what `level` leaves out is
    /// not even formatted.
    pub fn new(format: Format, level: LevelFilter, sink: Sink) -> Self {
        Lines { format, level, sink }
    }

    /// Writes a call's line.
    pub fn write(&self, record: &CallRecord) {
        let failed = record.failed();
        if self.level < if failed { LevelFilter::WARN } else { LevelFilter::INFO } {
            return;
        }
        let level = if failed { "WARN" } else { "INFO" };
        SCRATCH.with_borrow_mut(|line| {
            line.clear();
            match self.format {
                Format::Text => text(line, level, record),
                Format::Json => json(line, level, record),
            }
            line.push(b'\n');
            self.sink.push(line);
        });
    }

    /// Waits until all lines are written, `limit` at most; says whether they are. Blocks its thread.
    pub fn flush(&self, limit: Duration) -> bool {
        self.sink.flush(limit)
    }
}

fn text(line: &mut Vec<u8>, level: &str, record: &CallRecord) {
    put(line, Stamp::new(ended(record)).time_of_day());
    put(line, " ");
    put(line, level);
    put(line, " call id=");
    put(line, record.id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
    name(line, " key=", record.key.as_deref());
    match &record.model {
        Some(model) => name(line, " model=", Some(model)),
        None => name(line, " route=", Some(&record.route)),
    }
    name(line, " provider=", record.provider.as_deref());
    put(line, " fate=");
    put(line, record.fate.as_str());
    number(line, " status=", Some(record.status.into()));
    millis(line, " queue=", Some(record.queue));
    millis(line, " first_byte=", record.first_byte);
    millis(line, " total=", Some(record.total));
    number(line, " in=", record.input_tokens);
    number(line, " out=", record.output_tokens);
    number(line, " attempts=", Some(record.attempts.into()));
    if let Some(error) = &record.error {
        put(line, " error=");
        value(line, &error.to_string(), ERROR_MAX);
    }
}

fn json(line: &mut Vec<u8>, level: &str, record: &CallRecord) {
    put(line, "{\"timestamp\":\"");
    put(line, Stamp::new(ended(record)).as_str());
    put(line, "\",\"level\":\"");
    put(line, level);
    put(line, "\",\"message\":\"call\"");
    // The record's own fields follow: its opening brace becomes the comma between them and ours.
    let brace = line.len();
    // Neither writing to memory nor any field of a record can fail.
    let _infallible = serde_json::to_writer(&mut *line, record);
    if let Some(brace) = line.get_mut(brace) {
        *brace = b',';
    }
}

/// When the call was over: that is when its line is written.
fn ended(record: &CallRecord) -> Timestamp {
    let total = SignedDuration::try_from(record.total).unwrap_or(SignedDuration::ZERO);
    record.time.saturating_add(total).unwrap_or(record.time)
}

fn put(line: &mut Vec<u8>, text: &str) {
    line.extend_from_slice(text.as_bytes());
}

fn number(line: &mut Vec<u8>, key: &str, number: Option<u64>) {
    if let Some(number) = number {
        put(line, key);
        put(line, itoa::Buffer::new().format(number));
    }
}

/// Whole milliseconds; a decimal below ten, where the gate's own work is.
fn millis(line: &mut Vec<u8>, key: &str, time: Option<Duration>) {
    let Some(time) = time else { return };
    let tenths = time.as_micros() as u64 / 100;
    number(line, key, Some(tenths / 10));
    let tenth = tenths % 10;
    if tenths < 100 && tenth > 0 {
        number(line, ".", Some(tenth));
    }
    put(line, "ms");
}

fn name(line: &mut Vec<u8>, key: &str, name: Option<&str>) {
    if let Some(name) = name {
        put(line, key);
        value(line, name, NAME_MAX);
    }
}

/// A value as it is, where nobody could take it for anything else; else quoted and escaped.
fn value(line: &mut Vec<u8>, text: &str, max: usize) {
    let cut = clip(text, max);
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=');
    if !cut.is_empty() && cut.len() == text.len() && cut.bytes().all(plain) {
        return put(line, cut);
    }
    put(line, "\"");
    escape(line, cut);
    if cut.len() < text.len() {
        put(line, "…");
    }
    put(line, "\"");
}

/// Writes `text` so that it stays within its quotes and on its line.
fn escape(line: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '"' => put(line, "\\\""),
            '\\' => put(line, "\\\\"),
            // Escapes are ASCII.
            c if forges(c) => line.extend(c.escape_default().map(|c| c as u8)),
            c => put(line, c.encode_utf8(&mut [0; 4])),
        }
    }
}

/// Whether a character ends lines or changes how the rest of one is shown.
pub(super) fn forges(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use proptest::prelude::*;

    use super::*;
    use crate::observe::record::{CallError, tests::sample};
    use crate::observe::sink::tests::Page;

    fn line(format: Format, level: LevelFilter, record: &CallRecord) -> String {
        let page = Page::default();
        let sink = Sink::start(page.clone(), Counter::default()).unwrap();
        let lines = Lines::new(format, level, sink);
        lines.write(record);
        assert!(lines.flush(Duration::from_secs(10)));
        page.text()
    }

    #[test]
    fn a_call_in_text() {
        assert_eq!(
            line(Format::Text, LevelFilter::INFO, &sample()),
            "09:03:05.643 INFO call id=01987654-3210-7abc-8def-0123456789ab key=ci model=gpt-5-mini \
             provider=openai fate=miss status=200 queue=0ms first_byte=310ms total=1520ms in=120 out=40 \
             attempts=1\n"
        );
    }

    #[test]
    fn a_failure_is_a_warning_and_says_why() {
        let error = CallError::new("upstream_error").detail("connection \"reset\"\n  by peer");
        let record = CallRecord { status: 502, error: Some(error), ..sample() };
        let line = line(Format::Text, LevelFilter::INFO, &record);
        assert!(line.contains(" WARN call "), "{line}");
        assert!(line.ends_with("error=\"upstream_error: connection \\\"reset\\\"\\n  by peer\"\n"), "{line}");
    }

    #[test]
    fn a_call_in_json_has_the_records_names() {
        let line = line(Format::Json, LevelFilter::INFO, &sample());
        let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        assert_eq!(row.remove("level").unwrap(), "INFO");
        assert_eq!(row.remove("message").unwrap(), "call");
        assert_eq!(row.remove("timestamp").unwrap(), "2025-10-09T09:03:05.643Z");
        assert_eq!(serde_json::Value::Object(row), serde_json::to_value(sample()).unwrap());
    }

    #[test]
    fn the_level_leaves_lines_out() {
        let (fine, failed) = (sample(), CallRecord { status: 500, ..sample() });
        let lines = |level, record| line(Format::Text, level, record).lines().count();
        assert_eq!(lines(LevelFilter::DEBUG, &fine), 1);
        assert_eq!(lines(LevelFilter::WARN, &fine), 0);
        assert_eq!(lines(LevelFilter::WARN, &failed), 1);
        assert_eq!(lines(LevelFilter::ERROR, &failed), 0);
    }

    #[test]
    fn times_below_ten_milliseconds_have_a_decimal() {
        let shown = |micros| {
            let mut line = Vec::new();
            millis(&mut line, "", Some(Duration::from_micros(micros)));
            String::from_utf8(line).unwrap()
        };
        assert_eq!(shown(0), "0ms");
        assert_eq!(shown(340), "0.3ms");
        assert_eq!(shown(9_000), "9ms");
        assert_eq!(shown(12_900), "12ms");
    }

    #[test]
    fn an_error_text_of_a_megabyte_makes_a_short_line() {
        let record = CallRecord { status: 500, ..sample() };
        let error =
            CallError { detail: Some("boom ".repeat(200_000).into()), ..CallError::new("upstream_error") };
        for format in [Format::Text, Format::Json] {
            let line =
                line(format, LevelFilter::INFO, &CallRecord { error: Some(error.clone()), ..record.clone() });
            assert!(line.len() < 4096, "{} bytes", line.len());
        }
    }

    proptest! {
        #[test]
        fn one_call_one_line(
            words in prop::collection::vec(prop_oneof!["\\PC*", any::<String>(), "[\r\n\u{85}\u{2028}=\" a]*"], 8),
            status in 100..600u16,
        ) {
            let shared = |n: usize| Some(words[n].as_str().into());
            let record = CallRecord {
                key: shared(0),
                team: shared(1),
                tags: vec![(words[2].as_str().into(), words[3].as_str().into())],
                model: shared(4),
                provider: shared(5),
                request_id: shared(6),
                error: Some(CallError::new("upstream_error").detail(&words[7])),
                finish: Some(words[7].clone().into()),
                route: words[6].clone().into(),
                status,
                ..sample()
            };
            let mut shown = Vec::new();
            text(&mut shown, "INFO", &record);
            let shown = String::from_utf8(shown).unwrap();
            prop_assert!(!shown.chars().any(forges), "{shown:?}");
            // Outside quotes there are only our keys: no value has made one up.
            let keys: Vec<_> = bare_keys(&shown);
            let ours = "id key model provider fate status queue first_byte total in out attempts error";
            prop_assert_eq!(keys, ours.split(' ').collect::<Vec<_>>());

            let mut shown = Vec::new();
            json(&mut shown, "INFO", &record);
            let shown = String::from_utf8(shown).unwrap();
            prop_assert!(!shown.contains(['\n', '\r']));
            let row: serde_json::Value = serde_json::from_str(&shown).unwrap();
            prop_assert_eq!(row["model"].as_str().unwrap(), clip(&words[4], NAME_MAX));
        }
    }

    /// The keys of a line, as a reader who knows quotes and escapes sees them.
    fn bare_keys(line: &str) -> Vec<&str> {
        let (mut keys, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
        for (at, c) in line.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                ' ' if !quoted => start = at + 1,
                '=' if !quoted => keys.push(&line[start..at]),
                _ => {}
            }
        }
        keys
    }
}
