//! A request from top to bottom. A stage that is not named in `serve` does not exist.
//!
//! `serve` belongs to the client's connection. What it starts, a flight (`attempt`), belongs to the provider's
//! side: while one caller waits for it, that caller polls it, and dropping the caller drops the flight.
//!
//! The stages between two waits are plain functions: what they need does not swell the future of every call.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use guard::lanes::{Party, Ticket};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};
use wire::dialect::{Dialect, Routed, Shape, plain_id, route};
use wire::provider::{ClientCredential, take_credentials};
use wire::translate::estimate;

use crate::admission::Admission;
use crate::answer::{Aloft, deliver, deliver_folded, json_headers, local, open_silent, refuse, replay};
use crate::attempt::Plan;
use crate::call::Call;
use crate::crossing::{Passage, leave_behind};
use crate::flight::{Aboard, Ending, Flight, Form, Head, Progress, Seat, Tape, board};
use crate::gateway::{Gateway, Snapshot, hash_of};
use crate::kept::Kept;
use crate::net::door;
use crate::net::life::Step;
use crate::net::reply::ReplyBody;
use crate::observe::{Event, Fate};
use crate::pump::{Manner, pump};
use crate::refusal::Refusal;
use crate::stage::ask::Ask;
use crate::stage::marks::Marks;
use crate::stage::patience::patience;
use crate::stage::share::{Asked, Share};
use crate::stage::wishes::Wishes;
use crate::stage::{admit, body, gate as process, models, target, up};
use crate::upstream::Upload;

/// Bytes of a refused request that are taken in, so that its sender gets to read why.
const MOST_DISCARDED: usize = 64 << 20;

/// Bytes of an answer that are held for those who come late; a longer one takes nobody more and is not kept.
const MOST_TAPED: usize = 16 << 20;

/// What the head of a request decides.
pub(crate) struct Entered {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) head: Parts,
    pub(crate) dialect: &'static dyn Dialect,
    /// Where in the path the part below `/v1` begins.
    op_at: usize,
    /// The path names a provider.
    to: Option<Box<str>>,
    pub(crate) wishes: Wishes,
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

    // The door of the whole process: nobody is past it for whom there is no room.
    if let Err(refusal) = process::pass(&mut call, &entered).await {
        if !marks.held_back {
            Box::pin(body::discard(&mut body, MOST_DISCARDED)).await;
        }
        return refuse(call, &refusal);
    }
    if entered.models_id().is_some()
        && let Some(own) = Box::pin(models_of_ours(&call, &entered)).await
    {
        return match own {
            Ok(list) => local(call, StatusCode::OK, json_headers(), list),
            Err(refusal) => refuse(call, &refusal),
        };
    }

    // The body, and the few fields of it that the gate acts on.
    let ask = match Ask::take(&entered, marks, body, call.door()).await {
        Ok(ask) => ask,
        Err(refusal) => return refuse(call, &refusal),
    };

    // A seat on a flight to one provider (with the client's bytes but for the edits), or an answer that is kept.
    let (mut seat, aloft) = match depart(&mut call, entered, marks, ask) {
        Ok(Departed::Aboard(seat, aloft)) => (seat, aloft),
        Ok(Departed::Kept(kept, body, aloft)) => return replay(call, &kept, body, &aloft),
        Ok(Departed::Counted(body)) => return local(call, StatusCode::OK, json_headers(), body),
        Err(turned_away) => {
            let (refusal, ask) = *turned_away;
            if !marks.held_back {
                Box::pin(ask.leave()).await;
            }
            return refuse(call, &refusal);
        }
    };
    if seat.flight().form.streams && !aloft.streams {
        return Box::pin(fold_when_over(call, seat, aloft)).await;
    }
    let landed = match aloft.keep_alive {
        None => Some(head_of(&mut call, &mut seat, &aloft).await),
        Some(after) => Box::pin(timeout(after, head_of(&mut call, &mut seat, &aloft))).await.ok(),
    };

    // The answer, whole or as it comes.
    match landed {
        Some(Ok(head)) => deliver(call, &head, seat, aloft),
        Some(Err(refusal)) => refuse(call, &refusal),
        None => open_silent(call, seat, aloft),
    }
}

/// A plain caller on a streaming flight: it gets all at once, when all is there.
async fn fold_when_over(mut call: Box<Call>, mut seat: Seat, aloft: Box<Aloft>) -> Response<ReplyBody> {
    let head = match head_of(&mut call, &mut seat, &aloft).await {
        Ok(head) if head.outcome.as_ref().is_ok_and(|answer| answer.events) => head,
        Ok(head) => return deliver(call, &head, seat, aloft),
        Err(refusal) => return refuse(call, &refusal),
    };
    let mut taken = Vec::new();
    match ending_of(&mut call, &mut seat, &aloft, &mut taken).await {
        Ok(ending) => deliver_folded(call, &head, &ending, seat, &aloft, taken),
        Err(refusal) => refuse(call, &refusal),
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
    call.tell(|id| Event::Arrived { id, protocol: dialect.name() });
    let mut wishes = Wishes::of(&head.headers)?;
    call.record.tags = std::mem::take(&mut wishes.tags);
    let (client, query) = take_credentials(&mut head.headers, head.uri.query());
    Ok(Entry::Call(Box::new(Entered { snapshot, head, dialect, op_at, to, wishes, client, query })))
}

impl Entered {
    /// What the caller showed of itself.
    pub(crate) fn client(&self) -> Option<&ClientCredential> {
        self.client.as_ref()
    }

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

/// How a call got on, and what its answer is handled with.
enum Departed {
    Aboard(Seat, Box<Aloft>),
    Kept(Arc<Kept>, Bytes, Box<Aloft>),
    /// The gate has counted the tokens by itself.
    Counted(Bytes),
}

/// Chooses the provider, and finds the call a seat or an answer.
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
    if let Some(counted) = target.counts {
        return count(counted, &ask.take_body());
    }
    let asked = Asked {
        dialect,
        provider: &provider,
        model: name.unwrap_or_default(),
        client: client.as_ref(),
        headers: &head.headers,
        once: marks.idempotency,
        query: query.as_deref(),
        crossing: target.crossing.as_ref(),
    };
    let share = asked.share(&wishes.cache, ask.sharing());
    call.asks_anew = wishes.cache.anew;
    call.record.fate = if share.is_some() { Fate::Miss } else { Fate::Bypass };
    // A key that was meant for one vendor is not shown to another.
    let credential = match &target.crossing {
        Some(_) => up::credential(&provider, &None).map_err(Refusal::of_a_translated_call)?,
        None => up::credential(&provider, &client)?,
    };
    let streams = ask.streams() && dialect.is_generation();
    let patience = patience(call, &provider, &model, &wishes, streams);
    let asks_usage = ask.asks_usage();
    let mut aloft = Box::new(Aloft {
        dialect,
        provider: provider.clone(),
        model: model.clone(),
        patience: patience.of_caller,
        watches_patience: share.is_some(),
        streams,
        strip_usage: false,
        accepts: marks.accept_encoding.then(|| head.headers.get(header::ACCEPT_ENCODING).cloned()).flatten(),
        head_only: head.method == Method::HEAD,
        keep_alive: streams.then_some(config.keep_alive),
    });

    if wishes.cache.only_if_cached {
        let kept = share.as_ref().and_then(|share| find(&call.gate, share)).ok_or(Refusal::NotCached)?;
        let body = kept.body(streams, asks_usage).ok_or(Refusal::NotCached)?;
        return Ok(Departed::Kept(kept, body, aloft));
    }
    let own_key = provider.credential.is_some();
    let deadline = patience.of_caller.end();
    let ticket = Ticket {
        party: Party {
            key: client.as_ref().filter(|_| !own_key).map_or(0, hash_of),
            weight: 1,
            parallel: provider.config.queue.parallel_per_key,
        },
        target: provider.capped(name.unwrap_or_default()),
        bytes: ask.bytes(),
        priority: wishes.priority.unwrap_or_default(),
        deadline: Some(deadline),
    };
    let gathers = provider.config.window.enabled && dialect.rules().is_some() && head.method == Method::POST;
    let admission = Admission { ticket, windowed: gathers, watched: call.watched() };
    let uri = match &target.crossing {
        Some(crossing) => up::uri(&provider, crossing.op(), None)?,
        None => {
            let op = target.op.as_deref().unwrap_or(&head.uri.path()[op_at..]);
            up::uri(&provider, op, query.as_deref())?
        }
    };
    let (time, id) = (call.record.time, call.record.id);
    let crossing = target.crossing.map(|crossing| (crossing, Box::<str>::from(name.unwrap_or_default())));
    let now = Instant::now();

    // On its way up: the client's bytes and headers but for the edits.
    let mut start = Some(|| {
        let (upload, strip_usage, passage) = match crossing {
            Some((crossing, theirs)) => {
                let passage = Passage {
                    left: leave_behind(&mut head.headers, &crossing),
                    crossing,
                    body: ask.take_body(),
                    model: theirs,
                    provider: provider.clone(),
                    created: time.as_second().unsigned_abs(),
                    id: id.to_string(),
                };
                // A translated stream tells its usage always; who did not ask for it doesn't get it.
                (Upload::empty(), streams && dialect.leaves_usage() && !asks_usage, Some(Box::new(passage)))
            }
            None => {
                let (upload, strip) =
                    ask.edit(dialect, &provider, target.model.as_deref(), config.usage_on_streams);
                (upload, strip, None)
            }
        };
        up::strip(&mut head.headers);
        up::address(&mut head.headers, &provider);
        up::seal(&mut head.headers, &provider, credential.as_ref());
        let mut request = Request::new(upload);
        *request.uri_mut() = uri;
        *request.method_mut() = head.method;
        *request.headers_mut() = head.headers;
        let shared = share.is_some();
        let patience = if shared { patience.of_provider } else { patience.of_caller };
        let progress = Arc::new(Progress { call: id, ..Progress::default() });
        let plan = Plan {
            provider: provider.clone(),
            model,
            request,
            passage,
            admission,
            patience,
            progress: progress.clone(),
            since: now,
        };
        let tells_usage = !streams || !dialect.leaves_usage() || strip_usage || asks_usage;
        let keep = share.as_ref().and_then(|share| share.keep);
        let manner = Manner { dialect, marks_usage: shared || strip_usage, shared, keep };
        let tape = Arc::new(Tape::new(shared, MOST_TAPED, call.gate.tapes.clone()));
        let finish_abandoned = share.as_ref().is_some_and(|share| share.finish_abandoned);
        let pump = pump(plan, manner, tape.clone());
        Flight::new(
            dialect,
            Form { streams, tells_usage, strip_usage },
            tape,
            progress,
            pump,
            finish_abandoned,
        )
    });
    let mut start = || start.take().expect("a call starts one flight at most")();
    // Only who asks the provider waits for a permit: a seat on a flight and a kept answer are there at once.
    let too_late = || provider.standing.lane.hopeless(&ticket, deadline, now);
    let refused = || Err(Refusal::Deadline { after: call.age() });
    // Past the bound of all flights a call flies alone.
    let boards = share.as_ref().filter(|_| !call.gate.tapes.is_spent());
    let mut looks = true;
    let seat = loop {
        let find = || share.as_ref().filter(|_| looks).and_then(|share| find(&call.gate, share));
        let instead = || match find() {
            Some(kept) => Some(Instead::Kept(kept)),
            None => too_late().then_some(Instead::TooLate),
        };
        let instead = match boards {
            Some(share) => {
                // A plain answer tells usage always.
                let usage = asks_usage || !streams;
                let fits = |flight: &Flight| share.joins && flight.fits(streams, usage, share.max_age);
                match board(&call.gate, share.key, fits, instead, &mut start) {
                    Aboard::Led(seat) => break seat,
                    Aboard::Joined(seat) => {
                        call.record.fate = Fate::Joined;
                        call.tell(|id| Event::Joined { id, flight: seat.flight().progress.call });
                        break seat;
                    }
                    Aboard::Not(instead) => instead,
                }
            }
            None => match instead() {
                Some(instead) => instead,
                None => break Seat::alone(&call.gate, start()),
            },
        };
        match instead {
            Instead::TooLate => {
                provider.standing.handles.shed("deadline");
                return refused();
            }
            Instead::Kept(kept) => match kept.body(streams, asks_usage) {
                Some(body) => return Ok(Departed::Kept(kept, body, aloft)),
                // It can't be had in this form: what comes instead is for all who ask in this form.
                None => looks = false,
            },
        }
    };
    call.aboard(seat.flight(), now);
    let form = seat.flight().form;
    let joined = call.record.fate == Fate::Joined;
    aloft.strip_usage = !asks_usage && form.tells_usage && (form.strip_usage || joined);
    Ok(Departed::Aboard(seat, aloft))
}

/// Counts tokens in a provider's stead.
fn count(counted: &dyn Dialect, body: &[u8]) -> Result<Departed, Refusal> {
    let tokens = estimate(counted, body).ok_or(Refusal::Internal)??;
    Ok(Departed::Counted(format!("{{\"input_tokens\":{tokens}}}").into()))
}

/// Why a call needs no flight.
enum Instead {
    /// There is an answer already.
    Kept(Arc<Kept>),
    /// Its permit would come after its deadline.
    TooLate,
}

/// The answer that is kept for such a call.
fn find(gate: &Gateway, share: &Share) -> Option<Arc<Kept>> {
    if !share.takes_kept {
        return None;
    }
    gate.kept.find(&share.key, share.max_age)
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

/// Waits for the head of the answer, unless the caller's patience or the gate's life is over first.
async fn head_of(call: &mut Call, seat: &mut Seat, aloft: &Aloft) -> Result<Arc<Head>, Refusal> {
    poll_fn(|cx| {
        let head = poll_unless_cut(call, cx, |cx| seat.poll_head(cx));
        or_give_up(call, seat, aloft, cx, head.map(Ok))
    })
    .await
}

/// Waits for the end of the answer likewise. What comes before it is left where it is, or `taken` where it would not
/// stay there.
async fn ending_of(
    call: &mut Call,
    seat: &mut Seat,
    aloft: &Aloft,
    taken: &mut Vec<Bytes>,
) -> Result<Arc<Ending>, Refusal> {
    poll_fn(|cx| {
        let ending = poll_unless_cut(call, cx, |cx| seat.poll_ending(cx, taken));
        or_give_up(call, seat, aloft, cx, ending.map(|ending| ending.ok_or_else(Refusal::read_too_slowly)))
    })
    .await
}

/// What comes of a flight, which goes on by being polled: not once the gate is cut, since a permit that one such call
/// leaves would only have the next one sent in vain.
fn poll_unless_cut<T>(
    call: &mut Call,
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if call.is_cut(cx) { Poll::Pending } else { poll(cx) }
}

/// What was waited for, unless the caller's patience or the gate's life is over first.
fn or_give_up<T>(
    call: &mut Call,
    seat: &Seat,
    aloft: &Aloft,
    cx: &mut Context<'_>,
    come: Poll<Result<T, Refusal>>,
) -> Poll<Result<T, Refusal>> {
    let refusal = if call.is_cut(cx) {
        Refusal::Cut
    } else if come.is_ready() {
        return come;
    } else {
        let since = call.arrived;
        std::task::ready!(poll_patience(call, cx, aloft.due(true, since)))
    };
    // The provider was asked, whatever its answer will be worth to this caller.
    call.record.attempts = seat.flight().attempts();
    if call.record.attempts == 0 && call.record.fate != Fate::Joined {
        aloft.provider.standing.handles.shed(refusal.row().reason.unwrap_or_default());
    }
    Poll::Ready(Err(refusal))
}

fn poll_patience(call: &mut Call, cx: &mut Context<'_>, due: Option<Instant>) -> Poll<Refusal> {
    let Some(due) = due else { return Poll::Pending };
    std::task::ready!(call.poll_due(cx, due));
    Poll::Ready(Refusal::Deadline { after: call.age() })
}
