//! One HTTP client for everything that the laboratory sends: HTTP/1.1, pooled, with TLS for `https` addresses.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;
use url::Url;

use crate::client::sdk::CONNECT;

pub type Http = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// For a control path of a mock to answer.
const CONTROL: Duration = Duration::from_secs(10);

pub fn client() -> Result<Http> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT));
    let connector = HttpsConnectorBuilder::new()
        .with_native_roots()
        .context("no certificates of this system can be read")?
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}

/// One exchange with a control path.
pub async fn fetch(http: &Http, method: Method, url: &Url, body: String) -> Result<(StatusCode, Bytes)> {
    let request = Request::builder().method(method).uri(url.as_str()).body(Full::from(body))?;
    let exchange = async {
        let response = http.request(request).await?;
        let status = response.status();
        anyhow::Ok((status, response.into_body().collect().await?.to_bytes()))
    };
    timeout(CONTROL, exchange).await.with_context(|| format!("{url} does not answer"))?
}
