//! Changes a request body by splicing: every byte outside a splice stays the
//! caller's own, and none is copied.
//!
//! Invariant: splices are in order and do not overlap. Their ranges come from
//! the [`Peek`] of the body that they are applied to; [`Edits::apply`] to a
//! shorter body panics, as slicing does. Applied to its body, what
//! [`Edits::model`] and [`Edits::include_usage`] ask for gives one valid JSON
//! object again, in which nothing else differs.

use std::ops::Range;

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use crate::peek::Peek;

/// Splices to make in one body.
#[derive(Clone, Debug, Default)]
pub struct Edits(SmallVec<[(Range<usize>, Bytes); 2]>);

impl Edits {
    /// Puts `bytes` where `range` is. The range must not overlap an earlier one.
    pub fn replace(&mut self, range: Range<usize>, bytes: impl Into<Bytes>) {
        let place = self.0.partition_point(|(earlier, _)| earlier.start <= range.start);
        debug_assert!(place == 0 || self.0[place - 1].0.end <= range.start, "overlaps the splice before it");
        debug_assert!(
            place == self.0.len() || range.end <= self.0[place].0.start,
            "overlaps the splice after it"
        );
        self.0.insert(place, (range, bytes.into()));
    }

    /// Puts `bytes` before what is at `at`, after what was inserted there already.
    pub fn insert(&mut self, at: usize, bytes: impl Into<Bytes>) {
        self.replace(at..at, bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Has the body ask for the model `name`, whether it named one or not.
    pub fn model(&mut self, peek: &Peek, name: &str) {
        let name = serde_json::Value::from(name).to_string();
        match (&peek.model, &peek.null_model) {
            (Some(model), _) => self.replace(model.span.clone(), name),
            (None, Some(null)) => self.replace(null.clone(), name),
            (None, None) => self.member(peek.object_start, peek.empty, format!("\"model\":{name}")),
        }
    }

    /// Has the body ask for usage on its stream. False: it does so already.
    pub fn include_usage(&mut self, peek: &Peek) -> bool {
        const WHOLE: &str = r#"{"include_usage":true}"#;
        const MEMBER: &str = r#""include_usage":true"#;

        let Some(options) = &peek.stream_options else {
            self.member(peek.object_start, peek.empty, format!("\"stream_options\":{WHOLE}"));
            return true;
        };
        match (options.object_start, &options.include_usage) {
            (_, Some((_, Some(true)))) => return false,
            (_, Some((value, _))) => self.replace(value.clone(), "true"),
            (Some(start), None) => self.member(start, options.empty, MEMBER.to_owned()),
            (None, None) => self.replace(options.span.clone(), WHOLE),
        }
        true
    }

    /// Adds a member to the object that starts before `start`. In one without
    /// members the first to come takes no comma, and the next ones bring it.
    fn member(&mut self, start: usize, empty: bool, mut text: String) {
        if !empty {
            text.push(',');
        } else if self.0.iter().any(|(range, _)| range.start == start) {
            text.insert(0, ',');
        }
        self.insert(start, text);
    }

    /// The edited body, as slices of the old one with the splices between them.
    pub fn apply(&self, body: &Bytes) -> Slices {
        let mut slices = Slices::default();
        let mut at = 0;
        for (range, bytes) in &self.0 {
            slices.push(body.slice(at..range.start));
            slices.push(bytes.clone());
            at = range.end;
        }
        slices.push(body.slice(at..));
        slices.parts.reverse();
        slices
    }
}

/// A body in pieces, taken from the front.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// Last piece first; none is empty.
    parts: SmallVec<[Bytes; 4]>,
    len: usize,
}

impl Slices {
    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.len += bytes.len();
            self.parts.push(bytes);
        }
    }

    pub fn pop_front(&mut self) -> Option<Bytes> {
        let first = self.parts.pop()?;
        self.len -= first.len();
        Some(first)
    }

    /// Puts `bytes` before all others.
    pub fn push_front(&mut self, bytes: Bytes) {
        self.push(bytes);
    }

    /// The pieces, from the front.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter().rev()
    }

    /// Takes `count` bytes from the front; panics if there are fewer.
    pub fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.parts.last_mut().filter(|_| count > 0) {
            let taken = count.min(first.len());
            count -= taken;
            self.len -= taken;
            if taken == first.len() {
                self.parts.pop();
            } else {
                first.advance(taken);
            }
        }
        assert_eq!(count, 0, "there are that many bytes");
    }

    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
