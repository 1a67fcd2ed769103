//! Every interleaving of flights that join, leave and close a window. Built and run with `RUSTFLAGS="--cfg loom"`;
//! without it there is nothing here.
#![cfg(loom)]

use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use guard::window::{Cause, Member, Settings, Wave, Window};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tokio::time::Instant;

struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A flight that has looked once whether it may go.
struct Waits {
    member: Member,
    bell: Arc<Bell>,
    went: bool,
    told: Option<Wave>,
}

impl Waits {
    fn join(window: &Arc<Window>, now: Instant) -> Waits {
        let bell = Arc::new(Bell(AtomicUsize::new(0)));
        let mut waits = Waits { member: window.join(now), bell, went: false, told: None };
        waits.look(now);
        waits
    }

    fn look(&mut self, now: Instant) {
        let waker = Waker::from(self.bell.clone());
        if let Ok(departure) = self.member.poll_release(now, &Context::from_waker(&waker)) {
            self.went = true;
            self.told = departure.wave;
        }
    }
}

fn check(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

/// Two that stay and one that leaves: whoever waits was not let go, whoever was let go was woken, and the waves that
/// were told hold no more than came.
#[test]
fn who_is_let_go_is_woken_and_nobody_is_lost() {
    check(|| {
        let now = Instant::now();
        let window = Window::new(Settings { max_size: 2, max_wait: Duration::from_secs(1) });
        let stays = |window: &Arc<Window>| {
            let window = window.clone();
            thread::spawn(move || Waits::join(&window, now))
        };
        let first = stays(&window);
        let leaver = thread::spawn({
            let window = window.clone();
            move || drop(window.join(now))
        });
        let second = Waits::join(&window, now);
        let mut calls = [first.join().unwrap(), second];
        leaver.join().unwrap();
        let waiting = window.fill();
        for call in calls.iter_mut().filter(|call| !call.went) {
            let rung = call.bell.0.load(Ordering::SeqCst);
            call.look(now);
            assert_eq!(call.went, rung > 0, "woken exactly where it may go");
        }
        let still = calls.iter().filter(|call| !call.went).count();
        assert_eq!(still, waiting, "who waits is in the window");
        let told: usize = calls.iter().filter_map(|call| call.told).map(|wave| wave.size).sum();
        assert!(told <= 3, "{told} in waves");
    });
}

/// A window that closes while flights come: nobody waits after it.
#[test]
fn closing_leaves_nobody_behind() {
    check(|| {
        let now = Instant::now();
        let window = Window::new(Settings { max_size: 8, max_wait: Duration::from_secs(1) });
        let coming = thread::spawn({
            let window = window.clone();
            move || Waits::join(&window, now)
        });
        let wave = window.close();
        let mut call = coming.join().unwrap();
        assert!(wave.is_none_or(|wave| wave == Wave { size: 1, cause: Cause::Drain }));
        assert_eq!(window.fill(), 0);
        if !call.went {
            assert!(call.bell.0.load(Ordering::SeqCst) > 0, "woken");
            call.look(now);
        }
        assert!(call.went);
    });
}

/// Two that see the time come at once: one of them tells of the wave.
#[test]
fn a_wave_is_told_once() {
    check(|| {
        let now = Instant::now();
        let window = Window::new(Settings { max_size: 8, max_wait: Duration::from_secs(1) });
        let later = now + Duration::from_secs(1);
        let [mut one, mut two] = [Waits::join(&window, now), Waits::join(&window, now)];
        assert!(!one.went && !two.went);
        let other = thread::spawn(move || {
            two.look(later);
            two
        });
        one.look(later);
        let two = other.join().unwrap();
        assert!(one.went && two.went);
        let told: Vec<Wave> = [one.told, two.told].into_iter().flatten().collect();
        assert_eq!(told, [Wave { size: 2, cause: Cause::Time }]);
    });
}
