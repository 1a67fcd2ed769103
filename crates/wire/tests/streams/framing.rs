//! Any bytes in any chunks: whole events go out as soon as they are whole, and nothing else is changed.

use proptest::prelude::*;
use wire::dialect::{CHAT, DIALECTS};

use super::{kept, relay, split};

/// Lines and line ends as streams are made of, and some that they should not be made of.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(&b"\n"[..]),
        3 => Just(&b"\r\n"[..]),
        2 => Just(&b"\r"[..]),
        2 => Just(&b"\n\n"[..]),
        3 => Just(&b"data: {\"choices\":[{\"delta\":{\"content\":\"\xc3\xa9\"}}]}"[..]),
        2 => Just(&b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}"[..]),
        1 => Just(&b"data: {\"choices\":[{\"finish_reason\":\"stop\"}]}"[..]),
        1 => Just(&b"data: [DONE]"[..]),
        1 => Just(&b"event: message_stop"[..]),
        1 => Just(&b": comment"[..]),
        1 => Just(&b"\xef\xbb\xbf"[..]),
        1 => Just(&b"{\"error\":"[..]),
        1 => Just(&b"\xff"[..]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn cut(input: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
    at.extend([0, input.len()]);
    at.sort_unstable();
    at.windows(2).map(|ends| input[ends[0]..ends[1]].to_vec()).collect()
}

proptest! {
    #[test]
    fn cuts_change_neither_the_output_nor_what_is_seen(
        input in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (events, rest) = split(&input);
        for &dialect in DIALECTS {
            let at_once = relay(dialect, false, [&input[..]]);
            prop_assert_eq!(&at_once.out, &input);
            let pieces = cut(&input, &cuts);
            let in_pieces = relay(dialect, false, pieces.iter().map(Vec::as_slice));
            prop_assert_eq!(&in_pieces.out, &input);
            prop_assert_eq!(in_pieces.watch, at_once.watch);
        }
        // A line can hold two of the pieces above; only a usage event that stands alone is one.
        prop_assume!(!events.iter().chain([&rest]).any(|event| odd_usage(event)));
        let pieces = cut(&input, &cuts);
        let stripped = relay(&CHAT, true, pieces.iter().map(Vec::as_slice));
        let whole = [&kept(&events, true), &kept(&[rest], true)[..]].concat();
        prop_assert_eq!(stripped.out, whole);
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        for &dialect in DIALECTS {
            relay(dialect, true, input.chunks(7));
            dialect.read_answer(&input, &mut Default::default());
        }
    }
}

/// Whether an event holds the text of a usage event beside something else.
fn odd_usage(event: &[u8]) -> bool {
    let text = String::from_utf8_lossy(event);
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":3}}"#;
    let line = text.trim_matches(['\n', '\r']);
    text.contains("usage") && line.strip_prefix('\u{feff}').unwrap_or(line) != usage
}
