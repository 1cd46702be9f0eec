//! What tells a claim that something has changed where it stands.

use crate::follower::{Follower, HandOver};
use crate::place::Standing;
use crate::suspects::Suspects;
use leasehold_core::{FencingToken, OwnerId};
use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::time::Instant;

/// The bell of one claim.
///
/// It is the waker of the claim's watches: the library's own task rings it when it reads the event from the wire, and no task
/// of ours is woken in between. So ringing never waits and never calls the library: it takes two locks, one after the
/// other, under which nothing is done but to set a flag or change a list, and no watch is dropped.
///
/// Apart from the place, and without a way back to it: the place owns its watch, the watch owns its waker, and a
/// waker that owned the place would keep it, and the session, for ever.
#[derive(Debug)]
pub(crate) struct Bell {
    owner: OwnerId,
    note: Mutex<Note>,
    suspects: Arc<Suspects>,
}

/// A claim that gives its lock back, or its place, from when its node is about to be deleted until that is over, or the attempt.
#[derive(Debug)]
pub(crate) struct Leaving<'a>(&'a Bell);

/// Waits until a bell has rung. A future of its own, because whoever waits for a lock keeps one: of eight bytes.
#[derive(Debug)]
pub(crate) struct Changed {
    bell: Arc<Bell>,
}

/// Where the claim stands, for who cannot wait until a call is over.
#[derive(Debug, Default)]
struct Note {
    session: Option<NonZero<i64>>,
    holds: bool,
    /// True if what it listens to is its own node.
    hears_of_itself: bool,
    unsure: bool,
    /// True once a request was open when it was asked again: then there may be a second node, which only a look at all of
    /// them finds.
    doubted: bool,
    /// True if a watch has fired since the last [`Bell::listen`].
    fired: bool,
    /// The number of its node, if whoever stands behind that may rely on hearing from this claim.
    leads_with: Option<i32>,
    follower: Option<Box<Follower>>,
    /// What it was told by the claim that it follows.
    handed_over: Option<Box<HandOver>>,
    /// How many [`Changed`] there are.
    waiting: u32,
    waiters: Waiters,
}

/// Who is to be woken by a bell: one as a rule, for which there is room without an allocation. None of them is dropped with
/// the lock held: who knows what that frees.
#[derive(Debug, Default)]
enum Waiters {
    #[default]
    None,
    One(Waker),
    More(Vec<Waker>),
}

impl Bell {
    pub(crate) fn new(owner: OwnerId, suspects: &Arc<Suspects>) -> Self {
        Self { owner, note: Mutex::default(), suspects: Arc::clone(suspects) }
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// From here on, a watch that fires counts. Called before the watch is asked for, so that none is missed. An earlier
    /// watch that fires only now counts too: its claim looks once without need.
    pub(crate) fn listen(&self) {
        self.note().fired = false;
    }

    /// True if a watch has fired since.
    pub(crate) fn has_fired(&self) -> bool {
        self.note().fired
    }

    /// A watch has fired: a waiter may look again, and a holder had better. If it was that of its own node, whoever follows looks too. If
    /// it was that of the node in front, they hear what comes of it.
    pub(crate) fn ring(&self) {
        if self.fire() {
            self.suspects.add([self.owner]);
        }
        let follower = {
            let mut note = self.note();
            if note.hears_of_itself { note.stop_leading() } else { None }
        };
        look_again(follower);
    }

    /// Tells whoever waits that it may look again. True if the claim holds.
    pub(crate) fn fire(&self) -> bool {
        let (holds, waiters) = {
            let mut note = self.note();
            note.fired = true;
            (note.holds, std::mem::take(&mut note.waiters))
        };
        waiters.wake();
        holds
    }

    /// Waits until a watch has fired.
    pub(crate) fn changed(self: &Arc<Self>) -> Changed {
        self.note().waiting += 1;
        Changed { bell: Arc::clone(self) }
    }

    /// Notes that there may be more nodes than are known.
    pub(crate) fn doubts(&self) {
        self.note().doubted = true;
    }

    /// True if there may be.
    pub(crate) fn is_doubted(&self) -> bool {
        self.note().doubted
    }

    /// Notes where the claim stands now.
    pub(crate) fn stands(&self, standing: &Standing) {
        let follower = {
            let mut note = self.note();
            let session = standing.session().and_then(|session| NonZero::new(session.id()));
            let leads_with = standing.number();
            let is_the_same = (session, leads_with) == (note.session, note.leads_with);
            let follower = if is_the_same { None } else { note.stop_leading() };
            (note.session, note.leads_with) = (session, leads_with);
            note.holds = matches!(standing, Standing::First { .. });
            note.hears_of_itself = standing.hears_of_itself();
            note.unsure = matches!(standing, Standing::Unsure { .. });
            follower
        };
        look_again(follower);
    }

    /// Whoever stands behind its node, which has this number, may rely on hearing from it, though it is still finding out where it stands.
    pub(crate) fn leads_with(&self, number: Option<i32>) {
        self.note().leads_with = number;
    }

    /// From now on its holder is told nothing: it gives the lock back. Whoever follows it hears of that from the [`Leaving`].
    pub(crate) fn gives_back(&self) -> Leaving<'_> {
        let mut note = self.note();
        // The word that its node is gone says less than the answer to the delete, and comes before it.
        (note.holds, note.hears_of_itself) = (false, false);
        drop(note);
        Leaving(self)
    }

    /// Has this claim told when that one, which stands directly in front of it with a node of this number, is gone. False if that one
    /// does not stand there any more, or does not know where it stands.
    pub(crate) fn follow(
        self: &Arc<Self>,
        ahead: &Self,
        session: i64,
        number: i32,
        made: FencingToken,
    ) -> bool {
        // What it was told before is about a claim that it does not follow any more.
        let (_, mut note) = (self.take_hand_over(), ahead.note());
        let is_there = note.is_of(session) && note.leads_with == Some(number) && !note.doubted;
        if is_there {
            note.follower = Some(Box::new(Follower { bell: Arc::downgrade(self), made }));
        }
        is_there
    }

    /// The turn of the claim's node has come.
    fn is_handed(&self, word: HandOver) {
        let waiters = {
            let mut note = self.note();
            note.handed_over = Some(Box::new(word));
            std::mem::take(&mut note.waiters)
        };
        waiters.wake();
    }

    /// What it was told, once.
    pub(crate) fn take_hand_over(&self) -> Option<HandOver> {
        self.note().handed_over.take().map(|word| *word)
    }

    /// True if it has or may have a node of this session.
    pub(crate) fn is_of(&self, session: i64) -> bool {
        self.note().is_of(session)
    }

    /// True if it holds by a node of this session.
    pub(crate) fn holds_by(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.holds
    }

    /// True if it may have a node of this session, and nobody could say.
    pub(crate) fn is_unsure_of(&self, session: i64) -> bool {
        let note = self.note();
        note.is_of(session) && note.unsure
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaving<'_> {
    pub(crate) fn bell(&self) -> &Bell {
        self.0
    }

    /// The holder's node is gone, by a request that was sent after `asked`: whoever follows is the first in line.
    pub(crate) fn hands_over(&self, asked: Instant) {
        if let Some((bell, made)) = self.0.note().stop_leading().and_then(|follower| follower.get()) {
            bell.is_handed(HandOver { made, asked });
        }
    }
}

/// Left without a hand-over, or perhaps not left: whoever follows looks for itself.
impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let follower = self.0.note().stop_leading();
        look_again(follower);
    }
}

/// Never with a lock of the one that is followed held.
fn look_again(follower: Option<Box<Follower>>) {
    if let Some((bell, _)) = follower.and_then(|follower| follower.get()) {
        bell.fire();
    }
}

impl Note {
    /// From now on nobody may rely on hearing from it. Who did, and is to be told.
    fn stop_leading(&mut self) -> Option<Box<Follower>> {
        self.leads_with = None;
        self.follower.take()
    }

    fn is_of(&self, session: i64) -> bool {
        self.session.is_some_and(|id| id.get() == session)
    }
}

impl Waiters {
    fn add(&mut self, waker: &Waker) {
        match self {
            Self::None => *self = Self::One(waker.clone()),
            Self::One(one) if one.will_wake(waker) => {}
            Self::One(one) => *self = Self::More(vec![one.clone(), waker.clone()]),
            Self::More(more) if more.iter().any(|one| one.will_wake(waker)) => {}
            Self::More(more) => more.push(waker.clone()),
        }
    }

    fn wake(self) {
        match self {
            Self::None => {}
            Self::One(waker) => waker.wake(),
            Self::More(wakers) => wakers.into_iter().for_each(Waker::wake),
        }
    }
}

impl Future for Changed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut note = self.bell.note();
        if note.fired || note.handed_over.is_some() {
            return Poll::Ready(());
        }
        // Under the lock of who rings, so that no ring is missed in between.
        let earlier = if note.waiting > 1 { Waiters::None } else { std::mem::take(&mut note.waiters) };
        note.waiters.add(context.waker());
        drop((note, earlier));
        Poll::Pending
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let nobody_waits_for = {
            let mut note = self.bell.note();
            note.waiting -= 1;
            if note.waiting == 0 { std::mem::take(&mut note.waiters) } else { Waiters::None }
        };
        drop(nobody_waits_for);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn bell() -> Arc<Bell> {
        Arc::new(Bell::new(OwnerId::from_u128(7), &Arc::default()))
    }

    fn is_over(changed: &mut Changed, waker: &Waker) -> bool {
        Pin::new(changed).poll(&mut Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn all_that_wait_are_woken_once_by_a_ring() {
        let (bell, woken) = (bell(), [(); 3].map(|()| Arc::<Woken>::default()));
        let mut waiting: Vec<Changed> = woken.iter().map(|_| bell.changed()).collect();
        for _ in 0..2 {
            for (changed, woken) in waiting.iter_mut().zip(&woken) {
                assert!(!is_over(changed, &Waker::from(Arc::clone(woken))));
            }
        }
        bell.fire();
        bell.fire();
        assert!(woken.iter().all(|woken| woken.0.load(Relaxed) == 1));
        assert!(waiting.iter_mut().all(|changed| is_over(changed, &noop_waker())));
    }

    #[test]
    fn a_ring_before_the_first_look_is_not_missed_and_one_before_listening_does_not_count() {
        let bell = bell();
        let mut changed = bell.changed();
        bell.fire();
        bell.listen();
        assert!(!is_over(&mut changed, &noop_waker()));
        bell.fire();
        assert!(is_over(&mut changed, &noop_waker()));
    }

    #[test]
    fn who_waits_no_more_is_forgotten() {
        let (bell, woken) = (bell(), Arc::<Woken>::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut one, mut other) = (bell.changed(), bell.changed());
        assert!(!is_over(&mut one, &waker));
        drop(waker);
        drop(one);
        assert!(!is_over(&mut other, &noop_waker()), "who is left waits on");
        drop(other);
        assert_eq!((Arc::strong_count(&woken), Arc::strong_count(&bell)), (1, 1));
    }
}
