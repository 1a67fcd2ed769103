//! Where a stream is cut, and how its lines end, changes nothing.

use wire::translate::Reply;

use super::case::{Case, all};
use super::{Told, Way, reply, told};

/// Up to this length every pair of cuts is tried, some of them for longer ones.
const SHORT: usize = 400;

/// How many pairs of cuts are tried for longer streams.
const PAIRS: usize = 200;

fn streams() -> impl Iterator<Item = (Case, Reply)> {
    all().into_iter().filter(Case::has_events).map(|case| {
        let reply = Reply { names: case.put().names, ..reply() };
        (case, reply)
    })
}

fn one_cut_anywhere(way: Way) {
    for (case, reply) in streams().filter(|(case, _)| case.way == way) {
        let stream = case.answered.as_bytes();
        let whole = told(case.way, &reply, [stream]);
        for at in 0..=stream.len() {
            let (before, after) = stream.split_at(at);
            assert!(told(case.way, &reply, [before, after]) == whole, "{} cut at {at}", case.name);
        }
        assert!(told(case.way, &reply, stream.chunks(1)) == whole, "{} byte by byte", case.name);
    }
}

#[test]
fn one_cut_anywhere_in_messages() {
    one_cut_anywhere(Way::ChatAsksMessages);
}

#[test]
fn one_cut_anywhere_in_chunks() {
    one_cut_anywhere(Way::MessagesAsksChat);
}

#[test]
fn two_cuts() {
    for (case, reply) in streams() {
        let stream = case.answered.as_bytes();
        let whole = told(case.way, &reply, [stream]);
        let check = |from: usize, to: usize| {
            let pieces = [&stream[..from], &stream[from..to], &stream[to..]];
            assert!(told(case.way, &reply, pieces) == whole, "{} cut at {from} and {to}", case.name);
        };
        if stream.len() <= SHORT {
            (0..stream.len())
                .step_by(3)
                .for_each(|from| (from..stream.len()).step_by(7).for_each(|to| check(from, to)));
        }
        // Steps that have no divisor in common with the length come by every place in the end.
        let (mut from, mut width) = (0, 0);
        for _ in 0..PAIRS {
            from = (from + 7919) % stream.len();
            width = (width + 104_729) % (stream.len() - from + 1);
            check(from, from + width);
        }
    }
}

#[test]
fn other_line_ends() {
    for (case, reply) in streams() {
        let expected = told(case.way, &reply, [case.answered.as_bytes()]);
        for ends in ["\r\n", "\r"] {
            let stream = case.answered.replace('\n', ends);
            let check =
                |told: Told, how: &str| assert!(told == expected, "{} with {ends:?} {how}", case.name);
            check(told(case.way, &reply, [stream.as_bytes()]), "at once");
            for at in (0..=stream.len()).step_by(11) {
                let (before, after) = stream.as_bytes().split_at(at);
                check(told(case.way, &reply, [before, after]), &format!("cut at {at}"));
            }
            check(told(case.way, &reply, stream.as_bytes().chunks(1)), "byte by byte");
        }
    }
}
