//! The life of one call, from its head to the body that answers it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::body::{Broken, Ending, MockBody, Pace};
use super::control;
use super::events::Pieces;
use super::options::Tuning;
use super::play::Drawn;
use super::recorder::Received;
use super::reply::{Dialect, JSON, Refusal, Reply, scripted};
use super::routes::{self, Asked};
use super::script::Mode;
use super::server::Line;
use super::shared::Shared;
use super::stats::{Call, Fate};

const MOST_BODY: usize = 128 << 20;
/// For a client to send its request's body.
const BODY_TIME: Duration = Duration::from_secs(60);
/// What `slow` takes where no time is set that it could multiply.
const SLOW_AT_LEAST: Duration = Duration::from_secs(1);
/// Told with a 429 for too many calls at once: nobody knows when one ends.
const RETRY_WHEN_FULL: Duration = Duration::from_secs(1);

type Answered = Result<Response<MockBody>, Broken>;

pub(crate) async fn answer(shared: Arc<Shared>, line: Arc<Line>, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    if control::is_control(head.uri.path()) {
        line.count.carries_control();
        return Ok(control::answer(&shared, &head, body).await);
    }
    line.count.carries_call();
    let tuning = shared.tuning();
    let call = shared.counters.arrive(head.uri.path(), tuning.max_in_flight);
    let exchange = Exchange {
        dialect: routes::dialect(&head),
        number: shared.next_number(),
        shared,
        tuning,
        line,
        call,
    };
    exchange.run(head, body).await
}

struct Exchange {
    shared: Arc<Shared>,
    tuning: Arc<Tuning>,
    line: Arc<Line>,
    call: Call,
    dialect: Dialect,
    number: u64,
}

impl Exchange {
    async fn run(self, head: Parts, body: Incoming) -> Answered {
        let body = match read(body).await {
            Ok(body) => body,
            Err(Unread::Refused(refusal)) => return Ok(self.refuse(refusal)),
            Err(Unread::Gone) => return Err(Broken),
        };
        let received = Received::new(&head.method, &head.uri, head.version, &head.headers, &body);
        self.shared.recorder.add(received);
        if !self.call.admitted() {
            return Ok(self.refuse(limited("calls at once", RETRY_WHEN_FULL)));
        }
        let phase = self.shared.draw(head.uri.path());
        match phase.mode {
            Mode::Hang { forever } => return self.hang((!forever).then_some(phase)).await,
            Mode::Reset => return self.reset(),
            Mode::Status { code, retry_after } if code >= 300 => {
                let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return Ok(self.refuse(scripted(status, retry_after)));
            }
            _ => {}
        }
        let path = head.uri.path().to_owned();
        match self.reply(head, body) {
            Ok(reply) if phase.mode == Mode::Error => Ok(self.fail_midway(reply, &path, phase).await),
            Ok(reply) => Ok(self.send(reply, phase).await),
            Err(refusal) => Ok(self.refuse(refusal)),
        }
    }

    /// Holds the call until its phase is over, then drops the connection it came on.
    async fn hang(mut self, until_end_of: Option<Drawn>) -> Answered {
        self.call.meets(Fate::Hang);
        match until_end_of {
            Some(phase) => phase.ended().await,
            None => std::future::pending().await,
        }
        self.call.finish();
        self.line.drop_now();
        Err(Broken)
    }

    fn reset(mut self) -> Answered {
        self.call.meets(Fate::Reset);
        self.call.finish();
        self.line.reset();
        Err(Broken)
    }

    /// The endpoint's answer, if key and limits allow.
    fn reply(&self, head: Parts, body: Bytes) -> Result<Reply, Refusal> {
        routes::check_key(&head.headers, self.tuning.require_key.as_deref())?;
        self.shared.limits.take_request(&self.tuning).map_err(|wait| limited("requests per minute", wait))?;
        let asked = Asked { head, body, tuning: &self.tuning, shared: &self.shared, dialect: self.dialect };
        let reply = routes::reply(&asked)?;
        self.shared
            .limits
            .take_tokens(&self.tuning, reply.tokens)
            .map_err(|wait| limited("tokens per minute", wait))?;
        Ok(reply)
    }

    /// Half of a stream and then the provider's error event; a plain answer has a status to say it with.
    async fn fail_midway(self, mut reply: Reply, path: &str, phase: Drawn) -> Response<MockBody> {
        let error = scripted(StatusCode::INTERNAL_SERVER_ERROR, None);
        if !reply.streams {
            return self.refuse(error);
        }
        let event = error.event(self.dialect, path, &self.request_id());
        reply.pieces = reply.pieces.first_half_whole().followed_by(&event);
        self.send(reply, phase).await
    }

    async fn send(mut self, reply: Reply, phase: Drawn) -> Response<MockBody> {
        let (before_head, pace) = self.times(reply.streams, &phase);
        if !before_head.is_zero() {
            sleep(before_head).await;
        }
        let code = match phase.mode {
            Mode::Status { code, .. } => code,
            _ => 200,
        };
        self.call.meets(Fate::Status(code));
        let (pieces, length, ending) = shaped(reply.pieces, phase);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
        if !reply.streams {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        self.name_and_limits(&mut response);
        let stamps = reply.streams && self.tuning.stamps;
        response.map(|()| MockBody::new(pieces, pace, ending, Some(self.call)).stamped(stamps))
    }

    fn refuse(mut self, refusal: Refusal) -> Response<MockBody> {
        self.call.meets(Fate::Status(refusal.status.as_u16()));
        let pieces = Pieces::whole(refusal.body(self.dialect, &self.request_id()));
        let mut response = Response::new(());
        *response.status_mut() = refusal.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        response.headers_mut().extend(refusal.retry_headers(self.dialect));
        self.name_and_limits(&mut response);
        response.map(|()| MockBody::new(pieces, Pace::AT_ONCE, Ending::Whole, Some(self.call)))
    }

    /// The wait before the head, and the pace of what comes after it.
    fn times(&self, streams: bool, phase: &Drawn) -> (Duration, Pace) {
        let (factor, answer_after) = phase.slowness();
        let Tuning { latency, first_byte, chunk_interval, jitter, .. } = *self.tuning;
        let seed = super::hash::draw(self.shared.seed, self.number);
        let pace =
            Pace { first: Duration::ZERO, interval: chunk_interval.saturating_mul(factor), jitter, seed };
        let slow = |time: Duration| match answer_after {
            Some(set) => set,
            None if factor > 1 => time.saturating_mul(factor).max(SLOW_AT_LEAST),
            None => time,
        };
        match (streams, first_byte) {
            (true, Some(first)) => (Duration::ZERO, Pace { first: pace.jittered(slow(first), 0), ..pace }),
            (true, None) => (pace.jittered(slow(latency), 0), pace),
            (false, first) => {
                let time = if latency.is_zero() { first.unwrap_or_default() } else { latency };
                (pace.jittered(slow(time), 0), pace)
            }
        }
    }

    fn request_id(&self) -> String {
        format!("req_mock_{:08}", self.number)
    }

    fn name_and_limits(&self, response: &mut Response<()>) {
        let headers = response.headers_mut();
        let id = HeaderValue::try_from(self.request_id());
        let name = match self.dialect {
            Dialect::Anthropic => "request-id",
            Dialect::OpenAi | Dialect::LlamaCpp => "x-request-id",
        };
        if let Ok(id) = id {
            headers.insert(HeaderName::from_static(name), id);
        }
        if self.dialect == Dialect::OpenAi {
            let millis = HeaderValue::from(self.tuning.latency.as_millis() as u64);
            headers.insert(HeaderName::from_static("openai-processing-ms"), millis);
            headers.insert(HeaderName::from_static("openai-version"), HeaderValue::from_static("2020-10-01"));
        }
        self.shared.limits.tell(&self.tuning, self.dialect, headers);
    }
}

/// What the script leaves of an answer, the length that its head promises, and how it ends.
fn shaped(pieces: Pieces, phase: Drawn) -> (Pieces, u64, Ending) {
    let length = pieces.bytes.len() as u64;
    let is_stream = pieces.marks.len() > 1;
    match phase.mode {
        Mode::Cut => (pieces.first_half(), length, Ending::Cut),
        Mode::Stall if is_stream => (pieces.first_half_whole(), length, Ending::Stall(phase)),
        Mode::Stall => (pieces.first_half(), length, Ending::Stall(phase)),
        Mode::Garbage => {
            let pieces = pieces.spoilt();
            let length = pieces.bytes.len() as u64;
            (pieces, length, Ending::Whole)
        }
        _ => (pieces, length, Ending::Whole),
    }
}

fn limited(what: &str, wait: Duration) -> Refusal {
    let message = format!("Rate limit reached for {what}. Please try again in {} ms.", wait.as_millis());
    let mut refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, message);
    refusal.retry_after = Some(wait);
    refusal
}

enum Unread {
    Refused(Refusal),
    Gone,
}

async fn read(body: Incoming) -> Result<Bytes, Unread> {
    match timeout(BODY_TIME, Limited::new(body, MOST_BODY).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Unread::Refused(
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "The request is larger than this mock takes."),
        )),
        Ok(Err(_)) => Err(Unread::Gone),
        Err(_) => Err(Unread::Refused(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "The request's body did not come in time.",
        ))),
    }
}
