//! Passes a stream of events on, and watches what it says of itself.
//!
//! Bytes go out in whole events, so that an event of the gate's own can stand between any two of them, also while
//! the next one is half here; where a stream breaks off, its half event is never sent. The usual chunk ends where
//! an event ends: it goes out as it came, without a copy. Only the unfinished tail of a chunk is copied and held;
//! a usage event that the caller did not ask for is cut out by slicing.
//!
//! Invariant: what goes out is what came in, less the events that were cut out, whatever the chunks; and the
//! [`Watch`] does not depend on where the chunks were cut, but for events longer than [`HOLD`], of which only the
//! ends are looked at where they come in pieces.
//!
//! Not here: repair. A stream that breaks its protocol passes as it is, and the watch says that it is not whole.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::dialect::{Dialect, Part};
use crate::sse::{Ends, Event};

pub use crate::watch::{Usage, Watch};

/// How much of an unfinished event is held. A longer one passes in the pieces in which it comes.
pub const HOLD: usize = 64 * 1024;

/// How much of a longer event is kept from its beginning: its name and its first fields.
const HEAD: usize = 4 * 1024;

/// How much of a longer event is kept from its end, where the usage stands.
const TAIL: usize = 32 * 1024;

/// Takes what goes out.
pub trait Out {
    /// Bytes of the answer.
    fn answer(&mut self, bytes: Bytes);

    /// An event (or the last byte of one) that tells usage to a caller who did not ask for it.
    fn usage(&mut self, bytes: Bytes);
}

/// For who did not ask for usage.
impl Out for VecDeque<Bytes> {
    fn answer(&mut self, bytes: Bytes) {
        self.push_back(bytes);
    }

    fn usage(&mut self, _: Bytes) {}
}

/// Where the last piece of an event goes.
enum Goes {
    /// Out, with its neighbours in the chunk.
    Along,
    /// It is an event of usage alone.
    Apart,
    /// It has gone out, together with what was held of the event.
    Gone,
}

/// One stream on its way through.
pub struct Relay {
    dialect: &'static dyn Dialect,
    strip_usage: bool,
    ends: Ends,
    watch: Watch,
    /// The beginning of an event that is not finished.
    held: BytesMut,
    /// The event that is passing in pieces, being too long to be held.
    long: Option<Box<LongBody>>,
    /// The last event was cut out.
    cut_out: bool,
    /// The stream ended within an event.
    torn: bool,
}

impl Relay {
    /// For a stream of that protocol. `strip_usage` says that the caller did not ask for the usage event.
    pub fn new(dialect: &'static dyn Dialect, strip_usage: bool) -> Relay {
        Relay {
            dialect,
            strip_usage,
            ends: Ends::default(),
            watch: Watch::default(),
            held: BytesMut::new(),
            long: None,
            cut_out: false,
            torn: false,
        }
    }

    /// Takes the next chunk and adds what may go out now.
    pub fn feed(&mut self, chunk: Bytes, out: &mut impl Out) {
        // All before `at` is decided; all from `kept` to `at` goes out.
        let (mut kept, mut at) = (0, 0);
        if self.held.is_empty() && self.at_boundary() && self.ends.completes_crlf(&chunk) {
            at = 1;
            if self.cut_out {
                kept = 1;
                out.usage(chunk.slice(..1));
            }
        }
        while let Some(found) = self.ends.next(&chunk[at..]) {
            let end = at + found.length;
            let goes = self.goes(&chunk[at..end], found.one_line, out);
            if !matches!(goes, Goes::Along) {
                push(out, chunk.slice(kept..at));
                kept = end;
            }
            if matches!(goes, Goes::Apart) {
                out.usage(chunk.slice(at..end));
            }
            at = end;
        }
        if let Some(long) = &mut self.long {
            long.add(&chunk[at..]);
            at = chunk.len();
        }
        if kept == 0 && at == chunk.len() {
            push(out, chunk);
        } else {
            push(out, chunk.slice(kept..at));
            self.hold(&chunk[at..], out);
        }
    }

    /// Takes the last piece of an event.
    #[inline]
    fn goes(&mut self, piece: &[u8], one_line: bool, out: &mut impl Out) -> Goes {
        if let Some(mut long) = self.long.take() {
            long.add(piece);
            long.tell(self.dialect, &mut self.watch);
            self.cut_out = false;
            return Goes::Along;
        }
        if self.held.is_empty() {
            let event = if one_line { Event::of_line(&piece[..piece.len() - 2]) } else { Event::read(piece) };
            self.cut_out = self.look(&event);
            return if self.cut_out { Goes::Apart } else { Goes::Along };
        }
        self.held.extend_from_slice(piece);
        let whole = self.held.split().freeze();
        self.cut_out = self.look(&Event::read(&whole));
        match self.cut_out {
            true => out.usage(whole),
            false => out.answer(whole),
        }
        Goes::Gone
    }

    /// Takes the clean end of the stream: what is held is looked at as an event and goes out.
    pub fn finish(&mut self, out: &mut impl Out) {
        if let Some(long) = self.long.take() {
            long.tell(self.dialect, &mut self.watch);
            self.torn = true;
        }
        let rest = self.held.split().freeze();
        if rest.is_empty() {
            return;
        }
        if self.look(&Event::read(&rest)) {
            out.usage(rest);
        } else {
            out.answer(rest);
            self.torn = true;
        }
    }

    /// Whether an event of ours may be put in now: nothing of an unfinished one has gone out.
    pub fn at_boundary(&self) -> bool {
        self.long.is_none() && !self.torn
    }

    /// What was seen so far.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Takes note of an event; true where it is to be cut out.
    #[inline]
    fn look(&mut self, event: &Event<'_>) -> bool {
        let part = self.dialect.watch_event(event, &mut self.watch);
        self.strip_usage && part == Part::UsageOnly
    }

    fn hold(&mut self, tail: &[u8], out: &mut impl Out) {
        self.held.extend_from_slice(tail);
        if self.held.len() > HOLD {
            let begun = std::mem::take(&mut self.held).freeze();
            self.long = Some(Box::new(LongBody::new(&begun)));
            out.answer(begun);
        }
    }
}

fn push(out: &mut impl Out, piece: Bytes) {
    if !piece.is_empty() {
        out.answer(piece);
    }
}

/// Both ends of something that is too long to be held: an event, or a plain answer.
pub struct LongBody {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl LongBody {
    /// Of something that begins so.
    pub fn new(begun: &[u8]) -> LongBody {
        LongBody { head: begun[..begun.len().min(HEAD)].to_vec(), tail: end_of(begun).to_vec() }
    }

    /// It goes on.
    pub fn add(&mut self, piece: &[u8]) {
        self.tail.extend_from_slice(end_of(piece));
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    /// What a plain answer with these ends says of itself.
    pub fn read(&self, dialect: &dyn Dialect) -> Watch {
        let mut watch = Watch::default();
        dialect.read_ends(&self.head, end_of(&self.tail), &mut watch);
        watch
    }

    fn tell(&self, dialect: &dyn Dialect, watch: &mut Watch) {
        dialect.watch_ends(&Event::read(&self.head), end_of(&self.tail), watch);
    }
}

fn end_of(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(TAIL)..]
}
