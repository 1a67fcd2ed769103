//! Names to addresses, by the system's own resolver.
//!
//! Answers are kept for 30 s and one name is looked up once however many calls wait for it: a thousand calls
//! that open a thousand connections must not start a thousand look-ups. The system's resolver is used, not
//! one of our own, so that hosts files, search domains and name services work as everywhere else.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

const KEPT: Duration = Duration::from_secs(30);
/// Names that are remembered; more than there are providers in any configuration.
const NAMES: usize = 1024;

type Kept = Arc<AsyncMutex<Option<(Instant, Arc<[SocketAddr]>)>>>;

/// A resolver for hyper's connector. Clones share what is known.
#[derive(Clone, Default)]
pub struct Resolver {
    names: Arc<Mutex<HashMap<Box<str>, Kept>>>,
}

impl Resolver {
    async fn find(self, name: Name) -> io::Result<Arc<[SocketAddr]>> {
        let slot = {
            let mut names = self.names.lock();
            if names.len() >= NAMES {
                names.clear();
            }
            names.entry(name.as_str().into()).or_default().clone()
        };
        // Whoever holds the slot looks the name up; the others find the answer when they get it.
        let mut kept = slot.lock().await;
        if let Some((until, found)) = &*kept
            && Instant::now() < *until
        {
            return Ok(found.clone());
        }
        let found: Arc<[SocketAddr]> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        *kept = Some((Instant::now() + KEPT, found.clone()));
        Ok(found)
    }
}

/// The addresses of one name.
pub struct Addresses {
    found: Arc<[SocketAddr]>,
    next: usize,
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        let at = self.found.get(self.next).copied();
        self.next += 1;
        at
    }
}

impl tower_service::Service<Name> for Resolver {
    type Response = Addresses;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Addresses>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolver = self.clone();
        Box::pin(async move { Ok(Addresses { found: resolver.find(name).await?, next: 0 }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_service::Service;

    #[tokio::test]
    async fn a_name_is_remembered_and_gives_every_address() {
        let mut resolver = Resolver::default();
        let name: Name = "localhost".parse().unwrap();
        let first: Vec<_> = resolver.call(name.clone()).await.unwrap().collect();
        assert!(first.iter().all(|at| at.ip().is_loopback()) && !first.is_empty());
        let second: Vec<_> = resolver.call(name).await.unwrap().collect();
        assert_eq!(first, second);
        assert_eq!(resolver.names.lock().len(), 1);
    }
}
