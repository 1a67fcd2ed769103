//! What a flight brings, frame by frame, readable from the start by everybody aboard.
//!
//! One writer appends; each reader goes at its own pace, and one that comes late finds all that came before it.
//!
//! Promises: every reader gets the head, then each frame once and in order, then the ending. Memory is bounded: a
//! tape that has grown past its own bound, or while all tapes together are past theirs, stops keeping what
//! everybody aboard has read. From then on nobody can start from the beginning, and the slowest reader paces the
//! writer; one that holds it up for too long is cast off ([`Tape::cast_off`]). A reader that waits is woken by what
//! it waits for.
//!
//! Deliberately not here: time. Whoever drives the writer decides how long too long is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use smallvec::SmallVec;

/// Bytes that a writer may be ahead of the slowest reader, once read frames are not kept.
const AHEAD: usize = 256 << 10;

/// What all tapes together may keep.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    /// Of so many bytes.
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0) })
    }

    /// Whether nothing more should be kept.
    pub fn is_spent(&self) -> bool {
        self.used() > self.limit
    }

    /// What tapes keep now, in bytes.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

/// One flight's frames. `H`, `F` and `E` are cheap to clone: what is shared is behind them.
#[derive(Debug)]
pub struct Tape<H, F, E> {
    state: Mutex<State<H, F, E>>,
    limit: usize,
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct State<H, F, E> {
    head: Option<H>,
    /// Each with its weight in bytes.
    frames: VecDeque<(F, usize)>,
    /// How many frames came before those.
    dropped: u64,
    weight: usize,
    /// Frames stay after they were read.
    keeps: bool,
    ending: Option<E>,
    readers: SmallVec<[Option<Place>; 1]>,
    writer: Option<Waker>,
    abandoned: bool,
}

/// How far a reader is.
#[derive(Debug, Default)]
struct Place {
    at: u64,
    waker: Option<Waker>,
    cast_off: bool,
}

/// Somebody who reads. Given back with [`Tape::leave`].
#[derive(Debug)]
pub struct Reader(usize);

/// What comes next for a reader.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<F, E> {
    Frame(F),
    End(E),
    /// The reader held the others up for too long, and its frames are gone.
    CastOff,
}

impl<H: Clone, F: Clone, E: Clone> Tape<H, F, E> {
    /// A tape that keeps up to `limit` bytes, as long as the budget allows it; none at all where `keeps` is false.
    pub fn new(keeps: bool, limit: usize, budget: Arc<Budget>) -> Self {
        let state = State {
            head: None,
            frames: VecDeque::new(),
            dropped: 0,
            weight: 0,
            keeps,
            ending: None,
            readers: SmallVec::new(),
            writer: None,
            abandoned: false,
        };
        Tape { state: Mutex::new(state), limit, budget }
    }

    /// A reader from the beginning. Asked for in one step with whether that is still here: it can be let go of at
    /// any moment ([`Tape::keeps`]), and an answer without its beginning must look whole to nobody.
    pub fn reader(&self) -> Option<Reader> {
        let mut state = self.state.lock();
        if state.dropped > 0 {
            return None;
        }
        let place = Place::default();
        Some(match state.readers.iter().position(Option::is_none) {
            Some(free) => {
                state.readers[free] = Some(place);
                Reader(free)
            }
            None => {
                state.readers.push(Some(place));
                Reader(state.readers.len() - 1)
            }
        })
    }

    /// Whether everything from the beginning is here.
    pub fn keeps(&self) -> bool {
        self.state.lock().keeps
    }

    /// The ending, once it is there.
    pub fn ending(&self) -> Option<E> {
        self.state.lock().ending.clone()
    }

    /// All frames, where the tape keeps them.
    pub fn frames(&self) -> Option<SmallVec<[F; 1]>> {
        let state = self.state.lock();
        state.keeps.then(|| state.frames.iter().map(|(frame, _)| frame.clone()).collect())
    }

    /// The head, once it is there.
    pub fn head(&self) -> Option<H> {
        self.state.lock().head.clone()
    }

    /// The head, if it is there already. A reader that only asks is woken by nothing.
    pub fn try_head(&self, reader: &Reader) -> Option<H> {
        let mut state = self.state.lock();
        state.rouse(reader);
        state.head.clone()
    }

    /// The head, once it is there.
    pub fn poll_head(&self, reader: &Reader, cx: &Context<'_>) -> Poll<H> {
        let mut state = self.state.lock();
        match state.head.clone() {
            Some(head) => Poll::Ready(head),
            None => {
                state.wait(reader, cx);
                Poll::Pending
            }
        }
    }

    /// The next frame, or the ending after the last one, if it is there already. A reader that only asks is woken
    /// by nothing.
    pub fn try_next(&self, reader: &Reader) -> Option<Next<F, E>> {
        let mut state = self.state.lock();
        state.rouse(reader);
        let (next, freed) = state.take_next(reader);
        self.give_back(freed);
        next
    }

    /// The next frame, or the ending after the last one.
    pub fn poll_next(&self, reader: &Reader, cx: &Context<'_>) -> Poll<Next<F, E>> {
        let mut state = self.state.lock();
        state.rouse(reader);
        let (next, freed) = state.take_next(reader);
        self.give_back(freed);
        match next {
            Some(next) => Poll::Ready(next),
            None => {
                state.wait(reader, cx);
                Poll::Pending
            }
        }
    }

    /// The ending, once it is there, without the frames before it.
    pub fn poll_ending(&self, reader: &Reader, cx: &Context<'_>) -> Poll<E> {
        let mut state = self.state.lock();
        match state.ending.clone() {
            Some(ending) => Poll::Ready(ending),
            None => {
                state.wait(reader, cx);
                Poll::Pending
            }
        }
    }

    fn give_back(&self, freed: usize) {
        if freed > 0 {
            self.budget.used.fetch_sub(freed, Relaxed);
        }
    }

    /// A reader reads no more.
    pub fn leave(&self, reader: &Reader) {
        let mut state = self.state.lock();
        let place = state.readers[reader.0].take();
        if !state.keeps {
            let freed = state.free_read();
            self.give_back(freed);
        }
        drop(state);
        // Last, since dropping a waker may drop its task.
        drop(place);
    }

    /// Nobody will read any more: the writer is woken, and may stop.
    pub fn abandon(&self) {
        let writer = {
            let mut state = self.state.lock();
            state.abandoned = true;
            state.writer.take()
        };
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Ready once the tape is abandoned; notes whom to wake.
    pub fn poll_abandoned(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.abandoned {
            return Poll::Ready(());
        }
        state.note_writer(cx);
        Poll::Pending
    }

    /// The writer tells the head. Only the first one counts.
    pub fn put_head(&self, head: H) {
        let mut state = self.state.lock();
        if state.head.is_none() {
            state.head = Some(head);
            state.wake_readers();
        }
    }

    /// The writer appends a frame that takes so many bytes.
    pub fn push(&self, frame: F, weight: usize) {
        let mut state = self.state.lock();
        state.frames.push_back((frame, weight));
        state.weight += weight;
        self.budget.used.fetch_add(weight, Relaxed);
        if state.keeps && (state.weight > self.limit || self.budget.is_spent()) {
            state.keeps = false;
            let freed = state.free_read();
            self.give_back(freed);
        }
        state.wake_readers();
    }

    /// Ready when the writer may go on: nobody is too far behind.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.keeps || state.weight <= AHEAD {
            return Poll::Ready(());
        }
        state.note_writer(cx);
        Poll::Pending
    }

    /// Lets go of the readers that hold the writer up, if others are further. Does nothing where
    /// nobody is.
    pub fn cast_off(&self) {
        let mut state = self.state.lock();
        let first = state.dropped;
        if state.live().all(|place| place.at == first) {
            return;
        }
        for place in state.readers.iter_mut().flatten() {
            if place.at == first && !place.cast_off {
                place.cast_off = true;
                if let Some(waker) = place.waker.take() {
                    waker.wake();
                }
            }
        }
        let freed = state.free_read();
        self.give_back(freed);
    }

    /// The writer has nothing more. Only the first ending counts.
    pub fn finish(&self, ending: E) {
        let mut state = self.state.lock();
        if state.ending.is_none() {
            state.ending = Some(ending);
            state.wake_readers();
        }
    }
}

impl<H, F, E> Drop for Tape<H, F, E> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.state.get_mut().weight, Relaxed);
    }
}

impl<H, F: Clone, E: Clone> State<H, F, E> {
    /// What comes next for a reader, if it is there, and how much that freed.
    fn take_next(&mut self, reader: &Reader) -> (Option<Next<F, E>>, usize) {
        let Some(place) = self.readers[reader.0].as_mut().filter(|place| !place.cast_off) else {
            return (Some(Next::CastOff), 0);
        };
        match self.frames.get((place.at - self.dropped) as usize) {
            Some((frame, _)) => {
                let next = Next::Frame(frame.clone());
                place.at += 1;
                (Some(next), if self.keeps { 0 } else { self.free_read() })
            }
            None => (self.ending.clone().map(Next::End), 0),
        }
    }
}

impl<H, F, E> State<H, F, E> {
    /// A reader that reads need not be woken.
    fn rouse(&mut self, reader: &Reader) {
        if let Some(place) = self.readers[reader.0].as_mut() {
            place.waker = None;
        }
    }

    fn wait(&mut self, reader: &Reader, cx: &Context<'_>) {
        let Some(place) = self.readers[reader.0].as_mut() else { return };
        if !place.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            place.waker = Some(cx.waker().clone());
        }
    }

    fn note_writer(&mut self, cx: &Context<'_>) {
        if !self.writer.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.writer = Some(cx.waker().clone());
        }
    }

    fn live(&self) -> impl Iterator<Item = &Place> {
        self.readers.iter().flatten().filter(|place| !place.cast_off)
    }

    /// Waking only schedules; nobody comes back here from it.
    fn wake_readers(&mut self) {
        for place in self.readers.iter_mut().flatten() {
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    /// Frees the frames that everybody has read, and wakes the writer where that makes room. Returns their weight.
    fn free_read(&mut self) -> usize {
        let all = self.dropped + self.frames.len() as u64;
        let slowest = self.live().map(|place| place.at).min().unwrap_or(all);
        let before = self.weight;
        while self.dropped < slowest
            && let Some((_, weight)) = self.frames.pop_front()
        {
            self.dropped += 1;
            self.weight -= weight;
        }
        if self.weight < before
            && self.weight <= AHEAD
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
        before - self.weight
    }
}

#[cfg(test)]
mod tests;
