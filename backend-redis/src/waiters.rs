//! The waiters of this process, and the messages that a lock was handed over to one of them.
//!
//! All of them share one channel. A message names an owner, its place in the queue and the token of its grant. A place is the score
//! in the sorted set of the queue; later places are larger. A message counts only if it names the place of the server's last answer:
//! the grant is then later than the request for that answer, and the lease is counted from that request. A message for another place
//! is old, or its answer was lost; the next heartbeat of the owner finds out.

use crate::locked;
use leasehold_core::{FencingToken, Grant, KnownServers, LockName, OwnerId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The waiters of this process, and the last message for each.
#[derive(Debug, Default)]
pub(crate) struct WaiterRegistry {
    /// The servers whose messages they hear.
    pub(crate) servers: KnownServers,
    waiters: Mutex<WaiterTable>,
}

#[derive(Debug, Default)]
struct WaiterTable {
    by_owner: HashMap<OwnerId, WaiterEntry>,
    /// How many wait for each name.
    of: HashMap<LockName, usize>,
}

#[derive(Debug)]
struct WaiterEntry {
    name: LockName,
    /// As the last answer of the server named it.
    place: Option<u64>,
    message: Option<(u64, FencingToken)>,
    /// Keeps one notification until it is seen.
    changed: Arc<Notify>,
}

impl WaiterRegistry {
    /// The grant from the owner's message, if there is one for its place. The owner waits no longer then.
    pub(crate) fn take_grant(&self, owner: OwnerId) -> Option<Grant> {
        let mut waiters = locked(&self.waiters);
        let waiter = waiters.by_owner.get(&owner)?;
        let (_, token) = waiter.message.filter(|(place, _)| waiter.place == Some(*place))?;
        waiters.remove(owner);
        Some(Grant::new(token).from_hand_over())
    }

    pub(crate) fn is_waited_for(&self, name: &LockName) -> bool {
        locked(&self.waiters).of.contains_key(name)
    }

    /// Begins to listen for this owner. Called before the request, because the message may come before the answer.
    pub(crate) fn add(&self, owner: OwnerId, name: &LockName) {
        let WaiterTable { by_owner, of } = &mut *locked(&self.waiters);
        by_owner.entry(owner).or_insert_with(|| {
            *of.entry(name.clone()).or_default() += 1;
            WaiterEntry { name: name.clone(), place: None, message: None, changed: Arc::default() }
        });
    }

    /// The server has answered that the owner waits at this place.
    ///
    /// The answer may be late: tasks that share a claim ask for the same owner, and one of them may not be polled for long. A
    /// grant at an earlier place has ended by then.
    pub(crate) fn set_place(&self, owner: OwnerId, place: u64) {
        if let Some(waiter) = locked(&self.waiters).by_owner.get_mut(&owner) {
            if waiter.place.is_none_or(|known| known <= place) {
                waiter.place = Some(place);
            } else {
                // The answer is late, or the server's clock went back while the queue was empty. An old message is void then.
                waiter.message = None;
            }
        }
    }

    /// The owner holds the lock, or stops waiting.
    pub(crate) fn remove(&self, owner: OwnerId) {
        locked(&self.waiters).remove(owner);
    }

    /// An attempt failed and left nothing in the store, so the owner may not come back. An owner with a place does, to release
    /// it.
    pub(crate) fn remove_unless_queued(&self, owner: OwnerId) {
        let mut waiters = locked(&self.waiters);
        if waiters.by_owner.get(&owner).is_some_and(|waiter| waiter.place.is_none()) {
            waiters.remove(owner);
        }
    }

    /// Returns when there is a message for the owner, or messages may have been lost. Never if it does not wait.
    pub(crate) async fn changed(&self, owner: OwnerId) {
        let changed = locked(&self.waiters).by_owner.get(&owner).map(|waiter| Arc::clone(&waiter.changed));
        match changed {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// A message came: `owner place token`, as the scripts write it. Any other message is ignored.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Some((owner, place, token)) = std::str::from_utf8(message).ok().and_then(parse) else { return };
        let changed = locked(&self.waiters).by_owner.get_mut(&owner).map(|waiter| {
            waiter.message = Some((place, token));
            Arc::clone(&waiter.changed)
        });
        // Without the mutex: a waker may run any code.
        if let Some(changed) = changed {
            changed.notify_one();
        }
    }

    /// Messages may have been lost: every waiter asks the server again.
    pub(crate) fn wake_all(&self) {
        let all: Vec<_> = locked(&self.waiters).by_owner.values().map(|it| Arc::clone(&it.changed)).collect();
        all.iter().for_each(|changed| changed.notify_one());
    }
}

impl WaiterTable {
    fn remove(&mut self, owner: OwnerId) {
        let Some(WaiterEntry { name, .. }) = self.by_owner.remove(&owner) else { return };
        if let Some(count) = self.of.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.of.remove(&name);
            }
        }
    }
}

fn parse(message: &str) -> Option<(OwnerId, u64, FencingToken)> {
    let mut words = message.split(' ');
    let owner = OwnerId::from_hex(words.next()?)?;
    let place = words.next()?.parse().ok()?;
    let token = FencingToken::new(words.next()?.parse().ok()?);
    words.next().is_none().then_some((owner, place, token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    fn granted(waiters: &WaiterRegistry, owner: OwnerId) -> Option<u64> {
        waiters.take_grant(owner).map(|grant| grant.token.get())
    }

    fn job() -> LockName {
        LockName::new("job").unwrap()
    }

    fn registry() -> (WaiterRegistry, OwnerId) {
        let (waiters, owner) = (WaiterRegistry::default(), OwnerId::random().unwrap());
        waiters.add(owner, &job());
        (waiters, owner)
    }

    fn message(owner: OwnerId, place: u64, token: u64) -> Vec<u8> {
        format!("{} {place} {token}", owner.to_hex()).into_bytes()
    }

    #[test]
    fn grant_is_taken_once_and_only_at_the_present_place() {
        let (waiters, owner) = registry();
        waiters.deliver(&message(owner, 5, 77));
        assert_eq!(granted(&waiters, owner), None, "no answer has named a place yet");
        waiters.set_place(owner, 6);
        assert_eq!(granted(&waiters, owner), None, "of an earlier place");
        waiters.deliver(&message(owner, 6, 78));
        assert_eq!(granted(&waiters, owner), Some(78));
        assert_eq!(granted(&waiters, owner), None);
    }

    #[test]
    fn message_before_the_answer_that_names_the_place_is_kept() {
        let (waiters, owner) = registry();
        waiters.deliver(&message(owner, 5, 77));
        waiters.set_place(owner, 5);
        assert!(waiters.changed(owner).now_or_never().is_some(), "a notification is kept until it is seen");
        assert_eq!(granted(&waiters, owner), Some(77));
    }

    /// Its task was not polled, and another task asked with the same claim meanwhile.
    #[test]
    fn late_answer_brings_no_grant_of_an_earlier_place_back() {
        let (waiters, owner) = registry();
        waiters.deliver(&message(owner, 1, 77));
        waiters.set_place(owner, 5);
        waiters.set_place(owner, 1);
        assert_eq!(granted(&waiters, owner), None, "that lease has ended long ago");
        waiters.deliver(&message(owner, 5, 78));
        assert_eq!(granted(&waiters, owner), Some(78));
    }

    /// The only way for a later place to be a smaller one.
    #[test]
    fn grant_from_before_the_servers_clock_went_back_is_not_taken() {
        let (waiters, owner) = registry();
        waiters.set_place(owner, 5);
        waiters.deliver(&message(owner, 5, 77));
        waiters.set_place(owner, 2);
        assert_eq!(granted(&waiters, owner), None);
    }

    #[test]
    fn message_for_an_unknown_owner_or_in_another_form_leaves_nothing() {
        let (waiters, owner) = (WaiterRegistry::default(), OwnerId::random().unwrap());
        waiters.deliver(&message(owner, 5, 77));
        let half = "0123456789abcdef0123456789abcdef 1";
        for nonsense in ["", "x", "x 1 2", half, &format!("{half} 2 3"), "\u{ff} 1 2"] {
            waiters.deliver(nonsense.as_bytes());
        }
        waiters.deliver(&[0xff, 0xfe]);
        assert!(locked(&waiters.waiters).by_owner.is_empty());
        assert!(waiters.changed(owner).now_or_never().is_none());
    }

    #[test]
    fn failed_attempt_ends_the_listening_only_without_a_place() {
        let (waiters, queued) = registry();
        let fresh = OwnerId::random().unwrap();
        waiters.add(fresh, &job());
        waiters.set_place(queued, 1);
        waiters.remove_unless_queued(fresh);
        waiters.remove_unless_queued(queued);
        assert_eq!(locked(&waiters.waiters).by_owner.keys().collect::<Vec<_>>(), [&queued]);
        assert!(waiters.is_waited_for(&job()));
        waiters.remove(queued);
        assert!(!waiters.is_waited_for(&job()));
    }

    #[test]
    fn notification_unseen_by_a_dropped_listener_goes_to_the_next() {
        let (waiters, owner) = registry();
        {
            let mut changed = pin!(waiters.changed(owner));
            assert!(changed.as_mut().now_or_never().is_none());
            waiters.wake_all();
        }
        assert!(waiters.changed(owner).now_or_never().is_some());
        assert_eq!(granted(&waiters, owner), None);
    }
}
