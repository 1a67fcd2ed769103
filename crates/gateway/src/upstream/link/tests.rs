use super::*;
use std::future::poll_fn;

use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use wire::edit::Edits;

use crate::upstream::Upload;

fn request(method: Method, body: &str) -> Sending {
    let mut request = Request::new(Upload::Slices(Box::new(Edits::default().apply(&body.to_owned().into()))));
    *request.method_mut() = method;
    *request.uri_mut() = "/v1/x".parse().expect("a target");
    Sending::new(request)
}

fn pair(room: usize) -> (Box<Link>, DuplexStream) {
    let (near, far) = duplex(room);
    (Link::open(Io::Other(Box::new(near))), far)
}

/// What came of an exchange.
#[derive(Debug, Default, PartialEq, Eq)]
struct Come {
    status: u16,
    body: Vec<u8>,
    /// Why it broke off.
    broke: Option<String>,
    reusable: bool,
}

async fn exchange(link: &mut Link, sending: Sending) -> Come {
    link.begin(sending);
    let mut come = Come::default();
    match poll_fn(|cx| link.poll_head(cx)).await {
        Ok(head) => come.status = head.status.as_u16(),
        Err(Failed::Unsent(_)) => come.broke = Some("unsent".to_owned()),
        Err(Failed::Broke(broken)) => come.broke = Some(broken.to_string()),
    }
    while come.broke.is_none() && !link.is_end() {
        match poll_fn(|cx| link.poll_data(cx)).await {
            Some(Ok(piece)) => {
                assert!(!piece.is_empty(), "an empty piece says nothing");
                come.body.extend_from_slice(&piece);
            }
            Some(Err(broken)) => come.broke = Some(broken.to_string()),
            None => break,
        }
    }
    come.reusable = link.is_reusable();
    come
}

/// Asks a provider that answers with these bytes, in pieces of that size, once it has read something.
async fn answered(bytes: &[u8], size: usize, method: Method) -> Come {
    let (mut link, mut far) = pair(1 << 20);
    let bytes = bytes.to_vec();
    let writing = async move {
        let mut asked = [0; 1024];
        let _read = far.read(&mut asked).await;
        for piece in bytes.chunks(size) {
            far.write_all(piece).await.expect("it is read");
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
    };
    tokio::join!(exchange(&mut link, request(method, "{}")), writing).0
}

fn whole(status: u16, body: &[u8], reusable: bool) -> Come {
    Come { status, body: body.to_vec(), broke: None, reusable }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test]
async fn an_answer_comes_whole_however_it_is_cut() {
    let get = || Method::GET;
    for (name, bytes, method, expected) in [
        ("a length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", get(), whole(200, b"hello", true)),
        (
            "chunks",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\ndata: a\r\n2;x=y\r\n\n\n\r\n0\r\nt: u\r\n\r\n",
            get(),
            whole(200, b"data: a\n\n", true),
        ),
        (
            "no chunk",
            "HTTP/1.1 500 E\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            get(),
            whole(500, b"", true),
        ),
        ("the rest", "HTTP/1.1 200 OK\r\n\r\nall of it", get(), whole(200, b"all of it", false)),
        ("nothing, to the end", "HTTP/1.1 200 OK\r\n\r\n", get(), whole(200, b"", false)),
        ("no body", "HTTP/1.1 204 No Content\r\n\r\n", get(), whole(204, b"", true)),
        ("a head alone", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Method::HEAD, whole(200, b"", true)),
        (
            "hints",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            get(),
            whole(200, b"{}", true),
        ),
        (
            "a last answer",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
            get(),
            whole(200, b"{}", false),
        ),
        ("an old one", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", get(), whole(200, b"{}", false)),
    ] {
        for size in 1..=bytes.len() {
            assert_eq!(answered(bytes.as_bytes(), size, method.clone()).await, expected, "{name} by {size}");
        }
    }
}

#[tokio::test]
async fn what_is_cut_gives_what_came_and_then_an_error() {
    let chunks = format!("{CHUNKED}3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    let length = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabcdef".to_owned();
    for bytes in [chunks, length] {
        for short in 0..bytes.len() {
            for size in [1, 1024] {
                let come = answered(&bytes.as_bytes()[..short], size, Method::GET).await;
                assert!(come.broke.is_some() && !come.reusable, "{short}");
                assert!(b"abcdef".starts_with(&come.body[..]), "{short}");
            }
        }
    }
    let come = answered(format!("{CHUNKED}3\r\nabc\r\nx").as_bytes(), 1024, Method::GET).await;
    assert_eq!((&come.body[..], come.broke.as_deref()), (&b"abc"[..], Some("invalid chunked coding")));
}

#[tokio::test]
async fn coding_without_end_is_not_read_for_ever() {
    let trailers = format!("{CHUNKED}0\r\n{}", "t: u\r\n".repeat(4000));
    let come = answered(trailers.as_bytes(), 1000, Method::GET).await;
    assert!(come.body.is_empty() && come.broke.is_some());
}

#[tokio::test]
async fn a_connection_with_something_behind_the_body_carries_no_other_call() {
    for answer in
        [format!("{CHUNKED}1\r\na\r\n0\r\n\r\n"), "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na".to_owned()]
    {
        let come = answered(format!("{answer}HTTP/1.1 200 OK\r\n").as_bytes(), 1024, Method::GET).await;
        assert_eq!(come, whole(200, b"a", false));
    }
    let come = answered(b"HTTP/1.1 204 N\r\ncontent-length: 1\r\n\r\na", 1024, Method::GET).await;
    assert_eq!(come, whole(204, b"", false));
}

#[tokio::test]
async fn a_long_body_comes_in_long_pieces_and_all_of_it() {
    let body = "0123456789abcdef".repeat(20_000);
    let length = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let chunk = format!("{CHUNKED}{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let rest = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    for (bytes, reusable) in [(length, true), (chunk, true), (rest, false)] {
        for size in [1000, 1 << 20] {
            assert_eq!(
                answered(bytes.as_bytes(), size, Method::GET).await,
                whole(200, body.as_bytes(), reusable)
            );
        }
    }
}

#[tokio::test]
async fn one_connection_carries_call_after_call() {
    let (mut link, mut far) = pair(64);
    let answering = async move {
        let mut seen = Vec::new();
        for _ in 0..3 {
            while !seen.ends_with(b"\r\n\r\nbody") {
                let mut piece = [0; 64];
                let size = far.read(&mut piece).await.expect("it is written");
                seen.extend_from_slice(&piece[..size]);
            }
            far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.expect("it is read");
            assert_eq!(std::mem::take(&mut seen), b"POST /v1/x HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody");
        }
        far
    };
    let asking = async {
        for _ in 0..3 {
            assert!(link.is_fit());
            assert_eq!(exchange(&mut link, request(Method::POST, "body")).await, whole(200, b"{}", true));
        }
    };
    let ((), mut far) = tokio::join!(asking, answering);
    far.write_all(b"x").await.expect("there is room");
    assert!(!link.is_fit(), "it says what nobody asked for");
}

#[tokio::test]
async fn a_request_that_nobody_saw_comes_back_whole() {
    for says in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"] {
        let (mut link, mut far) = pair(64);
        far.write_all(says).await.expect("there is room");
        drop(far);
        link.begin(request(Method::POST, "body"));
        let Err(Failed::Unsent(unsent)) = poll_fn(|cx| link.poll_head(cx)).await else {
            panic!("{says:?} is no answer to a request that was not sent");
        };
        let (mut link, mut far) = pair(1024);
        let answering = async {
            let mut asked = [0; 1024];
            let size = far.read(&mut asked).await.expect("it is written");
            assert!(asked[..size].ends_with(b"\r\n\r\nbody"));
            far.write_all(b"HTTP/1.1 204 N\r\n\r\n").await.expect("it is read");
        };
        assert_eq!(tokio::join!(exchange(&mut link, *unsent), answering).0, whole(204, b"", true));
    }
}

#[tokio::test]
async fn an_answer_before_the_request_has_gone_out_is_read_and_ends_the_connection() {
    let (mut link, mut far) = pair(64);
    let answering = async {
        let mut some = [0; 16];
        far.read_exact(&mut some).await.expect("it is written");
        far.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}").await.expect("it is read");
        far
    };
    let asking = exchange(&mut link, request(Method::POST, &"x".repeat(4096)));
    assert_eq!(tokio::join!(asking, answering).0, whole(413, b"{}", false));
}

#[tokio::test]
async fn a_large_request_goes_on_while_its_answer_comes() {
    let (mut link, mut far) = pair(64);
    let body = "x".repeat(4096);
    let answering = async {
        let mut asked = Vec::new();
        let mut piece = [0; 64];
        while asked.len() < 1000 {
            let size = far.read(&mut piece).await.expect("it is written");
            asked.extend_from_slice(&piece[..size]);
        }
        far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n{}").await.expect("it is read");
        while !asked.ends_with(&[b'x'; 4096]) {
            let size = far.read(&mut piece).await.expect("it is written");
            asked.extend_from_slice(&piece[..size]);
        }
        far.write_all(b"{}").await.expect("it is read");
    };
    let asking = exchange(&mut link, request(Method::POST, &body));
    assert_eq!(tokio::join!(asking, answering).0, whole(200, b"{}{}", true));
}

/// What a provider gets to read of a request.
async fn written(method: Method, body: &str) -> String {
    let (mut link, mut far) = pair(1 << 16);
    let reading = async move {
        let mut asked = [0; 1024];
        let size = far.read(&mut asked).await.expect("a request");
        String::from_utf8_lossy(&asked[..size]).into_owned()
    };
    tokio::join!(exchange(&mut link, request(method, body)), reading).1
}

#[tokio::test]
async fn the_length_of_an_empty_body_is_told_where_a_body_belongs() {
    for (method, body, end) in [
        (Method::POST, "", "content-length: 0\r\n\r\n"),
        (Method::PUT, "", "content-length: 0\r\n\r\n"),
        (Method::PATCH, "", "content-length: 0\r\n\r\n"),
        (Method::POST, "{}", "content-length: 2\r\n\r\n{}"),
        (Method::GET, "", " HTTP/1.1\r\n\r\n"),
        (Method::HEAD, "", " HTTP/1.1\r\n\r\n"),
        (Method::DELETE, "", " HTTP/1.1\r\n\r\n"),
    ] {
        let request = written(method.clone(), body).await;
        assert!(request.ends_with(end), "{request}");
        assert_eq!(
            request.matches("content-length").count(),
            usize::from(end.contains("length")),
            "{request}"
        );
    }
}

/// A connection of the system's that has carried a call, and its other end.
async fn used() -> (Box<Link>, std::net::TcpStream) {
    use std::io::{Read, Write};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("an address");
    let answering = tokio::task::spawn_blocking(move || {
        let (mut far, _) = listener.accept().expect("a connection");
        let _read = far.read(&mut [0; 1024]).expect("a request");
        far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("it is read");
        far
    });
    let near = tokio::net::TcpStream::connect(at).await.expect("a connection");
    let mut link = Link::open(Io::Tcp(near));
    assert_eq!(exchange(&mut link, request(Method::POST, "{}")).await, whole(200, b"{}", true));
    let far = answering.await.expect("it answers");
    link.reused = true;
    (link, far)
}

#[tokio::test]
async fn what_nobody_asked_for_is_seen_before_the_runtime_tells() {
    use std::io::Write;

    let poll = |link: &mut Link| {
        link.begin(request(Method::POST, "{}"));
        link.poll_head(&mut Context::from_waker(Waker::noop()))
    };
    // No await between what the provider does and the next request: the runtime has heard of nothing.
    let (mut link, mut far) = used().await;
    far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate").expect("it is held");
    assert!(matches!(poll(&mut link), Poll::Ready(Err(Failed::Unsent(_)))), "something came");

    let (mut link, far) = used().await;
    drop(far);
    assert!(matches!(poll(&mut link), Poll::Ready(Err(Failed::Unsent(_)))), "the end came");

    let (mut link, far) = used().await;
    assert!(poll(&mut link).is_pending(), "nothing came");
    drop(far);
}
