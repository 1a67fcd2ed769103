//! The rest of OpenAI's endpoints that are more than a pass-through: legacy completions, embeddings, models.
//! Anthropic's list of models has the same path and stands here too.

use bytes::Bytes;

use super::openai_chat::{note_ends, read_answer, watch_chunk, watch_ends};
use super::{Dialect, Part, Shape};
use crate::edit::Edits;
use crate::fingerprint::{self, Rules};
use crate::fold::{Chunks, Fold, Form, unfold_chunks};
use crate::peek::Peek;
use crate::sse::Event;
use crate::watch::Watch;

/// `POST /v1/completions`
pub static COMPLETIONS: Completions = Completions;
/// `POST /v1/embeddings`
pub static EMBEDDINGS: Embeddings = Embeddings;
/// `GET /v1/models` and `/v1/models/ID`
pub static MODELS: Models = Models(Shape::OpenAi);
/// The same paths, asked for by a client of Anthropic's.
pub static MODELS_ANTHROPIC: Models = Models(Shape::Anthropic);

/// The protocol of legacy completions: chat's chunks with `text` where chat has a delta.
pub struct Completions;

impl Dialect for Completions {
    fn name(&self) -> &'static str {
        "completions"
    }

    fn shape(&self) -> Shape {
        Shape::OpenAi
    }

    fn is_generation(&self) -> bool {
        true
    }

    fn rules(&self) -> Option<&'static Rules> {
        Some(&fingerprint::COMPLETIONS)
    }

    fn leaves_usage(&self) -> bool {
        true
    }

    fn ask_usage(&self, request: &Peek, edits: &mut Edits) -> bool {
        edits.include_usage(request)
    }

    fn watch_event(&self, event: &Event<'_>, watch: &mut Watch) -> Part {
        watch_chunk(event, watch)
    }

    fn watch_ends(&self, head: &Event<'_>, tail: &[u8], watch: &mut Watch) {
        watch_ends(head, tail, watch);
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        read_answer(body, watch);
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }

    fn fold(&self) -> Option<Box<dyn Fold>> {
        Some(Box::new(Chunks::new(Form::Completions)))
    }

    fn unfold(&self, body: &[u8], usage: bool) -> Option<Vec<Bytes>> {
        unfold_chunks(Form::Completions, body, usage)
    }
}

/// The protocol of embeddings; never a stream.
pub struct Embeddings;

impl Dialect for Embeddings {
    fn name(&self) -> &'static str {
        "embeddings"
    }

    fn shape(&self) -> Shape {
        Shape::OpenAi
    }

    fn rules(&self) -> Option<&'static Rules> {
        Some(&fingerprint::EMBEDDINGS)
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        read_answer(body, watch);
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }
}

/// The lists of models; requests have no body.
pub struct Models(Shape);

impl Dialect for Models {
    fn name(&self) -> &'static str {
        "models"
    }

    fn shape(&self) -> Shape {
        self.0
    }

    fn reads_body(&self) -> bool {
        false
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        read_answer(body, watch);
    }

    fn read_ends(&self, head: &[u8], tail: &[u8], watch: &mut Watch) {
        note_ends(head, tail, watch);
    }
}
