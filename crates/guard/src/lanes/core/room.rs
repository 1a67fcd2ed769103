//! Who gives way to a newcomer in a full queue.
//!
//! The newest waiter of the key that holds most of it, as long as the newcomer's key then holds no more than
//! that one still does. So a full queue is shared evenly by whoever asks for it (max-min), a key alone in it
//! displaces nobody of its own, and no two keys can push each other out in turn.

use std::collections::BinaryHeap;

use smallvec::SmallVec;

use super::super::{FullReason, Limits};
use super::queue::Queue;
use super::rank::Rank;

pub(super) type Victims = SmallVec<[Rank; 1]>;

pub(super) fn make_room<W>(
    queue: &Queue<W>,
    limits: &Limits,
    key: u64,
    bytes: u64,
) -> Result<Victims, FullReason> {
    let own = queue.share(key);
    // First, since otherwise a key at its bound could displace others and then not take the place.
    if own.waiting >= limits.per_key {
        return Err(FullReason::Key);
    }
    let mut room = Room { queue, victims: Victims::new(), touched: BinaryHeap::new(), held: queue.bytes() };
    if queue.len() >= limits.max_waiting {
        // Above the bound (it shrank), the queue gets shorter before anybody takes anybody's place.
        let most =
            queue.longest().filter(|(most, _)| queue.len() == limits.max_waiting && own.waiting + 1 < *most);
        let (_, longest) = most.ok_or(FullReason::Queue)?;
        let victim = (queue.share(longest).bytes, longest, u64::MAX);
        room.displace(victim, |_| true);
    }
    room.fit(limits.max_bytes, key, bytes)?;
    Ok(room.victims)
}

/// A key that gives way: the bytes it holds still, itself, and the arrival from which on its calls are gone.
type Giver = (u64, u64, u64);

/// What giving way would come to, decided before anybody has to.
struct Room<'a, W> {
    queue: &'a Queue<W>,
    victims: Victims,
    touched: BinaryHeap<Giver>,
    held: u64,
}

impl<W> Room<'_, W> {
    fn fit(&mut self, most: u64, key: u64, bytes: u64) -> Result<(), FullReason> {
        let mine = self.queue.share(key).bytes.saturating_add(bytes);
        let queue = self.queue;
        let touched = self.touched.peek().map(|giver| giver.1);
        let mut heaviest = queue.heaviest().filter(|(_, key)| Some(*key) != touched).peekable();
        while self.held.saturating_add(bytes) > most && self.victims.len() < queue.len() {
            // A key is taken from the queue's order once and is in the heap from then on.
            let fresh = heaviest.peek().map(|&(bytes, key)| (bytes, key, u64::MAX));
            let giver = if fresh.is_some_and(|fresh| self.touched.peek().is_none_or(|top| *top < fresh)) {
                heaviest.next();
                fresh
            } else {
                self.touched.pop()
            };
            let giver = giver.filter(|giver| giver.1 != key).ok_or(FullReason::Bytes)?;
            // Who waits without bytes would make no room by leaving.
            if self.displace(giver, |bytes| bytes > 0) < mine {
                return Err(FullReason::Bytes);
            }
        }
        Ok(())
    }

    /// The key's newest gives way, if it helps; what the key has left.
    fn displace(&mut self, (held, key, before): Giver, helps: impl Fn(u64) -> bool) -> u64 {
        let Some((rank, bytes)) = self.queue.newest_of(key, before) else { return 0 };
        self.victims.extend(helps(bytes).then_some(rank));
        self.held -= bytes;
        self.touched.push((held - bytes, key, rank.arrival));
        held - bytes
    }
}
