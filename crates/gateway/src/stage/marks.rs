//! Which of the headers that matter to the gate a request has, from one look at each.
//!
//! Most requests have few of them, and a search for a header that is not there costs as much as one that finds it.

use http::{HeaderMap, HeaderName, header};

use super::up::ANTHROPIC_VERSION;
use crate::call::REQUEST_ID;

/// Headers that say that a call is to have its effect once.
const IDEMPOTENCY: [HeaderName; 2] =
    [HeaderName::from_static("idempotency-key"), HeaderName::from_static("x-idempotency-key")];

/// The headers that are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) accept_encoding: bool,
    pub(crate) anthropic_version: bool,
    pub(crate) content_encoding: bool,
    /// The call is to have its effect once.
    pub(crate) idempotency: bool,
    pub(crate) origin: bool,
    pub(crate) request_id: bool,
    pub(crate) upgrade: bool,
    /// The caller sends its body only when it is asked to; taking it in would ask.
    pub(crate) held_back: bool,
}

impl Marks {
    pub(crate) fn of(headers: &HeaderMap) -> Marks {
        let mut marks = Marks::default();
        for name in headers.keys() {
            marks.note(name);
        }
        marks
    }

    fn note(&mut self, name: &HeaderName) {
        match name {
            name if *name == header::ACCEPT_ENCODING => self.accept_encoding = true,
            name if *name == header::CONTENT_ENCODING => self.content_encoding = true,
            name if *name == header::EXPECT => self.held_back = true,
            name if *name == header::ORIGIN => self.origin = true,
            name if *name == header::UPGRADE => self.upgrade = true,
            name if *name == ANTHROPIC_VERSION => self.anthropic_version = true,
            name if *name == REQUEST_ID => self.request_id = true,
            name if IDEMPOTENCY.contains(name) => self.idempotency = true,
            _ => {}
        }
    }
}
