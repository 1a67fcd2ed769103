//! Two bodies have one fingerprint exactly if they say the same, as a slow reference tells it; and who asks for
//! one is refused what all are refused.

#![no_main]

#[path = "../../crates/wire/src/fingerprint/tests/reference.rs"]
mod reference;

use http::HeaderMap;
use libfuzzer_sys::fuzz_target;
use reference::{Dice, canonical, parse};
use wire::dialect::{DIALECTS, Dialect};
use wire::fingerprint::{Fingerprint, Parts, Scratch, Sharing};
use wire::peek::Peek;

fuzz_target!(|body: &[u8]| {
    let refused = Peek::of(body).err();
    let mut room = Scratch::default();
    for &dialect in DIALECTS {
        let Some(rules) = dialect.rules() else { continue };
        match Peek::shared(body, rules, &mut room) {
            Ok((_, sharing)) => assert_other_spellings(body, sharing, dialect, &mut room),
            Err(why) => assert_eq!(Some(why), refused),
        }
    }
});

fn assert_other_spellings(body: &[u8], sharing: Sharing, dialect: &dyn Dialect, room: &mut Scratch) {
    let rules = dialect.rules().expect("it was read by them");
    let mut read = |body: &str| Peek::shared(body.as_bytes(), rules, room).map(|(_, sharing)| sharing);
    let mut json = parse(body);
    let mut dice = Dice(body.iter().fold(1, |seed: u64, &byte| seed.wrapping_mul(31) ^ u64::from(byte)));

    let other = read(&dice.spell(&json)).expect("it says the same");
    let key = fingerprint(sharing, dialect);
    assert_eq!(key, fingerprint(other, dialect), "spelled otherwise");

    dice.change(&mut json);
    let changed = dice.spell(&json);
    // What was changed may be what the body lived by.
    let Ok(other) = read(&changed) else { return };
    if let (Some(key), Some(other)) = (key, fingerprint(other, dialect)) {
        let same = canonical(&parse(body), dialect.name()) == canonical(&json, dialect.name());
        assert_eq!(key == other, same, "changed to {changed}");
    }
}

fn fingerprint(sharing: Sharing, dialect: &dyn Dialect) -> Option<Fingerprint> {
    let Sharing::Allowed(meaning) = sharing else { return None };
    let headers = HeaderMap::new();
    let parts = Parts {
        dialect: dialect.name(),
        crossing: None,
        model: "m",
        account: b"a",
        scope: b"s",
        headers: &headers,
        query: None,
    };
    Some(Fingerprint::of(&parts, &meaning))
}
