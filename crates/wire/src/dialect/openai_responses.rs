//! OpenAI Responses.
//!
//! Events are told apart by name; only those that carry a whole response, and errors, are parsed. Of all others
//! the number is noted, because an error event of ours goes on counting.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::complaint::{complaint, reason};
use super::fault::{OpenAi, json};
use super::openai_chat::note_ends;
use super::reading::{
    Key, Raw, could_be_object, could_be_torn_object, count, key, kind_of, part, text, whole,
};
use super::usage::openai as usage_of;
use super::{Dialect, Fault, Part, Shape, data_event};
use crate::fingerprint::{self, Rules};
use crate::fold::{Fold, LastState, unfold_response};
use crate::sse::Event;
use crate::watch::Watch;

/// `POST /v1/responses`
pub static RESPONSES: Responses = Responses;

/// The protocol of responses.
pub struct Responses;

impl Dialect for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn shape(&self) -> Shape {
        Shape::OpenAi
    }

    fn is_generation(&self) -> bool {
        true
    }

    fn rules(&self) -> Option<&'static Rules> {
        Some(&fingerprint::RESPONSES)
    }

    fn watch_event(&self, event: &Event<'_>, watch: &mut Watch) -> Part {
        watch_response(event, watch);
        Part::Answer
    }

    fn watch_ends(&self, head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
        watch_long(head, tail, watch);
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        if body.trim_ascii().is_empty() {
            return;
        }
        if let Some(response) = whole::<Response<'_>>(body, watch) {
            response.note(watch);
        }
        if let Some(said) = complaint(body) {
            watch.set_error(&said);
        }
    }

    fn fold(&self) -> Option<Box<dyn Fold>> {
        Some(Box::new(LastState::default()))
    }

    fn unfold(&self, body: &[u8], _usage: bool) -> Option<Vec<Bytes>> {
        unfold_response(body)
    }

    fn error_event(&self, fault: &Fault<'_>, watch: &Watch) -> Bytes {
        data_event(Some("response.failed"), &json(&Failed::of(fault, watch)))
    }
}

static SEQUENCE: Key = key!("\"sequence_number\"");
static KIND: Key = key!("\"type\"");
static USAGE: Key = key!("\"usage\"");
static ERROR: Key = key!("\"error\"");
static INCOMPLETE: Key = key!("\"incomplete_details\"");

/// The names of events whose response is its last state.
fn is_last(kind: &[u8]) -> bool {
    matches!(kind, b"response.completed" | b"response.incomplete" | b"response.failed")
}

/// An event that carries a response.
#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow)]
    response: Raw<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    id: Raw<'a>,
    #[serde(borrow)]
    created_at: Raw<'a>,
    #[serde(borrow)]
    model: Raw<'a>,
    #[serde(borrow)]
    status: Raw<'a>,
    #[serde(borrow)]
    usage: Raw<'a>,
    #[serde(borrow)]
    error: Raw<'a>,
    #[serde(borrow)]
    incomplete_details: Raw<'a>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Raw<'a>,
}

impl Response<'_> {
    fn note(&self, watch: &mut Watch) {
        if let Some(model) = text(self.model) {
            watch.set_model(&model);
        }
        if let Some(id) = text(self.id) {
            watch.set_id(&id);
        }
        watch.created = watch.created.or_else(|| count(self.created_at));
        if let Some(usage) = usage_of(self.usage) {
            watch.book(usage);
        }
        if let Some(said) = reason(self.error) {
            watch.set_error(&said);
        }
        let status = text(self.status).filter(|status| !matches!(status.as_str(), "queued" | "in_progress"));
        if let Some(finish) = why(self.incomplete_details).or(status) {
            watch.set_finish(&finish);
        }
    }
}

/// Why an answer is incomplete.
fn why(details: Raw<'_>) -> Option<String> {
    text(part::<Incomplete<'_>>(details)?.reason)
}

fn watch_response(event: &Event<'_>, watch: &mut Watch) {
    let data = event.data().trim_ascii();
    if !could_be_object(data) {
        watch.garbled |= !matches!(data, b"" | b"[DONE]");
        return;
    }
    watch.sequence = SEQUENCE.number(data).or(watch.sequence);
    match &*kind_of(event, data, watch) {
        b"error" => {
            fail(watch, &complaint(data).unwrap_or_else(|| String::from_utf8_lossy(data).into_owned()))
        }
        kind if is_last(kind) => {
            watch.terminal = true;
            note_state(data, watch);
            if kind == b"response.failed" {
                watch.set_error("the response failed; no reason was given");
            }
        }
        kind if kind.starts_with(b"response.") => {
            watch.content |= kind.ends_with(b".delta");
            if watch.model.is_none() {
                note_state(data, watch);
            }
        }
        _ => {
            if let Some(said) = complaint(data) {
                fail(watch, &said);
            }
        }
    }
}

fn note_state(data: &[u8], watch: &mut Watch) {
    let response = whole::<State<'_>>(data, watch).and_then(|state| part::<Response<'_>>(state.response));
    if let Some(response) = response {
        response.note(watch);
    }
}

fn fail(watch: &mut Watch, said: &str) {
    watch.set_error(said);
    watch.terminal = true;
}

/// The last state of a long answer is a long event; its usage stands near its end, what failed near its start.
fn watch_long(head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
    let data = head.data();
    if !could_be_torn_object(data, tail) {
        watch.garbled = true;
        return;
    }
    let typed = text(KIND.first(data)).unwrap_or_default();
    let kind = head.name().unwrap_or(typed.as_bytes());
    watch.content = true;
    watch.sequence = SEQUENCE.number(data).or_else(|| SEQUENCE.number(tail)).or(watch.sequence);
    if !is_last(kind) {
        return;
    }
    watch.terminal = true;
    if let Some(usage) = usage_of(USAGE.last(tail)) {
        watch.book(usage);
    }
    let status = kind.strip_prefix(b"response.").map(String::from_utf8_lossy).unwrap_or_default();
    watch.set_finish(&why(INCOMPLETE.first(data)).unwrap_or_else(|| status.clone().into_owned()));
    if status == "failed" {
        watch.set_error(&reason(ERROR.first(data)).unwrap_or_else(|| "the response failed".to_owned()));
    }
}

/// The end of a stream that can't be finished: `response.failed`, which programs that read the protocol act on.
///
/// The official SDKs only hand that event out, and a program that waits for text alone would take the end for a
/// success. What makes them raise is an `error` object on the top level of any event, so it stands there too.
#[derive(Serialize)]
struct Failed<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    response: FailedResponse<'a>,
    error: OpenAi<'a>,
}

/// The response as far as it is known, with every field that the SDKs' models call required.
#[derive(Serialize)]
struct FailedResponse<'a> {
    id: String,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: Reason<'a>,
    incomplete_details: Option<()>,
    instructions: Option<()>,
    metadata: Option<()>,
    model: &'a str,
    output: [(); 0],
    parallel_tool_calls: bool,
    temperature: Option<()>,
    tool_choice: &'static str,
    tools: [(); 0],
    top_p: Option<()>,
    usage: Option<()>,
}

#[derive(Serialize)]
struct Reason<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> Failed<'a> {
    fn of(fault: &'a Fault<'a>, watch: &'a Watch) -> Failed<'a> {
        let response = FailedResponse {
            id: watch.id.as_deref().map_or_else(|| format!("resp_{}", fault.request_id), str::to_owned),
            object: "response",
            created_at: watch.created.unwrap_or(0),
            status: "failed",
            error: Reason { code: fault.code, message: fault.message },
            incomplete_details: None,
            instructions: None,
            metadata: None,
            model: watch.model.as_deref().unwrap_or(""),
            output: [],
            parallel_tool_calls: true,
            temperature: None,
            tool_choice: "auto",
            tools: [],
            top_p: None,
            usage: None,
        };
        Failed {
            kind: "response.failed",
            sequence_number: watch.sequence.map_or(0, |last| last.saturating_add(1)),
            response,
            error: fault.openai(),
        }
    }
}
