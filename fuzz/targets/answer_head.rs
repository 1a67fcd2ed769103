//! The head of a provider's answer reads the same however it is cut, and only one in which the end of the body stands
//! once is taken: nothing that a slower reading of the same lines finds in two places.

#![no_main]

use bytes::Bytes;
use http::Method;
use libfuzzer_sys::fuzz_target;
use sluicegate::upstream::head::{Coming, Framing, Head, Unreadable};

/// Heads up to this length are cut in two at every place.
const SHORT: usize = 256;

fuzz_target!(|input: &[u8]| {
    for method in [Method::POST, Method::HEAD] {
        let whole = take([input], &method);
        check(input, &whole, &method);
        for size in [1, 7] {
            same(&whole, &take(input.chunks(size), &method), size);
        }
        if input.len() <= SHORT {
            for at in 0..=input.len() {
                let (first, second) = input.split_at(at);
                same(&whole, &take([first, second], &method), second.len());
            }
        }
    }
});

type Taken = Result<Option<(Head, usize)>, Unreadable>;

/// Says also how many bytes the head, and what stood before it, took.
fn take<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, method: &Method) -> Taken {
    let mut coming = Coming::default();
    let mut came = 0;
    for piece in pieces {
        came += piece.len();
        if let Some((head, rest)) = coming.take(piece, method)? {
            return Ok(Some((head, came - Bytes::len(&rest))));
        }
    }
    Ok(None)
}

fn same(whole: &Taken, cut: &Taken, size: usize) {
    match (whole, cut) {
        (Ok(None), Ok(None)) => {}
        (Ok(Some((head, end))), Ok(Some((other, there)))) => {
            assert_eq!(head.parts.headers, other.parts.headers);
            assert_eq!(
                (head.parts.status, head.parts.version, head.framing, head.stays, end),
                (other.parts.status, other.parts.version, other.framing, other.stays, there)
            );
        }
        (Err(fault), Err(other)) => assert_eq!(fault, other),
        _ => panic!("{whole:?} is {cut:?} by {size}"),
    }
}

/// Reads the last of the heads line by line.
fn check(input: &[u8], taken: &Taken, method: &Method) {
    let Ok(Some((head, end))) = taken else { return };
    let text = &input[..*end];
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let lines: Vec<&[u8]> = lines.collect();
    assert!(lines.iter().all(|line| !line.contains(&b'\r') && !line.contains(&0)));
    let (end, lines) = lines.split_last().expect("a head has lines");
    assert!(end.is_empty(), "it ends with a line");
    let (blank, lines) = lines.split_last().expect("an empty line");
    assert!(blank.is_empty());
    let start = lines.iter().rposition(|line| line.is_empty()).map_or(0, |at| at + 1);
    let (status, fields) = lines[start..].split_first().expect("a status line");
    assert!(status.starts_with(b"HTTP/1."));
    assert_eq!(fields.len(), head.parts.headers.len());
    let named = |field: &[u8], name: &[u8]| {
        let colon = field.iter().position(|byte| *byte == b':').expect("a name");
        field[..colon].eq_ignore_ascii_case(name)
    };
    let lengths = fields.iter().filter(|field| named(field, b"content-length")).count();
    let codings = fields.iter().filter(|field| named(field, b"transfer-encoding")).count();
    assert!(lengths + codings <= 1, "a body that ends in two places");
    let bodiless = method == Method::HEAD || matches!(head.parts.status.as_u16(), 101 | 204 | 304);
    match head.framing {
        Framing::Length(0) if bodiless => {}
        Framing::Length(_) => assert!(lengths == 1 && !bodiless),
        Framing::Chunked => assert!(codings == 1 && !bodiless),
        Framing::Rest => assert!(lengths + codings == 0 && !bodiless && !head.stays),
    }
}
