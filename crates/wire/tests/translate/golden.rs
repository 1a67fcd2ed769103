//! Each case, as it was written down: what leaves, and what the client hears.

use wire::translate::Reply;

use super::case::{Case, all, names};
use super::{Told, Way, canonical, reply, told};

/// What cases there are of, plain and streamed, by who asks whom.
const KINDS: [(&str, [(usize, usize); 2]); 10] = [
    ("text", [(2, 1), (1, 1)]),
    ("tools", [(1, 3), (1, 2)]),
    ("images", [(1, 1), (1, 1)]),
    ("documents", [(1, 1), (1, 1)]),
    ("thinking", [(1, 1), (1, 1)]),
    ("form", [(1, 1), (1, 1)]),
    ("refusal", [(1, 1), (1, 1)]),
    ("stop", [(1, 1), (1, 1)]),
    ("length", [(1, 1), (1, 1)]),
    ("error", [(2, 3), (3, 3)]),
];

#[test]
fn no_case_is_missing() {
    let cases = all();
    for (at, way) in Way::BOTH.into_iter().enumerate() {
        for (kind, counts) in KINDS {
            let count = |streamed| {
                let alike = |case: &&Case| case.way == way && case.kind == kind && case.streamed == streamed;
                cases.iter().filter(alike).count()
            };
            assert_eq!((count(false), count(true)), counts[at], "{way:?}: {kind}");
        }
    }
    let known: usize =
        KINDS.iter().flat_map(|(_, counts)| counts).map(|(plain, stream)| plain + stream).sum();
    assert_eq!(cases.len(), known, "cases of kinds that are not listed");
}

/// Complains about all cases at once.
fn check(complaints: impl Fn(&Case) -> Vec<String>) {
    let all: Vec<String> = all()
        .iter()
        .flat_map(|case| complaints(case).into_iter().map(|said| format!("{}: {said}", case.name)))
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

/// What is said if two things are not the same.
fn differs<T: PartialEq + std::fmt::Display>(what: &str, got: T, expected: T) -> Option<String> {
    (got != expected).then(|| format!("{what}\ngot      {got}\nexpected {expected}"))
}

#[test]
fn what_leaves_is_what_the_provider_wants() {
    check(|case| {
        let put = case.put();
        let sent = canonical(std::str::from_utf8(&put.body).unwrap());
        let dropped = names(&put.dropped).join(", ");
        let complaints = [
            differs("sent", sent, canonical(&case.sent)),
            differs("dropped", dropped, case.about.dropped.join(", ")),
        ];
        complaints.into_iter().flatten().collect()
    });
}

#[test]
fn what_the_client_hears_is_the_answer() {
    check(|case| {
        let reply = Reply { names: case.put().names, ..reply() };
        if case.has_events() {
            let Told { with_usage, without } = told(case.way, &reply, [case.answered.as_bytes()]);
            let heard = if case.wants_usage() { with_usage } else { without };
            return differs("told", String::from_utf8(heard).unwrap(), case.told.clone())
                .into_iter()
                .collect();
        }
        let answer = case.answered.trim_ascii().as_bytes();
        let heard = case.way.crossing().answer(case.about.status, answer, &reply, "req-1").unwrap();
        let complaints = [
            differs("told", canonical(std::str::from_utf8(&heard.body).unwrap()), canonical(&case.told)),
            differs("status", heard.status, case.about.told_status),
            differs("lost", names(&heard.lost).join(", "), case.about.lost.join(", ")),
        ];
        complaints.into_iter().flatten().collect()
    });
}
