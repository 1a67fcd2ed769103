//! Who watches the gate is told what becomes of each call, in order, and of no call by halves.

use std::collections::{HashMap, HashSet};

use futures_util::FutureExt;
use sluicegate::observe::{Event, Fate, Heard, Listener, Told};
use uuid::Uuid;

use crate::world::{World, chat, mock, mock_after, secs};

/// What has been told by now.
fn told(listener: &mut Listener) -> Vec<Told> {
    let next = || match listener.next().now_or_never()?? {
        Heard::Told(told) => Some(told),
        Heard::Missed(events) => panic!("{events} events missed"),
    };
    std::iter::from_fn(next).collect()
}

/// The call that an event is about, and a word for what became of it.
fn of_call(told: &Told) -> Option<(Uuid, &'static str)> {
    match &told.event {
        Event::Arrived { id, .. } => Some((*id, "arrived")),
        Event::Joined { id, .. } => Some((*id, "joined")),
        Event::Started { id, .. } => Some((*id, "started")),
        Event::FirstByte { id } => Some((*id, "first_byte")),
        Event::Settled(record) => Some((record.id, "done")),
        _ => None,
    }
}

fn by_call(events: &[Told]) -> HashMap<Uuid, Vec<&'static str>> {
    let mut calls = HashMap::<_, Vec<_>>::new();
    for (id, word) in events.iter().filter_map(of_call) {
        calls.entry(id).or_default().push(word);
    }
    calls
}
