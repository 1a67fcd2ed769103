//! Whose secret goes up, and under which header.
//!
//! Promises: every form in which a client can bring a credential is recognised and taken out of what goes up,
//! also those that are not used; a secret can't be printed, and the headers that bear it are marked so that
//! neither logs nor HTTP/2's compression keep it.
//!
//! Not here: whether a credential is good. The gate's own keys are checked by the gateway, all others by their
//! provider.

use std::hash::{Hash, Hasher};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use url::form_urlencoded;

use super::{Auth, Kind};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_KEY: HeaderName = HeaderName::from_static("api-key");
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
const QUERY_KEY: &str = "key";

type Read = fn(HeaderValue) -> Option<Brought>;

/// The headers that bear credentials, the one that counts before others first, and how each is read.
static CARRIERS: [(HeaderName, Read); 4] =
    [(X_API_KEY, key), (AUTHORIZATION, authorization), (API_KEY, key), (X_GOOG_API_KEY, key)];

/// A secret that is ready to go up. It has neither `Debug` nor `Display`, so it can't be printed by accident.
#[derive(Clone)]
pub struct Credential {
    header: HeaderName,
    value: HeaderValue,
}

/// What a client brought along. Equal secrets have equal hashes, whatever form they came in.
pub struct ClientCredential(Brought);

enum Brought {
    /// The value of `Authorization`, scheme and all. It is passed as it came, also where the scheme is not one
    /// that we know.
    Authorization(HeaderValue),
    /// A bare key.
    Key(HeaderValue),
}

impl Credential {
    /// The key that an operator configured. `None` if it can't stand in a header.
    pub fn key(kind: &Kind, key: &str) -> Option<Credential> {
        let key = HeaderValue::from_str(key.trim()).ok().filter(|key| !key.is_empty())?;
        Some(ClientCredential(Brought::Key(key)).for_provider(kind))
    }

    fn new(header: HeaderName, mut value: HeaderValue) -> Credential {
        value.set_sensitive(true);
        Credential { header, value }
    }

    /// The text without the secret, where somebody has put it there.
    pub fn hidden_in(&self, text: &str) -> Option<String> {
        let value = std::str::from_utf8(self.value.as_bytes()).ok()?;
        let secret = value.strip_prefix("Bearer ").unwrap_or(value);
        text.contains(secret).then(|| text.replace(secret, "***"))
    }

    pub(super) fn put(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
    }
}

impl ClientCredential {
    /// This credential in the form that a provider takes.
    pub fn for_provider(&self, kind: &Kind) -> Credential {
        match (&self.0, kind.auth) {
            (Brought::Authorization(value), _) => Credential::new(AUTHORIZATION, value.clone()),
            (Brought::Key(key), Auth::ApiKeyOrBearer) => Credential::new(X_API_KEY, key.clone()),
            (Brought::Key(key), Auth::Bearer) => Credential::new(AUTHORIZATION, bearer(key)),
        }
    }

    /// Stands for the secret where equal ones have to be told from others, and can't be turned back into it.
    pub fn digest(&self) -> [u8; 32] {
        crate::fingerprint::digest(self.secret())
    }

    fn secret(&self) -> &[u8] {
        match &self.0 {
            Brought::Authorization(value) => token(value).unwrap_or(value.as_bytes()),
            Brought::Key(key) => key.as_bytes(),
        }
    }
}

impl Hash for ClientCredential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.secret().hash(state);
    }
}

/// Takes all credentials out of a request's headers and query, and says which one counts.
///
/// Of several it is `x-api-key`, as at Anthropic; then `Authorization`, `api-key`, `x-goog-api-key` and the
/// query's `key`. The query comes back without its credential and otherwise byte for byte.
pub fn take_credentials(
    headers: &mut HeaderMap,
    query: Option<&str>,
) -> (Option<ClientCredential>, Option<String>) {
    // One look at each name that is there costs less than a search for each that could be.
    let mut there = [false; CARRIERS.len()];
    for name in headers.keys() {
        for (there, (carrier, _)) in there.iter_mut().zip(&CARRIERS) {
            *there |= name == carrier;
        }
    }
    let mut brought = None;
    for (name, read) in there.iter().zip(&CARRIERS).filter_map(|(there, carrier)| there.then_some(carrier)) {
        let value = headers.remove(name);
        brought = brought.or_else(|| read(value?));
    }
    let (query_key, query) = query.map_or((None, None), split_query);
    (brought.or(query_key).map(ClientCredential), query)
}

fn key(value: HeaderValue) -> Option<Brought> {
    (!value.as_bytes().trim_ascii().is_empty()).then_some(Brought::Key(value))
}

/// An SDK without a key sends the scheme alone: that is no credential.
fn authorization(value: HeaderValue) -> Option<Brought> {
    let there = token(&value).unwrap_or(value.as_bytes().trim_ascii());
    (!there.is_empty()).then_some(Brought::Authorization(value))
}

fn split_query(query: &str) -> (Option<Brought>, Option<String>) {
    let mut key = None;
    let mut rest = String::with_capacity(query.len());
    let mut kept = 0;
    for pair in query.split('&') {
        // The name may be written with escapes, which the provider would read as we do.
        match form_urlencoded::parse(pair.as_bytes()).next() {
            Some((name, value)) if name == QUERY_KEY => key = key.or_else(|| bare_key(&value)),
            _ => {
                if kept > 0 {
                    rest.push('&');
                }
                rest.push_str(pair);
                kept += 1;
            }
        }
    }
    (key, (!rest.is_empty()).then_some(rest))
}

fn bare_key(text: &str) -> Option<Brought> {
    let key = HeaderValue::from_str(text.trim()).ok()?;
    (!key.is_empty()).then_some(Brought::Key(key))
}

/// What follows the word Bearer. `None` if the scheme is another one.
fn token(authorization: &HeaderValue) -> Option<&[u8]> {
    let value = authorization.as_bytes().trim_ascii();
    let (scheme, rest) = value.split_at_checked("bearer".len())?;
    let whole_word = rest.first().is_none_or(u8::is_ascii_whitespace);
    (whole_word && scheme.eq_ignore_ascii_case(b"bearer")).then(|| rest.trim_ascii())
}

fn bearer(key: &HeaderValue) -> HeaderValue {
    let mut value = b"Bearer ".to_vec();
    value.extend_from_slice(key.as_bytes());
    HeaderValue::from_maybe_shared(bytes::Bytes::from(value)).expect("a header's value with a word before it")
}

#[cfg(test)]
mod tests;
