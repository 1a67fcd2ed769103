//! Opening a connection to a provider: name, TCP, TLS.
//!
//! The trust roots are read at the first `https` connection, not at start: a gate in front of a local server
//! never needs them.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;
use wire::base::BaseUrl;

use super::resolve::Resolver;

/// How the gate reaches a provider. The second implementation is the tests' in-memory network.
pub trait Connect: Send + Sync + 'static {
    /// Opens a connection; `h2` asks for HTTP/2 in the TLS handshake. The caller bounds the time.
    fn connect<'a>(&'a self, to: &'a BaseUrl, h2: bool) -> BoxFuture<'a, io::Result<Io>>;
}

/// Anything that bytes can be sent over.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// One open connection.
pub enum Io {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// Anything else, such as a pipe in memory.
    Other(Box<dyn Pipe>),
}

impl Io {
    /// Whether the system holds nothing from the other side, not even its end. The runtime knows only what it has been
    /// told, and it asks once in a while: what came since would be found after the next request was written.
    pub(super) fn is_silent(&self) -> bool {
        let tcp = match self {
            Io::Tcp(tcp) => tcp,
            Io::Tls(tls) => tls.get_ref().0,
            Io::Other(_) => return true,
        };
        let peeked = SockRef::from(tcp).peek(&mut [MaybeUninit::uninit()]);
        peeked.is_err_and(|failed| failed.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The real network.
pub struct Net {
    tcp: HttpConnector<Resolver>,
    tls: OnceLock<Tls>,
}

struct Tls {
    h1: TlsConnector,
    h2: TlsConnector,
}

impl Default for Net {
    fn default() -> Net {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        Net { tcp, tls: OnceLock::new() }
    }
}

impl Net {
    fn tls(&self, h2: bool) -> io::Result<&TlsConnector> {
        let tls = match self.tls.get() {
            Some(tls) => tls,
            None => {
                let made = Tls { h1: connector(b"http/1.1")?, h2: connector(b"h2")? };
                self.tls.get_or_init(|| made)
            }
        };
        Ok(if h2 { &tls.h2 } else { &tls.h1 })
    }
}

impl Connect for Net {
    fn connect<'a>(&'a self, to: &'a BaseUrl, h2: bool) -> BoxFuture<'a, io::Result<Io>> {
        Box::pin(async move {
            let mut tcp = self.tcp.clone();
            let stream = tcp.call(to.uri()).await.map_err(io::Error::other)?.into_inner();
            if !to.https() {
                return Ok(Io::Tcp(stream));
            }
            let name = ServerName::try_from(to.host().trim_matches(['[', ']']).to_owned())
                .map_err(io::Error::other)?;
            let stream = match self.tls(h2)?.connect(name, stream).await {
                Err(failed) if h2 && is_no_common_protocol(&failed) => return Err(no_h2()),
                shaken => shaken?,
            };
            if h2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(no_h2());
            }
            Ok(Io::Tls(Box::new(stream)))
        })
    }
}

fn no_h2() -> io::Error {
    io::Error::other("the provider does not offer HTTP/2; set http = \"1.1\"")
}

/// Some servers pass over what they don't know, others end the handshake.
fn is_no_common_protocol(failed: &io::Error) -> bool {
    let cause = failed.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)))
}

/// A TLS client that offers one protocol and trusts what the system trusts (`SSL_CERT_FILE` and
/// `SSL_CERT_DIR` included), or Mozilla's roots where the system has none.
fn connector(alpn: &[u8]) -> io::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

macro_rules! each {
    ($self:expr, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Io::Tcp($io) => $call,
            Io::Tls($io) => $call,
            Io::Other($io) => $call,
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_read(cx, buf))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Io::Tcp(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
            Io::Other(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}
