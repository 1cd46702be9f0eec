use super::super::room::{GRACE, PATIENCE, WIDEST};
use super::super::runs::{RUN, RUN_BESIDE_RIVALS};
use super::*;
use futures_util::FutureExt;

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
    let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(1)));
    let mut second = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    let _ = rooms.found(NAME, None);
    assert!(second.as_mut().now_or_never().is_none());
    assert!(first.now_or_never().is_some());
    let _ = rooms.found(NAME, None);
    assert!(second.now_or_never().is_some());
    assert_eq!(rooms.next(), Next::Nothing);
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_and_leaves_unheard_makes_room_for_the_next() {
    let rooms = rooms(true);
    let mut second = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    {
        let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(1)));
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
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
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
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    let spread = || rooms.rooms().get(NAME).unwrap().spread;
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
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.ring(NAME);
    let _ = rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    let _ = rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(pause(&rooms), LONGEST);
}

/// Whoever gives it up would ask sooner than anybody who must first be woken.
#[tokio::test(start_paused = true)]
async fn who_has_given_it_up_stands_behind_those_who_wait() {
    for has_bell in [false, true] {
        let rooms = rooms(has_bell);
        let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
        let mut second = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(3)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        rooms.taken(|| NAME.to_vec(), owner(1));
        rooms.given_up(NAME, owner(1), false);
        assert!(first.now_or_never().is_some(), "not woken by one of his own process");
        assert!(second.as_mut().now_or_never().is_none(), "woken beside the first");
        assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(2)), "woken, and kept from asking");
        assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(1)), "asks before those who wait");
        tokio::time::advance(PATIENCE + GRACE).await;
        assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(1)), "stands in a line at which nobody looks");
    }
}

#[tokio::test(start_paused = true)]
async fn one_process_hands_on_among_its_own_for_a_moment_only() {
    let rooms = rooms(true);
    let mut waiters: Vec<_> =
        (1..10).map(|number| Box::pin(rooms.wait(NAME.to_vec(), owner(number)))).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    rooms.taken(|| NAME.to_vec(), owner(100));
    let mut last = 100;
    for (number, waiter) in (1..10).zip(&mut waiters) {
        tokio::time::advance(RUN / 5).await;
        rooms.given_up(NAME, owner(last), false);
        let woken = waiter.as_mut().now_or_never().is_some();
        assert_eq!(woken, number < 5, "after {:?}", RUN / 5 * u32::try_from(number).unwrap());
        if !woken {
            // The next look finds it free, and begins another run.
            let _ = rooms.found(NAME, None);
            assert!(waiter.as_mut().now_or_never().is_some());
            rooms.taken(|| NAME.to_vec(), owner(number));
            rooms.given_up(NAME, owner(number), false);
            return;
        }
        rooms.taken(|| NAME.to_vec(), owner(number));
        last = number;
    }
    unreachable!("handed on for ever");
}

/// Or the others, who have looked in vain all the while, would look too late every time. Where none is known, one may be.
#[tokio::test(start_paused = true)]
async fn after_a_run_others_look_first() {
    for (holder, run, at_least) in [(9, RUN_BESIDE_RIVALS, WIDEST / 2), (1, RUN, Duration::ZERO)] {
        let rooms = rooms(true);
        let mut waiters = [2, 3].map(|number| Box::pin(rooms.wait(NAME.to_vec(), owner(number))));
        for waiter in &mut waiters {
            assert!(waiter.as_mut().now_or_never().is_none());
        }
        // Whom a look has seen may be of this process: its release tells.
        let _ = rooms.found(NAME, held(holder, Duration::ZERO));
        rooms.taken(|| NAME.to_vec(), owner(1));
        rooms.given_up(NAME, owner(1), false);
        assert!(waiters[0].as_mut().now_or_never().is_some());
        rooms.taken(|| NAME.to_vec(), owner(2));
        tokio::time::advance(run).await;
        rooms.given_up(NAME, owner(2), false);
        assert!(waiters[1].as_mut().now_or_never().is_none(), "handed on after {run:?}");
        rooms.ring(NAME);
        let pause = pause(&rooms);
        assert!(at_least <= pause && pause <= WIDEST, "{pause:?}");
    }
}

/// Nobody has stood back for it, so there is nobody to stand back for.
#[tokio::test(start_paused = true)]
async fn one_turn_is_no_run() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    rooms.taken(|| NAME.to_vec(), owner(1));
    tokio::time::advance(RUN).await;
    rooms.given_up(NAME, owner(1), false);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
}

#[tokio::test(start_paused = true)]
async fn who_loses_his_turn_keeps_his_place() {
    let rooms = rooms(false);
    {
        let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(1)));
        assert!(first.as_mut().now_or_never().is_none());
        let _ = rooms.found(NAME, None);
        assert!(first.now_or_never().is_some());
    }
    let mut second = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(second.as_mut().now_or_never().is_none());
    let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(1)));
    assert!(first.as_mut().now_or_never().is_none());
    let _ = rooms.found(NAME, None);
    assert!(first.now_or_never().is_some() && second.now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn when_a_look_fails_everybody_asks_for_himself() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(3)));
    rooms.failed(&[NAME.to_vec()]);
    assert!(!rooms.keeps_waiting(|| NAME.to_vec(), owner(3)));
}

/// What a process gives up rings in its own ears, too, when somebody of it has the lock again.
#[tokio::test(start_paused = true)]
async fn an_echo_is_no_reason_to_look_at_once() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    rooms.taken(|| NAME.to_vec(), owner(1));
    rooms.ring(NAME);
    let pause = pause(&rooms);
    assert!(Duration::ZERO < pause && pause < LONGEST, "{pause:?}");
}

/// Who was to have it has gone: others hear of it then.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_in_silence_and_not_taken_is_told() {
    let rooms = rooms(true);
    {
        let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
        assert!(waiter.as_mut().now_or_never().is_none());
        rooms.taken(|| NAME.to_vec(), owner(1));
        assert!(rooms.hands_on(|| NAME.to_vec(), owner(1)));
    }
    rooms.given_up(NAME, owner(1), true);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    assert!(rooms.found(NAME, None), "nobody is told");
    assert_eq!(rooms.next(), Next::Nothing);
    assert!(!rooms.found(NAME, None), "told twice");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_up_in_silence_where_nobody_waits_or_a_run_is_over() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    rooms.taken(|| NAME.to_vec(), owner(1));
    tokio::time::advance(RUN).await;
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(1)));
    assert!(!rooms.hands_on(|| b"another".to_vec(), owner(1)));
    let _ = rooms.found(NAME, None);
    assert!(waiter.now_or_never().is_some());
    rooms.taken(|| NAME.to_vec(), owner(2));
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(2)));
}

/// Everybody asks for himself now and then, and is away for that moment.
#[tokio::test(start_paused = true)]
async fn who_is_back_in_a_moment_has_his_place_still() {
    let rooms = rooms(false);
    let enter = |number| {
        let mut waiter = Box::pin(rooms.wait(NAME.to_vec(), owner(number)));
        assert!(waiter.as_mut().now_or_never().is_none());
        waiter
    };
    drop(enter(1));
    let second = enter(2);
    tokio::time::advance(GRACE / 2).await;
    let first = enter(1);
    drop(second);
    let third = enter(3);
    tokio::time::advance(GRACE).await;
    let late = enter(2);
    for next in [first, third, late] {
        let _ = rooms.found(NAME, None);
        assert!(next.now_or_never().is_some());
    }
}

/// It may have been done, and nobody was told: neither those who wait here, nor others.
#[tokio::test(start_paused = true)]
async fn a_release_in_silence_of_which_nothing_is_known_is_looked_at() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    rooms.forget(NAME, Some(owner(1)), true);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.failed(&[NAME.to_vec()]);
    tokio::time::advance(LONGEST).await;
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    assert!(!rooms.found(NAME, None) && waiter.now_or_never().is_some());
    rooms.forget(NAME, Some(owner(2)), false);
    assert!(rooms.found(NAME, None), "others have never been told");
}

/// His attempt is taken back, which is the last that is heard of him.
#[tokio::test(start_paused = true)]
async fn who_gives_up_while_it_is_his_turn_keeps_nobody_waiting() {
    let rooms = rooms(true);
    let mut second = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    {
        let mut first = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(1)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        let _ = rooms.found(NAME, None);
        assert!(first.now_or_never().is_some());
    }
    rooms.forget(NAME, Some(owner(1)), false);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
}

#[tokio::test(start_paused = true)]
async fn however_often_it_was_found_free_a_look_comes_within_the_longest_pause() {
    let rooms = rooms(false);
    let mut waiters: Vec<_> =
        (1..10).map(|number| Box::pin(rooms.wait(NAME.to_vec(), owner(number)))).collect();
    for waiter in &mut waiters {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    for _ in 1..9 {
        let _ = rooms.found(NAME, None);
        assert!(pause(&rooms) <= LONGEST);
    }
}
