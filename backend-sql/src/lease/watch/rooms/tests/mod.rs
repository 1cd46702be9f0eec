mod hand_on;

use super::super::rivals::WIDEST;
use super::super::room::{GRACE, PATIENCE};
use super::*;
use futures_util::FutureExt;
use std::pin::Pin;

const LONGEST: Duration = Duration::from_millis(100);
const NAME: &[u8] = b"a";

fn rooms(has_bell: bool) -> Arc<Rooms> {
    Arc::new(Rooms::new(LONGEST, has_bell))
}

fn owner(number: u128) -> OwnerId {
    OwnerId::from_u128(number)
}

fn held(by: u128, since: Duration) -> Option<Held> {
    Some(Held { owner: Some(owner(by)), since })
}

fn take(rooms: &Rooms, by: OwnerId) {
    rooms.asked(|| NAME.to_vec(), by, Some(true));
}

fn give_up(rooms: &Rooms, by: OwnerId, in_silence: bool) {
    rooms.ended(NAME, End::GivenUp { by, in_silence });
}

async fn wait(rooms: &Arc<Rooms>, number: u128) {
    rooms.wait(NAME.to_vec(), owner(number)).await;
}

/// One who stands in line.
fn enter(rooms: &Arc<Rooms>, number: u128) -> Pin<Box<impl Future<Output = ()>>> {
    let rooms = Arc::clone(rooms);
    let mut waiter = Box::pin(async move { wait(&rooms, number).await });
    assert!(waiter.as_mut().now_or_never().is_none());
    waiter
}

fn pause(rooms: &Rooms) -> Duration {
    match rooms.next() {
        Next::Sleep(until) => until - Instant::now(),
        Next::Look(_) => Duration::ZERO,
        Next::Nothing => Duration::MAX,
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_wakes_the_first_who_waits_and_him_alone() {
    let rooms = rooms(false);
    let (first, mut second) = (enter(&rooms, 1), enter(&rooms, 2));
    let _ = rooms.found(NAME, None);
    assert!(second.as_mut().now_or_never().is_none());
    assert!(first.now_or_never().is_some());
    let _ = rooms.found(NAME, None);
    assert!(second.now_or_never().is_some());
    assert_eq!(rooms.next(), Next::Nothing);
}

/// Such as one that drops another who waits.
#[tokio::test(start_paused = true)]
async fn a_waker_may_ask_the_rooms() {
    struct Asks(Arc<Rooms>, std::sync::atomic::AtomicBool);
    impl std::task::Wake for Asks {
        fn wake(self: Arc<Self>) {
            let is_unlocked = self.0.rooms.try_lock().is_ok();
            self.1.store(is_unlocked, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let rooms = rooms(true);
    let news: [fn(&Rooms); 2] = [|rooms| _ = rooms.found(NAME, None), |rooms| give_up(rooms, owner(9), true)];
    for tell in news {
        let asks = Arc::new(Asks(Arc::clone(&rooms), false.into()));
        let mut waiter = enter(&rooms, 1);
        let waker = Waker::from(Arc::clone(&asks));
        assert!(waiter.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        tell(&rooms);
        assert!(asks.1.load(std::sync::atomic::Ordering::Relaxed), "woken under the lock, or not at all");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_and_leaves_unheard_makes_room_for_the_next() {
    let rooms = rooms(true);
    let mut second = std::pin::pin!(wait(&rooms, 2));
    {
        let mut first = std::pin::pin!(wait(&rooms, 1));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let _ = rooms.found(NAME, None);
        assert!(pause(&rooms) > Duration::ZERO);
    }
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    let _ = rooms.found(NAME, None);
    assert!(second.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_longer_it_is_held_the_longer_is_the_pause() {
    let rooms = rooms(false);
    let _waiter = enter(&rooms, 2);
    let _ = rooms.found(NAME, held(1, Duration::from_micros(100)));
    assert_eq!(pause(&rooms), SHORTEST);
    let _ = rooms.found(NAME, held(1, Duration::from_millis(160)));
    assert_eq!(pause(&rooms), Duration::from_millis(10));
    let _ = rooms.found(NAME, held(1, Duration::from_secs(3600)));
    assert_eq!(pause(&rooms), LONGEST);
    assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(2)));
    assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(1)), "a holder would be told that another holds");
    tokio::time::advance(LONGEST + GRACE).await;
    assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(2)), "believed although nobody has looked for long");
}

#[tokio::test(start_paused = true)]
async fn rivals_who_are_quicker_spread_the_looks_and_a_free_lock_gathers_them() {
    let rooms = rooms(false);
    let _waiter = enter(&rooms, 2);
    let spread = || rooms.rooms().get(NAME).unwrap().rivals.spread();
    for rival in 10..30 {
        let _ = rooms.found(NAME, held(rival, Duration::ZERO));
    }
    assert_eq!(spread(), WIDEST);
    let _ = rooms.found(NAME, held(29, Duration::ZERO));
    assert_eq!(spread(), WIDEST);
    let _ = rooms.found(NAME, None);
    assert_eq!(spread(), WIDEST / 2);
}

#[tokio::test(start_paused = true)]
async fn what_rings_while_a_look_is_under_way_is_looked_at_again() {
    let rooms = rooms(true);
    let _waiter = enter(&rooms, 2);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.ring(NAME);
    let _ = rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    let _ = rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(pause(&rooms), LONGEST);
}

#[tokio::test(start_paused = true)]
async fn who_loses_his_turn_keeps_his_place() {
    let rooms = rooms(false);
    {
        let first = enter(&rooms, 1);
        let _ = rooms.found(NAME, None);
        assert!(first.now_or_never().is_some());
    }
    let second = enter(&rooms, 2);
    let first = enter(&rooms, 1);
    let _ = rooms.found(NAME, None);
    assert!(first.now_or_never().is_some() && second.now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn when_a_look_is_late_one_asks_now_and_then_and_not_all() {
    let rooms = rooms(true);
    let _waiters = [enter(&rooms, 2), enter(&rooms, 3)];
    let keeps_waiting = |number| rooms.keeps_waiting(|| NAME.to_vec(), owner(number));
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    tokio::time::advance(LONGEST + GRACE - Duration::from_millis(1)).await;
    assert!(keeps_waiting(2) && keeps_waiting(3));
    for _ in 0..3 {
        tokio::time::advance(GRACE).await;
        assert!(!keeps_waiting(2), "nobody asks");
        assert!(keeps_waiting(3), "all ask");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_without_an_answer_is_not_waited_for() {
    let rooms = rooms(true);
    let _waiters = [enter(&rooms, 2), enter(&rooms, 3)];
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    tokio::time::advance(GRACE).await;
    assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(2)), "nobody asks");
    assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(3)), "all ask");
    assert_eq!(pause(&rooms), LONGEST - GRACE);
    rooms.begin_anew();
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]), "who looked has ended");
}

#[tokio::test(start_paused = true)]
async fn when_a_look_fails_everybody_asks_for_himself() {
    let rooms = rooms(true);
    let _waiter = enter(&rooms, 2);
    assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(3)));
    rooms.failed(&[NAME.to_vec()]);
    assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(3)));
}

/// Every waiter asks for itself now and then, and is away for that moment.
#[tokio::test(start_paused = true)]
async fn who_is_back_in_a_moment_has_his_place_still() {
    let rooms = rooms(false);
    drop(enter(&rooms, 1));
    let second = enter(&rooms, 2);
    tokio::time::advance(GRACE / 2).await;
    let first = enter(&rooms, 1);
    drop(second);
    let third = enter(&rooms, 3);
    tokio::time::advance(GRACE).await;
    let fourth = enter(&rooms, 4);
    let late = enter(&rooms, 2);
    for next in [first, third, fourth, late] {
        let _ = rooms.found(NAME, None);
        assert!(next.now_or_never().is_some());
    }
}

/// Its attempt is taken back, which is the last that is heard of it.
#[tokio::test(start_paused = true)]
async fn who_gives_up_while_it_is_his_turn_keeps_nobody_waiting() {
    let rooms = rooms(true);
    let mut second = std::pin::pin!(wait(&rooms, 2));
    {
        let mut first = std::pin::pin!(wait(&rooms, 1));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let _ = rooms.found(NAME, None);
        assert!(first.now_or_never().is_some());
    }
    rooms.ended(NAME, End::NotHeld { by: owner(1) });
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
}

#[tokio::test(start_paused = true)]
async fn however_often_it_was_found_free_a_look_comes_within_the_longest_pause() {
    let rooms = rooms(false);
    let _waiters: Vec<_> = (1..10).map(|number| enter(&rooms, number)).collect();
    for _ in 1..9 {
        let _ = rooms.found(NAME, None);
        assert!(pause(&rooms) <= LONGEST);
    }
}

/// A server that only reads answers looks, and refuses to grant: whoever waits is to hear it.
#[tokio::test(start_paused = true)]
async fn where_asking_fails_everybody_asks_for_himself_and_nobody_spins() {
    let rooms = rooms(true);
    let mut looks = 0;
    let start = Instant::now();
    let mut second = std::pin::pin!(wait(&rooms, 2));
    while start.elapsed() < LONGEST * 20 {
        let mut first = std::pin::pin!(wait(&rooms, 1));
        if first.as_mut().now_or_never().is_none() {
            assert!(second.as_mut().now_or_never().is_none());
            // Without a pause it was a look already.
            let pause = pause(&rooms);
            tokio::time::advance(pause.max(Duration::from_micros(1))).await;
            assert!(pause.is_zero() || matches!(rooms.next(), Next::Look(_)));
            let _ = rooms.found(NAME, None);
            looks += 1;
            assert!(first.now_or_never().is_some());
        }
        rooms.asked(|| NAME.to_vec(), owner(1), None);
        assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(2)));
    }
    assert!(looks < 40, "{looks} looks in {:?}", LONGEST * 20);
}
