//! Translation: a request of one protocol in the words of another, and the answer to it back.
//!
//! Each protocol is read into one canonical form ([`canon`]) and written from it; none knows another. What can't be
//! said is named: where it would change the answer the request is [`Unfit`], else the hint is [`Dropped`].
//!
//! Promises: the same request gives the same bytes, and a longer conversation begins with the bytes of the shorter
//! one. What is written is always JSON of its protocol's form, whatever came in; what a provider thinks of a conversation
//! that makes no sense is for the provider to say. A stream's translation does not depend
//! on where its bytes were cut, and ends well only if the provider ended it well.
//!
//! Not here: a clock or ids (they are arguments), and sharing: the answer is translated once, before anybody reads it.

pub mod canon;
mod caps;
mod chat;
mod claude_caps;
mod estimate;
mod free;
mod json;
mod messages;
mod names;
mod openai_caps;
mod tongue;

use bytes::BytesMut;

use self::canon::Item;
pub(crate) use self::chat::CHAT_TONGUE;
use self::free::Unwrap;
pub(crate) use self::messages::MESSAGES_TONGUE;
pub use self::names::Names;
pub use self::tongue::{Destination, Dropped, Reader, Reply, Tongue, Unfit, Writer};
use crate::dialect::Dialect;
use crate::sse::{Ends, Event};
use crate::watch::Usage;

/// Grows when the same answer is told in other words than before.
const VERSION: &str = "1";

/// The longest event of a provider's stream that is translated. One call's arguments come in many.
const LONGEST_EVENT: usize = 16 << 20;
/// The most text of a stream: some of it is held until the client may be told.
const MOST_TEXT: usize = 64 << 20;

/// Between a client's protocol and a provider's.
#[derive(Clone, Copy)]
pub struct Crossing {
    client: &'static dyn Tongue,
    provider: &'static dyn Tongue,
}

/// A request in the provider's words.
pub struct Put {
    /// Its body.
    pub body: Vec<u8>,
    /// Hints that were left out.
    pub dropped: Dropped,
    /// Tools that go by other names.
    pub names: Names,
}

/// A whole answer in the client's words.
pub struct Told {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Vec<u8>,
    /// What of the provider's answer has no place in the client's protocol.
    pub lost: Dropped,
}

/// About how many tokens of input a request has, for a client who asks a provider that does not count. None where
/// the protocol can't be read here.
pub fn estimate(client: &dyn Dialect, body: &[u8]) -> Option<Result<u64, Unfit>> {
    let said = client.tongue()?.read(body, &mut Dropped::default());
    Some(said.map(|said| estimate::input_tokens(&said)))
}

impl Crossing {
    /// From a client of one protocol to a provider of another. None where one of them can't be translated.
    pub fn between(client: &dyn Dialect, provider: &dyn Dialect) -> Option<Crossing> {
        Some(Crossing { client: client.tongue()?, provider: provider.tongue()? })
    }

    /// Tells the answers of this translation from others, for who keeps them.
    pub fn key(&self) -> [&'static str; 2] {
        [self.provider.op(), VERSION]
    }

    /// The path below `/v1` to which the provider's requests go.
    pub fn op(&self) -> &'static str {
        self.provider.op()
    }

    /// How headers begin that mean something to the client's protocol alone.
    pub fn foreign_headers(&self) -> &'static [&'static str] {
        self.client.headers()
    }

    /// A client's request in the provider's words.
    pub fn request(&self, body: &[u8], to: &Destination<'_>) -> Result<Put, Unfit> {
        let mut dropped = Dropped::default();
        let said = self.client.read(body, &mut dropped)?;
        let (body, names) = self.provider.write(&said, to, &mut dropped)?;
        Ok(Put { body, dropped, names })
    }

    /// A provider's whole answer in the client's words. None where a good status bears no answer.
    pub fn answer(&self, status: u16, body: &[u8], reply: &Reply, request_id: &str) -> Option<Told> {
        let mut lost = Dropped::default();
        if !(200..300).contains(&status) {
            let failure = self.provider.read_failure(status, body);
            let (status, body) = self.client.write_failure(&failure, request_id);
            return Some(Told { status, body, lost });
        }
        let items = free::unwrapped(self.provider.read_answer(body)?, &reply.names);
        for item in &items {
            if let Item::Lost { name } = item {
                lost.add(name.to_string());
            }
        }
        // An error inside a 200 is told with the status that it should have had.
        if let Some(Item::Failed(failure)) = items.iter().find(|item| matches!(item, Item::Failed(_))) {
            let (status, body) = self.client.write_failure(failure, request_id);
            return Some(Told { status, body, lost });
        }
        Some(Told { status, body: self.client.write_answer(&items, reply), lost })
    }

    /// A provider's stream in the client's words.
    pub fn stream(&self, reply: Reply) -> Stream {
        Stream {
            reader: self.provider.reader(),
            unwrap: Unwrap::new(&reply.names),
            mouth: Mouth { writer: self.client.writer(reply), over: false, usage: None },
            ends: Ends::default(),
            held: BytesMut::new(),
            text: 0,
        }
    }
}

/// A stream on its way from one protocol to another.
pub struct Stream {
    reader: Box<dyn Reader>,
    unwrap: Unwrap,
    mouth: Mouth,
    ends: Ends,
    /// The beginning of an event that is not finished.
    held: BytesMut,
    /// Bytes of text that have come.
    text: usize,
}

/// An event, or the whole, is longer than can be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider's stream is too long to be translated")]
pub struct TooLong;

impl Stream {
    /// Takes the next chunk and adds what it amounts to: whole events.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), TooLong> {
        let mut rest = chunk;
        while let Some(end) = self.ends.next(rest) {
            let (piece, more) = rest.split_at(end.length);
            rest = more;
            if self.held.is_empty() {
                self.event(piece, out);
            } else {
                self.held.extend_from_slice(piece);
                let whole = self.held.split();
                self.event(&whole, out);
            }
        }
        if !self.mouth.over {
            self.held.extend_from_slice(rest);
        }
        let fits = self.held.len() <= LONGEST_EVENT && self.text <= MOST_TEXT;
        if fits { Ok(()) } else { Err(TooLong) }
    }

    /// Takes the clean end of the provider's stream.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let rest = self.held.split();
        if !rest.is_empty() {
            self.event(&rest, out);
        }
        let Stream { reader, unwrap, mouth, .. } = self;
        reader.end(&mut |item| unwrap.item(item, &mut |item| mouth.say(item, out)));
    }

    /// What the provider has counted until now; a client may have been told less, or zeros in its stead.
    pub fn usage(&self) -> Option<Usage> {
        self.mouth.usage
    }

    fn event(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let Stream { reader, unwrap, mouth, text, .. } = self;
        reader.event(&Event::read(raw), &mut |item| {
            if let Item::Delta { text: more, .. } = &item {
                *text += more.len();
            }
            unwrap.item(item, &mut |item| mouth.say(item, out));
        });
    }
}

/// The side of a stream that speaks to the client.
struct Mouth {
    writer: Box<dyn Writer>,
    /// It failed or ended: nothing more is said.
    over: bool,
    usage: Option<Usage>,
}

impl Mouth {
    fn say(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        if self.over {
            return;
        }
        if let Item::Usage(usage) = item {
            self.usage = Some(*usage);
        }
        self.writer.item(item, out);
        self.over = matches!(item, Item::Failed(_) | Item::End);
    }
}
