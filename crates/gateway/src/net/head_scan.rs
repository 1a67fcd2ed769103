//! Looks at the raw bytes of a connection's requests for what the HTTP library forgives.
//!
//! Two lengths, or a length and a chunked body, or lines that end in a bare LF are read differently by
//! different programs; what one takes for a body another takes for the next request. The library picks one
//! reading; the gate refuses. Once per request head, by memchr from line to line.
//!
//! The scan also knows where each request ends, so that every head is found wherever in the stream it begins:
//! the door hands on nothing beyond the request that is being served.

use memchr::memchr_iter;

use super::chunk_scan::{Chunks, Ended};

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Complaint {
    BareLf = 1,
    LengthAndCoding,
    Lengths,
    Codings,
    Length,
    Coding,
    NoHost,
    Hosts,
}

impl Complaint {
    const ALL: [Complaint; 8] = [
        Complaint::BareLf,
        Complaint::LengthAndCoding,
        Complaint::Lengths,
        Complaint::Codings,
        Complaint::Length,
        Complaint::Coding,
        Complaint::NoHost,
        Complaint::Hosts,
    ];

    /// Its number, for an atomic; none has zero.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Complaint> {
        Complaint::ALL.into_iter().find(|complaint| complaint.code() == code)
    }

    /// What to tell the sender.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Complaint::BareLf => "a header line ends without CR",
            Complaint::LengthAndCoding => "content-length and transfer-encoding exclude each other",
            Complaint::Lengths => "content-length is given more than once",
            Complaint::Codings => "transfer-encoding is given more than once",
            Complaint::Length => "content-length is no number",
            Complaint::Coding => "no other transfer-encoding than chunked is supported",
            Complaint::NoHost => "the header host is missing",
            Complaint::Hosts => "the header host is given more than once",
        }
    }
}

/// How the bytes of a request's body are told from the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
}

/// Follows the requests of one connection, in the pieces in which they come.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    head: HeadScan,
    at: At,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    #[default]
    Head,
    Length(u64),
    Chunks(Chunks),
    /// The request is whole.
    End,
    /// Its head is wrong: where it ends, nobody knows.
    Refused,
    /// Its body is no chunked coding.
    Broken,
}

impl Requests {
    /// Looks at the next piece. Returns how many of its bytes belong to this request.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> usize {
        let mut taken = 0;
        while taken < piece.len() {
            let rest = &piece[taken..];
            let (here, next) = match &mut self.at {
                At::Head => match self.head.feed(rest) {
                    (here, None) => (here, At::Head),
                    (here, Some(Ok(Body::Length(0)))) => (here, At::End),
                    (here, Some(Ok(Body::Length(length)))) => (here, At::Length(length)),
                    (here, Some(Ok(Body::Chunked))) => (here, At::Chunks(Chunks::default())),
                    (here, Some(Err(_))) => (here, At::Refused),
                },
                At::Length(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    match *left - here as u64 {
                        0 => (here, At::End),
                        left => (here, At::Length(left)),
                    }
                }
                At::Chunks(chunks) => match chunks.feed(rest) {
                    (here, None) => (here, At::Chunks(*chunks)),
                    (here, Some(Ended::Whole)) => (here, At::End),
                    (here, Some(Ended::Broken)) => (here, At::Broken),
                },
                At::End | At::Refused | At::Broken => return taken,
            };
            taken += here;
            self.at = next;
        }
        taken
    }

    /// The next byte belongs to a new request.
    pub(crate) fn next(&mut self) {
        self.head.reset();
        self.at = At::Head;
    }

    /// In a head, or before it.
    pub(crate) fn in_head(&self) -> bool {
        matches!(self.at, At::Head)
    }

    /// More than empty lines has come of the request.
    pub(crate) fn has_begun(&self) -> bool {
        !self.in_head() || self.head.has_begun()
    }

    /// The whole request has come.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.at, At::End)
    }

    /// What is wrong with the head, once it is complete.
    pub(crate) fn complaint(&self) -> Option<Complaint> {
        if matches!(self.at, At::Refused) { self.head.verdict().err() } else { None }
    }

    /// The body can't be read on.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.at, At::Broken)
    }
}

/// Takes a head in the pieces in which it comes. The library refuses a head that is too long.
#[derive(Debug, Default)]
struct HeadScan {
    /// The unfinished line of earlier pieces.
    line: Vec<u8>,
    /// The request line has come.
    started: bool,
    found: Found,
}

/// What was found in one head.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    bare_lf: bool,
    lengths: u8,
    length: Option<u64>,
    codings: u8,
    other_coding: bool,
    hosts: u8,
    needs_host: bool,
}

impl HeadScan {
    /// Looks at the next piece. Returns how many of its bytes belong to the head, and the verdict at its end.
    fn feed(&mut self, piece: &[u8]) -> (usize, Option<Result<Body, Complaint>>) {
        let mut start = 0;
        for end in memchr_iter(b'\n', piece) {
            let is_empty = if self.line.is_empty() {
                self.found.line(&piece[start..end], self.started)
            } else {
                self.line.extend_from_slice(&piece[start..end]);
                let is_empty = self.found.line(&self.line, self.started);
                self.line.clear();
                is_empty
            };
            start = end + 1;
            if is_empty && self.started {
                return (start, Some(self.verdict()));
            }
            // Empty lines before a request are allowed and mean nothing.
            self.started |= !is_empty;
        }
        self.line.extend_from_slice(&piece[start..]);
        (piece.len(), None)
    }

    fn verdict(&self) -> Result<Body, Complaint> {
        let found = &self.found;
        if found.bare_lf {
            Err(Complaint::BareLf)
        } else if found.lengths > 0 && found.codings > 0 {
            Err(Complaint::LengthAndCoding)
        } else if found.lengths > 1 {
            Err(Complaint::Lengths)
        } else if found.codings > 1 {
            Err(Complaint::Codings)
        } else if found.other_coding {
            Err(Complaint::Coding)
        } else if found.needs_host && found.hosts == 0 {
            Err(Complaint::NoHost)
        } else if found.hosts > 1 {
            Err(Complaint::Hosts)
        } else if found.codings == 1 {
            Ok(Body::Chunked)
        } else if found.lengths == 1 {
            found.length.map(Body::Length).ok_or(Complaint::Length)
        } else {
            Ok(Body::Length(0))
        }
    }

    fn has_begun(&self) -> bool {
        self.started || self.line.first().is_some_and(|byte| *byte != b'\r')
    }

    /// Ready for the next head.
    fn reset(&mut self) {
        self.line.clear();
        self.started = false;
        self.found = Found::default();
    }
}

impl Found {
    /// Notes one line without its LF. Returns whether it is the empty one.
    fn line(&mut self, line: &[u8], in_head: bool) -> bool {
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None => {
                self.bare_lf |= in_head || !line.is_empty();
                line
            }
        };
        let Some(&first) = line.first() else { return true };
        if !in_head {
            self.needs_host = line.ends_with(b"HTTP/1.1");
            return false;
        }
        match first | 0x20 {
            b'c' => {
                if let Some(length) = value_of(line, b"content-length") {
                    self.lengths = self.lengths.saturating_add(1);
                    self.length = number(length);
                }
            }
            b't' => {
                if let Some(coding) = value_of(line, b"transfer-encoding") {
                    self.codings = self.codings.saturating_add(1);
                    self.other_coding |= !coding.eq_ignore_ascii_case(b"chunked");
                }
            }
            b'h' if value_of(line, b"host").is_some() => self.hosts = self.hosts.saturating_add(1),
            _ => {}
        }
        false
    }
}

/// The value in a line that begins with this name.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

/// Digits and nothing else.
fn number(digits: &[u8]) -> Option<u64> {
    let only_digits = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| only_digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

    /// The complaint about a head, and how many bytes its request has.
    fn scan_in_pieces(bytes: &[u8], size: usize) -> (Option<Complaint>, usize) {
        let mut requests = Requests::default();
        let taken = bytes.chunks(size).map(|piece| requests.feed(piece)).sum();
        assert!(!requests.in_head(), "the head is complete");
        (requests.complaint(), taken)
    }

    #[test]
    fn every_ambiguity_is_found_however_the_head_is_cut() {
        let cases: [(String, Option<Complaint>); 19] = [
            (format!("{HOST}Content-Length: 4\r\n\r\n"), None),
            (
                format!("{HOST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Some(Complaint::LengthAndCoding),
            ),
            (
                format!("{HOST}transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n"),
                Some(Complaint::LengthAndCoding),
            ),
            (format!("{HOST}Content-Length: 4\r\nCONTENT-LENGTH: 4\r\n\r\n"), Some(Complaint::Lengths)),
            (format!("{HOST}Content-Length: 4, 4\r\n\r\n"), Some(Complaint::Length)),
            (format!("{HOST}Content-Length: +4\r\n\r\n"), Some(Complaint::Length)),
            (format!("{HOST}Content-Length:\r\n\r\n"), Some(Complaint::Length)),
            (format!("{HOST}Content-Length: 99999999999999999999\r\n\r\n"), Some(Complaint::Length)),
            (format!("{HOST}Transfer-Encoding: Chunked\r\n\r\n"), None),
            (format!("{HOST}Transfer-Encoding: gzip, chunked\r\n\r\n"), Some(Complaint::Coding)),
            (format!("{HOST}Transfer-Encoding: chunked, chunked\r\n\r\n"), Some(Complaint::Coding)),
            (
                format!("{HOST}Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"),
                Some(Complaint::Codings),
            ),
            ("POST / HTTP/1.1\nHost: a\r\n\r\n".to_owned(), Some(Complaint::BareLf)),
            ("POST / HTTP/1.1\r\nHost: a\r\n\n".to_owned(), Some(Complaint::BareLf)),
            ("\r\nPOST / HTTP/1.1\r\nhost:a\r\nX: content-length: 3\r\n\r\n".to_owned(), None),
            ("GET / HTTP/1.1\r\nHosts: a\r\n\r\n".to_owned(), Some(Complaint::NoHost)),
            (format!("{HOST}host: b\r\n\r\n"), Some(Complaint::Hosts)),
            ("GET / HTTP/1.0\r\n\r\n".to_owned(), None),
            (
                format!("{HOST}X: {}\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n", "x".repeat(3000)),
                Some(Complaint::Lengths),
            ),
        ];
        for (head, expected) in cases {
            for size in 1..=head.len() {
                assert_eq!(
                    scan_in_pieces(head.as_bytes(), size),
                    (expected, head.len()),
                    "{head:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn a_complaint_survives_its_way_through_a_number() {
        for complaint in Complaint::ALL {
            assert_eq!(Complaint::of_code(complaint.code()), Some(complaint));
        }
        assert_eq!(Complaint::of_code(0), None);
    }

    #[test]
    fn empty_lines_begin_nothing() {
        let mut requests = Requests::default();
        assert_eq!(requests.feed(b"\r\n\r"), 3);
        assert!(!requests.has_begun());
        assert_eq!(requests.feed(b"\nG"), 2);
        assert!(requests.has_begun());
    }

    proptest! {
        #[test]
        fn every_request_ends_where_the_next_one_begins(
            kinds in prop::collection::vec(0..5usize, 1..8),
            cuts in prop::collection::vec(1..40usize, 1..40),
        ) {
            let requests = kinds.iter().map(|kind| match kind {
                0 => "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
                1 => format!("{HOST}Content-Length: 11\r\n\r\nGET / HTTP/"),
                2 => format!("{HOST}Content-Length: 0\r\n\r\n"),
                3 => format!("{HOST}Transfer-Encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n"),
                _ => "\r\nGET / HTTP/1.0\r\n\r\n".to_owned(),
            }.into_bytes()).collect::<Vec<_>>();
            let all = requests.concat();
            let mut scan = Requests::default();
            let (mut found, mut begun, mut at) = (Vec::new(), 0, 0);
            let mut cuts = cuts.iter().cycle();
            while at < all.len() {
                let end = (at + cuts.next().unwrap()).min(all.len());
                while at < end {
                    at += scan.feed(&all[at..end]);
                    prop_assert_eq!(scan.complaint(), None);
                    if scan.is_whole() {
                        found.push(all[begun..at].to_vec());
                        begun = at;
                        scan.next();
                    }
                }
            }
            prop_assert_eq!(found, requests);
        }
    }
}
