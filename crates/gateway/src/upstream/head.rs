//! Heads over HTTP/1.1: the one that is written to a provider, and the one that it answers with.
//!
//! Promise: an answer's head is taken only where it can be read in one way, so that nobody sees its body begin or end
//! in another place. No line is folded, there is one length or one chunked coding and never both; anything else is an
//! error, after which the connection is not read on. However a head is cut, it reads the same. A line may end in LF
//! alone, as the standard allows: nobody reads the same bytes after us.
//!
//! Not here: what the headers mean for anything but the framing of the body.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header, response};
use memchr::memchr;

/// The longest head that is read, and the most headers in it.
pub const MOST: usize = 64 * 1024;
const MOST_HEADERS: usize = 100;
/// The gate adds about so many: the map would otherwise grow, and be hashed anew, on the way down.
const MORE_HEADERS: usize = 8;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// Where its chunks say so.
    Chunked,
    /// With the connection.
    Rest,
}

/// The head of an answer.
#[derive(Debug)]
pub struct Head {
    /// Status, version and headers, as they came.
    pub parts: response::Parts,
    /// Of the body behind it.
    pub framing: Framing,
    /// The connection can carry another call after this one.
    pub stays: bool,
}

/// Why what came is no head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// More than [`MOST`] bytes, or too many headers.
    #[error("the head of its answer is too large")]
    TooLarge,
    /// No status line and headers.
    #[error("what it answered is no HTTP/1.1")]
    Garbled,
    /// It can't be told where the body ends, or it could be told in two ways.
    #[error("the head of its answer does not say clearly where the body ends")]
    Framing,
}

/// What has come of an answer's head.
#[derive(Debug, Default)]
pub struct Coming {
    bytes: Vec<u8>,
    /// Where the line begins whose end has not been seen.
    line: usize,
}

impl Coming {
    /// Takes what came next. Returns the head, once it is there, and what came behind it. Heads that only say that
    /// another one will follow are passed over.
    pub fn take(&mut self, came: &[u8], method: &Method) -> Result<Option<(Head, Bytes)>, Unreadable> {
        if self.bytes.is_empty() {
            // Mostly all of an answer comes at once; no place for more, then.
            self.bytes = came.to_vec();
        } else {
            self.bytes.extend_from_slice(came);
        }
        while let Some(end) = self.end()? {
            self.line = 0;
            let mut head = Bytes::from(std::mem::take(&mut self.bytes));
            let rest = head.split_off(end);
            match read(&head, method)? {
                Some(head) => return Ok(Some((head, rest))),
                None => self.bytes = Vec::from(rest),
            }
        }
        Ok(None)
    }

    /// Whether nothing of a head has come.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Behind the empty line that ends a head. No line is looked at twice, however slowly they come.
    fn end(&mut self) -> Result<Option<usize>, Unreadable> {
        loop {
            let Some(length) = memchr(b'\n', &self.bytes[self.line..]) else {
                return if self.bytes.len() > MOST { Err(Unreadable::TooLarge) } else { Ok(None) };
            };
            let line = &self.bytes[self.line..self.line + length];
            self.line += length + 1;
            if self.line > MOST {
                return Err(Unreadable::TooLarge);
            }
            if matches!(line, [] | [b'\r']) {
                return Ok(Some(self.line));
            }
        }
    }
}

/// Reads a head to its end; none if another one follows it.
fn read(bytes: &Bytes, method: &Method) -> Result<Option<Head>, Unreadable> {
    let mut space = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut parsed, bytes, &mut space) {
        Ok(httparse::Status::Complete(end)) if end == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Unreadable::TooLarge),
        _ => return Err(Unreadable::Garbled),
    }
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(Unreadable::Garbled)?;
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(None);
    }
    let newer = parsed.version == Some(1);
    let mut headers = HeaderMap::with_capacity(parsed.headers.len() + MORE_HEADERS);
    let mut said = Said { stays: newer, ..Said::default() };
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| Unreadable::Garbled)?;
        said.note(&name, header.value)?;
        // A slice of what is here, not a copy.
        let value =
            HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).map_err(|_| Unreadable::Garbled)?;
        headers.append(name, value);
    }
    let framing = match said {
        _ if has_no_body(status, method) => Framing::Length(0),
        Said { chunked: true, .. } if newer => Framing::Chunked,
        Said { chunked: true, .. } => return Err(Unreadable::Framing),
        Said { length: Some(length), .. } => Framing::Length(length),
        Said { .. } => Framing::Rest,
    };
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status;
    parts.version = if newer { Version::HTTP_11 } else { Version::HTTP_10 };
    parts.headers = headers;
    let stays = said.stays && framing != Framing::Rest && status != StatusCode::SWITCHING_PROTOCOLS;
    Ok(Some(Head { parts, framing, stays }))
}

fn has_no_body(status: StatusCode, method: &Method) -> bool {
    matches!(status, StatusCode::SWITCHING_PROTOCOLS | StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || method == Method::HEAD
}

/// What the headers say of the connection and of where the body ends.
#[derive(Clone, Copy, Default)]
struct Said {
    length: Option<u64>,
    chunked: bool,
    stays: bool,
}

impl Said {
    fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), Unreadable> {
        let framed = self.chunked || self.length.is_some();
        if *name == header::CONTENT_LENGTH {
            self.length = Some(length(value).filter(|_| !framed).ok_or(Unreadable::Framing)?);
        } else if *name == header::TRANSFER_ENCODING {
            // The only coding that was offered, since no request names another one.
            if framed || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Unreadable::Framing);
            }
            self.chunked = true;
        } else if *name == header::CONNECTION {
            let closes = |token: &[u8]| token.trim_ascii().eq_ignore_ascii_case(b"close");
            self.stays &= !value.split(|byte| *byte == b',').any(closes);
        }
        Ok(())
    }
}

/// Digits and nothing else.
fn length(value: &[u8]) -> Option<u64> {
    let digit = |length: u64, byte: &u8| match byte {
        b'0'..=b'9' => length.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    };
    if value.is_empty() { None } else { value.iter().try_fold(0, digit) }
}

/// Writes the head of a request whose body ends like that; none where it has no body. There is `room` for more.
pub(super) fn write<B>(request: &Request<B>, framing: Option<Framing>, room: usize) -> Vec<u8> {
    const VERSION: &[u8] = b" HTTP/1.1\r\n";
    const CHUNKED: &[u8] = b"transfer-encoding: chunked\r\n";
    const LENGTH: &[u8] = b"content-length: ";

    let method = request.method().as_str().as_bytes();
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).as_bytes();
    let mut digits = itoa::Buffer::new();
    let (framing, value, end): (&[u8], &[u8], &[u8]) = match framing {
        Some(Framing::Length(length)) => (LENGTH, digits.format(length).as_bytes(), b"\r\n"),
        Some(Framing::Chunked) => (CHUNKED, b"", b""),
        Some(Framing::Rest) | None => (b"", b"", b""),
    };
    let headers = request.headers();
    let lines: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let fixed = method.len() + 1 + target.len() + VERSION.len() + framing.len() + value.len() + end.len() + 2;
    let mut head = Vec::with_capacity(fixed + lines + room);
    for part in [method, b" ", target, VERSION] {
        head.extend_from_slice(part);
    }
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    for part in [framing, value, end, b"\r\n"] {
        head.extend_from_slice(part);
    }
    head
}

#[cfg(test)]
mod tests;
