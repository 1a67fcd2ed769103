//! Server-sent events, as raw bytes: where one ends, and what it says.
//!
//! An event is everything up to and including its blank line; a line ends with LF, CR or CRLF, mixed at will.
//! Bytes are never decoded here, so a character that is cut between two reads is no special case.
//!
//! Invariant: [`Ends`] finds the same ends however the bytes are cut into chunks. It reports an event as soon as
//! its blank line is there: a CR at the very end of a chunk ends the event, and the LF that may follow is handed
//! over by [`Ends::completes_crlf`]. Waiting for it would delay every event of a stream that uses CR alone.
//!
//! Not here: `id` and `retry`, which belong to reconnecting browsers; they pass like any unknown field.

use std::borrow::Cow;

use memchr::memchr2;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Finds the ends of events in chunks that follow each other.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The current line is still empty.
    blank: bool,
    /// The last byte of the last chunk was a CR; an LF now belongs to it.
    after_cr: bool,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { blank: true, after_cr: false }
    }
}

/// Where an event ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How many of the bytes still belong to the event.
    pub length: usize,
    /// Those bytes are one line and an empty one, each ended by LF: the usual form of a whole event.
    pub one_line: bool,
}

impl Ends {
    /// The next end in `bytes`, which go on where the last call stopped: at the end that it found, else at the end
    /// of its bytes.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Option<End> {
        let mut at = usize::from(self.completes_crlf(bytes));
        let mut one_line = at == 0;
        loop {
            let Some(length) = memchr2(b'\n', b'\r', &bytes[at..]) else {
                self.blank &= at == bytes.len();
                return None;
            };
            let ended = self.blank && length == 0;
            at += length + 1;
            if bytes[at - 1] == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            self.blank = true;
            if ended {
                return Some(End { length: at, one_line: false });
            }
            // The usual case, without another search: the blank line follows at once.
            if bytes.get(at) == Some(&b'\n') {
                one_line &= bytes[at - 1] == b'\n' && length + 1 == at;
                return Some(End { length: at + 1, one_line });
            }
            one_line = false;
        }
    }

    /// Whether `bytes` begin with the LF of a CRLF whose CR was the last byte of the chunk before.
    #[inline]
    pub fn completes_crlf(&mut self, bytes: &[u8]) -> bool {
        let Some(first) = bytes.first() else { return false };
        std::mem::take(&mut self.after_cr) && *first == b'\n'
    }
}

/// One event: its name and its data.
#[derive(Debug)]
pub struct Event<'a> {
    name: Option<&'a [u8]>,
    data: Cow<'a, [u8]>,
    fields: bool,
}

impl<'a> Event<'a> {
    /// Reads an event that is one line, given without its end.
    #[inline]
    pub fn of_line(line: &'a [u8]) -> Event<'a> {
        match value_of(line, b"data") {
            Some(data) => Event { name: None, data: Cow::Borrowed(data), fields: true },
            None => Event::read(line),
        }
    }

    /// Reads one event, with or without its blank line. A byte order mark in front is skipped.
    #[inline]
    pub fn read(raw: &'a [u8]) -> Event<'a> {
        let mut rest = raw.strip_prefix(BOM).unwrap_or(raw);
        let mut event = Event { name: None, data: Cow::Borrowed(&[]), fields: false };
        let mut has_data = false;
        while !rest.is_empty() {
            let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if line.is_empty() || line[0] == b':' {
                continue;
            }
            event.fields = true;
            if let Some(value) = value_of(line, b"data") {
                event.add_data(value, has_data);
                has_data = true;
            } else if let Some(value) = value_of(line, b"event") {
                event.name = Some(value);
            }
        }
        event
    }

    fn add_data(&mut self, value: &'a [u8], more: bool) {
        if more {
            let joined = self.data.to_mut();
            joined.push(b'\n');
            joined.extend_from_slice(value);
        } else {
            self.data = Cow::Borrowed(value);
        }
    }

    /// The value of the `event` field; none where it is missing, empty, or `message`, which is the standard's name
    /// for an event without one.
    #[inline]
    pub fn name(&self) -> Option<&'a [u8]> {
        self.name.filter(|name| !matches!(*name, b"" | b"message"))
    }

    /// The data lines, joined with LF; empty where there is none.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Nothing but comments and blank lines.
    pub fn is_comment(&self) -> bool {
        !self.fields
    }
}

/// What a line says if it is the field `name`: without the colon and one space after it.
#[inline]
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(chunks: &[&[u8]]) -> Vec<usize> {
        let mut finder = Ends::default();
        let mut found = Vec::new();
        let mut before = 0;
        for chunk in chunks {
            let mut at = usize::from(finder.completes_crlf(chunk));
            while let Some(end) = finder.next(&chunk[at..]) {
                at += end.length;
                found.push(before + at);
            }
            before += chunk.len();
        }
        found
    }

    #[test]
    fn every_mixture_of_line_ends_makes_a_blank_line() {
        for end in ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\n\r", "\r\r\n"] {
            let text = format!("data: a{end}data: b{end}");
            let first = "data: a".len() + end.len();
            assert_eq!(ends(&[text.as_bytes()]), [first, 2 * first], "{end:?}");
        }
        assert_eq!(ends(&[b"data: a\r\ndata: b\r\n"]), [] as [usize; 0], "CRLF is one line end");
    }

    #[test]
    fn a_blank_line_between_events_is_an_empty_event() {
        assert_eq!(ends(&[b"\n\ndata: a\n\n\n"]), [1, 2, 11, 12]);
    }

    #[test]
    fn an_event_ended_by_a_cr_is_not_held_back_for_its_lf() {
        assert_eq!(ends(&[b"data: a\r\n\r", b"\ndata: b\r\n\r\n"]), [10, 22]);
        assert_eq!(ends(&[b"data: a\r", b"\r", b"data: b\r\r"]), [9, 18]);
        assert_eq!(ends(&[b"data: a\r", b"\n", b"\r\n"]), [11]);
    }

    #[test]
    fn an_event_of_one_line_is_known_as_such_and_read_the_same() {
        let one_line = |text: &[u8]| Ends::default().next(text).map(|end| end.one_line);
        assert_eq!(one_line(b"data: a\n\n"), Some(true));
        for other in [
            "\n",
            "data: a\r\n\r\n",
            "data: a\r\n\n",
            "data: a\n\r\n",
            "data: a\r\r",
            "event: b\ndata: a\n\n",
        ] {
            assert_eq!(one_line(other.as_bytes()), Some(false), "{other:?}");
        }
        for line in ["data: a ", "data:a", "data", "event: x", ": x", "\u{feff}data: a", "database"] {
            let (short, long) = (Event::of_line(line.as_bytes()), format!("{line}\n\n"));
            assert_eq!(format!("{short:?}"), format!("{:?}", Event::read(long.as_bytes())), "{line:?}");
        }
    }

    #[test]
    fn an_event_says_its_name_and_its_joined_data() {
        let event = Event::read(b"event: delta\r\nid: 7\ndata: {\"a\":\ndata:1}\r: note\n\n");
        assert_eq!(event.name(), Some(&b"delta"[..]));
        assert_eq!(event.data(), b"{\"a\":\n1}");
        assert!(!event.is_comment());
    }

    #[test]
    fn odd_lines_are_read_as_the_standard_says() {
        assert_eq!(Event::read(b"data:  two spaces\n\n").data(), b" two spaces");
        assert_eq!(Event::read(b"data\ndata\n\n").data(), b"\n");
        assert_eq!(Event::read(b"database: x\n\n").data(), b"");
        assert_eq!(Event::read(b"event:\ndata: x\n\n").name(), None);
        assert_eq!(Event::read(b"event: message\ndata: x\n\n").name(), None);
        assert_eq!(Event::read(b"\xef\xbb\xbfdata: x\n\n").data(), b"x");
        assert_eq!(Event::read(b"data: unfinished").data(), b"unfinished");
        assert!(Event::read(b": PROCESSING\n\n").is_comment());
        assert!(Event::read(b"").is_comment());
    }
}
