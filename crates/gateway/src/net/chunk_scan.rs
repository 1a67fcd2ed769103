//! Chunked coding: where a body ends, and what is in it.
//!
//! The library decodes a request's bytes after us. Should the two ever disagree about where a body ends, the next
//! request would begin in a place that nobody looked at; so what is taken here is the library's own grammar, and
//! whatever does not fit it is an end of its own (`Ended::Broken`), after which the connection is not read on.
//! A provider's answer is decoded by nobody else (`upstream::link`).

/// Where in the coding the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    Size,
    /// Blanks after a size.
    Gap,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a trailer, or of the line that ends the body.
    Last,
    Trailer,
    TrailerLf,
    LastLf,
}

/// How a body came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    /// This is no chunked coding.
    Broken,
}

/// Takes a body in the pieces in which it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunks {
    at: At,
    /// What is left of the chunk.
    size: u64,
}

impl Chunks {
    /// Looks at the next piece. Returns how many of its bytes belong to the body, and how it ended, if it did.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> (usize, Option<Ended>) {
        self.decode(piece, |_| {})
    }

    /// The same; `data` gets what the chunks hold.
    pub(crate) fn decode(&mut self, piece: &[u8], mut data: impl FnMut(&[u8])) -> (usize, Option<Ended>) {
        let mut taken = 0;
        while taken < piece.len() {
            if self.at == At::Data {
                let here = usize::try_from(self.size).unwrap_or(usize::MAX).min(piece.len() - taken);
                data(&piece[taken..taken + here]);
                taken += here;
                self.size -= here as u64;
                if self.size == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            let byte = piece[taken];
            taken += 1;
            match self.step(byte) {
                Ok(Some(next)) => self.at = next,
                Ok(None) => return (taken, Some(Ended::Whole)),
                Err(Broken) => return (taken, Some(Ended::Broken)),
            }
        }
        (taken, None)
    }

    /// How many bytes are missing from the chunk that has begun, its end included.
    pub(crate) fn missing(&self) -> Option<usize> {
        (self.at == At::Data).then(|| usize::try_from(self.size).unwrap_or(usize::MAX).saturating_add(2))
    }

    /// Where the byte after this one belongs; none after the last one.
    fn step(&mut self, byte: u8) -> Result<Option<At>, Broken> {
        let next = match (self.at, byte) {
            (At::Start | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte)?,
            (At::Size | At::Gap, b' ' | b'\t') => At::Gap,
            (At::Size | At::Gap, b';') => At::Extension,
            (At::Size | At::Gap | At::Extension, b'\r') => At::SizeLf,
            (At::Extension, b'\n') => return Err(Broken),
            (At::Extension, _) => At::Extension,
            (At::SizeLf, b'\n') if self.size == 0 => At::Last,
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Start,
            (At::Last, b'\r') => At::LastLf,
            (At::LastLf, b'\n') => return Ok(None),
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::Last | At::Trailer, _) => At::Trailer,
            (At::TrailerLf, b'\n') => At::Last,
            _ => return Err(Broken),
        };
        Ok(Some(next))
    }

    fn digit(&mut self, byte: u8) -> Result<At, Broken> {
        let digit = char::from(byte).to_digit(16).ok_or(Broken)?;
        self.size = self.size.checked_mul(16).ok_or(Broken)? + u64::from(digit);
        Ok(At::Size)
    }
}

struct Broken;

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(body: &[u8], size: usize) -> (usize, Option<Ended>) {
        let mut chunks = Chunks::default();
        let mut all = 0;
        for piece in body.chunks(size) {
            let (taken, ended) = chunks.feed(piece);
            all += taken;
            if ended.is_some() {
                return (all, ended);
            }
        }
        (all, None)
    }

    #[test]
    fn a_body_ends_where_it_ends_however_it_is_cut() {
        let bodies: [&[u8]; 6] = [
            b"0\r\n\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
            b"00A \t;name=\"value\"\r\n\r\n0\r\n\r\nxyz\r\n000;last\r\n\r\n",
            b"1\r\n0\r\n0\r\nContent-Length: 4\r\nb: c\r\n\r\n",
            b"a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
            b"0\r\nno colon\r\n\r\n",
        ];
        for body in bodies {
            let mut bytes = body.to_vec();
            bytes.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
            for size in 1..=bytes.len() {
                let expected = (body.len(), Some(Ended::Whole));
                assert_eq!(in_pieces(&bytes, size), expected, "{} by {size}", String::from_utf8_lossy(body));
            }
            for short in 0..body.len() {
                assert_eq!(in_pieces(&body[..short], 1), (short, None));
            }
        }
    }

    #[test]
    fn what_chunks_hold_comes_out_however_they_are_cut() {
        let body = b"3;x\r\nabc\r\n01\r\nd\r\nB \r\n\r\n0\r\n\r\nefgh\r\n0\r\nt: u\r\n\r\n";
        for size in 1..=body.len() {
            let mut chunks = Chunks::default();
            let mut all = Vec::new();
            let ends: Vec<_> = body
                .chunks(size)
                .map(|piece| chunks.decode(piece, |data| all.extend_from_slice(data)).1)
                .collect();
            assert_eq!(all, b"abcd\r\n0\r\n\r\nefgh", "by {size}");
            assert_eq!(ends.last(), Some(&Some(Ended::Whole)));
        }
    }

    #[test]
    fn what_is_no_chunked_coding_ends_at_the_first_wrong_byte() {
        for (body, at) in [
            (&b"\r\n"[..], 1),
            (b"x\r\n", 1),
            (b"-1\r\n", 1),
            (b"0x1\r\n", 2),
            (b"3\nabc", 2),
            (b"3 1\r\nabc", 3),
            (b"3;a\nb\r\nabc", 4),
            (b"3\r\nabcd\r\n", 7),
            (b"3\r\nabc\n", 7),
            (b"10000000000000000\r\n", 17),
            (b"0\r\n\rx", 5),
            (b"0\r\na: b\rx", 9),
        ] {
            assert_eq!(in_pieces(body, 1), (at, Some(Ended::Broken)), "{}", String::from_utf8_lossy(body));
        }
    }
}
