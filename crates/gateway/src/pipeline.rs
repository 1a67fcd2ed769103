//! A request from top to bottom. A stage that is not named in `pass` does not exist.
//!
//! `serve` belongs to the client's connection. What it starts, a flight (`attempt`), belongs to the provider's
//! side: while one caller waits for it, that caller polls it, and dropping the caller drops the flight.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use guard::lanes::Ticket;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header, response};
use hyper::body::Incoming;
use wire::dialect::{Dialect, Route, Routed, Shape, route};
use wire::edit::Edits;
use wire::peek::Peek;
use wire::provider::take_credentials;
use wire::relay::{Relay, Watch};

use crate::attempt::{Flight, Flown, Landed, Plan, fly};
use crate::call::Call;
use crate::config::{Config, Limit};
use crate::gateway::{Gateway, Provider, Timings, hash_of};
use crate::net::door;
use crate::net::flow::{self, Flow};
use crate::net::life::Step;
use crate::net::reply::ReplyBody;
use crate::observe::Fate;
use crate::refusal::Refusal;
use crate::stage::wishes::Wishes;
use crate::stage::{admit, body, down, models, target, up};
use crate::upstream::Upload;
use crate::upstream::exchange::Patience;

/// What `pass` comes to.
enum Passed {
    /// The provider has answered.
    Landed(Flown, Aloft),
    /// It is a stream, and the provider has been silent for so long that the client needs a sign of life.
    Silent(Flight, Aloft),
    /// The gate answers by itself.
    Local(StatusCode, HeaderMap, Bytes),
}

/// What is known of a call once it has a flight.
struct Aloft {
    dialect: &'static dyn Dialect,
    provider: Arc<Provider>,
    timings: Arc<Timings>,
    patience: Patience,
    keep_alive: Duration,
    /// The gate asked for usage that the caller did not ask for.
    strip_usage: bool,
    accepts: Option<http::HeaderValue>,
}

/// Answers one request.
pub(crate) async fn serve(
    gate: Arc<Gateway>,
    door: Arc<door::Watch>,
    request: Request<Incoming>,
) -> Response<ReplyBody> {
    let framing = door.serve();
    let (head, body) = request.into_parts();
    let mut call = Call::arrive(gate, door, &head);
    let config = call.gate.snapshot().config.clone();
    let origin = head.headers.get(header::ORIGIN).cloned();
    let mut shape = shape_of(&head.headers, head.uri.path());
    let outcome = match pass(&mut call, &mut shape, head, body, framing).await {
        Ok(Passed::Landed(flown, aloft)) => deliver(call, flown, aloft),
        Ok(Passed::Silent(flight, aloft)) => Ok(open_silent(call, flight, aloft)),
        Ok(Passed::Local(status, headers, bytes)) => Ok(local(call, shape, status, headers, bytes)),
        Err(refusal) => Err((call, refusal)),
    };
    let mut response = outcome.unwrap_or_else(|(call, refusal)| refuse(call, shape, &refusal));
    if let Some(origin) = origin {
        admit::cors_headers(&config, &origin, response.headers_mut());
    }
    response
}

/// Every stage of a call, in order, up to the answer's head.
async fn pass(
    call: &mut Box<Call>,
    shape: &mut Shape,
    mut head: Parts,
    mut body: Incoming,
    framing: Option<&'static str>,
) -> Result<Passed, Refusal> {
    let gate = call.gate.clone();
    let snapshot = gate.snapshot();
    let config = &snapshot.config;

    // Before the body is read: what the head alone decides.
    let path = head.uri.path().to_owned();
    let routed = look_at_head(&gate, config, &head, &path, framing);
    let (wishes, route) = match routed.and_then(|route| Ok((Wishes::of(&head.headers)?, route))) {
        Ok((mut wishes, Some(route))) => {
            call.record.tags = std::mem::take(&mut wishes.tags);
            (wishes, route)
        }
        Ok((_, None)) => {
            return Ok(Passed::Local(StatusCode::NO_CONTENT, admit::preflight(&head.headers), Bytes::new()));
        }
        Err(refusal) => {
            // A body whose length can be read in two ways is not read at all.
            if framing.is_none() {
                Box::pin(body::discard(&mut body, config.max_body)).await;
            }
            return Err(refusal);
        }
    };
    let dialect = route.dialect;
    *shape = dialect.shape();
    call.record.protocol = dialect.name();
    let (client, query) = take_credentials(&mut head.headers, head.uri.query());

    // A list of models is nobody's alone where there are several providers.
    if let Some(id) = models_id(&route) {
        *shape = shape_of(&head.headers, head.uri.path());
        let own = match id {
            "" if snapshot.providers.len() > 1 => {
                Some(Box::pin(models::list(&snapshot, *shape, &client, &head.headers)).await?)
            }
            id => models::alias(&snapshot, id, *shape),
        };
        if let Some(own) = own {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            return Ok(Passed::Local(StatusCode::OK, headers, own));
        }
    }

    // The body, and the few fields of it that the gate acts on.
    let ask = Ask::take(dialect, &head, body, config.max_body, call.door()).await?;
    let target = target::choose(&snapshot, &route, ask.model().or(models_id(&route)))?;
    let provider = target.provider;
    let model = target.model.as_deref().or(ask.model());
    call.goes_to(&provider, model);
    call.record.fate = if wishes.cache.no_store || !dialect.reads_body() { Fate::Bypass } else { Fate::Miss };
    if wishes.cache.only_if_cached {
        return Err(Refusal::NotCached);
    }
    let credential = up::credential(&provider, &client)?;

    // On its way up: the client's bytes but for the edits.
    let streams = ask.streams();
    let timings = provider.standing.timings(model.unwrap_or_default());
    let patience = patience(call, &provider, &timings, &wishes, streams);
    let accepts = head.headers.get(header::ACCEPT_ENCODING).cloned();
    let queue_key = client.as_ref().filter(|_| provider.credential.is_none()).map_or(0, hash_of);
    let (upload, strip_usage) =
        ask.edit(dialect, &provider, target.model.as_deref(), config.usage_on_streams);
    up::strip(&mut head.headers);
    up::address(&mut head.headers, &provider);
    up::seal(&mut head.headers, &provider, credential.as_ref());
    let op = target.op.as_deref().unwrap_or(route.op);
    let mut request = Request::new(upload);
    *request.method_mut() = head.method;
    *request.uri_mut() = up::uri(&provider, op, query.as_deref())?;
    *request.headers_mut() = head.headers;

    // The flight.
    let plan = Plan {
        provider: provider.clone(),
        timings: timings.clone(),
        request,
        ticket: Ticket {
            key: queue_key,
            priority: wishes.priority.unwrap_or_default(),
            deadline: Some(patience.end()),
        },
        patience,
    };
    let aloft =
        Aloft { dialect, provider, timings, patience, keep_alive: config.keep_alive, strip_usage, accepts };
    let mut flight: Flight = Box::pin(fly(plan));
    let waited = if streams && dialect.is_generation() {
        Box::pin(tokio::time::timeout(config.keep_alive, unless_cut(call, &mut flight))).await.ok()
    } else {
        Some(unless_cut(call, &mut flight).await)
    };
    match waited {
        Some(flown) => Ok(Passed::Landed(flown?, aloft)),
        None => Ok(Passed::Silent(flight, aloft)),
    }
}

/// The model that a request about models names; empty for all of them.
fn models_id<'a>(route: &Route<'a>) -> Option<&'a str> {
    let id = route
        .op
        .strip_prefix("/models")
        .filter(|_| route.to.is_none() && route.dialect.name() == "models")?;
    Some(id.strip_prefix('/').unwrap_or(id))
}

/// The stages that need no more than the head. `None` is a browser's preflight.
fn look_at_head<'a>(
    gate: &Gateway,
    config: &Config,
    head: &Parts,
    path: &'a str,
    framing: Option<&'static str>,
) -> Result<Option<Route<'a>>, Refusal> {
    if let Some(complaint) = framing {
        return Err(Refusal::Malformed { message: complaint.to_owned(), param: None });
    }
    if gate.life.step() >= Step::Draining {
        return Err(Refusal::Draining);
    }
    admit::admit(config, head)?;
    if admit::is_preflight(head) {
        return Ok(None);
    }
    if head.headers.contains_key(header::UPGRADE) || head.method == Method::CONNECT {
        return Err(Refusal::Upgrade);
    }
    match route(&head.method, path, head.headers.contains_key("anthropic-version")) {
        Routed::Found(route) => Ok(Some(route)),
        Routed::Later => Err(Refusal::NotBuilt),
        Routed::Unknown => Err(Refusal::PathUnknown),
    }
}

/// What the caller asks of the provider: bytes, and where in them the few fields are.
enum Ask {
    Json { body: Bytes, peek: Peek },
    Opaque { body: Option<Incoming>, limit: usize },
}

impl Ask {
    async fn take(
        dialect: &'static dyn Dialect,
        head: &Parts,
        mut body: Incoming,
        limit: usize,
        door: Option<&door::Watch>,
    ) -> Result<Ask, Refusal> {
        if !dialect.reads_body() {
            let too_large = http_body::Body::size_hint(&body).lower() > limit as u64;
            if too_large {
                Box::pin(body::discard(&mut body, limit)).await;
                return Err(Refusal::TooLarge { limit });
            }
            let body = (!http_body::Body::is_end_stream(&body)).then_some(body);
            return Ok(Ask::Opaque { body, limit });
        }
        let body = body::whole(body, limit, door).await?;
        if let Some(encoding) = head.headers.get(header::CONTENT_ENCODING)
            && encoding != "identity"
        {
            let message = "an encoded request body is not supported; send it as it is".to_owned();
            return Err(Refusal::Malformed { message, param: Some("content-encoding".to_owned()) });
        }
        let peek = Peek::of(&body)?;
        Ok(Ask::Json { body, peek })
    }

    fn model(&self) -> Option<&str> {
        match self {
            Ask::Json { peek, .. } => peek.model.as_ref().map(|model| &*model.value),
            Ask::Opaque { .. } => None,
        }
    }

    fn streams(&self) -> bool {
        matches!(self, Ask::Json { peek, .. } if peek.streams())
    }

    /// The bytes that go up, and whether the usage that comes down must be taken out again.
    fn edit(
        self,
        dialect: &'static dyn Dialect,
        provider: &Provider,
        model: Option<&str>,
        usage_on_streams: bool,
    ) -> (Upload, bool) {
        match self {
            Ask::Opaque { body: None, .. } => (Upload::empty(), false),
            Ask::Opaque { body: Some(body), limit } => (Upload::Stream { body, left: limit as u64 }, false),
            Ask::Json { body, peek } => {
                let mut edits = Edits::default();
                if let Some(model) = model {
                    edits.model(&peek, model);
                }
                let strip = usage_on_streams
                    && provider.config.kind.ask_usage
                    && peek.streams()
                    && dialect.ask_usage(&peek, &mut edits);
                (Upload::Slices(edits.apply(&body)), strip)
            }
        }
    }
}

/// How long this call waits, and for what: the configuration's limits or what was learned, never longer than
/// the caller wants.
fn patience(call: &Call, provider: &Provider, timings: &Timings, wishes: &Wishes, streams: bool) -> Patience {
    let limits = &provider.config.timeouts;
    let first_byte = match limits.first_byte {
        Limit::Learned => timings.first_byte_limit(),
        Limit::Fixed(wait) => wait,
    };
    let stall = match limits.stall {
        Limit::Learned => timings.stall_limit(),
        Limit::Fixed(wait) => wait,
    };
    let sooner = |ours: Duration, asked: Option<Duration>| match asked {
        Some(asked) if asked < ours => (asked, true),
        _ => (ours, false),
    };
    let (total, _) = sooner(limits.total, wishes.timeout);
    let (total, _) = sooner(total, wishes.sdk_timeout.filter(|_| !streams));
    let (first_byte, callers_first_byte) =
        sooner(first_byte, [wishes.sdk_timeout, wishes.read_timeout].into_iter().flatten().min());
    let (stall, callers_stall) = sooner(stall, wishes.read_timeout);
    Patience {
        arrived: call.arrived,
        total,
        connect: limits.connect,
        first_byte,
        stall,
        callers_first_byte,
        callers_stall,
    }
}

/// Waits for `flight`, unless the gate goes down first.
async fn unless_cut(call: &mut Call, flight: &mut Flight) -> Result<Flown, Refusal> {
    poll_fn(|cx| {
        if let Some(moves) = &mut call.moves {
            moves.poll_step(cx, &call.gate.life);
        }
        if call.gate.life.step() >= Step::Cut {
            return Poll::Ready(Err(Refusal::Cut));
        }
        Pin::new(&mut *flight).poll(cx).map(Ok)
    })
    .await
}

type Delivered = Result<Response<ReplyBody>, (Box<Call>, Refusal)>;

/// Hands a flight's answer to the client, whole or as it comes.
fn deliver(mut call: Box<Call>, flown: Flown, aloft: Aloft) -> Delivered {
    call.record.queue = flown.queue;
    call.record.attempts = flown.attempts;
    let landed = match flown.outcome {
        Ok(landed) => landed,
        Err(refusal) => return Err((call, refusal)),
    };
    if let Some(encoding) = unreadable(&landed.head.headers, aloft.accepts.as_ref()) {
        return Err((call, Refusal::Encoding { encoding }));
    }
    call.record.first_byte = Some(landed.at.duration_since(call.arrived));
    call.before_upstream = landed.asked.duration_since(call.arrived);
    call.record.status = landed.head.status.as_u16();
    let Landed { head, pieces, rest, mut trial, .. } = landed;
    let response::Parts { status, mut headers, .. } = head;
    let events = is_events(&headers);
    down::strip(&mut headers);
    down::describe(&mut headers, &call, &aloft.provider, flown.queue);
    down::sign(&mut headers, &call, aloft.dialect.shape());
    let body = match rest {
        Some(rest) => {
            let relay = events.then(|| Relay::new(aloft.dialect, aloft.strip_usage));
            ReplyBody::Flow(Flow::coming(aloft.parts(call, relay), pieces, rest, trial))
        }
        None => {
            let bytes = joined(pieces);
            read_whole(&mut call, &aloft, status, events, &bytes);
            trial.answered(status, call.record.error.is_some());
            ReplyBody::whole(bytes, call)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Begins a stream for a client that has waited long enough without a sign of life.
fn open_silent(mut call: Box<Call>, flight: Flight, aloft: Aloft) -> Response<ReplyBody> {
    call.record.status = 200;
    let mut headers = HeaderMap::with_capacity(12);
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache"));
    call.record.attempts = 1;
    down::describe(&mut headers, &call, &aloft.provider, Duration::ZERO);
    down::sign(&mut headers, &call, aloft.dialect.shape());
    let relay = Relay::new(aloft.dialect, aloft.strip_usage);
    let mut response = Response::new(ReplyBody::Flow(Flow::waiting(aloft.parts(call, Some(relay)), flight)));
    *response.headers_mut() = headers;
    response
}

impl Aloft {
    fn parts(self, call: Box<Call>, relay: Option<Relay>) -> flow::Parts {
        flow::Parts {
            call,
            dialect: self.dialect,
            relay,
            patience: self.patience,
            keep_alive: self.keep_alive,
            timings: self.timings,
        }
    }
}

/// Books what a whole answer says of itself.
fn read_whole(call: &mut Call, aloft: &Aloft, status: StatusCode, events: bool, bytes: &Bytes) {
    let mut watch = Watch::default();
    if events {
        let mut relay = Relay::new(aloft.dialect, false);
        let mut sink = VecDeque::new();
        relay.feed(bytes.clone(), &mut sink);
        relay.finish(&mut sink);
        call.learned(relay.watch());
    } else if aloft.dialect.reads_body() || !status.is_success() {
        aloft.dialect.read_answer(bytes, &mut watch);
        call.learned(&watch);
    }
}

/// An answer that the gate makes by itself.
fn local(
    mut call: Box<Call>,
    shape: Shape,
    status: StatusCode,
    mut headers: HeaderMap,
    bytes: Bytes,
) -> Response<ReplyBody> {
    call.record.status = status.as_u16();
    call.record.fate = Fate::Bypass;
    down::sign(&mut headers, &call, shape);
    let mut response = Response::new(ReplyBody::whole(bytes, call));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Turns a call away, in the shape that its client reads.
fn refuse(mut call: Box<Call>, shape: Shape, refusal: &Refusal) -> Response<ReplyBody> {
    call.refused(refusal);
    let (status, mut headers, body) = refusal.render(shape, call.request_id());
    down::sign(&mut headers, &call, shape);
    if matches!(refusal, Refusal::Draining | Refusal::Cut | Refusal::SlowBody) {
        headers.insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    }
    let mut response = Response::new(ReplyBody::whole(body, call));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What a caller gets for a fault of ours. Its call has been settled.
pub(crate) fn after_panic(shape: Shape) -> Response<ReplyBody> {
    let (status, headers, body) = Refusal::Internal.render(shape, "");
    let mut response = Response::new(ReplyBody::Whole { left: Some(body), call: None });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The error shape for a request that may get no further than its head.
pub(crate) fn shape_of(headers: &HeaderMap, path: &str) -> Shape {
    if headers.contains_key("anthropic-version") || path.starts_with("/v1/messages") {
        Shape::Anthropic
    } else {
        Shape::OpenAi
    }
}

/// A body in one piece, copied only if it came in several.
fn joined(mut pieces: VecDeque<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop_front().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}

fn is_events(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
        && !headers.contains_key(header::CONTENT_ENCODING)
}

/// The encoding of an answer, if its caller did not say that it reads it.
fn unreadable(headers: &HeaderMap, accepts: Option<&http::HeaderValue>) -> Option<String> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().ok()?.trim().to_ascii_lowercase();
    let accepted = accepts.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let fits = accepted.split(',').any(|item| {
        let name = item.split(';').next().unwrap_or_default().trim();
        (name.eq_ignore_ascii_case(&encoding) || name == "*") && !item.replace(' ', "").ends_with(";q=0")
    });
    (!fits && encoding != "identity").then_some(encoding)
}
