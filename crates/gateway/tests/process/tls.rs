//! Providers behind TLS: a certificate of a private authority works when the system trusts it, and only then.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::child::{Gate, Mock};
use crate::client::{chat, message};

/// TLS in front of a mock: the bytes inside pass as they are.
struct Front {
    at: SocketAddr,
    /// The authority's certificate.
    authority: String,
    _tasks: JoinSet<()>,
}

impl Front {
    /// `alpn` is what the server offers.
    async fn before(mock: &Mock, alpn: &'static [u8]) -> Front {
        let mut authority = CertificateParams::new(Vec::new()).expect("no names");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key"))
            .expect("a certificate");
        let key = KeyPair::generate().expect("a key");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let own = CertificateParams::new(names)
            .expect("two names")
            .signed_by(&key, &authority)
            .expect("a certificate");

        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![own.der().clone()], key)
            .expect("its own key");
        config.alpn_protocols = vec![alpn.to_vec()];

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let at = listener.local_addr().expect("an address");
        let mut tasks = JoinSet::new();
        tasks.spawn(relay(listener, TlsAcceptor::from(Arc::new(config)), mock.at));
        Front { at, authority: authority.pem(), _tasks: tasks }
    }
}

async fn relay(listener: TcpListener, acceptor: TlsAcceptor, to: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            if let Ok(mut inside) = acceptor.accept(stream).await
                && let Ok(mut provider) = TcpStream::connect(to).await
            {
                let _either_side_ended = copy_bidirectional(&mut inside, &mut provider).await;
            }
        });
    }
}

/// A gate before both providers at `at`, which trusts `authority`.
async fn gate(at: SocketAddr, extra: &str, authority: Option<&str>) -> Gate {
    let port = at.port();
    let config = format!(
        "[providers.openai]\nbase_url = \"https://localhost:{port}/v1\"\n{extra}\n\
         [providers.anthropic]\nbase_url = \"https://127.0.0.1:{port}\"\n{extra}\n"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("authority.pem");
    let path = path.to_str().expect("a plain name");
    let environment: &[(&str, &str)] = match authority {
        Some(pem) => {
            std::fs::write(path, pem).expect("a file");
            &[("SSL_CERT_FILE", path)]
        }
        None => &[],
    };
    let gate = Gate::with(&config, environment).await;
    // The file is read at the first connection.
    gate.client().await.send(chat("hello", false)).await;
    gate
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_the_environment_says_so() {
    let mock = Mock::start(&[]).await;
    let front = Front::before(&mock, b"http/1.1").await;
    let gate = gate(front.at, "", Some(&front.authority)).await;
    for request in [chat("by name", false), chat("streamed", true), message("by address", true)] {
        let reply = gate.client().await.send(request).await.whole().await;
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{}", reply.text());
    }
    let requests = mock.requests(3).await;
    assert!(requests.iter().all(|request| request["version"] == "HTTP/1.1"), "{requests:?}");
}

#[tokio::test]
async fn http_2_is_agreed_on_in_the_handshake() {
    let mock = Mock::start(&[]).await;
    let front = Front::before(&mock, b"h2").await;
    let gate = gate(front.at, "http = \"2\"", Some(&front.authority)).await;
    for request in [chat("plain", false), message("streamed", true)] {
        let reply = gate.client().await.send(request).await.whole().await;
        assert_eq!((reply.status.as_u16(), reply.broken), (200, false), "{}", reply.text());
    }
    let requests = mock.requests(2).await;
    assert!(requests.iter().all(|request| request["version"] == "HTTP/2.0"), "{requests:?}");
}

#[tokio::test]
async fn a_host_without_http_2_is_named_with_what_to_do() {
    let mock = Mock::start(&[]).await;
    let front = Front::before(&mock, b"http/1.1").await;
    let gate = gate(front.at, "http = \"2\"", Some(&front.authority)).await;
    let reply = gate.client().await.send(chat("hello", false)).await.whole().await;
    assert_eq!(reply.status, 502, "{}", reply.text());
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_error");
    assert!(reply.text().contains("http = \\\"1.1\\\""), "{}", reply.text());
}

#[tokio::test]
async fn an_unknown_authority_is_refused_and_told() {
    let mock = Mock::start(&[]).await;
    let front = Front::before(&mock, b"http/1.1").await;
    let gate = gate(front.at, "", None).await;
    let reply = gate.client().await.send(chat("hello", false)).await.whole().await;
    assert_eq!(reply.status, 502);
    assert_eq!(reply.header("x-sluicegate-error"), "upstream_error");
    let text = reply.text();
    assert!(text.contains("certificate") && text.contains("UnknownIssuer"), "{text}");
    assert_eq!(mock.stats().await["arrived"], 0);
}
