//! Paths that are passed on without being understood: audio, images, files, batches, what comes next year.
//!
//! Nothing is watched but the error of a call that failed, for the log.

use super::complaint::complaint;
use super::{Dialect, Shape};
use crate::watch::Watch;

/// Any other path of OpenAI's.
pub static OPAQUE_OPENAI: Opaque = Opaque(Shape::OpenAi);
/// Any other path of Anthropic's.
pub static OPAQUE_ANTHROPIC: Opaque = Opaque(Shape::Anthropic);

/// No protocol in particular, but a vendor's shape of errors.
pub struct Opaque(Shape);

impl Dialect for Opaque {
    fn name(&self) -> &'static str {
        "opaque"
    }

    fn shape(&self) -> Shape {
        self.0
    }

    fn reads_body(&self) -> bool {
        false
    }

    fn read_answer(&self, body: &[u8], watch: &mut Watch) {
        if let Some(said) = complaint(body) {
            watch.set_error(&said);
        }
    }
}
