//! One worker, many seats: equal calls share what one of them started.
//!
//! A *flight* is what the first caller of a key starts and the others board. Every caller has a seat; the last seat
//! to be given up ends the flight. [`Flights`] only keeps who is aboard: what flies is the caller's.
//!
//! Promises: of all callers of a key that would fit one flight, exactly one leads it, however they arrive; a flight
//! that was boarded is not abandoned while the seat is held; looking for a running flight, then for a kept answer,
//! then leading is one step, so that an answer which is kept before its flight is taken off the board is never
//! asked for twice. No lock is held while anything but the caller's own short closures runs.
//!
//! Deliberately not here: waiting, time, and what an answer is.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::sync::Mutex;

/// What flies, as far as the board needs to know.
pub trait Aircraft {
    /// Nobody is aboard any more, and nobody can board. Called once, without a lock held.
    fn abandon(&self);
}

type Shard<K, T, S> = Mutex<HashMap<K, SmallVec<[Arc<Flight<T>>; 1]>, S>>;

/// All flights that can be boarded, by key. A key can have several, of which callers may fit one and not another.
pub struct Flights<K, T, S> {
    shards: Box<[Shard<K, T, S>]>,
    hasher: S,
}

struct Flight<T> {
    /// Seats that are held. Changed under the shard's lock only.
    seats: Mutex<usize>,
    craft: T,
}

/// How a caller got on.
pub enum Boarded<K, T: Aircraft, S, C>
where
    K: Eq + Hash + Copy,
    S: BuildHasher,
{
    /// On a flight that somebody else had started.
    Joined(Seat<K, T, S>),
    /// Not at all: there is an answer already.
    Kept(C),
    /// On a new flight.
    Led(Seat<K, T, S>),
}

/// A caller's place on a flight. Dropping it gives it up.
pub struct Seat<K, T: Aircraft, S>
where
    K: Eq + Hash + Copy,
    S: BuildHasher,
{
    board: Option<Listed<K, T, S>>,
    flight: Arc<Flight<T>>,
}

/// Where a flight is listed.
type Listed<K, T, S> = (Arc<Flights<K, T, S>>, K);

impl<K, T, S> Flights<K, T, S>
where
    K: Eq + Hash + Copy,
    T: Aircraft,
    S: BuildHasher + Default + Clone,
{
    /// A board of about so many shards.
    pub fn new(shards: usize) -> Arc<Self> {
        let shards = (0..shards.max(1)).map(|_| Mutex::new(HashMap::default())).collect();
        Arc::new(Flights { shards, hasher: S::default() })
    }

    /// Boards a flight of this key that `fits`; else takes what `kept` has; else leads what `start` makes.
    ///
    /// All three run under a lock: they must be short and must not come back here.
    pub fn board<C>(
        self: &Arc<Self>,
        key: K,
        mut fits: impl FnMut(&T) -> bool,
        kept: impl FnOnce() -> Option<C>,
        start: impl FnOnce() -> T,
    ) -> Boarded<K, T, S, C> {
        let mut shard = self.shard(&key).lock();
        if let Some(flights) = shard.get(&key)
            && let Some(flight) = flights.iter().find(|flight| fits(&flight.craft))
        {
            *flight.seats.lock() += 1;
            let flight = flight.clone();
            return Boarded::Joined(Seat { board: Some((self.clone(), key)), flight });
        }
        if let Some(kept) = kept() {
            return Boarded::Kept(kept);
        }
        let flight = Arc::new(Flight { seats: Mutex::new(1), craft: start() });
        shard.entry(key).or_default().push(flight.clone());
        Boarded::Led(Seat { board: Some((self.clone(), key)), flight })
    }

    /// How many flights are on the board.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().values().map(SmallVec::len).sum::<usize>()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, T, S> Flights<K, T, S>
where
    K: Eq + Hash + Copy,
    T: Aircraft,
    S: BuildHasher,
{
    fn shard(&self, key: &K) -> &Shard<K, T, S> {
        // The upper bits, since the map in the shard uses the lower ones.
        let at = (self.hasher.hash_one(key) >> 32) as usize % self.shards.len();
        &self.shards[at]
    }

    fn take_off(&self, key: &K, flight: &Arc<Flight<T>>, also_if: impl FnOnce(&mut usize) -> bool) -> bool {
        let mut shard = self.shard(key).lock();
        if !also_if(&mut flight.seats.lock()) {
            return false;
        }
        if let Some(flights) = shard.get_mut(key) {
            flights.retain(|other| !Arc::ptr_eq(other, flight));
            if flights.is_empty() {
                shard.remove(key);
            }
        }
        true
    }
}

impl<K, T, S> Seat<K, T, S>
where
    K: Eq + Hash + Copy,
    T: Aircraft,
    S: BuildHasher,
{
    /// The first seat of a flight that nobody else can board.
    pub fn alone(craft: T) -> Self {
        Seat { board: None, flight: Arc::new(Flight { seats: Mutex::new(1), craft }) }
    }

    /// What flies.
    pub fn craft(&self) -> &T {
        &self.flight.craft
    }

    /// Takes the flight off the board: whoever comes now finds what is kept, or leads another one. Whoever is
    /// aboard stays so.
    pub fn close(&self) {
        if let Some((board, key)) = &self.board {
            board.take_off(key, &self.flight, |_| true);
        }
    }

    /// The flight's key, where others can board it.
    pub fn key(&self) -> Option<&K> {
        self.board.as_ref().map(|(_, key)| key)
    }

    /// A hold on the flight that is no seat: for who works on it and does not wait for it. None where nobody else
    /// can board.
    pub fn handle(&self) -> Option<Handle<K, T, S>> {
        let (board, key) = self.board.clone()?;
        Some(Handle { board, key, flight: self.flight.clone() })
    }

    /// One more seat on the same flight.
    #[must_use = "dropping a seat gives it up"]
    pub fn another(&self) -> Self {
        // This one is held, so the flight is not abandoned meanwhile.
        *self.flight.seats.lock() += 1;
        Seat { board: self.board.clone(), flight: self.flight.clone() }
    }
}

/// A hold on a flight that keeps nobody aboard.
pub struct Handle<K, T, S> {
    board: Arc<Flights<K, T, S>>,
    key: K,
    flight: Arc<Flight<T>>,
}

impl<K, T, S> Handle<K, T, S>
where
    K: Eq + Hash + Copy,
    T: Aircraft,
    S: BuildHasher,
{
    /// What flies.
    pub fn craft(&self) -> &T {
        &self.flight.craft
    }

    /// The flight's key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`Seat::close`].
    pub fn close(&self) {
        self.board.take_off(&self.key, &self.flight, |_| true);
    }
}

impl<K, T, S> Drop for Seat<K, T, S>
where
    K: Eq + Hash + Copy,
    T: Aircraft,
    S: BuildHasher,
{
    fn drop(&mut self) {
        let leave = |seats: &mut usize| {
            *seats -= 1;
            *seats == 0
        };
        let last = match &self.board {
            Some((board, key)) => board.take_off(key, &self.flight, leave),
            None => leave(&mut self.flight.seats.lock()),
        };
        if last {
            self.flight.craft.abandon();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
