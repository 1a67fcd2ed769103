//! A request from top to bottom. A stage that is not named in `serve` does not exist.
//!
//! `serve` belongs to the client's connection. What it starts, a flight (`attempt`), belongs to the provider's
//! side: while one caller waits for it, that caller polls it, and dropping the caller drops the flight.
//!
//! The stages between two waits are plain functions: what they need does not swell the future of every call.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use guard::lanes::Ticket;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::timeout;
use wire::dialect::{Dialect, Routed, Shape, plain_id, route};
use wire::provider::{ClientCredential, take_credentials};

use crate::answer::{Aloft, deliver, json_headers, local, open_silent, refuse};
use crate::attempt::{Flight, Flown, Plan, fly};
use crate::call::Call;
use crate::gateway::{Gateway, Snapshot, hash_of};
use crate::net::door;
use crate::net::life::Step;
use crate::net::reply::ReplyBody;
use crate::observe::Fate;
use crate::refusal::Refusal;
use crate::stage::ask::Ask;
use crate::stage::marks::Marks;
use crate::stage::patience::patience;
use crate::stage::wishes::Wishes;
use crate::stage::{admit, body, models, target, up};

/// Bytes of a refused request that are taken in, so that its sender gets to read why.
const MOST_DISCARDED: usize = 64 << 20;

/// What the head of a request decides.
struct Entered {
    snapshot: Arc<Snapshot>,
    head: Parts,
    dialect: &'static dyn Dialect,
    /// Where in the path the part below `/v1` begins.
    op_at: usize,
    /// The path names a provider.
    to: Option<Box<str>>,
    wishes: Wishes,
    client: Option<ClientCredential>,
    query: Option<String>,
}

/// Answers one request. Every stage of a call is in here, in order.
pub(crate) async fn serve(
    gate: Arc<Gateway>,
    door: Arc<door::Watch>,
    request: Request<Incoming>,
    marks: Marks,
    shape: Shape,
) -> Response<ReplyBody> {
    let framing = door.serve();
    let (head, mut body) = request.into_parts();
    let mut call = Call::arrive(gate, door, &head, marks, shape);

    // What the head alone decides, before a byte of the body is read.
    let entered = match enter(&mut call, head, marks, framing) {
        Ok(Entry::Call(entered)) => entered,
        Ok(Entry::Local(status, headers)) => return local(call, status, headers, Bytes::new()),
        Err(refusal) => {
            // A body whose length can be read in two ways is not read at all.
            if framing.is_none() && !marks.held_back {
                Box::pin(body::discard(&mut body, MOST_DISCARDED)).await;
            }
            return refuse(call, &refusal);
        }
    };
    if entered.models_id().is_some()
        && let Some(own) = Box::pin(models_of_ours(&call, &entered)).await
    {
        return match own {
            Ok(list) => local(call, StatusCode::OK, json_headers(), list),
            Err(refusal) => refuse(call, &refusal),
        };
    }

    // The body, and the few fields of it that the gate acts on.
    let limit = entered.snapshot.config.max_body;
    let ask = match Ask::take(entered.dialect, &entered.head, marks, body, limit, call.door()).await {
        Ok(ask) => ask,
        Err(refusal) => return refuse(call, &refusal),
    };

    // The flight: to one provider, with the client's bytes but for the edits.
    let (mut flight, aloft) = match depart(&mut call, entered, marks, ask) {
        Ok(departed) => departed,
        Err(turned_away) => {
            let (refusal, ask) = *turned_away;
            if !marks.held_back {
                Box::pin(ask.leave()).await;
            }
            return refuse(call, &refusal);
        }
    };
    let landed = match aloft.keep_alive {
        None => Some(unless_cut(&mut call, &mut flight).await),
        Some(after) => Box::pin(timeout(after, unless_cut(&mut call, &mut flight))).await.ok(),
    };

    // The answer, whole or as it comes.
    match landed {
        Some(Ok(flown)) => deliver(call, flown, aloft),
        Some(Err(refusal)) => refuse(call, &refusal),
        None => open_silent(call, flight, aloft),
    }
}

enum Entry {
    Call(Box<Entered>),
    /// The gate answers by itself.
    Local(StatusCode, HeaderMap),
}

/// The stages that need no more than the head.
fn enter(
    call: &mut Call,
    mut head: Parts,
    marks: Marks,
    framing: Option<&'static str>,
) -> Result<Entry, Refusal> {
    let snapshot = call.gate.snapshot();
    if let Some(complaint) = framing {
        return Err(Refusal::Malformed { message: complaint.to_owned(), param: None });
    }
    if call.gate.life.step() >= Step::Draining {
        return Err(Refusal::Draining);
    }
    call.cors = admit::admit(&snapshot.config, &head, marks)?;
    if marks.origin && admit::is_preflight(&head) {
        return Ok(Entry::Local(StatusCode::NO_CONTENT, admit::preflight(&head.headers)));
    }
    if marks.upgrade || head.method == Method::CONNECT {
        return Err(Refusal::Upgrade);
    }
    let path = head.uri.path();
    let anthropic = marks.anthropic_version;
    let route = match route(&head.method, path, anthropic) {
        Routed::Found(route) => route,
        Routed::Later => return Err(Refusal::NotBuilt),
        Routed::Unknown => return Err(Refusal::PathUnknown),
    };
    let (dialect, op_at, to) = (route.dialect, path.len() - route.op.len(), route.to.map(Box::from));
    call.shape = dialect.shape();
    call.record.protocol = dialect.name();
    let mut wishes = Wishes::of(&head.headers)?;
    call.record.tags = std::mem::take(&mut wishes.tags);
    let (client, query) = take_credentials(&mut head.headers, head.uri.query());
    Ok(Entry::Call(Box::new(Entered { snapshot, head, dialect, op_at, to, wishes, client, query })))
}

impl Entered {
    /// The path below `/v1`.
    fn op(&self) -> &str {
        &self.head.uri.path()[self.op_at..]
    }

    /// The model that a request about models names; empty for all of them.
    fn models_id(&self) -> Option<Cow<'_, str>> {
        if self.to.is_some() || self.dialect.name() != "models" {
            return None;
        }
        let id = self.op().strip_prefix("/models")?;
        Some(plain_id(id.strip_prefix('/').unwrap_or(id)))
    }
}

/// A flight on its way, and what its answer is handled with.
type Departed = (Flight, Box<Aloft>);

/// Chooses the provider and makes the request ready to go.
fn depart(
    call: &mut Call,
    entered: Box<Entered>,
    marks: Marks,
    mut ask: Ask,
) -> Result<Departed, Box<(Refusal, Ask)>> {
    prepare(call, entered, marks, &mut ask).map_err(|refusal| Box::new((refusal, ask)))
}

fn prepare(call: &mut Call, entered: Box<Entered>, marks: Marks, ask: &mut Ask) -> Result<Departed, Refusal> {
    let models_id = entered.models_id();
    let asked_for = ask.model().or(models_id.as_deref());
    let target = target::choose(&entered.snapshot, entered.dialect, entered.to.as_deref(), asked_for)?;
    let Entered { snapshot, mut head, dialect, op_at, wishes, client, query, .. } = *entered;
    let (config, provider) = (&snapshot.config, target.provider);
    let name = target.model.as_deref().or(ask.model());
    let model = provider.standing.model(name.unwrap_or_default());
    call.goes_to(&provider, &model, name);
    call.record.fate = if wishes.cache.no_store || !dialect.reads_body() { Fate::Bypass } else { Fate::Miss };
    if wishes.cache.only_if_cached {
        return Err(Refusal::NotCached);
    }
    let credential = up::credential(&provider, &client)?;
    let streams = ask.streams() && dialect.is_generation();
    let patience = patience(call, &provider, &model, &wishes, streams);
    let own_key = provider.credential.is_some();
    let ticket = Ticket {
        key: client.as_ref().filter(|_| !own_key).map_or(0, hash_of),
        priority: wishes.priority.unwrap_or_default(),
        deadline: Some(patience.end()),
    };

    // On its way up: the client's bytes and headers but for the edits.
    let accepts = marks.accept_encoding.then(|| head.headers.get(header::ACCEPT_ENCODING).cloned()).flatten();
    let (upload, strip_usage) =
        ask.edit(dialect, &provider, target.model.as_deref(), config.usage_on_streams);
    up::strip(&mut head.headers);
    up::address(&mut head.headers, &provider);
    up::seal(&mut head.headers, &provider, credential.as_ref());
    let op = target.op.as_deref().unwrap_or(&head.uri.path()[op_at..]);
    let head_only = head.method == Method::HEAD;
    let mut request = Request::new(upload);
    *request.uri_mut() = up::uri(&provider, op, query.as_deref())?;
    *request.method_mut() = head.method;
    *request.headers_mut() = head.headers;

    let keep_alive = streams.then_some(config.keep_alive);
    let plan = Plan { provider: provider.clone(), model: model.clone(), request, ticket, patience };
    let aloft = Aloft { dialect, provider, model, patience, strip_usage, accepts, head_only, keep_alive };
    Ok((Box::pin(fly(plan)), Box::new(aloft)))
}

/// A list of models, or an alias, that no single provider can answer for.
async fn models_of_ours(call: &Call, entered: &Entered) -> Option<Result<Bytes, Refusal>> {
    let (snapshot, shape) = (&entered.snapshot, call.shape);
    match &*entered.models_id()? {
        "" if snapshot.providers.len() > 1 => {
            Some(models::list(snapshot, shape, &entered.client, &entered.head.headers).await)
        }
        id => models::alias(snapshot, id, shape).map(Ok),
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
