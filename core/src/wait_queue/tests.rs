use super::*;
use crate::memory::MemoryBackend;
use crate::{LockBackend, LockMode, OwnerId};
use futures_util::FutureExt;

fn queues() -> WaitQueues {
    WaitQueues::new(&MemoryBackend::new().semantics())
}

fn queues_with(wake_up: WakeUp) -> WaitQueues {
    let mut semantics = MemoryBackend::new().semantics();
    semantics.wake_up = wake_up;
    WaitQueues::new(&semantics)
}

fn name() -> LockName {
    LockName::new("job").unwrap()
}

fn at(millis: u64) -> Moment {
    Moment::since_origin(Duration::from_millis(millis))
}

/// A clock that stands still.
#[derive(Debug)]
struct ClockAt(Moment);

impl Clock for ClockAt {
    fn now(&self) -> Moment {
        self.0
    }

    fn sleep_until(&self, _: Moment) -> crate::Sleep {
        unreachable!("a release does not sleep")
    }
}

fn claim(mode: LockMode) -> Claim {
    Claim::new(name(), OwnerId::from_u128(1), Duration::from_secs(1), "".into()).with_mode(mode)
}

fn join(queues: &WaitQueues) -> Place<'_> {
    join_in_mode(queues, LockMode::Exclusive)
}

fn join_in_mode(queues: &WaitQueues, mode: LockMode) -> Place<'_> {
    queues.join(&claim(mode), queues.releases()).unwrap()
}

fn is_woken(place: &Place<'_>) -> bool {
    place.notified().now_or_never() == Some(Notification::Ask)
}

#[test]
fn release_wakes_the_first_in_line_alone() {
    let queues = queues();
    let line = [join(&queues), join(&queues)];
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    assert_eq!(line.each_ref().map(is_woken), [true, false]);
}

#[test]
fn release_skips_a_waiter_that_was_woken_and_has_not_asked() {
    let queues = queues();
    let mut line = [join(&queues), join(&queues), join(&queues)];
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(1)));
    line[0].note_attempt(at(0));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(2)));
    assert_eq!(line.each_ref().map(is_woken), [true, true, false]);
    assert!(line[0].waiter.woken.load(SeqCst), "woken a second time");
}

#[test]
fn release_wakes_a_reader_with_the_readers_that_follow_it() {
    let queues = queues();
    let modes = [LockMode::Shared, LockMode::Shared, LockMode::Write, LockMode::Shared];
    let line = modes.map(|mode| join_in_mode(&queues, mode));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    assert_eq!(line.each_ref().map(is_woken), [true, true, false, false]);
}

#[test]
fn release_of_a_reader_wakes_no_reader_behind_a_writer_that_was_woken() {
    let queues = queues();
    let (writer, reader) = (join(&queues), join_in_mode(&queues, LockMode::Shared));
    queues.released(&claim(LockMode::Shared), &ClockAt(at(0)));
    queues.released(&claim(LockMode::Shared), &ClockAt(at(1)));
    assert_eq!([is_woken(&writer), is_woken(&reader)], [true, false]);
}

#[test]
fn granted_reader_wakes_a_reader_that_joined_after_the_release() {
    let queues = queues();
    let first = join_in_mode(&queues, LockMode::Shared);
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    let (second, writer) = (join_in_mode(&queues, LockMode::Shared), join(&queues));
    first.granted(at(1));
    assert!(is_woken(&second));
    second.granted(at(2));
    assert_eq!(
        writer.notified().now_or_never(),
        Some(Notification::Replan),
        "it is the first, and waits for the readers"
    );
}

#[test]
fn release_between_attempt_and_join_wakes_the_newcomer() {
    let queues = queues();
    let before_attempt = queues.releases();
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    assert!(is_woken(&queues.join(&claim(LockMode::Exclusive), before_attempt).unwrap()));
    assert!(!is_woken(&join(&queues)));
}

#[test]
fn waiter_that_leaves_without_a_grant_wakes_the_next() {
    let queues = queues();
    let (first, second, third) = (join(&queues), join(&queues), join(&queues));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    drop(first);
    assert!(is_woken(&second));
    second.granted(at(1));
    assert_eq!(
        third.notified().now_or_never(),
        Some(Notification::Replan),
        "it is the first, and waits for the release"
    );
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(2)));
    assert!(is_woken(&third));
}

/// The first was woken too, but may never be polled.
#[test]
fn woken_waiter_that_leaves_from_behind_others_wakes_the_next() {
    let queues = queues();
    let (_first, second, third) = (join(&queues), join(&queues), join(&queues));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(0)));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(1)));
    drop(second);
    assert!(is_woken(&third));
}

#[test]
fn newcomer_stands_behind_others_only_if_there_are_any() {
    let queues = queues();
    assert!(queues.join_behind_others(&claim(LockMode::Exclusive)).is_none());
    let first = join(&queues);
    let second = queues.join_behind_others(&claim(LockMode::Exclusive)).unwrap();
    assert!(first.is_first() && !second.is_first());
    let other = LockName::new("other").unwrap();
    let other = Claim::new(other, OwnerId::from_u128(2), Duration::from_secs(1), "".into());
    assert!(queues.join_behind_others(&other).is_none());
}

#[test]
fn release_after_a_long_streak_yields_for_one_interval() {
    let queues = queues();
    let line = [join(&queues), join(&queues)];
    let [first, second] = line;
    first.granted(at(0));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(99)));
    assert!(is_woken(&second) && second.yields_until() == Moment::ORIGIN);
    second.granted(at(99));
    let third = join(&queues);
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(100)));
    assert!(!is_woken(&third));
    assert_eq!(third.yields_until(), at(100).plus(queues.longest_pause));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(101)));
    assert!(!is_woken(&third), "released by a waiter that asked as the line began to yield");
    queues.released(&claim(LockMode::Exclusive), &ClockAt(third.yields_until()));
    assert!(is_woken(&third), "the streak is over");
}

/// Another process had its turn already.
#[test]
fn streak_ends_when_a_woken_waiter_is_refused() {
    let queues = queues();
    let (first, mut second) = (join(&queues), join(&queues));
    first.granted(at(0));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(50)));
    second.note_attempt(at(0));
    second.note_refusal();
    let third = join(&queues);
    second.granted(at(90));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(120)));
    assert!(is_woken(&third), "the streak began at 90 ms");
}

/// Some name was released between its attempt and its place in line, and no other process need have been quicker.
#[test]
fn streak_goes_on_when_a_newcomer_that_was_woken_is_refused() {
    let queues = queues();
    join(&queues).granted(at(0));
    let mut newcomer = queues.join(&claim(LockMode::Exclusive), queues.releases() + 1).unwrap();
    assert!(is_woken(&newcomer));
    newcomer.note_attempt(at(0));
    newcomer.note_refusal();
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(100)));
    assert!(!is_woken(&newcomer), "the streak began at 0 ms");
}

#[test]
fn name_without_waiters_or_holder_is_forgotten() {
    let queues = queues();
    let is_empty = || locked(&queues.queues).is_empty();
    drop(join(&queues));
    assert!(is_empty());
    let (first, second) = (join(&queues), join(&queues));
    first.granted(at(0));
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(1)));
    assert!(!is_empty(), "a waiter was woken");
    drop(second);
    assert!(is_empty(), "it left without a grant");
    join(&queues).granted(at(2));
    assert!(!is_empty(), "its holder belongs to a streak");
    queues.released(&claim(LockMode::Exclusive), &ClockAt(at(3)));
    assert!(is_empty());
}

/// Waiters of other processes hear a message at once, or poll the sooner the shorter the streak was.
#[test]
fn pause_of_a_store_that_wakes_its_waiters_is_a_part_of_the_streak() {
    let fallback = Duration::from_millis(500);
    let look = WakeUp::Look { at_most: Duration::from_millis(100), fallback };
    for (wake_up, streak, pause) in [
        (look, 160, 20),
        (look, 4_000, 100),
        (WakeUp::Push { fallback }, 120, 15),
        (WakeUp::Push { fallback }, 4_000, 20),
    ] {
        let queues = queues_with(wake_up);
        let (first, second) = (join(&queues), join(&queues));
        first.granted(at(0));
        queues.released(&claim(LockMode::Exclusive), &ClockAt(at(streak)));
        assert_eq!(second.yields_until(), at(streak + pause));
        assert!(
            second.notified().now_or_never() == Some(Notification::Replan),
            "its timer is to be set again"
        );
    }
}

#[test]
fn timer_of_a_waiter_behind_others_waits_until_none_has_asked_for_the_fallback_interval() {
    let fallback = Duration::from_millis(500);
    for (wake_up, interval) in
        [(WakeUp::Poll { at_most: Duration::from_millis(50) }, 500), (WakeUp::Push { fallback }, 1_000)]
    {
        let queues = queues_with(wake_up);
        let (mut first, second) = (join(&queues), join(&queues));
        assert_eq!(second.asks_from(), Moment::ORIGIN);
        first.note_attempt(at(7));
        assert_eq!([first.asks_from(), second.asks_from()], [Moment::ORIGIN, at(7 + interval)]);
    }
}

#[test]
fn store_that_serves_waiters_in_their_order_has_no_line() {
    let mut semantics = MemoryBackend::new().semantics();
    semantics.fairness = Fairness::Fifo;
    let queues = WaitQueues::new(&semantics);
    assert!(
        queues.join(&claim(LockMode::Exclusive), 0).is_none()
            && queues.join_behind_others(&claim(LockMode::Exclusive)).is_none()
    );
}
