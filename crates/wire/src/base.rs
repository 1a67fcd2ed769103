//! A provider's address, and the one place where it is joined with the path of a request.
//!
//! Promises: the URL that a provider's own SDK takes is taken here, with and without its `/v1`; what was meant
//! otherwise is put right with a warning, never silently; a request's target has no doubled slash or version and
//! keeps the query of the address; an address that would send secrets in the clear through public networks is
//! refused, as is one that bears a secret itself, and no message repeats it.
//!
//! Not here: whether anybody answers there. Names are not looked up, so a name that is public by its form may
//! well lead to a private address.

mod reach;

use std::fmt;

use http::Uri;
use http::uri::PathAndQuery;
use url::{Host, Url};

use crate::provider::{Kind, Shape};
use reach::Reach;

/// Where a provider is.
#[derive(Clone, PartialEq)]
pub struct BaseUrl {
    https: bool,
    /// Without brackets.
    host: Box<str>,
    /// Scheme and authority alone.
    uri: Uri,
    authority: Box<str>,
    /// The path that all requests begin with, without a slash at its end.
    prefix: Box<str>,
    query: Option<Box<str>>,
    local: bool,
}

/// Why a text is no address of a provider. Says what to do, and repeats nothing that could be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadBase(&'static str);

const NO_URL: BadBase = BadBase("this is no URL: write it whole, as in `https://api.example.com/v1`");
const NO_HTTP: BadBase = BadBase("a base URL begins with https:// or http://");
const USER_INFO: BadBase =
    BadBase("the URL bears a user or password: take it out and set the secret as `api_key`");
const FRAGMENT: BadBase = BadBase("a base URL has no `#` part: take it out");
const IN_THE_CLEAR: BadBase =
    BadBase("http:// would carry keys and prompts readable through public networks: use https://");
const LINK_LOCAL: BadBase = BadBase(
    "no provider is at a link-local address: it belongs to the network or the cloud's metadata service",
);

/// Ends of a path that are an endpoint's wherever they stand.
const ENDPOINTS: [&str; 2] = ["/chat/completions", "/messages/count_tokens"];
/// Ends of a path that are an endpoint's right after a version, and may be a proxy's own elsewhere.
const VERSIONED_ENDPOINTS: [&str; 5] = ["/completions", "/embeddings", "/messages", "/models", "/responses"];
const VERSION: &str = "/v1";

impl BaseUrl {
    /// Reads the address of a provider of this kind. The second is a warning: the address was understood, but
    /// not as it was written.
    pub fn parse(text: &str, kind: &Kind) -> Result<(BaseUrl, Option<String>), BadBase> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(NO_URL);
        }
        let url = Url::parse(text).map_err(|_| NO_URL)?;
        let host = url.host().ok_or(NO_HTTP)?;
        let local = admit(&url, &host)?;
        let authority = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => return Err(NO_HTTP),
        };
        let (prefix, as_written) = prefix(url.path(), kind.shape);
        let warning = (!as_written).then(|| {
            format!(
                "the path `{}` is taken as `{prefix}`: a base URL ends where the endpoints begin",
                url.path()
            )
        });
        let base = BaseUrl {
            https: url.scheme() == "https",
            host: host.to_string().trim_matches(['[', ']']).into(),
            uri: Uri::try_from(format!("{}://{authority}", url.scheme())).map_err(|_| NO_URL)?,
            authority: authority.into(),
            prefix: prefix.into(),
            query: url.query().filter(|query| !query.is_empty()).map(Box::from),
            local,
        };
        // What passes here passes for every request.
        PathAndQuery::try_from(base.target(kind, "/", None)).map_err(|_| NO_URL)?;
        Ok((base, warning))
    }

    /// The path and query of a request for `op`, a path below the provider's `/v1` or one of those that this
    /// kind serves beside it.
    pub fn target(&self, kind: &Kind, op: &str, query: Option<&str>) -> String {
        let before = match &*self.prefix {
            prefix if kind.is_native(op) => prefix.strip_suffix(VERSION).unwrap_or(prefix),
            prefix => prefix,
        };
        let own = self.query.as_deref().unwrap_or_default();
        let query = query.unwrap_or_default();
        let mut target = String::with_capacity(before.len() + op.len() + own.len() + query.len() + 3);
        target.push_str(before);
        if !op.starts_with('/') {
            target.push('/');
        }
        target.push_str(op);
        let mut separator = '?';
        for query in [own, query] {
            if !query.is_empty() {
                target.push(separator);
                target.push_str(query);
                separator = '&';
            }
        }
        target
    }

    /// Scheme and authority: what a connection needs.
    pub fn uri(&self) -> Uri {
        self.uri.clone()
    }

    /// Name or address, an IPv6 one without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is reached through TLS.
    pub fn https(&self) -> bool {
        self.https
    }

    /// What the `Host` header says: IPv6 in brackets, the port only if it is not the scheme's own.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether it is on this machine or in a network of one's own, by its address or the form of its name.
    pub fn is_local(&self) -> bool {
        self.local
    }
}

/// The values of its query are left out: they may be secrets.
impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)?;
        for (index, pair) in self.query.iter().flat_map(|query| query.split('&')).enumerate() {
            let name = pair.split('=').next().unwrap_or_default();
            write!(f, "{}{name}=***", if index == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseUrl({self})")
    }
}

/// Whether a URL may be used, and if so, whether it is local.
fn admit(url: &Url, host: &Host<&str>) -> Result<bool, BadBase> {
    let https = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(NO_HTTP),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(USER_INFO);
    }
    if url.fragment().is_some() {
        return Err(FRAGMENT);
    }
    match Reach::of(host) {
        Reach::LinkLocal => Err(LINK_LOCAL),
        Reach::Public if !https => Err(IN_THE_CLEAR),
        reach => Ok(reach == Reach::Local),
    }
}

/// The path that requests begin with, and whether it is what was written but for a missing version and slashes
/// at the end.
fn prefix(written: &str, shape: Shape) -> (String, bool) {
    let segments = written.split('/').filter(|segment| !segment.is_empty());
    let whole: String = segments.flat_map(|segment| ["/", segment]).collect();
    let mut path = whole.as_str();
    while let Some(shorter) = without_endpoint(path).or_else(|| without_second_version(path)) {
        path = shorter;
    }
    let as_written = path == written.trim_end_matches('/');
    let versioned = match shape {
        Shape::OpenAi => !path.is_empty(),
        Shape::Anthropic => path.ends_with(VERSION),
    };
    (if versioned { path.to_owned() } else { format!("{path}{VERSION}") }, as_written)
}

fn without_endpoint(path: &str) -> Option<&str> {
    let anywhere = || ENDPOINTS.iter().find_map(|endpoint| path.strip_suffix(endpoint));
    let versioned = VERSIONED_ENDPOINTS.iter().find_map(|endpoint| path.strip_suffix(endpoint));
    versioned.filter(|path| path.ends_with(VERSION)).or_else(anywhere)
}

fn without_second_version(path: &str) -> Option<&str> {
    path.strip_suffix(VERSION).filter(|once| once.ends_with(VERSION))
}

#[cfg(test)]
mod tests;
