//! The six promises of such a window, on a paused clock: size, time, routing, isolation, a stuck member, shutdown.

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep, timeout};

use super::*;

const MS: Duration = Duration::from_millis(1);

fn window(max_size: usize, max_wait: u32) -> Arc<Window> {
    Window::new(Settings { max_size, max_wait: max_wait * MS })
}

/// Whether a member may go now.
fn goes(member: &mut Member) -> Option<Departure> {
    member.now_or_never()
}

#[tokio::test(start_paused = true)]
async fn size_the_one_that_fills_it_lets_all_go_at_once() {
    let window = window(4, 20);
    let mut first: Vec<_> = (0..3).map(|_| window.join(Instant::now())).collect();
    assert!(first.iter_mut().all(|member| goes(member).is_none()));
    assert_eq!(window.fill(), 3);
    let mut last = window.join(Instant::now());
    assert_eq!(first.iter().chain([&last]).map(Member::fill).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let told = Departure { wave: Some(Wave { size: 4, cause: Cause::Size }) };
    assert_eq!(goes(&mut last), Some(told), "told to the one who filled it");
    assert!(first.iter_mut().all(|member| goes(member) == Some(Departure { wave: None })));
    assert_eq!(window.fill(), 0);
}

#[tokio::test(start_paused = true)]
async fn time_a_lone_flight_leaves_after_max_wait() {
    let window = window(16, 20);
    let start = Instant::now();
    let departure = window.join(start).await;
    assert_eq!(start.elapsed(), 20 * MS);
    assert_eq!(departure.wave, Some(Wave { size: 1, cause: Cause::Time }));
}

#[tokio::test(start_paused = true)]
async fn time_counts_from_the_first_and_the_next_window_from_its_own() {
    let window = window(16, 20);
    let start = Instant::now();
    let late = async {
        sleep(15 * MS).await;
        window.join(Instant::now()).await;
        start.elapsed()
    };
    let next = async {
        sleep(25 * MS).await;
        window.join(Instant::now()).await;
        start.elapsed()
    };
    let (first, late, next) = tokio::join!(window.join(start), late, next);
    assert_eq!(first.wave, Some(Wave { size: 2, cause: Cause::Time }));
    assert_eq!((late, next), (20 * MS, 45 * MS));
}

/// Each goes on with what is its own, whatever the order in which they end.
#[tokio::test(start_paused = true)]
async fn routing_results_come_to_their_own_in_any_order() {
    let window = window(8, 20);
    let start = Instant::now();
    let mut calls = JoinSet::new();
    for number in 0..8_u32 {
        let window = window.clone();
        calls.spawn(async move {
            window.join(Instant::now()).await;
            sleep((8 - number) * 10 * MS).await;
            (number, start.elapsed())
        });
    }
    let mut ended = Vec::new();
    while let Some(call) = calls.join_next().await {
        ended.push(call.unwrap());
    }
    let expected: Vec<_> = (0..8).rev().map(|number| (number, (8 - number) * 10 * MS)).collect();
    assert_eq!(ended, expected);
}

#[tokio::test(start_paused = true)]
async fn isolation_one_that_leaves_or_panics_is_in_no_wave() {
    let window = window(4, 20);
    let gone = window.join(Instant::now());
    let (mut stays, mut dies) = (JoinSet::new(), JoinSet::new());
    let member = window.join(Instant::now());
    stays.spawn(member);
    let member = window.join(Instant::now());
    dies.spawn(async move {
        // It waits with the others until it dies.
        let died = timeout(5 * MS, member).await;
        assert!(died.is_ok(), "dies");
    });
    drop(gone);
    assert!(dies.join_next().await.is_some_and(|died| died.unwrap_err().is_panic()));
    assert_eq!(window.fill(), 1);
    let departure = stays.join_next().await.unwrap().unwrap();
    assert_eq!(departure.wave, Some(Wave { size: 1, cause: Cause::Time }));
}

#[tokio::test(start_paused = true)]
async fn isolation_the_first_may_leave_and_its_window_keeps_its_time() {
    let window = window(16, 20);
    let start = Instant::now();
    let first = window.join(start);
    advance(10 * MS).await;
    let second = window.join(Instant::now());
    drop(first);
    second.await;
    assert_eq!(start.elapsed(), 20 * MS);
    // One that all have left closes: who comes next begins a new one.
    drop(window.join(Instant::now()));
    advance(15 * MS).await;
    let next = Instant::now();
    window.join(next).await;
    assert_eq!(next.elapsed(), 20 * MS);
}

/// One that nobody polls any more keeps nobody else: the others see the time by themselves.
#[tokio::test(start_paused = true)]
async fn stuck_a_member_that_is_never_polled_again_holds_up_nobody() {
    let window = window(16, 20);
    let start = Instant::now();
    let mut stuck = window.join(start);
    assert!(goes(&mut stuck).is_none());
    let others = join_all((0..5).map(|_| window.join(Instant::now()))).await;
    assert_eq!(start.elapsed(), 20 * MS);
    let told: Vec<_> = others.into_iter().filter_map(|departure| departure.wave).collect();
    assert_eq!(told, [Wave { size: 6, cause: Cause::Time }], "told once");
    // It times out alone, by whatever deadline its caller has put around it.
    assert_eq!(stuck.now_or_never(), Some(Departure { wave: None }));
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_all_go_and_nobody_waits_after_it() {
    let window = window(16, 20);
    let start = Instant::now();
    let waiting = join_all((0..5).map(|_| window.join(start)));
    let close = async {
        sleep(3 * MS).await;
        window.close()
    };
    let (departed, wave) = tokio::join!(waiting, close);
    assert_eq!(departed.len(), 5);
    assert_eq!(wave, Some(Wave { size: 5, cause: Cause::Drain }));
    window.join(Instant::now()).await;
    assert_eq!(start.elapsed(), 3 * MS);
    assert_eq!(window.close(), None);
}

#[tokio::test(start_paused = true)]
async fn new_settings_hold_for_those_who_wait() {
    let window = window(16, 20);
    let start = Instant::now();
    let shrink = async {
        sleep(2 * MS).await;
        window.resize(Settings { max_size: 16, max_wait: 5 * MS }, Instant::now())
    };
    let (_, wave) = tokio::join!(window.join(start), shrink);
    assert_eq!((start.elapsed(), wave), (5 * MS, None), "a shorter wait");

    let start = Instant::now();
    let grow = async {
        sleep(2 * MS).await;
        window.resize(Settings { max_size: 16, max_wait: 50 * MS }, Instant::now())
    };
    let (_, wave) = tokio::join!(window.join(start), grow);
    assert_eq!((start.elapsed(), wave), (50 * MS, None), "a longer wait");

    let start = Instant::now();
    let narrow = async {
        sleep(2 * MS).await;
        window.resize(Settings { max_size: 2, max_wait: 50 * MS }, Instant::now())
    };
    let (_, wave) = tokio::join!(join_all((0..3).map(|_| window.join(start))), narrow);
    assert_eq!((start.elapsed(), wave), (2 * MS, Some(Wave { size: 3, cause: Cause::Size })));

    let start = Instant::now();
    let past = async {
        sleep(9 * MS).await;
        window.resize(Settings { max_size: 16, max_wait: 5 * MS }, Instant::now())
    };
    let (_, wave) = tokio::join!(window.join(start), past);
    assert_eq!((start.elapsed(), wave), (9 * MS, Some(Wave { size: 1, cause: Cause::Time })));
}

#[tokio::test(start_paused = true)]
async fn a_window_of_one_keeps_nobody() {
    let window = window(1, 20);
    let start = Instant::now();
    let departure = window.join(start).await;
    assert_eq!(departure.wave, Some(Wave { size: 1, cause: Cause::Size }));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Ten thousand that come, wait, leave and go on at random: every one ends, none waits too long, and the waves hold
/// all who did not leave.
#[tokio::test(start_paused = true)]
async fn random_leavers_strand_nobody() {
    let window = window(16, 20);
    let mut calls = JoinSet::new();
    let mut dice = 0x9e37_79b9_u64;
    let mut roll = move |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for _ in 0..10_000 {
        let (after, patience) = (roll(4_000), roll(40));
        let window = window.clone();
        calls.spawn(async move {
            sleep(Duration::from_millis(after)).await;
            let came = Instant::now();
            let patience = Duration::from_millis(patience);
            let left = timeout(patience, window.join(came)).await;
            assert!(came.elapsed() <= 20 * MS, "waited {:?}", came.elapsed());
            left.ok().map(|departure| departure.wave.map_or(0, |wave| wave.size))
        });
    }
    let mut gone_on = 0_usize;
    let mut in_waves = 0;
    while let Some(call) = calls.join_next().await {
        if let Some(told) = call.unwrap() {
            gone_on += 1;
            in_waves += told;
        }
    }
    assert_eq!(window.fill(), 0);
    assert!(gone_on > 5_000);
    // A wave counts one whose caller left in the same moment, and one that was told may have left with the news.
    let difference = gone_on.abs_diff(in_waves);
    assert!(difference * 50 < gone_on, "{gone_on} went on, {in_waves} in waves");
}
