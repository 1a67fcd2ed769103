//! Looks at the raw head of a request for what the HTTP library forgives.
//!
//! Two lengths, or a length and a chunked body, or lines that end in a bare LF are read differently by
//! different programs; what one takes for a body another takes for the next request. The library picks one
//! reading; the gate refuses. Once per request head, by memchr from line to line.

use memchr::memchr_iter;

/// Longest head that is looked at; the library refuses longer ones itself.
const MOST: usize = 64 * 1024;

/// What was found in one head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) bare_lf: bool,
    pub(crate) lengths: u8,
    pub(crate) encodings: u8,
}

impl Faults {
    /// What to tell the sender, if the head can be read in two ways.
    pub(crate) fn complaint(self) -> Option<&'static str> {
        if self.bare_lf {
            Some("a header line ends without CR")
        } else if self.lengths > 0 && self.encodings > 0 {
            Some("content-length and transfer-encoding exclude each other")
        } else if self.lengths > 1 {
            Some("content-length is given more than once")
        } else if self.encodings > 1 {
            Some("transfer-encoding is given more than once")
        } else {
            None
        }
    }

    /// One byte for an atomic: none, bare LF, both, lengths, encodings.
    pub(crate) fn pack(self) -> u8 {
        u8::from(self.bare_lf) | (self.lengths.min(3) << 1) | (self.encodings.min(3) << 3)
    }

    pub(crate) fn unpack(packed: u8) -> Faults {
        Faults { bare_lf: packed & 1 != 0, lengths: (packed >> 1) & 3, encodings: (packed >> 3) & 3 }
    }
}

/// Takes a head in the pieces in which it comes.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    faults: Faults,
    /// The unfinished line of earlier pieces.
    line: Vec<u8>,
    seen: usize,
    started: bool,
    done: bool,
}

impl HeadScan {
    /// Looks at the next piece. Returns the findings when the head is complete.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Option<Faults> {
        if self.done {
            return None;
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', piece) {
            let over = if self.line.is_empty() {
                self.faults.line(&piece[start..end], self.started)
            } else {
                self.line.extend_from_slice(&piece[start..end]);
                let over = self.faults.line(&self.line, self.started);
                self.line.clear();
                over
            };
            start = end + 1;
            // Empty lines before a request are allowed and mean nothing.
            self.started |= !over;
            if over && self.started {
                self.done = true;
                return Some(self.faults);
            }
        }
        self.seen += piece.len();
        if self.seen > MOST {
            self.done = true;
            return Some(self.faults);
        }
        self.line.extend_from_slice(&piece[start..]);
        None
    }

    /// Ready for the next head.
    pub(crate) fn reset(&mut self) {
        self.faults = Faults::default();
        self.line.clear();
        self.seen = 0;
        self.started = false;
        self.done = false;
    }
}

impl Faults {
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
        if first | 0x20 == b'c' && has_name(line, b"content-length") {
            self.lengths = self.lengths.saturating_add(1);
        } else if first | 0x20 == b't' && has_name(line, b"transfer-encoding") {
            self.encodings = self.encodings.saturating_add(1);
        }
        false
    }
}

fn has_name(line: &[u8], name: &[u8]) -> bool {
    line.len() > name.len() && line[name.len()] == b':' && line[..name.len()].eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_in_pieces(head: &[u8], size: usize) -> Option<Faults> {
        let mut scan = HeadScan::default();
        head.chunks(size).find_map(|piece| scan.feed(piece))
    }

    #[test]
    fn every_ambiguity_is_found_however_the_head_is_cut() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", None),
            (
                b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
                Some("content-length and transfer-encoding exclude each other"),
            ),
            (
                b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n",
                Some("content-length and transfer-encoding exclude each other"),
            ),
            (
                b"POST / HTTP/1.1\r\nContent-Length: 4\r\nCONTENT-LENGTH: 4\r\n\r\n",
                Some("content-length is given more than once"),
            ),
            (b"POST / HTTP/1.1\nHost: a\r\n\r\n", Some("a header line ends without CR")),
            (b"POST / HTTP/1.1\r\nHost: a\r\n\n", Some("a header line ends without CR")),
            (b"\r\nPOST / HTTP/1.1\r\nX: content-length: 3\r\n\r\n", None),
        ];
        for (head, expected) in cases {
            for size in 1..=head.len() {
                let faults = scan_in_pieces(head, size).expect("the head is complete");
                assert_eq!(faults.complaint(), expected, "{} by {size}", String::from_utf8_lossy(head));
                assert_eq!(Faults::unpack(faults.pack()).complaint(), expected);
            }
        }
    }

    #[test]
    fn it_can_be_used_again() {
        let mut scan = HeadScan::default();
        assert!(scan.feed(b"GET / HTTP/1.1\nA: b\r\n\r\n").unwrap().bare_lf);
        scan.reset();
        assert_eq!(scan.feed(b"GET / HTTP/1.1\r\n\r\n"), Some(Faults::default()));
    }
}
