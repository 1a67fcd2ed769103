//! The mock as a command.

use std::io::{self, Write};

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{Mock, Options};

/// Serves until SIGINT or SIGTERM.
pub async fn run(options: Options) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let wanted = options.listen;
    let listener = TcpListener::bind(wanted)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {wanted}: {error}")))?;
    let script = options.script.to_string();
    let mock = Mock::start(listener, options);
    let addr = mock.addr();
    // Ignored errors: whoever closed our output still wants the provider.
    let mut out = io::stdout();
    let _ = writeln!(out, "mock provider on http://{addr} (OpenAI: http://{addr}/v1), script: {script}");
    let _ = writeln!(out, "counts: GET /__stats; steer: POST /__script, /__limits, /__reset; Ctrl-C ends it");
    let _ = out.flush();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    mock.shutdown().await;
    Ok(())
}
