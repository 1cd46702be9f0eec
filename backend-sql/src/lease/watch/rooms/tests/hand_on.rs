//! What one of this process gives up, and who of it has it next.

use super::super::super::runs::RUN;
use super::*;

/// Whoever gives it up would ask sooner than anybody who must first be woken.
#[tokio::test(start_paused = true)]
async fn who_has_given_it_up_stands_behind_those_who_wait() {
    for has_bell in [false, true] {
        let rooms = rooms(has_bell);
        let (first, mut second) = (enter(&rooms, 2), enter(&rooms, 3));
        take(&rooms, owner(1));
        give_up(&rooms, owner(1), false);
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
    let mut waiters: Vec<_> = (1..10).map(|number| enter(&rooms, number)).collect();
    take(&rooms, owner(100));
    let mut last = 100;
    for (number, waiter) in (1..10).zip(&mut waiters) {
        tokio::time::advance(RUN / 5).await;
        give_up(&rooms, owner(last), false);
        let woken = waiter.as_mut().now_or_never().is_some();
        assert_eq!(woken, number < 5, "after {:?}", RUN / 5 * u32::try_from(number).unwrap());
        if !woken {
            // The next look finds it free, and begins another run.
            let _ = rooms.found(NAME, None);
            assert!(waiter.as_mut().now_or_never().is_some());
            take(&rooms, owner(number));
            give_up(&rooms, owner(number), false);
            return;
        }
        take(&rooms, owner(number));
        last = number;
    }
    unreachable!("handed on for ever");
}

/// Or those who have looked in vain all the while would look too late every time.
#[tokio::test(start_paused = true)]
async fn after_a_run_others_look_first() {
    let rooms = rooms(true);
    let _waiters = [2, 3].map(|number| enter(&rooms, number));
    take(&rooms, owner(1));
    give_up(&rooms, owner(1), true);
    take(&rooms, owner(2));
    tokio::time::advance(RUN).await;
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(2)));
    give_up(&rooms, owner(2), false);
    assert!(rooms.keeps_waiting(|| NAME.to_vec(), owner(2)));
    // What rings is the echo of this.
    rooms.ring(NAME);
    let back = pause(&rooms);
    assert!(WIDEST / 2 <= back && back <= WIDEST, "{back:?}");
}

/// Nobody has looked in vain.
#[tokio::test(start_paused = true)]
async fn after_one_turn_it_is_looked_at_when_it_rings() {
    let rooms = rooms(true);
    let _waiter = enter(&rooms, 2);
    take(&rooms, owner(1));
    tokio::time::advance(RUN).await;
    give_up(&rooms, owner(1), false);
    rooms.ring(NAME);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
}

/// What a process gives up rings in its own ears, too, when somebody of it has the lock again.
#[tokio::test(start_paused = true)]
async fn an_echo_is_no_reason_to_look_at_once() {
    let rooms = rooms(true);
    let _waiter = enter(&rooms, 2);
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    take(&rooms, owner(1));
    rooms.ring(NAME);
    let pause = pause(&rooms);
    assert!(Duration::ZERO < pause && pause < LONGEST, "{pause:?}");
}

/// Who was to have it has gone: others hear of it then.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_in_silence_and_not_taken_is_told() {
    let rooms = rooms(true);
    {
        let _waiter = enter(&rooms, 2);
        take(&rooms, owner(1));
        assert!(rooms.hands_on(|| NAME.to_vec(), owner(1)));
    }
    give_up(&rooms, owner(1), true);
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    assert!(rooms.found(NAME, None), "nobody is told");
    assert_eq!(rooms.next(), Next::Nothing);
    assert!(!rooms.found(NAME, None), "told twice");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_up_in_silence_where_nobody_waits_or_a_run_is_over() {
    let rooms = rooms(true);
    let waiter = enter(&rooms, 2);
    take(&rooms, owner(1));
    tokio::time::advance(RUN).await;
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(1)));
    assert!(!rooms.hands_on(|| b"another".to_vec(), owner(1)));
    give_up(&rooms, owner(1), false);
    tokio::time::advance(WIDEST).await;
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    let _ = rooms.found(NAME, None);
    assert!(waiter.now_or_never().is_some());
    take(&rooms, owner(2));
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(2)));
}

/// It may have been done, and nobody was told: neither those who wait here, nor others.
#[tokio::test(start_paused = true)]
async fn a_release_in_silence_of_which_nothing_is_known_is_looked_at() {
    let rooms = rooms(true);
    let waiter = enter(&rooms, 2);
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    rooms.ended(NAME, End::Perhaps { by: owner(1), in_silence: true });
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.failed(&[NAME.to_vec()]);
    tokio::time::advance(LONGEST).await;
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    assert!(!rooms.found(NAME, None) && waiter.now_or_never().is_some());
    rooms.ended(NAME, End::NotHeld { by: owner(2) });
    assert!(rooms.found(NAME, None), "others have never been told");
}

/// What a look has seen before is no news of what has happened since.
#[tokio::test(start_paused = true)]
async fn a_late_answer_makes_no_rival_of_ones_own_and_wakes_nobody_beside_a_holder() {
    for answer in [held(1, Duration::ZERO), None] {
        let rooms = rooms(true);
        let mut waiters = [2, 3].map(|number| enter(&rooms, number));
        take(&rooms, owner(1));
        assert_eq!(pause(&rooms), LONGEST);
        rooms.rooms().get_mut(NAME).unwrap().looks(Instant::now());
        give_up(&rooms, owner(1), true);
        take(&rooms, owner(2));
        assert!(!rooms.found(NAME, answer));
        assert!(waiters[1].as_mut().now_or_never().is_none(), "woken beside a holder");
        assert!(pause(&rooms) < LONGEST, "an old answer is believed");
    }
}

/// Of two who take turns, each enters while the other asks.
#[tokio::test(start_paused = true)]
async fn who_enters_while_another_has_his_turn_is_no_reason_to_look() {
    let rooms = rooms(true);
    let first = enter(&rooms, 1);
    take(&rooms, owner(2));
    give_up(&rooms, owner(2), true);
    assert!(first.now_or_never().is_some());
    let _second = enter(&rooms, 3);
    assert_eq!(pause(&rooms), PATIENCE);
}

/// The first may have been done, in silence.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_asked_twice_is_looked_at_and_never_silent() {
    let rooms = rooms(true);
    let _waiter = enter(&rooms, 2);
    assert!(rooms.hands_on(|| NAME.to_vec(), owner(1)));
    rooms.ended(NAME, End::Perhaps { by: owner(1), in_silence: true });
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    let _ = rooms.found(NAME, held(1, Duration::ZERO));
    assert_eq!(pause(&rooms), LONGEST);
    assert!(!rooms.hands_on(|| NAME.to_vec(), owner(1)));
    rooms.ended(NAME, End::NotHeld { by: owner(1) });
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
}

/// The moments between a release and the next grant are most of a run, and those before the answer to the release.
#[tokio::test(start_paused = true)]
async fn a_run_that_ends_between_a_release_and_the_next_grant_is_over() {
    for (until_released, until_granted) in [(Duration::ZERO, SHORTEST), (SHORTEST, Duration::ZERO)] {
        let rooms = rooms(true);
        let _waiters = [2, 3].map(|number| enter(&rooms, number));
        take(&rooms, owner(1));
        tokio::time::advance(RUN - SHORTEST).await;
        assert!(rooms.hands_on(|| NAME.to_vec(), owner(1)));
        tokio::time::advance(until_released).await;
        give_up(&rooms, owner(1), true);
        tokio::time::advance(until_granted).await;
        take(&rooms, owner(2));
        assert!(!rooms.hands_on(|| NAME.to_vec(), owner(2)), "a run without an end");
    }
}
