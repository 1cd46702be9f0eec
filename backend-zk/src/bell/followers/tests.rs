use super::*;
use leasehold_core::OwnerId;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

const SESSION: i64 = 7;
const NODE: FencingToken = FencingToken::new(1);

fn place(number: i32) -> Arc<Place> {
    let place = Place::of(OwnerId::from_u128(7), &Arc::default());
    place.bell.note().session = NonZero::new(SESSION);
    place.bell.leads_with(Some(number));
    Arc::new(place)
}

/// Looks, when it is woken, whether it could take the lock of this bell.
struct Looks {
    at: Arc<Place>,
    finds_it_free: AtomicBool,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.finds_it_free.store(self.at.bell.note.try_lock().is_ok(), Relaxed);
    }
}

/// A waker may do anything, and another thread may be on its way from one bell to the other.
#[test]
fn nobody_is_woken_with_the_lock_held_of_the_one_that_was_followed() {
    type End = fn(&Leaving<'_>) -> bool;
    for end in [(|leaving| leaving.hands_over(Moment::ORIGIN, None)) as End, |_| false] {
        let (ahead, behind) = (place(0), place(1));
        assert!(behind.follow(&ahead, SESSION, 0, NODE).is_some());
        let looks = Arc::new(Looks { at: Arc::clone(&ahead), finds_it_free: AtomicBool::new(false) });
        let mut changed = Box::pin(behind.changed());
        let waker = Waker::from(Arc::clone(&looks));
        assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let leaving = ahead.bell.gives_back();
        end(&leaving);
        drop(leaving);
        assert!(looks.finds_it_free.load(Relaxed));
    }
}

#[test]
fn the_word_is_for_the_node_that_stood_there_and_comes_once() {
    let (ahead, behind) = (place(0), place(1));
    assert!(behind.follow(&ahead, SESSION, 0, NODE).is_some());
    let leaving = ahead.bell.gives_back();
    assert!(leaving.hands_over(Moment::ORIGIN, None));
    drop(leaving);
    assert!(!behind.bell.has_fired(), "it need not look");
    assert_eq!(behind.bell.take_hand_over().map(|word| word.made), Some(NODE));
    assert!(behind.bell.take_hand_over().is_none());
}

#[test]
fn who_is_followed_by_another_tells_the_first() {
    let (ahead, first, second) = (place(0), place(1), place(2));
    assert!(first.follow(&ahead, SESSION, 0, NODE).is_some());
    assert!(first.follow(&ahead, SESSION, 0, NODE).is_some());
    assert!(!first.bell.has_fired(), "it would look for ever");
    assert!(second.follow(&ahead, SESSION, 0, NODE).is_some());
    assert!(first.bell.has_fired() && !second.bell.has_fired());
}

#[test]
fn nobody_follows_what_stands_elsewhere_or_does_not_know_where() {
    let (ahead, behind) = (place(0), place(1));
    assert!(behind.follow(&ahead, SESSION, 1, NODE).is_none());
    assert!(behind.follow(&ahead, SESSION + 1, 0, NODE).is_none());
    ahead.bell.doubts();
    assert!(behind.follow(&ahead, SESSION, 0, NODE).is_none());
}

/// Its watch fired during a call that has found nothing, or between its end and this.
#[test]
fn nobody_follows_what_has_heard_of_its_node_and_has_not_looked() {
    let (ahead, behind) = (place(0), place(1));
    let stands = || ahead.bell.note().stands_at(NonZero::new(SESSION), Some(0));
    ahead.bell.note().listens_to = ListensTo::Itself;
    ahead.bell.ring();
    assert!(stands().is_none());
    assert!(behind.follow(&ahead, SESSION, 0, NODE).is_none());
    ahead.bell.listen();
    stands();
    assert!(behind.follow(&ahead, SESSION, 0, NODE).is_some());
}

/// It listened to its own node until it came to watch the one in front.
#[test]
fn who_follows_one_that_has_heard_and_watches_the_one_in_front_is_told() {
    let (ahead, behind) = (place(0), place(1));
    assert!(behind.follow(&ahead, SESSION, 0, NODE).is_some());
    ahead.bell.ring();
    assert!(!behind.bell.has_fired(), "it may have been of the one in front, and a look is about to be made");
    look_again(ahead.bell.note().stands_at(NonZero::new(SESSION), Some(0)));
    assert!(behind.bell.has_fired());
}

/// Who comes while it leaves may have come too late to be listened for.
#[test]
fn who_comes_to_follow_one_that_leaves_is_told_so() {
    let (ahead, early, late) = (place(0), place(1), place(1));
    let other = FencingToken::new(2);
    assert_eq!(early.follow(&ahead, SESSION, 0, NODE), Some(Ahead::Waits));
    let leaving = ahead.bell.gives_back();
    let next = ahead.bell.next();
    assert_eq!(next.as_ref().map(|next| next.made), Some(NODE));
    assert_eq!(late.follow(&ahead, SESSION, 0, other), Some(Ahead::Holds));
    assert!(early.bell.has_fired());
    assert!(leaving.hands_over(Moment::ORIGIN, next.as_ref()));
    let word = late.bell.take_hand_over().unwrap();
    assert!(word.made == other && !word.was_seen, "nobody has read its node");
}
