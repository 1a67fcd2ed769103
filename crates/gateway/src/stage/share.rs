//! Whether a call may share a flight with others, or take an answer that is kept, and under which key.

use std::cell::RefCell;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use wire::dialect::Dialect;
use wire::fingerprint::{Fingerprint, Parts, Scratch, Sharing};
use wire::peek::{Malformed, Peek};
use wire::provider::ClientCredential;
use wire::translate::Crossing;

use super::wishes::CacheWish;
use crate::gateway::{Provider, Snapshot};
use crate::kept::Rule;

/// How a call may be shared.
pub(crate) struct Share {
    pub(crate) key: Fingerprint,
    /// It may come aboard a running flight.
    pub(crate) joins: bool,
    /// It takes an answer that is kept.
    pub(crate) takes_kept: bool,
    /// No older than this.
    pub(crate) max_age: Option<Duration>,
    /// Which answers are kept for others.
    pub(crate) keep: Option<Rule>,
    /// The provider's call goes on when nobody waits for it any more.
    pub(crate) finish_abandoned: bool,
}

thread_local! {
    /// Kept, so that a key allocates nothing.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Peeks at a body and, where the call could be shared, finds out in the same pass what it means.
pub(crate) fn peek(
    snapshot: &Snapshot,
    dialect: &dyn Dialect,
    wish: &CacheWish,
    body: &Bytes,
) -> Result<(Peek, Option<Sharing>), Malformed> {
    match dialect.rules().filter(|_| snapshot.shares && !wish.no_store) {
        Some(rules) => SCRATCH.with_borrow_mut(|scratch| {
            Peek::shared(body, rules, scratch).map(|(peek, sharing)| (peek, Some(sharing)))
        }),
        None => Peek::of(body).map(|peek| (peek, None)),
    }
}

/// What a call is asked for, beside its body.
pub(crate) struct Asked<'a> {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) provider: &'a Provider,
    /// As the provider gets it.
    pub(crate) model: &'a str,
    pub(crate) client: Option<&'a ClientCredential>,
    pub(crate) headers: &'a HeaderMap,
    /// It is to have its effect once.
    pub(crate) once: bool,
    pub(crate) query: Option<&'a str>,
    /// The answer is translated.
    pub(crate) crossing: Option<&'a Crossing>,
}

impl Asked<'_> {
    /// How this call may be shared; none where it flies for its caller alone.
    pub(crate) fn share(&self, wish: &CacheWish, sharing: Option<Sharing>) -> Option<Share> {
        let Some(Sharing::Allowed(meaning)) = sharing else { return None };
        // Its caller reckons with effects, and tells its own repetitions from other calls.
        if self.once {
            return None;
        }
        let config = &self.provider.config;
        let keep = Rule::of(&config.cache, meaning.deterministic);
        let joins = config.coalesce.enabled;
        if keep.is_none() && !joins {
            return None;
        }
        // Whose answers are whose: those of a caller's own key are for that key alone.
        // Where the answer is translated the key does not go up, and nobody's account is asked.
        let goes_up = self.provider.credential.is_none() && self.crossing.is_none();
        let own = self.client.filter(|_| goes_up).map(ClientCredential::digest);
        let scope = own.as_ref().map_or(&[][..], |digest| digest);
        let parts = Parts {
            dialect: self.dialect.name(),
            crossing: self.crossing.map(Crossing::key),
            model: self.model,
            account: &self.provider.account,
            scope,
            headers: self.headers,
            query: self.query,
        };
        Some(Share {
            key: Fingerprint::of(&parts, &meaning),
            joins: joins && !wish.anew,
            takes_kept: keep.is_some() && !wish.anew,
            max_age: wish.max_age,
            keep,
            finish_abandoned: config.coalesce.finish_abandoned && keep.is_some(),
        })
    }
}
