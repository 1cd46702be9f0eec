//! Where the waiters of this process hear that the lock was handed over to them.
//!
//! One channel for all of them. A message names an owner, its place in the queue and the token of its grant, or the first of
//! several and their number. It is good
//! for this place only: the last answer of the server said that the owner waits at it, so the grant came later than that
//! answer was asked for, and the lease can be counted from there without a look at a clock. A message for another place
//! is of an earlier time, or of an answer that was lost; the owner's next heartbeat tells how it stands.

use crate::reply;
use leasehold_core::{Grant, Listener, OwnerId};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A place in the queue of a name. No two are the same, and later ones are larger.
///
/// One more than the server's number, so that none takes no room of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(NonZeroU64);

impl Place {
    pub(crate) fn new(place: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(place))
    }
}

/// The waiters of this process, and what each was told.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiters: Mutex<Waiters>,
}

/// By owner. In a tree: there may be thousands, and of a table half may be empty.
type Waiters = BTreeMap<u128, Waiter>;

#[derive(Debug, Default)]
struct Waiter {
    /// Where the last answer of the server saw it.
    place: Option<Place>,
    /// Boxed: most waiters were told nothing yet, and there may be many of them.
    told: Option<Box<(Place, Grant)>>,
    listener: Listener,
}

impl Mailbox {
    /// The grant that the owner was told of. Then it listens no longer.
    pub(crate) fn take(&self, owner: OwnerId) -> Option<Grant> {
        let is_told = |waiter: &Waiter| Some(waiter.told.as_ref()?.0 == waiter.place?);
        let (_, grant) = *self.remove_if(owner, |waiter| is_told(waiter) == Some(true))?.told?;
        Some(grant.from_hand_over())
    }

    /// True if the owner waits, as far as is known here.
    pub(crate) fn listens(&self, owner: OwnerId) -> bool {
        self.waiters().contains_key(&owner.as_u128())
    }

    /// Begins to listen for this owner, before it is asked for: its grant may be told before the answer is heard.
    pub(crate) fn listen(&self, owner: OwnerId) {
        self.waiters().entry(owner.as_u128()).or_default();
    }

    /// The server has answered that the owner waits at this place.
    ///
    /// The answer may have been long on its way: tasks of this process that share a claim ask for the same owner, and one
    /// that is not polled hears late. What was granted at an earlier place is over by then.
    pub(crate) fn waits_at(&self, owner: OwnerId, place: Place) {
        if let Some(waiter) = self.waiters().get_mut(&owner.as_u128()) {
            if waiter.place.is_none_or(|known| known.0 <= place.0) {
                waiter.place = Some(place);
            } else {
                // Or the server's clock went back with nobody in the queue: then what was told is of the past.
                waiter.told = None;
            }
        }
    }

    /// The owner has what it wanted, or wants it no more. True if it was listening.
    pub(crate) fn forget(&self, owner: OwnerId) -> bool {
        self.remove_if(owner, |_| true).is_some()
    }

    /// An attempt failed, and nothing of it is in the store: the owner may not come again. One that had a place will, to
    /// withdraw it.
    pub(crate) fn forget_unless_queued(&self, owner: OwnerId) {
        self.remove_if(owner, |waiter| waiter.place.is_none());
    }

    /// Ready when there was news for the owner. Never, if it does not listen.
    pub(crate) fn news(&self, owner: OwnerId) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(move |cx| match self.waiters().get_mut(&owner.as_u128()) {
            Some(waiter) => waiter.listener.poll(cx),
            None => Poll::Pending,
        })
    }

    /// A message came: `owner place token`, or `owner place token number`, as the scripts write it. One that is none of
    /// ours is nobody's.
    pub(crate) fn deliver(&self, message: &[u8]) {
        let Some((owner, place, grant)) = std::str::from_utf8(message).ok().and_then(parse) else {
            return;
        };
        let tell = |waiter: &mut Waiter| {
            waiter.told = Some(Box::new((place, grant)));
            waiter.listener.tell()
        };
        let waker = self.waiters().get_mut(&owner.as_u128()).and_then(tell);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Messages may have been lost: everybody had better ask.
    pub(crate) fn wake_all(&self) {
        let tell = |waiter: &mut Waiter| waiter.listener.tell();
        let wakers: Vec<Waker> = self.waiters().values_mut().filter_map(tell).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// To be dropped where nobody has to wait for the others: nobody knows what goes with who listens.
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

fn parse(message: &str) -> Option<(OwnerId, Place, Grant)> {
    let mut words = message.split(' ');
    let owner = OwnerId::from_hex(words.next()?)?;
    let place = words.next()?.parse().ok()?;
    Some((owner, Place::new(place), reply::grant(words)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    fn taken(mailbox: &Mailbox, owner: OwnerId) -> Option<(u64, u32)> {
        mailbox.take(owner).map(|grant| (grant.token.get(), grant.tokens))
    }

    fn owner() -> OwnerId {
        OwnerId::random().unwrap()
    }

    fn told(owner: OwnerId, place: u64, token: u64) -> Vec<u8> {
        format!("{} {place} {token}", owner.to_hex()).into_bytes()
    }

    #[test]
    fn a_grant_is_taken_once_and_only_at_the_place_where_its_owner_waits() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 5, 77));
        assert_eq!(taken(&mailbox, owner), None, "no answer has told of a place yet");
        mailbox.waits_at(owner, Place::new(6));
        assert_eq!(taken(&mailbox, owner), None, "of an earlier place");
        mailbox.deliver(&told(owner, 6, 78));
        assert_eq!(taken(&mailbox, owner), Some((78, 1)));
        assert_eq!(taken(&mailbox, owner), None);
    }

    #[test]
    fn a_grant_may_be_told_before_the_answer_that_tells_the_place() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 5, 77));
        mailbox.waits_at(owner, Place::new(5));
        assert!(mailbox.news(owner).now_or_never().is_some(), "news wait for who asks late");
        assert_eq!(taken(&mailbox, owner), Some((77, 1)));
    }

    /// Its task was not polled meanwhile, and another has asked with the same claim since.
    #[test]
    fn an_answer_that_is_heard_late_brings_no_grant_of_an_earlier_place_back() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.deliver(&told(owner, 1, 77));
        mailbox.waits_at(owner, Place::new(5));
        mailbox.waits_at(owner, Place::new(1));
        assert_eq!(taken(&mailbox, owner), None, "that lease has ended long ago");
        mailbox.deliver(&told(owner, 5, 78));
        assert_eq!(taken(&mailbox, owner), Some((78, 1)));
    }

    /// The only way for a later place to be a smaller one.
    #[test]
    fn a_grant_is_not_taken_at_a_place_from_before_the_servers_clock_went_back() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.waits_at(owner, Place::new(5));
        mailbox.deliver(&told(owner, 5, 77));
        mailbox.waits_at(owner, Place::new(2));
        assert_eq!(taken(&mailbox, owner), None);
    }

    #[test]
    fn several_tokens_in_a_row_are_told_with_their_number() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        mailbox.waits_at(owner, Place::new(5));
        mailbox.deliver(format!("{} 5 77 64", owner.to_hex()).as_bytes());
        assert_eq!(taken(&mailbox, owner), Some((77, 64)));
    }

    #[test]
    fn what_nobody_waits_for_leaves_nothing() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.deliver(&told(owner, 5, 77));
        for nonsense in [
            "",
            "x",
            "x 1 2",
            "0123456789abcdef0123456789abcdef 1",
            "0123456789abcdef0123456789abcdef 1 2 3 4",
            "\u{ff} 1 2",
        ] {
            mailbox.deliver(nonsense.as_bytes());
        }
        mailbox.deliver(&[0xff, 0xfe]);
        assert!(mailbox.waiters().is_empty());
        assert!(mailbox.news(owner).now_or_never().is_none());
    }

    #[test]
    fn a_failed_attempt_ends_the_listening_of_those_only_who_have_no_place() {
        let (mailbox, fresh, queued) = (Mailbox::default(), owner(), owner());
        mailbox.listen(fresh);
        mailbox.listen(queued);
        mailbox.waits_at(queued, Place::new(1));
        mailbox.forget_unless_queued(fresh);
        mailbox.forget_unless_queued(queued);
        assert_eq!(mailbox.waiters().keys().collect::<Vec<_>>(), [&queued.as_u128()]);
    }

    #[test]
    fn a_place_is_told_from_every_other_and_from_none() {
        assert_ne!(Place::new(0), Place::new(1));
        assert_eq!(size_of::<Option<Place>>(), size_of::<Place>());
    }

    #[test]
    fn who_leaves_before_hearing_leaves_the_news_to_who_listens_next() {
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
    fn a_broken_connection_wakes_everybody() {
        let (mailbox, owner) = (Mailbox::default(), owner());
        mailbox.listen(owner);
        assert!(mailbox.news(owner).now_or_never().is_none());
        mailbox.wake_all();
        assert!(mailbox.news(owner).now_or_never().is_some());
        assert_eq!(taken(&mailbox, owner), None);
    }
}
