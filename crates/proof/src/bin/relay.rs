//! `relay LISTEN UPSTREAM`: the yardstick, which is [`lab::relay`], with the gate's allocator.

use std::net::SocketAddr;

use anyhow::{Context, Result};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut address =
        || -> Result<SocketAddr> { Ok(arguments.next().context("usage: relay LISTEN UPSTREAM")?.parse()?) };
    lab::relay::run(address()?, address()?).await
}
