//! Where log lines go: a bounded buffer that one thread writes out.
//!
//! Whoever logs copies its line into the buffer and goes on; only the thread ever waits for the terminal, the
//! pipe or the disk behind standard error. When the buffer is full the line is dropped and counted: a log that
//! nobody reads must not stop calls. The thread is woken at most once per `GATHER`, however many lines come,
//! because waking a thread costs more than everything else about a line.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use prometheus_client::metrics::counter::Counter;

/// Bytes that may wait to be written.
const CAPACITY: usize = 1 << 20;
/// How long the first line in an empty buffer waits for others.
const GATHER: Duration = Duration::from_millis(20);
/// Capacity that a buffer keeps after a burst.
const KEEP: usize = 64 << 10;

/// A handle to the buffer. The thread ends when the last one is gone, after writing what is left.
#[derive(Clone, Debug)]
pub struct Sink(Arc<Owner>);

#[derive(Debug)]
struct Owner(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The thread waits here for lines, and for more lines.
    work: Condvar,
    /// Flushers wait here until all is written.
    done: Condvar,
    dropped: Counter,
}

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    /// The thread has nothing to do and must be woken.
    asleep: bool,
    /// The thread is writing what it took.
    writing: bool,
    /// Somebody flushes: no gathering.
    hurry: bool,
    closed: bool,
}

impl Sink {
    /// Starts the thread that writes to `out`. Lines that can't be written are counted in `dropped`.
    pub fn start(out: impl Write + Send + 'static, dropped: Counter) -> io::Result<Sink> {
        let state = Mutex::default();
        let shared = Arc::new(Shared { state, work: Condvar::new(), done: Condvar::new(), dropped });
        let theirs = shared.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || write_out(&theirs, out))?;
        Ok(Sink(Arc::new(Owner(shared))))
    }

    /// Takes lines, each ended by a newline, or drops and counts them where there is no room. Never waits
    /// for the output.
    pub fn push(&self, lines: &[u8]) {
        let shared = &self.0.0;
        let mut state = shared.state.lock();
        let before = state.pending.len();
        let after = before + lines.len();
        if after > CAPACITY {
            drop(state);
            shared.dropped.inc_by(count_lines(lines));
            return;
        }
        state.pending.extend_from_slice(lines);
        let half_full = before < CAPACITY / 2 && after >= CAPACITY / 2;
        let wake = state.asleep || half_full;
        state.asleep = false;
        drop(state);
        if wake {
            shared.work.notify_one();
        }
    }

    /// Waits until everything pushed so far is written, `limit` at most; says whether it is. Blocks its
    /// thread: for the end of the process.
    pub fn flush(&self, limit: Duration) -> bool {
        let shared = &self.0.0;
        let deadline = Instant::now() + limit;
        let mut state = shared.state.lock();
        state.hurry = true;
        shared.work.notify_one();
        while !state.pending.is_empty() || state.writing {
            if shared.done.wait_until(&mut state, deadline).timed_out() {
                return state.pending.is_empty() && !state.writing;
            }
        }
        state.hurry = false;
        true
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.state.lock().closed = true;
        self.0.work.notify_one();
    }
}

fn write_out(shared: &Shared, mut out: impl Write) {
    let mut taken = Vec::new();
    let mut state = shared.state.lock();
    loop {
        wait_for_lines(shared, &mut state);
        if state.pending.is_empty() {
            return;
        }
        std::mem::swap(&mut state.pending, &mut taken);
        state.writing = true;
        MutexGuard::unlocked(&mut state, || {
            let lost = write_all(&mut out, &taken);
            shared.dropped.inc_by(lost);
            taken.clear();
            taken.shrink_to(KEEP);
        });
        state.writing = false;
        shared.done.notify_all();
    }
}

/// Returns with lines to write, or without any once the sink is closed.
fn wait_for_lines(shared: &Shared, state: &mut MutexGuard<'_, State>) {
    while state.pending.is_empty() && !state.closed {
        state.asleep = true;
        shared.work.wait(state);
    }
    state.asleep = false;
    let deadline = Instant::now() + GATHER;
    while !state.hurry && !state.closed && state.pending.len() < CAPACITY / 2 {
        if shared.work.wait_until(state, deadline).timed_out() {
            return;
        }
    }
}

/// Writes as much as the output takes; says how many lines it did not take.
fn write_all(out: &mut impl Write, mut lines: &[u8]) -> u64 {
    while !lines.is_empty() {
        match out.write(lines) {
            Ok(0) => break,
            Ok(written) => lines = &lines[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    count_lines(lines)
}

fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// Collects what is written.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Says when a write has begun, and blocks until it may end.
    struct Stuck(mpsc::Sender<usize>, mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _gone = self.0.send(bytes.len());
            let _gone = self.1.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_out_whole_and_in_order() {
        let page = Page::default();
        let sink = Sink::start(page.clone(), Counter::default()).unwrap();
        let expected: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        for line in expected.split_inclusive('\n') {
            sink.push(line.as_bytes());
        }
        assert!(sink.flush(SOON));
        assert_eq!(page.text(), expected);
    }

    #[test]
    fn a_stuck_output_drops_and_counts_lines_and_stops_nobody() {
        let (began, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let dropped = Counter::default();
        let sink = Sink::start(Stuck(began, goes_on), dropped.clone()).unwrap();
        sink.push(b"first\n");
        begins.recv_timeout(SOON).unwrap();
        let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
        for _ in 0..2000 {
            sink.push(&line);
        }
        assert_eq!(dropped.get(), 2000 - 1024);
        assert!(!sink.flush(Duration::from_millis(1)), "nothing can be written yet");
        go_on.send(()).unwrap();
        assert_eq!(begins.recv_timeout(SOON).unwrap(), CAPACITY);
        go_on.send(()).unwrap();
        assert!(sink.flush(SOON));
    }

    #[test]
    fn what_a_broken_output_refuses_is_counted() {
        let dropped = Counter::default();
        let sink = Sink::start(Broken, dropped.clone()).unwrap();
        sink.push(b"one\ntwo\n");
        assert!(sink.flush(SOON), "the thread must not hang on to lines that it can't write");
        assert_eq!(dropped.get(), 2);
    }

    #[test]
    fn lines_are_gathered_into_few_writes() {
        let (began, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let sink = Sink::start(Stuck(began, goes_on), Counter::default()).unwrap();
        sink.push(b"first\n");
        assert_eq!(begins.recv_timeout(SOON).unwrap(), 6);
        for _ in 0..100 {
            sink.push(b"line\n");
        }
        go_on.send(()).unwrap();
        assert_eq!(begins.recv_timeout(SOON).unwrap(), 500, "one write for all that came meanwhile");
        go_on.send(()).unwrap();
    }

    #[test]
    fn dropping_the_last_handle_writes_what_is_left() {
        let (began, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        go_on.send(()).unwrap();
        let sink = Sink::start(Stuck(began, goes_on), Counter::default()).unwrap();
        sink.push(b"last words\n");
        drop(sink);
        assert_eq!(begins.recv_timeout(SOON).unwrap(), 11);
    }
}
