//! Walks through a script: which mode is the call under that arrives now, and when does its phase end?
//!
//! A phase of time ends on the clock. A phase of N calls ends when the call after its last one arrives: so
//! `hang 1x; ok` holds its one call until the retry comes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::script::{Length, Mode, Script};

pub(crate) struct Player {
    state: Mutex<State>,
    /// Raised whenever a phase ends, by whatever cause.
    phase_number: watch::Sender<u64>,
}

struct State {
    script: Script,
    at: usize,
    began: Instant,
    calls: u64,
}

/// The phase that a call fell into.
#[derive(Clone)]
pub(crate) struct Drawn {
    pub(crate) mode: Mode,
    ends: Option<Instant>,
    number: u64,
    current: watch::Receiver<u64>,
}

impl Player {
    pub(crate) fn new(script: Script) -> Self {
        Self { state: Mutex::new(State::begin(script)), phase_number: watch::Sender::new(0) }
    }

    /// Starts a script from its beginning; whoever hangs in the old one is let go.
    pub(crate) fn set(&self, script: Script) {
        *self.state.lock() = State::begin(script);
        self.phase_number.send_modify(|number| *number += 1);
    }

    pub(crate) fn script(&self) -> Script {
        self.state.lock().script.clone()
    }

    pub(crate) fn draw(&self) -> Drawn {
        let mut state = self.state.lock();
        let passed = state.advance(Instant::now());
        if passed > 0 {
            self.phase_number.send_modify(|number| *number += passed);
        }
        state.calls += 1;
        let current = self.phase_number.subscribe();
        let number = *current.borrow();
        Drawn { mode: state.mode(), ends: state.ends(), number, current }
    }
}

impl State {
    fn begin(script: Script) -> Self {
        Self { script, at: 0, began: Instant::now(), calls: 0 }
    }

    fn mode(&self) -> Mode {
        self.script.phases()[self.at].mode
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.script.phases().len()
    }

    fn ends(&self) -> Option<Instant> {
        match self.script.phases()[self.at].length {
            Some(Length::Time(time)) if !self.is_last() => Some(self.began + time),
            _ => None,
        }
    }

    /// Leaves the phases that are over; says how many.
    fn advance(&mut self, now: Instant) -> u64 {
        let before = self.at;
        while !self.is_last() {
            self.began = match self.script.phases()[self.at].length {
                Some(Length::Time(time)) if now >= self.began + time => self.began + time,
                Some(Length::Calls(calls)) if self.calls >= calls => now,
                _ => break,
            };
            self.at += 1;
            self.calls = 0;
        }
        (self.at - before) as u64
    }
}

impl Drawn {
    /// Returns when the phase is over: by time, by the next call, or because another script was set.
    pub(crate) async fn ended(mut self) {
        let number = self.number;
        let moved_on = async {
            // An error means that the mock is gone, and with it the phase.
            let _ = self.current.wait_for(|current| *current != number).await;
        };
        match self.ends {
            None => moved_on.await,
            Some(ends) => tokio::select! {
                () = moved_on => {}
                () = sleep_until(ends) => {}
            },
        }
    }

    /// The factor on all times, and the time an answer takes if it is set.
    pub(crate) fn slowness(&self) -> (u32, Option<Duration>) {
        match self.mode {
            Mode::Slow { answer_after } => (10, answer_after),
            _ => (1, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn player(script: &str) -> Player {
        Player::new(script.parse().unwrap())
    }

    fn status(code: u16) -> Mode {
        Mode::Status { code, retry_after: None }
    }

    #[tokio::test(start_paused = true)]
    async fn time_moves_the_script_on_and_the_last_phase_stays() {
        let player = player("ok 15s; 503 60s; ok 1s");
        assert_eq!(player.draw().mode, Mode::Ok);
        advance(Duration::from_secs(15)).await;
        assert_eq!(player.draw().mode, status(503));
        advance(Duration::from_secs(60)).await;
        assert_eq!(player.draw().mode, Mode::Ok);
        advance(Duration::from_secs(3600)).await;
        assert_eq!(player.draw().mode, Mode::Ok);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_counted_exactly() {
        let player = player("503 3x; 429 1x; ok");
        let modes: Vec<Mode> = (0..5).map(|_| player.draw().mode).collect();
        assert_eq!(modes, [status(503), status(503), status(503), status(429), Mode::Ok]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hang_ends_on_the_clock_with_its_phase() {
        let player = player("hang 5s; ok");
        let began = Instant::now();
        player.draw().ended().await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hang_by_count_ends_with_the_next_call() {
        let player = player("hang 1x; ok");
        let hung = player.draw();
        assert_eq!(player.draw().mode, Mode::Ok);
        hung.ended().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_script_ends_the_phase() {
        let player = player("hang");
        let hung = player.draw();
        player.set(Script::default());
        hung.ended().await;
        assert_eq!(player.draw().mode, Mode::Ok);
    }
}
