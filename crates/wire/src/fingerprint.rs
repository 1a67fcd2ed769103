//! The key under which identical calls share one flight and cached answers.
//!
//! [`Peek::shared`] reads a body as [`Peek::of`] does, and in the same pass finds out whether the call may be
//! shared at all and, if so, what it means: a digest of its canonical form. [`Fingerprint::of`] joins that with
//! what else can change the answer: the protocol, the model that answers, the account that pays, the caller's
//! scope, the headers that choose an API's behaviour, the query.
//!
//! Promises: two calls with one fingerprint say the same but for spelling (order of members, white space,
//! escapes, `1` or `1.0`) and the few fields that a protocol's [`Rules`] leave out. Where the two are not surely
//! the same they differ: a false difference costs one call, a false likeness is a wrong answer. Parts are framed
//! by their length, so that none can pose as another.
//!
//! Not here: whether a caller asked for a shared answer (`Cache-Control`), what becomes of the answer, and a
//! body whose answers are opaque to the gate: dialects without rules share nothing.

mod canon;
mod form;
mod respell;
mod rules;

use std::hash::{Hash, Hasher};

use http::HeaderMap;
use http::header::HeaderName;
use smallvec::SmallVec;

pub(crate) use canon::Listener;
pub use form::Scratch;
pub use rules::Rules;
pub(crate) use rules::{CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES};

#[cfg(doc)]
use crate::peek::Peek;

/// Changes whenever an equal call gets another fingerprint than before, or another call an equal one.
const VERSION: u8 = 1;

/// Headers that choose what an API does.
const HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    HeaderName::from_static("openai-beta"),
];
/// One more, whose values are a set, in any order and on any number of lines.
const BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// Whether a call's flight and answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Never, because of this field: it asks for state, for effects, or for knowledge from elsewhere.
    Never(&'static str),
    Allowed(Meaning),
}

/// What a body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    digest: [u8; 32],
    /// The caller asked for an answer without chance: temperature zero, a seed, embeddings.
    pub deterministic: bool,
}

/// What the answer depends on beside the body.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The dialect's name.
    pub dialect: &'a str,
    /// How the answer is translated, if it is.
    pub crossing: Option<[&'static str; 2]>,
    /// The model's name as the provider gets it.
    pub model: &'a str,
    /// The provider and its account.
    pub account: &'a [u8],
    /// Whose calls may be answered together.
    pub scope: &'a [u8],
    /// The caller's, of which those that choose an API's behaviour are read.
    pub headers: &'a HeaderMap,
    pub query: Option<&'a str>,
}

/// Stands for some bytes where equal ones have to be told from others, and can't be turned back into them.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    blake3::hash(bytes).into()
}

/// Equal for calls that may get one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// A digest is as good as random in each of its parts, so that a map need not look at all of it.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        state.write_u64(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
    }
}

impl Fingerprint {
    pub fn of(parts: &Parts<'_>, meaning: &Meaning) -> Fingerprint {
        let mut framed = Framed(SmallVec::new());
        framed.0.push(VERSION);
        framed.part(parts.dialect.as_bytes());
        framed.parts(parts.crossing.iter().flatten().map(|part| part.as_bytes()));
        framed.part(parts.model.as_bytes());
        framed.part(parts.account);
        framed.part(parts.scope);
        if parts.headers.keys().any(|name| HEADERS.contains(name) || *name == BETA) {
            for name in &HEADERS {
                let values = parts.headers.get_all(name);
                framed.parts(values.iter().map(|value| value.as_bytes()));
            }
            framed.parts(betas(parts.headers).into_iter());
        } else {
            // The same, as it is for most callers, without five searches in vain.
            (0..=HEADERS.len()).for_each(|_| framed.parts(std::iter::empty()));
        }
        framed.parts(parts.query.iter().map(|query| query.as_bytes()));
        framed.part(&meaning.digest);
        Fingerprint(blake3::hash(&framed.0).into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Parts, each after its length.
struct Framed(SmallVec<[u8; 512]>);

impl Framed {
    fn part(&mut self, part: &[u8]) {
        self.number(part.len());
        self.0.extend_from_slice(part);
    }

    /// Any number of parts; the end is marked.
    fn parts<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) {
        for part in parts {
            self.0.push(1);
            self.part(part);
        }
        self.0.push(0);
    }

    /// One byte, as nearly always, or a mark and eight.
    fn number(&mut self, number: usize) {
        match u8::try_from(number) {
            Ok(small) if small < u8::MAX => self.0.push(small),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend_from_slice(&(number as u64).to_le_bytes());
            }
        }
    }
}

/// The features that a caller of Anthropic's switched on, sorted, each once.
fn betas(headers: &HeaderMap) -> SmallVec<[&[u8]; 8]> {
    let lines = headers.get_all(BETA);
    let values = lines.iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let mut values: SmallVec<_> = values.map(<[u8]>::trim_ascii).filter(|value| !value.is_empty()).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests;
