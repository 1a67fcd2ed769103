use super::*;
use proptest::prelude::*;

type Taken = Result<Option<(Head, Bytes)>, Unreadable>;

/// Takes `bytes` in pieces of that size; the rest has all that was not needed for the head.
fn take_by(bytes: &[u8], size: usize, method: &Method) -> Taken {
    let mut coming = Coming::default();
    let mut pieces = bytes.chunks(size);
    while let Some(piece) = pieces.next() {
        if let Some((head, rest)) = coming.take(piece, method)? {
            let later = pieces.flatten().copied();
            return Ok(Some((head, rest.iter().copied().chain(later).collect())));
        }
    }
    Ok(None)
}

fn take(bytes: impl AsRef<[u8]>) -> Taken {
    take_by(bytes.as_ref(), usize::MAX, &Method::POST)
}

fn head(lines: &str) -> Head {
    let whole = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    take(&whole).unwrap_or_else(|_| panic!("{lines:?} is refused")).expect("a whole head").0
}

fn fault(bytes: impl AsRef<[u8]>) -> Unreadable {
    let bytes = bytes.as_ref();
    match take(bytes) {
        Err(fault) => fault,
        Ok(taken) => panic!("{} is taken: {taken:?}", String::from_utf8_lossy(bytes)),
    }
}

fn with(lines: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n")
}

#[test]
fn a_head_reads_the_same_however_it_is_cut() {
    let bytes = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 201 Yes\r\nX-Two: 1\r\nx-two:\t2 \r\nx-none:\r\n\
        Content-Length: 5\r\n\r\nhello";
    for size in 1..=bytes.len() {
        let (head, rest) = take_by(bytes, size, &Method::POST).expect("a head").expect("all of it");
        assert_eq!((head.parts.status.as_u16(), head.framing, head.stays), (201, Framing::Length(5), true));
        let pairs = head.parts.headers.iter();
        let headers: Vec<_> = pairs.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 4] =
            [("x-two", b"1"), ("x-two", b"2"), ("x-none", b""), ("content-length", b"5")];
        assert_eq!(headers, expected);
        assert_eq!(&rest[..], b"hello");
    }
    for short in 0..bytes.len() - 5 {
        assert!(take(&bytes[..short]).expect("nothing wrong yet").is_none(), "{short}");
    }
}

#[test]
fn where_the_body_ends_is_told_in_one_way_or_not_at_all() {
    for (lines, framing) in [
        ("", Framing::Rest),
        ("content-length: 0\r\n", Framing::Length(0)),
        ("content-length: 007\r\n", Framing::Length(7)),
        ("Content-Length: 18446744073709551615\r\n", Framing::Length(u64::MAX)),
        ("Transfer-Encoding: Chunked\r\n", Framing::Chunked),
    ] {
        assert_eq!(head(lines).framing, framing, "{lines}");
    }
    for lines in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5\r\ncontent-length: 5",
        "content-length: 5, 5",
        "content-length: ",
        "content-length: +5",
        "content-length: -5",
        "content-length: 0x5",
        "content-length: 5 5",
        "content-length: 5;",
        "content-length: 18446744073709551616",
        "content-length: 99999999999999999999999",
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, gzip",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked;q=1",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: identity",
        "transfer-encoding: ",
    ] {
        assert_eq!(fault(with(lines)), Unreadable::Framing, "{lines}");
    }
    assert_eq!(fault("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), Unreadable::Framing);
}

#[test]
fn what_could_be_read_in_two_ways_is_no_head() {
    for bytes in [
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\rz: a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\r\r\n\r\n",
        "HTTP/1.1 200 OK\nx: y\n folded\n\n",
        "HTTP/1.1 200 OK\nx: y\rz: a\n\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n folded\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n\tfolded\r\n\r\n",
        "HTTP/1.1 200 OK\r\n first: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx y: z\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx\0: y\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\x7fb\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 103 Hints\r\n\r\nhello\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nx y\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        assert_eq!(fault(bytes), Unreadable::Garbled, "{bytes:?}");
    }
}

#[test]
fn lines_may_end_in_a_bare_line_feed() {
    let bytes = b"HTTP/1.1 100 C\n\nHTTP/1.1 200 OK\nx: y\r\ncontent-length: 2\n\n\n\n";
    for size in 1..=bytes.len() {
        let (head, rest) = take_by(bytes, size, &Method::GET).expect("a head").expect("all of it");
        assert_eq!(
            (head.parts.headers.len(), head.framing, &rest[..]),
            (2, Framing::Length(2), &b"\n\n"[..])
        );
    }
}

#[test]
fn a_head_without_end_is_not_kept() {
    let mut coming = Coming::default();
    let mut taken = 0;
    let fault = loop {
        match coming.take(b"x: y\r\n", &Method::POST) {
            Ok(head) => assert!(head.is_none()),
            Err(fault) => break fault,
        }
        taken += 6;
    };
    assert_eq!(fault, Unreadable::TooLarge);
    assert!(taken <= MOST);
    let line = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MOST));
    assert_eq!(self::fault(&line), Unreadable::TooLarge);
    assert_eq!(self::fault(format!("{line}\r\n\r\n")), Unreadable::TooLarge);
    let many = |count: usize| with("x: y\r\n".repeat(count).trim_end());
    assert!(take(many(MOST_HEADERS)).is_ok());
    assert_eq!(self::fault(many(MOST_HEADERS + 1)), Unreadable::TooLarge);
}

#[test]
fn answers_that_have_no_body_have_none_whatever_they_say() {
    for (status, method) in [(204, Method::POST), (304, Method::GET), (101, Method::GET), (200, Method::HEAD)]
    {
        for lines in ["content-length: 5\r\n", "transfer-encoding: chunked\r\n", ""] {
            let bytes = format!("HTTP/1.1 {status} X\r\n{lines}\r\n");
            let (head, _) = take_by(bytes.as_bytes(), 7, &method).expect("a head").expect("all of it");
            assert_eq!((head.framing, head.stays), (Framing::Length(0), status != 101), "{bytes}");
        }
    }
}

#[test]
fn a_connection_stays_unless_somebody_wants_it_closed() {
    for (lines, stays) in [
        ("content-length: 1\r\n", true),
        ("content-length: 1\r\nconnection: keep-alive\r\n", true),
        ("content-length: 1\r\nconnection: Upgrade, Keep-Alive\r\n", true),
        ("content-length: 1\r\nconnection: Close\r\n", false),
        ("content-length: 1\r\nconnection: x, close ,y\r\n", false),
        ("content-length: 1\r\nconnection: close\r\nconnection: keep-alive\r\n", false),
        ("content-length: 1\r\nconnection: keep-alive\r\nconnection: close\r\n", false),
        ("", false),
    ] {
        assert_eq!(head(lines).stays, stays, "{lines}");
    }
    let (old, _) = take("HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\n")
        .expect("a head")
        .expect("all of it");
    assert!(!old.stays);
}

#[test]
fn a_request_is_written_as_it_is() {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/v1/x?a=b".parse().expect("a target");
    request.headers_mut().append("x-two", HeaderValue::from_static("1"));
    request.headers_mut().append("x-two", HeaderValue::from_static("2"));
    let start = "POST /v1/x?a=b HTTP/1.1\r\nx-two: 1\r\nx-two: 2\r\n";
    for (framing, end) in [
        (None, ""),
        (Some(Framing::Length(u64::MAX)), "content-length: 18446744073709551615\r\n"),
        (Some(Framing::Chunked), "transfer-encoding: chunked\r\n"),
    ] {
        let head = write(&request, framing, 0);
        assert_eq!(String::from_utf8_lossy(&head), format!("{start}{end}\r\n"));
        assert_eq!(head.capacity(), head.len(), "one allocation of the right size");
    }
}

proptest! {
    /// What is taken is said by whole lines alone, and where a head is cut makes no difference.
    #[test]
    fn any_bytes_are_read_in_one_way(
        pieces in prop::collection::vec(prop_oneof![
            Just("HTTP/1.1 200 OK\r\n".to_owned()), Just("HTTP/1.1 100 C\r\n".to_owned()),
            Just("HTTP/1.0 204 N\r\n".to_owned()), Just("content-length: 3\r\n".to_owned()),
            Just("transfer-encoding: chunked\r\n".to_owned()), Just("connection: close\r\n".to_owned()),
            Just("\r\n".to_owned()), Just("\n".to_owned()), Just("\r".to_owned()), Just(" ".to_owned()),
            Just("x: y".to_owned()), ".{0,5}",
        ], 0..12),
        size in 1usize..9,
    ) {
        let bytes = pieces.concat().into_bytes();
        let whole = take(&bytes);
        match (&whole, take_by(&bytes, size, &Method::POST)) {
            (Ok(None), Ok(None)) => {}
            (Ok(Some((head, rest))), Ok(Some((other, left)))) => {
                prop_assert_eq!(&head.parts.headers, &other.parts.headers);
                prop_assert_eq!((head.parts.status, head.framing, head.stays, rest), (other.parts.status, other.framing, other.stays, &left));
                let text = &bytes[..bytes.len() - rest.len()];
                prop_assert!(text.ends_with(b"\n\r\n") || text.ends_with(b"\n\n"));
                let lengths = head.parts.headers.get_all(header::CONTENT_LENGTH).iter().count();
                let codings = head.parts.headers.get_all(header::TRANSFER_ENCODING).iter().count();
                prop_assert!(lengths + codings <= 1);
            }
            (Err(fault), Err(other)) => prop_assert_eq!(*fault, other),
            (whole, other) => prop_assert!(false, "{:?} and {:?}", whole, other),
        }
    }
}
