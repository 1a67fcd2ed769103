//! A call whose client and provider speak different protocols.
//!
//! What is translated is the flight, not the call: the request when the flight departs, the answer before it is
//! written on the tape. So it is done once for all who are aboard, and everything behind the tape (form, cache,
//! usage, the log) sees the client's protocol alone.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header, response};
use wire::edit::Edits;
use wire::provider::Credential;
use wire::translate::{Crossing, Destination, Reply, Stream};

use crate::gateway::Provider;
use crate::refusal::Refusal;
use crate::stage::up::remove_where;
use crate::upstream::Upload;

const DROPPED: HeaderName = HeaderName::from_static("x-sluicegate-dropped");
/// Asked for where the client set no limit and the provider needs one. Thinking counts towards it.
const DEFAULT_LIMIT: u64 = 32_000;
/// The list of dropped names is cut there: clients bound an answer's head.
const LONGEST_LIST: usize = 1024;

/// A client's request that is to be translated.
pub(crate) struct Passage {
    pub(crate) crossing: Crossing,
    /// As it came.
    pub(crate) body: Bytes,
    /// The model, by the provider's name for it.
    pub(crate) model: Box<str>,
    /// To whom it is said.
    pub(crate) provider: Arc<Provider>,
    /// When the call came, in seconds since 1970.
    pub(crate) created: u64,
    /// The call's id, for an answer that has none.
    pub(crate) id: String,
    /// Headers that meant something to the client's protocol and were left behind.
    pub(crate) left: Vec<HeaderName>,
}

/// What the answer needs to be translated back.
pub(crate) struct Back {
    crossing: Crossing,
    reply: Reply,
    id: String,
    dropped: Option<HeaderValue>,
    /// The gate's own, which went up with the request.
    key: Option<Credential>,
}

/// Takes out the headers of the client's own protocol, and what its SDK says of itself to its own vendor. Returns
/// those that asked for something.
pub(crate) fn leave_behind(headers: &mut HeaderMap, crossing: &Crossing) -> Vec<HeaderName> {
    let begins = |name: &HeaderName, prefixes: &[&str]| {
        prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    // Every request of a protocol has its version, which asks for nothing that another one could give.
    let asks =
        |name: &&HeaderName| begins(name, crossing.foreign_headers()) && !name.as_str().ends_with("-version");
    let left: Vec<HeaderName> = headers.keys().filter(asks).cloned().collect();
    remove_where(headers, |name| {
        *name == header::COOKIE || begins(name, crossing.foreign_headers()) || begins(name, &["x-stainless-"])
    });
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    left
}

impl Passage {
    /// Gives `request` its body, in the provider's words.
    pub(crate) fn embark(self, request: &mut Request<Upload>) -> Result<Back, Refusal> {
        let Passage { crossing, body, model, provider, created, id, left } = self;
        let kind = provider.config.kind;
        let to = Destination {
            model: &model,
            ask_usage: kind.ask_usage,
            default_limit: DEFAULT_LIMIT,
            old_limit: kind.old_limit,
            replays_thoughts: kind.replays_thoughts,
        };
        let put = crossing.request(&body, &to)?;
        let body = Bytes::from(put.body);
        *request.body_mut() = Upload::Slices(Box::new(Edits::default().apply(&body)));
        let names = put.dropped.names().chain(left.iter().map(HeaderName::as_str));
        let dropped = list(names);
        Ok(Back {
            crossing,
            reply: Reply { created, id: id.clone(), names: put.names },
            id,
            dropped,
            key: provider.credential.clone(),
        })
    }
}

impl Back {
    /// Makes the head of a provider's answer one in the client's words, and tells what the request lost.
    pub(crate) fn head(&self, head: &mut response::Parts) {
        head.headers.remove(header::CONTENT_LENGTH);
        if let Some(dropped) = &self.dropped {
            head.headers.append(DROPPED, dropped.clone());
        }
    }

    /// A whole answer in the client's words.
    pub(crate) fn answer(&self, head: &mut response::Parts, body: &Bytes) -> Result<Bytes, Refusal> {
        let told = self.crossing.answer(head.status.as_u16(), body, &self.reply, &self.id);
        let told = told.ok_or_else(|| Refusal::Upstream {
            cause: "its answer is none of its own protocol and can't be translated".to_owned(),
        })?;
        head.status = StatusCode::from_u16(told.status).unwrap_or(head.status);
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(lost) = list(told.lost.names()) {
            head.headers.append(DROPPED, lost);
        }
        // The provider may have quoted the key that it was shown.
        let quoted = |key: &Credential| key.hidden_in(std::str::from_utf8(&told.body).ok()?);
        let hidden = (!head.status.is_success()).then(|| self.key.as_ref().and_then(quoted)).flatten();
        Ok(hidden.map_or_else(|| told.body.into(), Bytes::from))
    }

    /// A stream in the client's words.
    pub(crate) fn stream(&self) -> Stream {
        self.crossing.stream(self.reply.clone())
    }
}

/// Names, comma-separated, if there are any.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<HeaderValue> {
    let mut list = String::new();
    for name in names {
        if list.len() + name.len() > LONGEST_LIST {
            continue;
        }
        if !list.is_empty() {
            list.push_str(", ");
        }
        // A client can name a field as it likes; a header takes only so much.
        list.extend(
            name.chars().map(|letter| if letter.is_ascii_graphic() && letter != ',' { letter } else { '?' }),
        );
    }
    (!list.is_empty()).then(|| HeaderValue::from_str(&list).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_names_make_one_header_whatever_they_are() {
        assert_eq!(list(std::iter::empty()), None);
        assert_eq!(list(["seed", "logit_bias"].into_iter()).unwrap(), "seed, logit_bias");
        assert_eq!(list(["a,b\r\nx: y", "ü"].into_iter()).unwrap(), "a?b??x:?y, ?");
        let many = vec!["x".repeat(100); 100];
        assert!(list(many.iter().map(String::as_str)).unwrap().len() <= LONGEST_LIST + 20);
    }
}
