//! Provider prompt caching: has this beginning of a prompt been seen in the last five minutes?
//!
//! A prompt is hashed from its start, and the hash so far is noted at its *marks*. OpenAI's marks are every
//! 128 tokens from 1,024 on and all are remembered; Anthropic's are the ends of blocks, and those with a
//! `cache_control` are remembered. Reading takes the longest mark that is known.
//!
//! Bounded: when full, the older half goes.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::hash::Hash;

const LIFETIME: Duration = Duration::from_secs(300);
const MOST_IN_HALF: usize = 1 << 16;
/// Shorter prefixes are not cached, by either provider.
pub(crate) const LEAST_TOKENS: u64 = 1024;
const OPENAI_STEP: u64 = 128;
const BYTES_PER_TOKEN: u64 = 4;

/// Tokens of a text: providers come out near four bytes each.
pub(crate) fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// A prompt up to some place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixMark {
    pub(crate) tokens: u64,
    hash: u64,
    /// Remembered, so that later prompts find it.
    pub(crate) kept: bool,
}

/// Hashes a prompt piece by piece.
pub(crate) struct PrefixHasher {
    hash: Hash,
    /// Who may share prefixes: marks of different scopes never meet.
    scope: u64,
    bytes: u64,
    marks: Vec<PrefixMark>,
    /// Whether marks are every so many tokens, or only where [`Self::mark`] says.
    in_steps: bool,
}

impl PrefixHasher {
    pub(crate) fn in_steps(scope: u64) -> Self {
        Self { hash: Hash::new(0), scope, bytes: 0, marks: Vec::new(), in_steps: true }
    }

    pub(crate) fn at_marks(scope: u64) -> Self {
        Self { in_steps: false, ..Self::in_steps(scope) }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while self.in_steps && !bytes.is_empty() {
            let step = OPENAI_STEP * BYTES_PER_TOKEN;
            let to_next = (step - self.bytes % step) as usize;
            let Some((piece, rest)) = bytes.split_at_checked(to_next) else { break };
            self.take(piece);
            bytes = rest;
            if tokens_of(self.bytes) >= LEAST_TOKENS {
                self.mark(true);
            }
        }
        if !bytes.is_empty() {
            self.take(bytes);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.hash = self.hash.bytes(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Counts what is not text, an image for one, as so many tokens.
    pub(crate) fn weigh(&mut self, tokens: u64) {
        self.bytes += tokens * BYTES_PER_TOKEN;
    }

    /// Tells prompts apart without counting.
    pub(crate) fn tell_apart(&mut self, bytes: &[u8]) {
        self.hash = self.hash.bytes(bytes);
    }

    /// Of all that was fed, whoever asked.
    pub(crate) fn seed(&self) -> u64 {
        self.hash.finish()
    }

    pub(crate) fn mark(&mut self, kept: bool) {
        let hash = Hash::new(self.scope).number(self.hash.finish()).finish();
        self.marks.push(PrefixMark { tokens: self.tokens(), hash, kept });
    }

    pub(crate) fn tokens(&self) -> u64 {
        tokens_of(self.bytes)
    }

    pub(crate) fn finish(self) -> Vec<PrefixMark> {
        self.marks
    }
}

#[derive(Default)]
pub(crate) struct PrefixCache {
    halves: Mutex<Halves>,
}

#[derive(Default)]
struct Halves {
    young: HashMap<u64, Instant>,
    old: HashMap<u64, Instant>,
}

impl PrefixCache {
    /// The tokens of the longest prefix that is known; then remembers this prompt's.
    pub(crate) fn pass(&self, marks: &[PrefixMark]) -> u64 {
        let now = Instant::now();
        let mut halves = self.halves.lock();
        let usable = || marks.iter().rev().filter(|mark| mark.tokens >= LEAST_TOKENS);
        let read = usable().find(|mark| halves.knows(mark.hash, now)).map_or(0, |mark| mark.tokens);
        for mark in usable().filter(|mark| mark.kept || mark.tokens == read) {
            halves.note(mark.hash, now);
        }
        read
    }

    pub(crate) fn clear(&self) {
        *self.halves.lock() = Halves::default();
    }
}

impl Halves {
    fn knows(&self, hash: u64, now: Instant) -> bool {
        let seen = self.young.get(&hash).or_else(|| self.old.get(&hash));
        seen.is_some_and(|seen| now.duration_since(*seen) < LIFETIME)
    }

    fn note(&mut self, hash: u64, now: Instant) {
        if self.young.len() >= MOST_IN_HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, now);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn in_steps(text: &str) -> Vec<PrefixMark> {
        let mut hasher = PrefixHasher::in_steps(0);
        for piece in text.as_bytes().chunks(1000) {
            hasher.feed(piece);
        }
        hasher.finish()
    }

    #[tokio::test(start_paused = true)]
    async fn an_equal_beginning_is_read_in_steps_of_128_tokens() {
        let cache = PrefixCache::default();
        let shared = "a".repeat(4 * 2000);
        assert_eq!(cache.pass(&in_steps(&format!("{shared}one"))), 0);
        assert_eq!(cache.pass(&in_steps(&format!("{shared}{}", "b".repeat(4000)))), 2000 / 128 * 128);
        assert_eq!(cache.pass(&in_steps(&format!("b{shared}"))), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn short_prompts_are_not_cached() {
        let cache = PrefixCache::default();
        let short = in_steps(&"a".repeat(4 * 1023));
        assert_eq!((cache.pass(&short), cache.pass(&short)), (0, 0));
        let enough = in_steps(&"a".repeat(4 * 1024));
        assert_eq!((cache.pass(&enough), cache.pass(&enough)), (0, 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn it_forgets_after_five_minutes_without_use() {
        let cache = PrefixCache::default();
        let prompt = in_steps(&"a".repeat(8000));
        cache.pass(&prompt);
        advance(LIFETIME - Duration::from_secs(1)).await;
        assert!(cache.pass(&prompt) > 0);
        advance(LIFETIME - Duration::from_secs(1)).await;
        assert!(cache.pass(&prompt) > 0);
        advance(LIFETIME).await;
        assert_eq!(cache.pass(&prompt), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_kept_marks_are_found_again() {
        let cache = PrefixCache::default();
        let prompt = |kept| {
            let mut hasher = PrefixHasher::at_marks(0);
            hasher.feed(&[b'a'; 8000]);
            hasher.mark(kept);
            hasher.feed(b"tail");
            hasher.mark(false);
            hasher.finish()
        };
        assert_eq!((cache.pass(&prompt(false)), cache.pass(&prompt(true))), (0, 0));
        assert_eq!(cache.pass(&prompt(false)), 2000);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded() {
        let cache = PrefixCache::default();
        for scope in 0..3 * MOST_IN_HALF as u64 {
            let mut hasher = PrefixHasher::at_marks(scope);
            hasher.weigh(LEAST_TOKENS);
            hasher.mark(true);
            cache.pass(&hasher.finish());
        }
        let halves = cache.halves.lock();
        assert!(halves.young.len() + halves.old.len() <= 2 * MOST_IN_HALF);
    }
}
