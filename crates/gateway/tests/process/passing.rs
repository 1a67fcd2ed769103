//! Paths that the gate does not look into: what follows `/to/NAME`, and uploads.

use http::{Method, Request};
use http_body_util::Full;
use serde_json::Value;

use crate::child::{Gate, Mock};
use crate::client::{chat, request};

#[tokio::test]
async fn a_provider_by_name_with_and_without_its_v1() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "").await;
    let direct = crate::client::Client::connect(mock.at).await.send(chat("hello", false)).await.whole().await;
    for (path, seen) in [
        ("/to/openai/v1/chat/completions", "/v1/chat/completions"),
        ("/to/openai/chat/completions", "/v1/chat/completions"),
        ("/to/anthropic/v1/chat/completions?a=%20b&c", "/v1/chat/completions?a=%20b&c"),
    ] {
        let mut call = chat("hello", false);
        *call.uri_mut() = format!("http://localhost{path}").parse().unwrap();
        let reply = gate.client().await.send(call).await.whole().await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.body, direct.body, "{path}");
        assert_eq!(mock.requests(1).await[0]["path"], seen);
    }
    let nobody =
        gate.client().await.send(request(Method::GET, "/to/nobody/v1/models", "")).await.whole().await;
    assert_eq!((nobody.status.as_u16(), nobody.header("x-sluicegate-error")), (404, "not_found"));
}

#[tokio::test]
async fn an_upload_of_five_megabytes_arrives_and_comes_back_byte_for_byte() {
    let mock = Mock::start(&[]).await;
    let gate = Gate::before(&mock, "").await;
    let content: Vec<u8> = (0..5_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut form = b"--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--b\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\ncontent-type: application/octet-stream\r\n\r\n"
        .to_vec();
    form.extend_from_slice(&content);
    form.extend_from_slice(b"\r\n--b--\r\n");
    let upload = || -> Request<Full<bytes::Bytes>> {
        let mut upload = request(Method::POST, "/v1/files", form.clone());
        upload.headers_mut().remove("anthropic-version");
        upload.headers_mut().insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
        upload
    };
    let through = gate.client().await.send(upload()).await.whole().await;
    assert_eq!(through.status, 200, "{}", through.text());
    let direct = crate::client::Client::connect(mock.at).await.send(upload()).await.whole().await;
    assert_eq!(through.body, direct.body, "size and checksum are the same as without the gate");
    let described: Value = through.json();
    assert_eq!(described["bytes"], content.len());

    let id = described["id"].as_str().unwrap();
    let mut download = request(Method::GET, &format!("/v1/files/{id}/content"), "");
    download.headers_mut().remove("anthropic-version");
    let back = gate.client().await.send(download).await.whole().await;
    assert_eq!(back.status, 200);
    assert!(back.body == content, "the download differs");
    assert_eq!(back.header("x-sluicegate-cache"), "bypass");
}
