//! A caller that behaves as an official SDK does: the same retries, waits, headers and timeouts, plain and streaming.
//!
//! What is seen of a call is written down while it happens, so that a call that is given up has a history too.
//! Not here: when calls are made ([`crate::load`]) and what becomes of what was seen ([`crate::record`]).

pub mod answer;
pub mod sdk;

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::web::Http;
use answer::{Read, Said, Stream};
use sdk::{Came, Next, Protocol, Sdk, Timeout};

const ANTHROPIC_VERSION: &str = "2026-10-21";
/// Anthropic's SDKs insist on a limit.
const MAX_TOKENS: u32 = 1024;

/// Where calls go, as the SDK would be told.
#[derive(Clone, Debug)]
pub struct Place {
    uri: Uri,
    headers: HeaderMap,
    fate: HeaderName,
}

impl Place {
    /// `base` is the SDK's base URL: OpenAI's ends in `/v1`, Anthropic's does not. Either is put right.
    pub fn new(sdk: &Sdk, base: &Url, key: &str, fate: HeaderName) -> Result<Place> {
        let text = base.as_str().trim_end_matches('/');
        let uri = match sdk.protocol {
            Protocol::OpenAi if base.path() == "/" => format!("{text}/v1/chat/completions"),
            Protocol::OpenAi => format!("{text}/chat/completions"),
            Protocol::Anthropic => format!("{}/v1/messages", text.trim_end_matches("/v1")),
        };
        let mut headers = HeaderMap::new();
        let agent = format!("sluicegate-lab/{} (as {})", env!("CARGO_PKG_VERSION"), sdk.name);
        headers.insert(USER_AGENT, agent.parse()?);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut bearer: HeaderValue = format!("Bearer {key}").parse().context("a key that is no text")?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        if sdk.protocol == Protocol::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        Ok(Place { uri: uri.parse()?, headers, fate })
    }

    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    pub fn request(&self, sdk: &Sdk, ask: &Ask, retried: u32) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::post(self.uri.clone()).body(Full::new(ask.body.clone()))?;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().extend(
            sdk.timeout_headers(ask.stream).map(|(name, value)| (HeaderName::from_static(name), value)),
        );
        request.headers_mut().insert("x-stainless-retry-count", retried.into());
        Ok(request)
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    pub body: Bytes,
    pub stream: bool,
}

impl Ask {
    pub fn new(protocol: Protocol, model: &str, prompt: &str, stream: bool) -> Ask {
        let mut body = json!({"model": model, "messages": [{"role": "user", "content": prompt}]});
        match protocol {
            Protocol::Anthropic => body["max_tokens"] = MAX_TOKENS.into(),
            Protocol::OpenAi if stream => body["stream_options"] = json!({"include_usage": true}),
            Protocol::OpenAi => {}
        }
        if stream {
            body["stream"] = true.into();
        }
        Ask { body: body.to_string().into(), stream }
    }
}

/// How a call ended, for its caller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Outcome {
    Ok,
    Status(u16),
    /// No connection, or it broke before the head of an answer.
    Connect,
    /// An answer that broke, or that is none.
    Broken,
    /// A stream without the sign of its end.
    Cut,
    /// A stream with an error in it.
    Error,
    /// The SDK's own timeout.
    Timeout,
    /// Nobody knows: it was not over when the laboratory stopped to look.
    #[default]
    Waiting,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Outcome::Status(status) => return write!(out, "{status}"),
            Outcome::Ok => "ok",
            Outcome::Connect => "connect",
            Outcome::Broken => "broken",
            Outcome::Cut => "cut",
            Outcome::Error => "error",
            Outcome::Timeout => "timeout",
            Outcome::Waiting => "waiting",
        })
    }
}

/// What was seen of a call.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub outcome: Outcome,
    pub attempts: u32,
    /// The first attempt.
    pub sent: Option<Instant>,
    /// Of the last attempt: the first bytes of a plain answer, the first content of a stream.
    pub first: Option<Instant>,
    /// Of the last attempt: when each piece of content came.
    pub pieces: Vec<Instant>,
    /// Of the last attempt: how long each piece was under way, where the provider says when it sent it.
    pub transits: Vec<Duration>,
    /// Before each retry.
    pub waits: Vec<Duration>,
    pub end: Option<Instant>,
    pub fate: Option<String>,
    pub read: Option<Read>,
}

/// How an attempt ended, with what the SDK decides by.
struct Ended {
    outcome: Outcome,
    head: HeaderMap,
    /// How far it came.
    at: Stage,
}

/// Where an attempt that failed did so.
#[derive(PartialEq)]
enum Stage {
    /// At the head, or with all that there was.
    Whole,
    /// In a plain answer, on its way.
    Part,
    /// In a stream: its caller has seen the beginning.
    Stream,
}

impl Ended {
    fn with(outcome: Outcome) -> Ended {
        Ended { outcome, head: HeaderMap::new(), at: Stage::Whole }
    }

    /// What the SDK sees of it; nothing if there is nothing to decide.
    fn came(&self) -> Option<Came<'_>> {
        match self.outcome {
            _ if self.at == Stage::Stream => None,
            Outcome::Status(status) => Some(Came::Error(StatusCode::from_u16(status).ok()?, &self.head)),
            Outcome::Connect => Some(Came::Nothing),
            Outcome::Broken | Outcome::Timeout if self.at == Stage::Part => Some(Came::Part),
            Outcome::Timeout => Some(Came::Nothing),
            _ => None,
        }
    }
}

/// Callers of one SDK with one pool of connections.
#[derive(Clone)]
pub struct Client {
    pub http: Http,
    pub sdk: Sdk,
}

impl Client {
    /// Makes a call to its end. `random` gives numbers in 0..1.
    pub async fn call(&self, place: &Place, ask: &Ask, seen: &mut Seen, mut random: impl FnMut() -> f64) {
        loop {
            let retried = seen.attempts;
            let ended = self.attempt(place, ask, seen).await;
            seen.end = Some(Instant::now());
            seen.outcome = ended.outcome;
            let Some(came) = ended.came() else { return };
            match self.sdk.next(came, retried, SystemTime::now(), random()) {
                Next::Done => return,
                Next::Retry(wait) => {
                    // Whoever stops to look now sees a caller who waits.
                    seen.outcome = Outcome::Waiting;
                    seen.waits.push(wait);
                    sleep(wait).await;
                }
            }
        }
    }

    async fn attempt(&self, place: &Place, ask: &Ask, seen: &mut Seen) -> Ended {
        let retried = seen.attempts;
        seen.attempts += 1;
        seen.sent.get_or_insert_with(Instant::now);
        (seen.first, seen.fate) = (None, None);
        seen.pieces.clear();
        seen.transits.clear();
        let Ok(request) = place.request(&self.sdk, ask, retried) else {
            return Ended::with(Outcome::Connect);
        };
        let response = match timeout(self.sdk.patience, self.http.request(request)).await {
            Err(_) => return Ended::with(Outcome::Timeout),
            Ok(Err(_)) => return Ended::with(Outcome::Connect),
            Ok(Ok(response)) => response,
        };
        let fate = response.headers().get(&place.fate);
        seen.fate = fate.map(|fate| String::from_utf8_lossy(fate.as_bytes()).into_owned());
        match response.status().as_u16() {
            200..300 if ask.stream => {
                Ended { at: Stage::Stream, ..Ended::with(self.stream(response, seen).await) }
            }
            200..300 => self.plain(response, seen).await,
            status => self.refused(status, response).await,
        }
    }

    /// The next bytes of a body, under the SDK's timeout: `None` at its end.
    async fn piece(&self, body: &mut Incoming) -> Result<Option<Bytes>, Outcome> {
        loop {
            let frame = match self.sdk.timeout {
                Timeout::EachWait => {
                    timeout(self.sdk.patience, body.frame()).await.map_err(|_| Outcome::Timeout)?
                }
                Timeout::Head => body.frame().await,
            };
            match frame {
                None => return Ok(None),
                Some(Err(_)) => return Err(Outcome::Broken),
                // Trailers are nobody's content.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
            }
        }
    }

    async fn plain(&self, response: Response<Incoming>, seen: &mut Seen) -> Ended {
        let mut body = response.into_body();
        let mut whole = Vec::new();
        loop {
            match self.piece(&mut body).await {
                Ok(Some(piece)) => {
                    seen.first.get_or_insert_with(Instant::now);
                    whole.extend_from_slice(&piece);
                }
                Ok(None) => break,
                Err(outcome) => return Ended { at: Stage::Part, ..Ended::with(outcome) },
            }
        }
        let (is_answer, read) = answer::plain(self.sdk.protocol, &whole);
        seen.read = read;
        Ended::with(if is_answer { Outcome::Ok } else { Outcome::Broken })
    }

    /// Nothing that goes wrong in a stream is tried again: its caller has seen the beginning.
    async fn stream(&self, response: Response<Incoming>, seen: &mut Seen) -> Outcome {
        let mut body = response.into_body();
        let mut stream = Stream::new(self.sdk.protocol);
        let (mut ended, mut failed) = (false, false);
        loop {
            let piece = match self.piece(&mut body).await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // What comes after the sign of the end is nobody's loss.
                Err(_) if ended => break,
                Err(Outcome::Timeout) => return Outcome::Timeout,
                Err(_) => return Outcome::Cut,
            };
            let now = Instant::now();
            let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            stream.feed(&piece, |said| match said {
                Said::Content(sent) => {
                    seen.pieces.push(now);
                    seen.transits.extend(sent.map(|sent| today.saturating_sub(Duration::from_micros(sent))));
                }
                Said::End => ended = true,
                Said::Error => failed = true,
                Said::Other => {}
            });
            seen.first = seen.pieces.first().copied();
            seen.read = stream.read;
            if failed {
                return Outcome::Error;
            }
        }
        if ended { Outcome::Ok } else { Outcome::Cut }
    }

    async fn refused(&self, status: u16, response: Response<Incoming>) -> Ended {
        let (head, mut body) = response.into_parts();
        // Read to its end, so that the connection can be used again.
        while let Ok(Some(_)) = self.piece(&mut body).await {}
        Ended { head: head.headers, ..Ended::with(Outcome::Status(status)) }
    }
}

#[cfg(test)]
mod tests;
