//! Marks up to which the prompt is to be cached.
//!
//! The provider takes four; of more, the last ones count, because they cover the most. A mark is no part of what the
//! provider compares, so that one that moves on with the conversation does not change what is before it.

use std::ops::Range;

use crate::translate::canon::Cache;
use crate::translate::json::Object;

/// How many marks a request may have.
const MOST: usize = 4;

/// The parts of a prompt, in the order in which the model reads them. The body has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Tools,
    System,
    Messages,
    Whole,
}

/// Where in the body marks stand.
#[derive(Default)]
pub(super) struct Marks(Vec<(Section, Range<usize>)>);

impl Marks {
    /// Puts a mark into a block that has a member already.
    pub(super) fn put(&mut self, section: Section, cache: Option<Cache>, block: &mut Object<'_>) {
        let Some(cache) = cache else { return };
        let from = block.out().len();
        let mark = match cache {
            Cache::Short => r#"{"type":"ephemeral"}"#,
            Cache::Long => r#"{"type":"ephemeral","ttl":"1h"}"#,
        };
        block.json("cache_control", mark);
        self.0.push((section, from..block.out().len()));
    }

    /// The body without the marks that are too many.
    pub(super) fn thin(mut self, body: Vec<u8>) -> Vec<u8> {
        let surplus = self.0.len().saturating_sub(MOST);
        if surplus == 0 {
            return body;
        }
        self.0.sort_by_key(|(section, range)| (*section, range.start));
        self.0.truncate(surplus);
        self.0.sort_by_key(|(_, range)| range.start);
        let mut thinned = Vec::with_capacity(body.len());
        let mut from = 0;
        for (_, range) in self.0 {
            thinned.extend_from_slice(&body[from..range.start]);
            from = range.end;
        }
        thinned.extend_from_slice(&body[from..]);
        thinned
    }
}
