//! A flight: one call to a provider, from its place in the queue to an answer that may be handed on.
//!
//! The flight is one future that its caller polls; dropping it gives back the place, the permit and the
//! connection, whatever it was doing.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header, response};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::admission::Admission;
use crate::crossing::{Back, Passage};
use crate::flight::Progress;
use crate::gateway::{Model, Provider};
use crate::observe::{Event, Outcome, TargetHandles};
use crate::refusal::{Refusal, Wait};
use crate::upstream::Upload;
use crate::upstream::exchange::{Answer, Patience, Source, chain};

/// A plain answer up to this size is held until it is whole.
const HELD: usize = 256 * 1024;
/// One that has to be translated is held up to this size, and never handed on before.
const HELD_TO_TRANSLATE: usize = 64 << 20;
/// A plain answer that pauses for longer is passed on as it comes.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// What a flight takes with it.
pub(crate) struct Plan {
    pub(crate) provider: Arc<Provider>,
    pub(crate) model: Arc<Model>,
    pub(crate) request: Request<Upload>,
    /// The provider speaks another protocol than the client: the request gets its body from here.
    pub(crate) passage: Option<Box<Passage>>,
    pub(crate) admission: Admission,
    pub(crate) patience: Patience,
    pub(crate) progress: Arc<Progress>,
    /// Now: whoever makes the plan polls the flight at once.
    pub(crate) since: Instant,
}

/// How a flight ended, or got as far as its caller needs to know.
pub(crate) struct Flown {
    /// Spent waiting for a permit.
    pub(crate) queue: Duration,
    /// How often the provider was asked.
    pub(crate) attempts: u16,
    pub(crate) outcome: Result<Landed, Refusal>,
}

/// An answer, of which the beginning (or all) is here.
pub(crate) struct Landed {
    pub(crate) head: response::Parts,
    /// When the head was there.
    pub(crate) at: Instant,
    /// When the provider was asked.
    pub(crate) asked: Instant,
    /// Pieces that have come: mostly one.
    pub(crate) pieces: SmallVec<[Bytes; 1]>,
    /// What is still coming, if anything is.
    pub(crate) rest: Option<Source>,
    pub(crate) trial: Trial,
    /// How it is translated, where it has to be.
    pub(crate) back: Option<Box<Back>>,
}

/// One attempt at a provider, until its verdict; without one, nobody waited for the answer any more.
pub(crate) struct Trial {
    handles: Arc<TargetHandles>,
    verdict: Outcome,
}

impl Trial {
    fn begin(provider: &Provider) -> Trial {
        Trial { handles: provider.standing.handles.clone(), verdict: Outcome::Abandoned }
    }

    /// How the attempt ended, as far as is known; the last word counts.
    pub(crate) fn verdict(&mut self, outcome: Outcome) {
        self.verdict = outcome;
    }

    /// The attempt ended in an answer with this status, perhaps with an error inside.
    pub(crate) fn answered(&mut self, status: StatusCode, error_inside: bool) {
        self.verdict(match status {
            StatusCode::TOO_MANY_REQUESTS => Outcome::RateLimited,
            _ if status.is_client_error() => Outcome::Refused,
            _ if status.is_server_error() || error_inside => Outcome::Failed,
            _ => Outcome::Ok,
        });
    }

    /// The attempt ended without a whole answer.
    pub(crate) fn failed(&mut self, refusal: &Refusal, begun: bool) {
        match refusal {
            Refusal::UpstreamTimeout { .. } => self.verdict(Outcome::Timeout),
            Refusal::UpstreamCredentials { .. } => self.verdict(Outcome::Refused),
            Refusal::Encoding { .. } => self.verdict(Outcome::Failed),
            Refusal::Upstream { .. } if begun => self.verdict(Outcome::Cut),
            Refusal::Upstream { .. } => self.verdict(Outcome::Unreachable),
            // Our own end, or the caller's: nothing is known of the provider.
            _ => {}
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.handles.attempt(self.verdict);
    }
}

/// Flies: queue, permit, exchange, and for a plain answer the body.
pub(crate) async fn fly(plan: Plan) -> Flown {
    let Plan { provider, model, mut request, passage, admission, patience, progress, since } = plan;
    let back = match passage.map(|passage| passage.embark(&mut request)).transpose() {
        Ok(back) => back.map(Box::new),
        Err(unfit) => return Flown { queue: Duration::ZERO, attempts: 0, outcome: Err(unfit) },
    };
    // The time of translating is the gate's own: neither a queue's nor the provider's.
    let waits_from = if back.is_some() { Instant::now() } else { since };
    let (permit, asked) = match admission.at_once(&provider) {
        Some(permit) => (permit, waits_from),
        None => match Box::pin(admission.wait(&provider, &patience, waits_from)).await {
            Ok(permit) => (permit, Instant::now()),
            Err(refusal) => {
                return Flown { queue: waits_from.elapsed(), attempts: 0, outcome: Err(refusal) };
            }
        },
    };
    let queue = asked.duration_since(waits_from);
    let mut trial = Trial::begin(&provider);
    progress.attempts.store(1, Ordering::Relaxed);
    let _first = progress.asked.set(asked);
    provider.standing.bus.tell(admission.watched, |id| {
        let in_flight = provider.standing.lane.stats().in_flight;
        Event::Started { id, provider: provider.name.clone(), in_flight }
    });
    let outcome = match provider.standing.route.send(request, permit, asked, &patience).await {
        Ok(answer) => {
            model.first_byte.record(answer.at.duration_since(asked));
            land(answer, asked, &patience, &provider, trial, back).await
        }
        Err(refusal) => {
            trial.failed(&refusal, false);
            Err(refusal)
        }
    };
    Flown { queue, attempts: 1, outcome }
}

/// Decides whether an answer is handed on now or held until it is whole.
async fn land(
    answer: Answer,
    asked: Instant,
    patience: &Patience,
    provider: &Provider,
    trial: Trial,
    back: Option<Box<Back>>,
) -> Result<Landed, Refusal> {
    let Answer { head, mut body, at } = answer;
    let mut landed = Landed { head, at, asked, pieces: SmallVec::new(), rest: None, trial, back };
    // What is no stream is translated as a whole, errors of any form included.
    let translates =
        landed.back.is_some() && !(landed.head.status.is_success() && is_events(&landed.head.headers));
    let outcome = if landed.head.status == StatusCode::UNAUTHORIZED && provider.credential.is_some() {
        Err(Refusal::UpstreamCredentials { provider: provider.config.name.clone() })
    } else if is_json(&landed.head) || translates {
        hold(&mut landed, body, patience).await
    } else if body.is_end() && !is_events(&landed.head.headers) {
        body.finish();
        Ok(())
    } else {
        landed.rest = Some(body);
        Ok(())
    };
    match outcome {
        Ok(()) => Ok(landed),
        Err(refusal) => {
            landed.trial.failed(&refusal, true);
            Err(refusal)
        }
    }
}

/// Takes in a plain answer: one write to the client, a true length, and a real status if it is cut. One that
/// is large or pauses is handed on as far as it has come.
async fn hold(landed: &mut Landed, mut body: Source, patience: &Patience) -> Result<(), Refusal> {
    let mut size = 0;
    let mut last = landed.at;
    let translates = landed.back.is_some();
    let paused = poll_fn(|cx| {
        loop {
            match body.poll_chunk(cx) {
                Poll::Ready(Some(Ok(piece))) => {
                    size += piece.len();
                    landed.pieces.push(piece);
                    if body.is_end() {
                        body.finish();
                        return Poll::Ready(Ok(None));
                    }
                    if translates && size > HELD_TO_TRANSLATE {
                        let cause = "its answer is too long to be translated".to_owned();
                        return Poll::Ready(Err(Refusal::Upstream { cause }));
                    }
                    if size > HELD && !translates {
                        return Poll::Ready(Ok(Some(None)));
                    }
                    last = Instant::now();
                }
                Poll::Ready(Some(Err(broken))) => {
                    return Poll::Ready(Err(Refusal::Upstream { cause: chain(&*broken) }));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Pending => {
                    // Nothing has come yet: there is nothing to hand on, and the head alone may still turn
                    // into a readable error.
                    let stalls = size == 0 || translates;
                    let wait = if stalls { patience.stall } else { HELD_PAUSE };
                    body.set_alarm((last + wait).min(patience.end()));
                    return body.poll_alarm(cx).map(|()| Ok(Some(stalls.then_some(Wait::Stall))));
                }
            }
        }
    })
    .await?;
    match paused {
        None => Ok(()),
        Some(Some(wait)) => {
            let now = Instant::now();
            Err(patience.over(wait, now, now.duration_since(last)))
        }
        Some(None) => {
            landed.rest = Some(body);
            Ok(())
        }
    }
}

fn is_json(head: &response::Parts) -> bool {
    head.headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().get(..16).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/json"))
    })
}

/// Whether an answer is a stream of events that can be read.
pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let events = |kind: &HeaderValue| {
        kind.as_bytes().get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
    };
    headers.get(header::CONTENT_TYPE).is_some_and(events) && !is_packed(headers)
}

/// Whether a body is not there as it is.
pub(crate) fn is_packed(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}
