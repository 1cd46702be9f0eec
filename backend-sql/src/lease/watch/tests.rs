#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::server::Ring;
use crate::server::double::{MOMENT, Reply, at_once, server};
use futures_util::future::join_all;
use std::sync::atomic::{AtomicBool, Ordering};

/// It looks at once whether it is wanted: so does one whose task begins before whoever has begun it goes on.
#[derive(Debug, Default)]
struct Hasty {
    was_wanted: AtomicBool,
}

impl Bell for Hasty {
    fn keep_hearing(&self, ring: Weak<dyn Ring>) {
        let is_wanted = ring.upgrade().is_some_and(|ring| ring.is_wanted());
        self.was_wanted.store(is_wanted, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_bell_is_wanted_as_soon_as_it_is_to_hear() {
    let (server, _) = server("", at_once, |_, _| Reply::Never);
    let mut watch = Watch::new(&server, Duration::from_secs(1));
    let bell = Arc::<Hasty>::default();
    watch.bell = Some(bell.clone());
    drop(watch.changed(b"a".to_vec(), OwnerId::from_u128(1)));
    assert!(bell.was_wanted.load(Ordering::SeqCst), "it would hear nothing until the waiter comes back");
}

/// Somebody has written into a row by hand. Those who wait for other names are woken all the same.
#[tokio::test(start_paused = true)]
async fn a_row_that_says_no_owner_keeps_nobody_from_hearing_of_another() {
    let (server, _) = server("", at_once, |_, text| match text.starts_with("SELECT") {
        true => {
            let nobodys = Value::bytes(*b"x");
            Reply::Rows(vec![vec![Value::bytes(*b"spoiled"), nobodys, Value::int(1), Value::int(9_000_000)]])
        }
        false => Reply::Never,
    });
    let watch = Watch::new(&server, Duration::from_secs(1));
    let mut spoiled = Box::pin(watch.changed(b"spoiled".to_vec(), OwnerId::from_u128(1)));
    let free = watch.changed(b"free".to_vec(), OwnerId::from_u128(2));
    let woken = tokio::select! {
        () = &mut spoiled => false,
        woken = tokio::time::timeout(Duration::from_secs(10), free) => woken.is_ok(),
    };
    assert!(woken, "a free lock was waited for");
}

/// What must be said of each held name takes its time, and who could have another lock does not wait for it.
#[tokio::test(start_paused = true)]
async fn who_can_have_a_lock_does_not_wait_for_what_is_said_of_others() {
    const NAMES: u32 = 2 * MOST as u32;
    fn held(_: usize, text: &str) -> Reply {
        let row = |name: u32| {
            let owner = Value::bytes(OwnerId::from_u128(u128::MAX).to_bytes());
            vec![Value::bytes(name.to_be_bytes()), owner, Value::int(1_000_000), Value::int(0)]
        };
        match text.starts_with("SELECT") {
            true => Reply::Rows((0..NAMES).filter(|name| name % 8 > 0).map(row).collect()),
            false => Reply::Rows(vec![vec![Value::int(1)]]),
        }
    }
    let (server, said) = server("", at_once, held);
    let watch = Watch::new(&server, Duration::from_secs(60));
    let wait = |name: u32| watch.changed(name.to_be_bytes().to_vec(), OwnerId::from_u128(name.into()));
    let (free, others): (Vec<u32>, Vec<u32>) = (0..NAMES).partition(|name| name % 8 == 0);
    let (free, others) = (free.into_iter().map(wait), join_all(others.into_iter().map(wait)));
    tokio::select! {
        woken = tokio::time::timeout(MOMENT * 10, join_all(free)) => assert!(woken.is_ok(), "a free lock was waited for"),
        _ = others => {}
    }
    tokio::time::sleep(MOMENT * NAMES).await;
    assert_eq!(
        said.times("wanted_until = "),
        NAMES as usize / 8 * 7,
        "it is said of each that somebody waits"
    );
}

/// Each is said again and again, and before all have been said, the first are due once more.
#[test]
fn what_must_be_said_is_said_in_turn() {
    let mut unsaid = Unsaid::default();
    let said: Vec<Vec<u8>> = (0..6)
        .map(|_| {
            unsaid.names.extend([b"a", b"b", b"c"].map(|name| name.to_vec()));
            unsaid.next().unwrap()
        })
        .collect();
    assert_eq!(said.concat(), b"abcabc");
}
