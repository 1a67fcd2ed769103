//! Who watches the gate is told what becomes of each call, in order, and of no call by halves.

use std::collections::{HashMap, HashSet};

use futures_util::FutureExt;
use sluicegate::observe::{Event, Fate, Heard, Listener, Told};
use uuid::Uuid;

use crate::world::{World, chat, mock, mock_after, secs};

/// What has been told by now.
fn told(listener: &mut Listener) -> Vec<Told> {
    // A task that finds many events ready would be asked to let others run.
    let next = || match tokio::task::unconstrained(listener.next()).now_or_never()?? {
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

#[tokio::test(start_paused = true)]
async fn each_step_of_a_call_is_told() {
    let (world, _mock) = World::before(mock_after(secs(1)));
    let mut listener = world.gate.bus().listen();
    let (first, second) = tokio::join!(
        world.post("/v1/chat/completions", chat("hello")),
        world.post("/v1/chat/completions", chat("hello")),
    );
    let third = world.post("/v1/chat/completions", chat("hello")).await;
    assert!([first, second, third].iter().all(|reply| reply.status == 200));

    let events = told(&mut listener);
    let calls = by_call(&events);
    let ids: Vec<_> = world.records.all().iter().map(|record| (record.fate, record.id)).collect();
    let id = |fate| ids.iter().find(|(of, _)| *of == fate).expect("a call of this fate").1;
    let (miss, joined, hit) = (id(Fate::Miss), id(Fate::Joined), id(Fate::Hit));
    assert_eq!(calls[&miss], ["arrived", "started", "first_byte", "done"]);
    assert_eq!(calls[&joined], ["arrived", "joined", "first_byte", "done"]);
    assert_eq!(calls[&hit], ["arrived", "first_byte", "done"]);
    for Told { event, .. } in &events {
        match event {
            Event::Arrived { protocol, .. } => assert_eq!(*protocol, "chat"),
            Event::Joined { flight, .. } => assert_eq!(*flight, miss),
            Event::Started { provider, in_flight, .. } => {
                assert_eq!((&**provider, *in_flight), ("openai", 1))
            }
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_turned_away_is_told_with_its_reason() {
    let (world, _mock) = World::before(mock());
    let mut listener = world.gate.bus().listen();
    assert_eq!(world.post("/v1/chat/completions", "{").await.status, 400);
    let events = told(&mut listener);
    assert_eq!(by_call(&events).into_values().collect::<Vec<_>>(), [["arrived", "done"]]);
    let Some(Told { event: Event::Settled(record), .. }) = events.last() else { panic!("not told") };
    assert_eq!((record.fate, record.status), (Fate::Refused, 400));
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_is_told_of_later_calls_alone() {
    let (world, _mock) = World::before(mock_after(secs(1)));
    let running = world.post("/v1/chat/completions", chat("early"));
    let late = async {
        while world.gate.life.calls() == 0 {
            tokio::task::yield_now().await;
        }
        world.gate.bus().listen()
    };
    let (early, mut listener) = tokio::join!(running, late);
    assert_eq!(early.status, 200);
    assert!(told(&mut listener).is_empty());
    world.post("/v1/chat/completions", chat("late")).await;
    assert_eq!(by_call(&told(&mut listener)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_a_rush_some_calls_are_told_and_those_whole() {
    let (world, _mock) = World::before(mock_after(secs(1)));
    let mut listener = world.gate.bus().listen();
    let rush = async {
        let calls = (0..2_000)
            .map(|n| world.post("/v1/chat/completions", chat(&format!("number {n}"))).boxed_local());
        let replies = futures_util::future::join_all(calls).await;
        assert!(replies.iter().all(|reply| reply.status == 200));
    };
    let (mut events, mut rush) = (Vec::new(), std::pin::pin!(rush));
    loop {
        tokio::select! {
            () = &mut rush => break,
            heard = listener.next() => match heard {
                Some(Heard::Told(told)) => events.push(told),
                heard => panic!("{heard:?}"),
            },
        }
    }
    events.extend(told(&mut listener));
    let calls = by_call(&events);
    assert!((200..800).contains(&calls.len()), "{} calls", calls.len());
    assert!(calls.values().all(|steps| steps[..] == ["arrived", "started", "first_byte", "done"]));
    let one_in: HashSet<_> = events
        .iter()
        .filter_map(|told| if let Event::Sampling { one_in } = told.event { Some(one_in) } else { None })
        .collect();
    assert!(one_in.contains(&2), "{one_in:?}");
}
