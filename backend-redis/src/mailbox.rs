//! The waiters of this process, and the messages that a lock was handed over to one of them.
//!
//! All of them share one channel. A message names an owner, its place in the queue and the token of its grant. It is believed
//! for the place that the last answer of the server named: the grant is later than the request for that answer, so the lease
//! is counted from then. A message for another place is old, or belongs to an answer that was lost; the next heartbeat of the
//! owner finds out.

use crate::listener::Listener;
use crate::reply;
use leasehold_core::{FencingToken, Grant, OwnerId};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A place in the queue of a name. Places are unique, and later ones are larger.
///
/// Stores the server's number plus one, so that an `Option` of it is as small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(NonZeroU64);

impl Place {
    pub(crate) fn new(place: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(place))
    }
}

/// The waiters of this process, and the last message for each.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiters: Mutex<Waiters>,
}

/// By owner. A tree, because there may be thousands, and half of a hash table may be empty.
type Waiters = BTreeMap<u128, Waiter>;

#[derive(Debug, Default)]
struct Waiter {
    /// As the last answer of the server named it.
    place: Option<Place>,
    /// Boxed, because most of the thousands have no message yet.
    told: Option<Box<(Place, FencingToken)>>,
    listener: Listener,
}

impl Mailbox {
    /// The grant from the owner's message, if there is one for its place. Ends the listening then.
    pub(crate) fn take(&self, owner: OwnerId) -> Option<Grant> {
        let is_told = |waiter: &Waiter| Some(waiter.told.as_ref()?.0 == waiter.place?);
        let (_, token) = *self.remove_if(owner, |waiter| is_told(waiter) == Some(true))?.told?;
        Some(Grant::new(token).from_hand_over())
    }

    /// True if the owner is registered here.
    pub(crate) fn listens(&self, owner: OwnerId) -> bool {
        self.waiters().contains_key(&owner.as_u128())
    }

    /// Begins to listen for this owner. Called before the request, because the message may come before the answer.
    pub(crate) fn listen(&self, owner: OwnerId) {
        self.waiters().entry(owner.as_u128()).or_default();
    }

    /// The server has answered that the owner waits at this place.
    ///
    /// The answer may be late: tasks that share a claim ask for the same owner, and one of them may not be polled for long. A
    /// grant at an earlier place has ended by then.
    pub(crate) fn waits_at(&self, owner: OwnerId, place: Place) {
        if let Some(waiter) = self.waiters().get_mut(&owner.as_u128()) {
            if waiter.place.is_none_or(|known| known.0 <= place.0) {
                waiter.place = Some(place);
            } else {
                // The answer is late, or the server's clock went back while the queue was empty. An old message is void then.
                waiter.told = None;
            }
        }
    }

    /// The owner holds the lock, or stops waiting. True if it was listening.
    pub(crate) fn forget(&self, owner: OwnerId) -> bool {
        self.remove_if(owner, |_| true).is_some()
    }

    /// An attempt failed and left nothing in the store, so the owner may not come back. An owner with a place does, to release
    /// it.
    pub(crate) fn forget_unless_queued(&self, owner: OwnerId) {
        self.remove_if(owner, |waiter| waiter.place.is_none());
    }

    /// Ready when there is news for the owner. Never ready if it does not listen.
    pub(crate) fn news(&self, owner: OwnerId) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(move |cx| match self.waiters().get_mut(&owner.as_u128()) {
            Some(waiter) => waiter.listener.poll(cx),
            None => Poll::Pending,
        })
    }

    /// A message came: `owner place token`, as the scripts write it. Any other message is ignored.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Some((owner, place, token)) = std::str::from_utf8(message).ok().and_then(parse) else {
            return;
        };
        let tell = |waiter: &mut Waiter| {
            waiter.told = Some(Box::new((place, token)));
            waiter.listener.tell()
        };
        let waker = self.waiters().get_mut(&owner.as_u128()).and_then(tell);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Messages may have been lost: every waiter asks the server again.
    pub(crate) fn wake_all(&self) {
        let tell = |waiter: &mut Waiter| waiter.listener.tell();
        let wakers: Vec<Waker> = self.waiters().values_mut().filter_map(tell).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The caller drops the waiter without the mutex: the drop of its waker may run any code.
    fn remove_if(&self, owner: OwnerId, is_so: impl FnOnce(&Waiter) -> bool) -> Option<Waiter> {
        let mut waiters = self.waiters();
        if !waiters.get(&owner.as_u128()).is_some_and(is_so) {
            return None;
        }
        waiters.remove(&owner.as_u128())
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(message: &str) -> Option<(OwnerId, Place, FencingToken)> {
    let mut words = message.split(' ');
    let owner = OwnerId::from_hex(words.next()?)?;
    let place = Place::new(words.next()?.parse().ok()?);
    let token = reply::token(words.next()?)?;
    words.next().is_none().then_some((owner, place, token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    fn taken(mailbox: &Mailbox, owner: OwnerId) -> Option<u64> {
        mailbox.take(owner).map(|grant| grant.token.get())
    }

    fn owner() -> OwnerId {
        OwnerId::random().unwrap()
    }

    fn told(owner: OwnerId, place: u64, token: u64) -> Vec<u8> {
        format!("{} {place} {token}", owner.to_hex()).into_bytes()
    }

    #[test]
    fn grant_is_taken_once_and_only_at_the_present_place() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 5, 77));
        assert_eq!(taken(&mailbox, owner), None, "no answer has named a place yet");
        mailbox.waits_at(owner, Place::new(6));
        assert_eq!(taken(&mailbox, owner), None, "of an earlier place");
        mailbox.deliver(&told(owner, 6, 78));
        assert_eq!(taken(&mailbox, owner), Some(78));
        assert_eq!(taken(&mailbox, owner), None);
    }

    #[test]
    fn message_before_the_answer_that_names_the_place_is_kept() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 5, 77));
        mailbox.waits_at(owner, Place::new(5));
        assert!(mailbox.news(owner).now_or_never().is_some(), "news is kept until it is asked for");
        assert_eq!(taken(&mailbox, owner), Some(77));
    }

    /// Its task was not polled, and another task asked with the same claim meanwhile.
    #[test]
    fn late_answer_brings_no_grant_of_an_earlier_place_back() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 1, 77));
        mailbox.waits_at(owner, Place::new(5));
        mailbox.waits_at(owner, Place::new(1));
        assert_eq!(taken(&mailbox, owner), None, "that lease has ended long ago");
        mailbox.deliver(&told(owner, 5, 78));
        assert_eq!(taken(&mailbox, owner), Some(78));
    }

    /// The only way for a later place to be a smaller one.
    #[test]
    fn grant_from_before_the_servers_clock_went_back_is_not_taken() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.waits_at(owner, Place::new(5));
        mailbox.deliver(&told(owner, 5, 77));
        mailbox.waits_at(owner, Place::new(2));
        assert_eq!(taken(&mailbox, owner), None);
    }

    #[test]
    fn message_for_an_unknown_owner_or_in_another_form_leaves_nothing() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.deliver(&told(owner, 5, 77));
        for nonsense in [
            "",
            "x",
            "x 1 2",
            "0123456789abcdef0123456789abcdef 1",
            "0123456789abcdef0123456789abcdef 1 2 3",
            "\u{ff} 1 2",
        ] {
            mailbox.deliver(nonsense.as_bytes());
        }
        mailbox.deliver(&[0xff, 0xfe]);
        assert!(mailbox.waiters().is_empty());
        assert!(mailbox.news(owner).now_or_never().is_none());
    }

    #[test]
    fn failed_attempt_ends_the_listening_only_without_a_place() {
        let (mailbox, fresh, queued) = (Mailbox::default(), owner(), owner());
        mailbox.listen(fresh);
        mailbox.listen(queued);
        mailbox.waits_at(queued, Place::new(1));
        mailbox.forget_unless_queued(fresh);
        mailbox.forget_unless_queued(queued);
        assert_eq!(mailbox.waiters().keys().collect::<Vec<_>>(), [&queued.as_u128()]);
    }

    #[test]
    fn place_differs_from_every_other_and_from_none() {
        assert_ne!(Place::new(0), Place::new(1));
        assert_eq!(size_of::<Option<Place>>(), size_of::<Place>());
    }

    #[test]
    fn news_unheard_by_a_dropped_listener_goes_to_the_next() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        {
            let mut news = pin!(mailbox.news(owner));
            assert!(news.as_mut().now_or_never().is_none());
            mailbox.wake_all();
        }
        assert!(mailbox.news(owner).now_or_never().is_some());
    }

    #[test]
    fn broken_connection_wakes_every_waiter() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        assert!(mailbox.news(owner).now_or_never().is_none());
        mailbox.wake_all();
        assert!(mailbox.news(owner).now_or_never().is_some());
        assert_eq!(taken(&mailbox, owner), None);
    }
}
