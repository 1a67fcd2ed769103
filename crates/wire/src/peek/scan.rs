//! A cursor that validates JSON as it moves over it, and builds nothing.
//!
//! Values are skipped with a counter and one bit per open container instead of
//! recursion, so a body of brackets costs no stack and is refused at [`DEPTH`].
//! What counts as JSON is what `serde_json` takes when it skips a value; an
//! escaped lone surrogate passes in strings that nobody here reads, because it
//! is grammatical and the provider may take it.
//!
//! Somebody may listen to what it passes ([`Sink`]); nobody does (`()`) costs nothing.
//!
//! UTF-8 is only checked if a string held a byte outside ASCII ([`Scan::finish`]):
//! outside strings such a byte is a syntax error anyway.

use std::ops::Range;

use super::Malformed;

/// Containers that may be open at once, the body's own object included.
pub(super) const DEPTH: u32 = 128;

/// Bytes that are searched as one block; the compiler makes vector code of it.
const BLOCK: usize = 32;

/// Bytes that are searched as one integer, and its bytes' lowest and highest bits.
const WORD: usize = 8;
const ONES: u64 = u64::MAX / 0xff;
const HIGH: u64 = ONES << 7;

/// Is told what a scan passes, in the order of the body. It learns of a fault by the scan's end only, and of
/// bytes that are not UTF-8 not at all.
pub(crate) trait Sink {
    /// Whether anybody listens; where nobody does, what only a listener wants is not found out.
    const LISTENS: bool;

    /// White space between two tokens.
    fn space(&mut self, _gap: Range<usize>) {}
    fn open(&mut self, _at: usize, _object: bool) {}
    /// A member's key; its value follows.
    fn key(&mut self, _key: &Quoted) {}
    /// A member's value is over. Its comma, if it has one, is at `at` as well, and is over before `next`.
    fn member_ends(&mut self, _at: usize, _next: usize) {}
    fn close(&mut self, _at: usize) {}
    fn string(&mut self, _string: &Quoted) {}
    fn number(&mut self, _number: &Number) {}
    /// `true`, `false` or `null`.
    fn word(&mut self, _span: Range<usize>) {}
}

impl Sink for () {
    const LISTENS: bool = false;
}

pub(super) struct Scan<'a, S = ()> {
    bytes: &'a [u8],
    at: usize,
    ascii: bool,
    sink: S,
}

/// A string as it stands in the body, quotes included.
pub(crate) struct Quoted {
    pub(crate) span: Range<usize>,
    pub(crate) escaped: bool,
    /// It has escapes that can be spelled otherwise: `\u` or `\/`.
    pub(crate) respellable: bool,
}

/// A number as it stands in the body.
pub(crate) struct Number {
    pub(crate) span: Range<usize>,
    /// Where its point is.
    pub(crate) point: Option<usize>,
    pub(crate) exponent: bool,
}

impl<'a, S: Sink> Scan<'a, S> {
    pub(super) fn new(bytes: &'a [u8], sink: S) -> Self {
        Scan { bytes, at: 0, ascii: true, sink }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn slice(&self, span: Range<usize>) -> &'a [u8] {
        &self.bytes[span]
    }

    /// The next byte that is not white space, not consumed.
    #[inline]
    pub(super) fn look(&mut self) -> Option<u8> {
        if !S::LISTENS {
            return self.past_space();
        }
        // Where there is none, nothing is to be told: short enough to be wherever a byte is looked at.
        match self.bytes.get(self.at) {
            Some(byte) if !is_space(byte) => Some(*byte),
            _ => self.tell_space(),
        }
    }

    #[inline]
    fn past_space(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !is_space(byte) {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline(never)]
    fn tell_space(&mut self) -> Option<u8> {
        let start = self.at;
        let next = self.past_space();
        self.sink.space(start..self.at);
        next
    }

    /// Consumes `byte` if it comes next, white space aside.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.look() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { Err(self.wrong()) }
    }

    /// Checks what can only be judged once everything was read.
    pub(super) fn finish(mut self) -> Result<S, Malformed> {
        if self.look().is_some() {
            return Err(self.wrong());
        }
        if !self.ascii {
            std::str::from_utf8(self.bytes).map_err(|bad| Malformed::NotUtf8 { at: bad.valid_up_to() })?;
        }
        Ok(self.sink)
    }

    /// Reads the members of an object whose `{` was consumed. `each` gets every
    /// key and has to consume its value. Says whether there were none.
    pub(super) fn members(
        &mut self,
        mut each: impl FnMut(&mut Self, Quoted) -> Result<(), Malformed>,
    ) -> Result<bool, Malformed> {
        self.sink.open(self.at - 1, true);
        if self.take(b'}') {
            self.sink.close(self.at - 1);
            return Ok(true);
        }
        loop {
            let key = self.key()?;
            each(self, key)?;
            if self.take(b',') {
                self.sink.member_ends(self.at - 1, self.at);
                continue;
            }
            self.expect(b'}')?;
            self.sink.member_ends(self.at - 1, self.at - 1);
            self.sink.close(self.at - 1);
            return Ok(false);
        }
    }

    /// Consumes a key and its colon.
    fn key(&mut self) -> Result<Quoted, Malformed> {
        let key = self.string()?;
        self.sink.key(&key);
        self.expect(b':')?;
        Ok(key)
    }

    /// Consumes one value of any kind that stands inside `outer` open containers.
    pub(super) fn skip(&mut self, outer: u32) -> Result<Range<usize>, Malformed> {
        self.look();
        let start = self.at;
        let mut open = Open { kinds: 0, count: 0, room: DEPTH - outer };
        loop {
            self.open_or_scalar(&mut open)?;
            if !self.close_or_comma(&mut open)? {
                return Ok(start..self.at);
            }
        }
    }

    /// Consumes a scalar or an empty container, after the brackets and keys that
    /// lead down to it.
    fn open_or_scalar(&mut self, open: &mut Open) -> Result<(), Malformed> {
        loop {
            match self.look() {
                Some(b'"') => {
                    let string = self.string()?;
                    self.sink.string(&string);
                    return Ok(());
                }
                Some(b'{') => {
                    self.sink.open(self.at, true);
                    self.at += 1;
                    if self.take(b'}') {
                        self.sink.close(self.at - 1);
                        return open.room_for_one();
                    }
                    open.push(true)?;
                    self.key()?;
                }
                Some(b'[') => {
                    self.sink.open(self.at, false);
                    self.at += 1;
                    if self.take(b']') {
                        self.sink.close(self.at - 1);
                        return open.room_for_one();
                    }
                    open.push(false)?;
                }
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.literal(b"true"),
                Some(b'f') => return self.literal(b"false"),
                Some(b'n') => return self.literal(b"null"),
                _ => return Err(self.wrong()),
            }
        }
    }

    /// Consumes the closing brackets after a value, then the comma (and key)
    /// before the next one. False: everything that was opened is closed.
    fn close_or_comma(&mut self, open: &mut Open) -> Result<bool, Malformed> {
        while open.count > 0 {
            let object = open.in_object();
            match self.look() {
                Some(b',') => {
                    self.at += 1;
                    if object {
                        self.sink.member_ends(self.at - 1, self.at);
                        self.key()?;
                    }
                    return Ok(true);
                }
                Some(b'}') if object => self.sink.member_ends(self.at, self.at),
                Some(b']') if !object => {}
                _ => return Err(self.wrong()),
            }
            self.sink.close(self.at);
            open.pop();
            self.at += 1;
        }
        Ok(false)
    }

    pub(super) fn string(&mut self) -> Result<Quoted, Malformed> {
        self.expect(b'"')?;
        let start = self.at - 1;
        let (mut escaped, mut respellable) = (false, false);
        loop {
            self.plain();
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Quoted { span: start..self.at, escaped, respellable });
                }
                Some(b'\\') => {
                    escaped = true;
                    respellable |= self.escape()?;
                }
                _ => return Err(self.wrong()),
            }
        }
    }

    /// Moves to the first quote, backslash or control character, if any.
    ///
    /// A few words first, as most runs between escapes are short; then blocks, and
    /// words again in the block that has it.
    fn plain(&mut self) {
        for _ in 0..BLOCK / WORD {
            if self.word() {
                return;
            }
        }
        while let Some(block) = self.bytes[self.at..].first_chunk::<BLOCK>() {
            let (found, all) =
                block.iter().fold((false, 0), |(found, all), &byte| (found | special(byte), all | byte));
            self.ascii &= all.is_ascii();
            if found {
                break;
            }
            self.at += BLOCK;
        }
        while self.bytes.len() - self.at >= WORD {
            if self.word() {
                return;
            }
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            self.ascii &= byte.is_ascii();
            if special(byte) {
                return;
            }
            self.at += 1;
        }
    }

    /// Moves past the next eight bytes, or to the first special one among them
    /// (true). Stays if there are fewer.
    #[inline]
    fn word(&mut self) -> bool {
        let Some(bytes) = self.bytes[self.at..].first_chunk::<WORD>() else { return false };
        let word = u64::from_le_bytes(*bytes);
        self.ascii &= word & HIGH == 0;
        let found = specials(word);
        // A branch, so that the next word does not wait for what this one holds.
        if found == 0 {
            self.at += WORD;
            return false;
        }
        self.at += found.trailing_zeros() as usize / 8;
        true
    }

    /// Consumes an escape. Says whether it can be spelled otherwise.
    fn escape(&mut self) -> Result<bool, Malformed> {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(false)
            }
            Some(b'/') => {
                self.at += 1;
                Ok(true)
            }
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.bytes.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        return Err(self.wrong());
                    }
                    self.at += 1;
                }
                Ok(true)
            }
            _ => Err(self.wrong()),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Malformed> {
        let start = self.at;
        for expected in word {
            if self.bytes.get(self.at) != Some(expected) {
                return Err(self.wrong());
            }
            self.at += 1;
        }
        self.sink.word(start..self.at);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Malformed> {
        let (start, mut point, mut exponent) = (self.at, None, false);
        self.at += usize::from(self.bytes[self.at] == b'-');
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            point = Some(self.at);
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            exponent = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        self.sink.number(&Number { span: start..self.at, point, exponent });
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.wrong()) } else { Ok(()) }
    }

    pub(super) fn wrong(&self) -> Malformed {
        Malformed::Syntax { at: self.at }
    }
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

fn special(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// The high bit of each special byte in a word. Subtracting borrows into bytes
/// above a special one, so that only the lowest bit set is to be trusted.
fn specials(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (equal(b'"') | equal(b'\\') | below(word, 0x20)) & HIGH
}

/// The containers that a skipped value has open: one bit each, set for objects.
struct Open {
    kinds: u128,
    count: u32,
    room: u32,
}

impl Open {
    fn room_for_one(&self) -> Result<(), Malformed> {
        if self.count < self.room { Ok(()) } else { Err(Malformed::TooDeep) }
    }

    fn push(&mut self, object: bool) -> Result<(), Malformed> {
        self.room_for_one()?;
        self.kinds = self.kinds << 1 | u128::from(object);
        self.count += 1;
        Ok(())
    }

    fn pop(&mut self) {
        self.kinds >>= 1;
        self.count -= 1;
    }

    fn in_object(&self) -> bool {
        self.kinds & 1 == 1
    }
}
