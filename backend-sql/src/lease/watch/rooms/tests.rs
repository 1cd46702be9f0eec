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
    rooms.found(NAME, None);
    assert!(second.as_mut().now_or_never().is_none());
    assert!(first.now_or_never().is_some());
    rooms.found(NAME, None);
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
        rooms.found(NAME, None);
        assert!(pause(&rooms) > Duration::ZERO);
    }
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.found(NAME, None);
    assert!(second.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_longer_it_is_held_the_longer_is_the_pause() {
    let rooms = rooms(false);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    rooms.found(NAME, held(1, Duration::from_micros(100)));
    assert_eq!(pause(&rooms), SHORTEST);
    rooms.found(NAME, held(1, Duration::from_millis(160)));
    assert_eq!(pause(&rooms), Duration::from_millis(10));
    rooms.found(NAME, held(1, Duration::from_secs(3600)));
    assert_eq!(pause(&rooms), LONGEST);
    assert!(rooms.know_held(|| NAME.to_vec(), owner(2)));
    assert!(!rooms.know_held(|| NAME.to_vec(), owner(1)), "a holder would be told that another holds");
    tokio::time::advance(LONGEST + GRACE).await;
    assert!(!rooms.know_held(|| NAME.to_vec(), owner(2)), "believed although nobody has looked for long");
}

#[tokio::test(start_paused = true)]
async fn rivals_who_are_quicker_spread_the_looks_and_a_free_lock_gathers_them() {
    let rooms = rooms(false);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    let spread = || rooms.rooms().get(NAME).unwrap().spread;
    for rival in 10..30 {
        rooms.found(NAME, held(rival, Duration::ZERO));
    }
    assert_eq!(spread(), WIDEST);
    rooms.found(NAME, held(29, Duration::ZERO));
    assert_eq!(spread(), WIDEST);
    rooms.found(NAME, None);
    assert_eq!(spread(), WIDEST / 2);
}

#[tokio::test(start_paused = true)]
async fn what_rings_while_a_look_is_under_way_is_looked_at_again() {
    let rooms = rooms(true);
    let mut waiter = std::pin::pin!(rooms.wait(NAME.to_vec(), owner(2)));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.ring(NAME);
    rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(rooms.next(), Next::Look(vec![NAME.to_vec()]));
    rooms.found(NAME, held(1, Duration::from_secs(1)));
    assert_eq!(pause(&rooms), LONGEST);
}
