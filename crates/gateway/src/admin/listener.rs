//! The admin plane's connections: few, short, and each with an end.
//!
//! A connection serves one request. So one that never reads its answers can't pile them up, and the bound on
//! connections is a bound on requests; scrapes and probes come seconds apart and don't notice.
//! Not here: a limit on how long a caller with a token may take to read a long answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::guard::Reached;
use super::live::Closing;
use super::{AdminState, router};

/// Most connections at once; more wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 256;
/// For a caller to send its request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Longest request head, in bytes.
const HEAD_MAX: usize = 32 << 10;
/// After an accept failed, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// For running requests to end once the process is to.
const GRACE: Duration = Duration::from_secs(2);

/// Serves the admin plane until `shutdown`, then lets running requests end, for two seconds at most.
pub async fn serve(listener: TcpListener, state: AdminState, shutdown: CancellationToken) {
    let router = router(state);
    let mut connections = JoinSet::new();
    let accepting = accept(listener, router, &mut connections, shutdown.clone());
    let _shut_down = shutdown.run_until_cancelled(accepting).await;
    let all_over = async { while connections.join_next().await.is_some() {} };
    // What is left after the grace is aborted when the set is dropped.
    let _cut = tokio::time::timeout(GRACE, all_over).await;
}

async fn accept(
    listener: TcpListener,
    router: Router,
    connections: &mut JoinSet<()>,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, router.clone(), place, shutdown.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "the admin listener can't accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    place: OwnedSemaphorePermit,
    shutdown: CancellationToken,
) {
    let Ok(reached) = stream.local_addr() else { return };
    let router = router.layer(Extension(Reached(reached.ip()))).layer(Extension(Closing(shutdown.clone())));
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .keep_alive(false)
            .max_buf_size(HEAD_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    // How a connection ends is its caller's affair.
    if shutdown.run_until_cancelled(connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ended = connection.await;
    }
    drop(place);
}
