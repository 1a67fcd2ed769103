//! One caller's request from arrival to its record.
//!
//! A `Call` belongs to its client's connection. Dropping it, whoever does so and why, settles it: one record,
//! one log line, one count. What the flight below it did is told to it, never asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use guard::{Alarm, Permit};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use jiff::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;
use wire::dialect::Shape;
use wire::relay::Watch;

use crate::flight::{Flight, Head, Progress};
use crate::gateway::{Gateway, Model, Provider};
use crate::net::door;
use crate::net::life::{Moves, Step};
use crate::observe::{CallError, CallRecord, Event, Fate, TargetHandles};
use crate::refusal::Refusal;
use crate::stage::marks::Marks;

/// A caller's own id for its request, and the answer's.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest request id that is kept of a caller.
const LONGEST_ID: usize = 128;
/// The status of a call whose client left before there was one.
const CLIENT_GONE: u16 = 499;

/// One call.
pub(crate) struct Call {
    pub(crate) gate: Arc<Gateway>,
    pub(crate) record: CallRecord,
    pub(crate) arrived: Instant,
    /// From arrival to the moment in which the provider was asked.
    pub(crate) before_upstream: Duration,
    /// The shape in which its client reads errors.
    pub(crate) shape: Shape,
    /// The listed web page that it comes from.
    pub(crate) cors: Option<HeaderValue>,
    /// The caller's own id for it.
    asked_id: Option<HeaderValue>,
    /// Past the door of the process, where there is one; returned when the call is over.
    pass: Option<Permit>,
    /// Spent waiting at it.
    at_door: Duration,
    /// Where this call's numbers are counted; none of a provider's until it has one.
    handles: Option<Arc<TargetHandles>>,
    door: Arc<door::Watch>,
    /// On HTTP/2 the connection's task does not poll the call, so it follows the gate's steps itself.
    pub(crate) moves: Option<Moves>,
    /// Rings when the call has waited for long enough, where its connection has others beside it.
    alarm: Option<Alarm>,
    /// Of its flight, once it is aboard one, and since when it is.
    progress: Option<(Arc<Progress>, Instant)>,
    /// The flight's head has come.
    flown: bool,
    /// The caller wants the provider's answer, and no kept one.
    pub(crate) asks_anew: bool,
    /// The answer has no body, whatever its headers say of one.
    head_only: bool,
    delivered: bool,
    /// Those who watch the gate are told of this call.
    watched: bool,
}

impl Call {
    pub(crate) fn arrive(
        gate: Arc<Gateway>,
        door: Arc<door::Watch>,
        head: &Parts,
        marks: Marks,
        shape: Shape,
    ) -> Box<Call> {
        gate.life.enter();
        let time = (gate.world.wall)();
        let id = new_id(&gate, time);
        let brought = if marks.request_id { head.headers.get(&REQUEST_ID) } else { None };
        let asked = brought.filter(|value| is_request_id(value)).cloned();
        let mut record = CallRecord::new(id, time, "none", head.uri.path().to_owned());
        record.request_id = asked.as_ref().and_then(|value| value.to_str().ok()).map(Arc::from);
        let moves = (head.version == http::Version::HTTP_2).then(|| gate.life.moves());
        let arrived = Instant::now();
        Box::new(Call {
            watched: gate.observer.bus().admits(arrived),
            asked_id: asked,
            pass: None,
            at_door: Duration::ZERO,
            gate,
            record,
            shape,
            cors: None,
            arrived,
            before_upstream: Duration::ZERO,
            handles: None,
            door,
            moves,
            alarm: None,
            progress: None,
            flown: false,
            asks_anew: false,
            head_only: head.method == Method::HEAD,
            delivered: false,
        })
    }

    /// The caller's id for it, or the one made here.
    pub(crate) fn request_id(&self) -> HeaderValue {
        let own = || text_value(self.record.id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        self.asked_id.clone().unwrap_or_else(own)
    }

    /// The call goes to `provider`, which is asked for the model of this name.
    pub(crate) fn goes_to(&mut self, provider: &Provider, model: &Model, name: Option<&str>) {
        self.record.provider = Some(provider.name.clone());
        self.record.model = name.map(|name| match &model.name {
            known if **known == *name => known.clone(),
            _ => name.into(),
        });
        self.handles = Some(provider.standing.handles.clone());
    }

    /// The call waited at the door of the process.
    pub(crate) fn at_the_door(&mut self, waited: Duration) {
        self.at_door = waited;
        self.record.queue = waited;
    }

    /// The call is past the door of the process, and stays so to its end.
    pub(crate) fn passes(&mut self, permit: Permit) {
        self.pass = Some(permit);
    }

    /// The gate turned the call away, or had to end it.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        let row = refusal.row();
        if self.record.attempts == 0 {
            self.record.fate = Fate::Refused;
        }
        self.record.status = row.status.as_u16();
        self.failed_with(refusal);
    }

    /// The call failed after its status had gone out.
    pub(crate) fn failed_with(&mut self, refusal: &Refusal) {
        let row = refusal.row();
        let error = CallError::new(row.code).detail(&refusal.message());
        self.record.error = Some(match row.reason {
            Some(reason) => error.reason(reason),
            None => error,
        });
    }

    /// Tells those who watch the gate what became of this call, if they are told of it.
    pub(crate) fn tell(&self, make: impl FnOnce(Uuid) -> Event) {
        self.gate.observer.bus().tell(self.watched(), make);
    }

    /// Its id, if those who watch the gate are told of it.
    pub(crate) fn watched(&self) -> Option<Uuid> {
        self.watched.then_some(self.record.id)
    }

    /// Its answer began to come at this time.
    pub(crate) fn first_byte(&mut self, at: Instant) {
        self.record.first_byte = Some(at.saturating_duration_since(self.arrived));
        self.tell(|id| Event::FirstByte { id });
    }

    /// The call has a seat on this flight.
    pub(crate) fn aboard(&mut self, flight: &Flight, now: Instant) {
        self.progress = Some((flight.progress.clone(), now));
    }

    /// How the flight went.
    pub(crate) fn flown(&mut self, head: &Head) {
        self.record.queue = self.at_door + self.waited().min(head.queue);
        self.record.attempts = head.attempts;
        self.flown = true;
    }

    /// How much of its flight's wait for a permit the call has been through: less than all of it where it came aboard
    /// later.
    fn waited(&self) -> Duration {
        self.progress.as_ref().map_or(Duration::ZERO, |(progress, since)| {
            let asked = progress.asked.get().copied().unwrap_or_else(Instant::now);
            asked.saturating_duration_since(*since)
        })
    }

    /// Whether the gate goes down before the call is over. Wakes the call when that changes.
    pub(crate) fn is_cut(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(moves) = &mut self.moves {
            moves.poll_step(cx, &self.gate.life);
        }
        self.gate.life.step() >= Step::Cut
    }

    /// Ready when `due` has passed; the call is woken then.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        if self.moves.is_some() {
            let alarm = self.alarm.get_or_insert_with(Alarm::new);
            alarm.set(due);
            return alarm.poll_ring(cx);
        }
        // Asked for already, and not yet polled for it: no need to look at the clock.
        if !self.door.polls_call_at(due) {
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.door.poll_call_at(due);
        }
        Poll::Pending
    }

    /// What an answer said of itself.
    pub(crate) fn learned(&mut self, watch: &Watch) {
        let record = &mut self.record;
        if watch.has_usage {
            let usage = &watch.usage;
            record.input_tokens = Some(usage.input);
            record.cached_input_tokens = Some(usage.cached_input);
            record.cache_write_tokens = Some(usage.cache_write);
            record.output_tokens = Some(usage.output);
            record.reasoning_tokens = Some(usage.reasoning);
        }
        record.finish = watch.finish.clone();
        record.served_model = watch.model.clone();
        if record.error.is_none() {
            if let Some(said) = &watch.error {
                record.error = Some(CallError::new("provider_error").detail(said));
            } else if watch.garbled {
                record.error = Some(CallError::new("upstream_error").reason("garbled"));
            }
        }
    }

    /// The client's connection, if this is its only call.
    pub(crate) fn door(&self) -> Option<&door::Watch> {
        self.moves.is_none().then_some(&*self.door)
    }

    /// Whether nothing but a head answers this call.
    pub(crate) fn head_only(&self) -> bool {
        self.head_only
    }

    /// The whole answer has been handed to the connection.
    pub(crate) fn delivered(&mut self) {
        self.delivered = true;
    }

    /// How long the call has been here.
    pub(crate) fn age(&self) -> Duration {
        self.arrived.elapsed()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let now = Instant::now();
        self.door.rest(now);
        self.record.total = now.duration_since(self.arrived);
        if !self.flown {
            self.record.queue = self.at_door + self.waited();
        }
        if let Some((progress, _)) = &self.progress {
            // Who left before there was an answer was told nothing of its flight.
            if self.record.attempts == 0 {
                self.record.attempts = progress.attempts.load(Ordering::Relaxed);
            }
            let knows = self.record.output_tokens.is_some();
            match self.record.fate {
                Fate::Joined if knows => self.record.pays = progress.unpaid.swap(false, Ordering::AcqRel),
                Fate::Joined => {}
                _ if !knows => progress.unpaid.store(true, Ordering::Release),
                _ => {}
            }
        }
        if std::thread::panicking() {
            self.refused(&Refusal::Internal);
        } else if !self.delivered {
            if self.record.status == 0 {
                self.record.status = CLIENT_GONE;
            }
            if self.record.error.is_none() {
                self.record.error = Some(CallError::new("client_gone"));
            }
        }
        let handles = self.handles.as_ref().unwrap_or_else(|| self.gate.observer.metrics().untargeted());
        self.gate.observer.settle(&self.record, handles, self.watched);
        self.gate.life.leave();
    }
}

fn new_id(gate: &Gateway, time: Timestamp) -> Uuid {
    let millis = u64::try_from(time.as_millisecond()).unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(millis, &(gate.world.random)()).into_uuid()
}

fn is_request_id(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    (1..=LONGEST_ID).contains(&bytes.len()) && bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// A header value of text that is known to be printable.
pub(crate) fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("?"))
}
