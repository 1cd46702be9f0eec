use super::LocalQueue;
use super::line::{Line, News, Next, Rules, Standing, Way};
use super::lines::Lines;
use crate::keeper::unanswered;
use crate::sync::Mutex;
use crate::{
    Attempt, Busy, Claim, Clock, Error, ErrorKind, Fairness, HoldKind, LockAdmin, LockBackend, LockName,
    OwnerId, Release, Renewal, Result, Semantics, WakeUp, locked,
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A waiter asks once in every fallback interval; who has left out so many is not there any more.
const MISSED_QUESTIONS: u32 = 4;
/// Who is away for so long, and for so many times the patience, will hardly come back. It has lost its turn long before, so
/// one that is only slow loses nothing by it.
const GONE_AFTER: Duration = Duration::from_secs(60);
const GONE_PATIENCES: u32 = 16;
/// A waiter that is told of a free lock, or a process that looks for its own, asks within this time.
const WAKES_WITHIN: Duration = Duration::from_millis(25);

/// A backend for tasks that take turns on the backend behind it.
pub(crate) struct TakingTurns {
    backend: Arc<dyn LockBackend>,
    /// That of the client: it counts leases from the moments that are told here.
    clock: Arc<dyn Clock>,
    rules: Rules,
    lines: Lines,
    /// Holders whose turn was lost though they were not asked about.
    suspects: Mutex<Vec<OwnerId>>,
    suspected: Notify,
}

impl TakingTurns {
    pub(crate) fn new(backend: Arc<dyn LockBackend>, clock: Arc<dyn Clock>, queue: LocalQueue) -> Self {
        let semantics = backend.semantics();
        let patience = semantics.wake_up.bound().saturating_mul(MISSED_QUESTIONS);
        // Without an interval nobody would ever be there.
        let patience = patience.max(LocalQueue::LONGEST_TURN);
        let gone_after = patience.saturating_mul(GONE_PATIENCES).max(GONE_AFTER);
        Self {
            backend,
            clock,
            rules: Rules {
                queue,
                patience,
                gone_after,
                hold: semantics.hold,
                stand_back: stand_back(&semantics),
            },
            lines: Lines::default(),
            suspects: Mutex::default(),
            suspected: Notify::new(),
        }
    }

    fn line<T>(&self, name: &LockName, ask: impl FnOnce(&mut Line) -> T) -> T {
        self.lines.ask(name, ask, |other| other.sweep(self.clock.now(), &self.rules))
    }

    /// Releases in the store what was granted to nobody. If that fails, it is tried again with the release of `owner`.
    async fn give_back(&self, owner: OwnerId, asked: &Claim) -> Result<Release> {
        let answer = self.backend.release(asked, Duration::ZERO).await;
        let now = self.clock.now();
        self.line(asked.name(), |line| line.released(owner, asked, &answer, now, &self.rules));
        answer
    }

    async fn give_back_all(&self, orphans: Vec<(OwnerId, Claim)>) {
        for (owner, asked) in orphans {
            let answer = self.give_back(owner, &asked).await;
            if answer.is_err_and(|error| error.is_outage()) && self.rules.hold != HoldKind::Lease {
                // It does not end by itself, and its owner may never come.
                self.line(asked.name(), |line| line.orphan_again(owner, &asked));
            }
        }
    }

    /// Enters what the store said of the questions among these, and answers for all.
    fn renewed(
        &self,
        claims: &[Claim],
        standings: &[Standing],
        answers: Vec<Result<Renewal>>,
    ) -> Vec<Result<Renewal>> {
        let (now, mut answers, mut suspects) = (self.clock.now(), answers.into_iter(), Vec::new());
        let answer = |(claim, standing): (&Claim, &Standing)| match standing {
            Standing::Known(renewal) => Ok(*renewal),
            Standing::Ask(asked) => {
                let answer = answers.next().unwrap_or_else(|| Err(unanswered()));
                let renewed = |line: &mut Line| line.renewed(claim.owner(), asked, &answer, now, &self.rules);
                suspects.extend(self.line(claim.name(), renewed));
                answer
            }
        };
        let answers = claims.iter().zip(standings).map(answer).collect();
        self.suspect(suspects);
        answers
    }

    fn suspect(&self, owners: Vec<OwnerId>) {
        if !owners.is_empty() {
            locked(&self.suspects).extend(owners);
            self.suspected.notify_one();
        }
    }

    /// Those who hold what the store knows under these owners.
    fn holders_of(&self, owners: Vec<OwnerId>) -> Vec<OwnerId> {
        let holder = |owner: OwnerId| self.lines.find(|line| line.holder_of(owner));
        owners.into_iter().map(|owner| holder(owner).unwrap_or(owner)).collect()
    }
}

#[async_trait]
impl LockBackend for TakingTurns {
    fn semantics(&self) -> Semantics {
        let mut semantics = self.backend.semantics();
        semantics.local_queue = Some(self.rules.queue);
        semantics
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let now = self.clock.now();
        let next = |line: &mut Line| (line.next(claim, now, &self.rules), line.take_orphans());
        let (next, orphans) = self.line(claim.name(), next);
        self.give_back_all(orphans).await;
        let asked = match next {
            Next::Answer(attempt) => return Ok(attempt),
            Next::Ask(question) => question,
        };
        let answer = self.backend.try_acquire(&asked.claim).await;
        let now = self.clock.now();
        let heard = self.line(claim.name(), |line| line.heard(claim, &asked, answer, now, &self.rules));
        if let Some(attempt) = heard? {
            return Ok(attempt);
        }
        let _ = self.give_back(claim.owner(), &asked.claim).await;
        Ok(Attempt::Busy(Busy::new().with_place_in_queue()))
    }

    /// That of the claim which the store knows. Of one that it will not be asked about, any.
    fn renewal_group(&self, claim: &Claim) -> u64 {
        let now = self.clock.now();
        let standing = self.line(claim.name(), |line| line.standing(claim, now));
        standing.question().map_or(0, |asked| self.backend.renewal_group(&asked.claim))
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let now = self.clock.now();
        let standing = |claim: &Claim| self.line(claim.name(), |line| line.standing(claim, now));
        let standings: Vec<Standing> = claims.iter().map(standing).collect();
        let asked = standings.iter().filter_map(Standing::question);
        let asked: Vec<Claim> = asked.map(|question| question.claim.clone()).collect();
        let answers = if asked.is_empty() { Vec::new() } else { self.backend.renew(&asked).await };
        self.renewed(claims, &standings, answers)
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<Release> {
        let now = self.clock.now();
        let leave = |line: &mut Line| (line.leave(claim, linger, now, &self.rules), line.take_orphans());
        let ((way, left), orphans) = self.line(claim.name(), leave);
        let mut unheard = None;
        for left in left {
            unheard = self.give_back(claim.owner(), &left).await.err().filter(Error::is_outage).or(unheard);
        }
        self.give_back_all(orphans).await;
        let answer = match way {
            Way::Done(release) => Ok(release),
            Way::Release(asked) => {
                let answer = self.backend.release(&asked, linger).await;
                let now = self.clock.now();
                self.line(claim.name(), |line| {
                    line.released(claim.owner(), &asked, &answer, now, &self.rules);
                });
                answer
            }
        };
        told_of_both(answer, unheard)
    }

    /// No async method: all who wait would have the room that only the first of them needs.
    fn changed<'a: 'c, 'b: 'c, 'c>(&'a self, claim: &'b Claim) -> BoxFuture<'c, ()> {
        let of_line =
            move || poll_fn(move |cx| self.line(claim.name(), |line| line.poll_news(claim.owner(), cx)));
        let now = self.clock.now();
        match self.line(claim.name(), |line| line.news(claim.owner(), now)) {
            News::Store => self.backend.changed(claim),
            News::Line => Box::pin(of_line()),
            News::LineUntil(moment) => Box::pin(async move {
                tokio::select! {
                    () = of_line() => {}
                    () = self.clock.sleep_until(moment) => {}
                }
            }),
            News::Both(asked) => Box::pin(async move {
                tokio::select! {
                    () = of_line() => {}
                    () = self.backend.changed(&asked) => {}
                }
            }),
        }
    }

    async fn suspects(&self) -> Vec<OwnerId> {
        loop {
            let ours = std::mem::take(&mut *locked(&self.suspects));
            if !ours.is_empty() {
                return ours;
            }
            tokio::select! {
                () = self.suspected.notified() => {}
                theirs = self.backend.suspects() => return self.holders_of(theirs),
            }
        }
    }

    fn admin(&self) -> Option<&dyn LockAdmin> {
        self.backend.admin()
    }

    async fn close(&self) -> Result<()> {
        self.backend.close().await
    }
}

/// What is said of a release, if nothing was heard of what its claim had left beside. Whoever hears that it is done does not ask
/// again, and then nobody would end that. When it does ask again, the claim itself has nothing any more: after an unknown outcome
/// that is a success, and after one that is known it is none.
fn told_of_both(answer: Result<Release>, unheard: Option<Error>) -> Result<Release> {
    match (answer, unheard) {
        (Ok(Release::Released), Some(unheard)) => Err(unheard.with_kind(ErrorKind::Indeterminate)),
        (Ok(Release::NotHeld), Some(unheard)) => Err(unheard.with_kind(ErrorKind::Unavailable)),
        (answer, _) => answer,
    }
}

/// Nothing where the store serves its waiters in order. Where each of them looks by itself, half of the longest pause between
/// two looks: of several, one comes in time nearly always. Else longer than it takes to wake one.
fn stand_back(semantics: &Semantics) -> Option<Duration> {
    let pause = match semantics.wake_up {
        WakeUp::Poll { at_most } => at_most / 2,
        WakeUp::Look { .. } | WakeUp::Push { .. } => WAKES_WITHIN,
    };
    (semantics.fairness == Fairness::Unordered).then_some(pause)
}

impl fmt::Debug for TakingTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakingTurns")
            .field("backend", &self.backend)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemClock;
    use crate::memory::MemoryBackend;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Wake, Waker};

    struct Asks(Arc<TakingTurns>, AtomicBool);

    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let are_free = self.0.lines.are_free();
            self.1.store(are_free, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_unheard_beside_a_release_makes_no_loss_of_it_and_no_success() {
        for kind in [ErrorKind::Unavailable, ErrorKind::Indeterminate] {
            let told =
                |answer| told_of_both(Ok(answer), Some(Error::new(kind, "no reply"))).unwrap_err().kind();
            assert_eq!(told(Release::Released), ErrorKind::Indeterminate);
            assert_eq!(told(Release::NotHeld), ErrorKind::Unavailable);
        }
        assert_eq!(told_of_both(Ok(Release::NotHeld), None).unwrap(), Release::NotHeld);
    }

    /// Such as one with which a task ends that waits for a lock too.
    #[tokio::test]
    async fn a_waker_may_ask_the_lines() {
        let queue = LocalQueue::new(8).unwrap();
        let turns = TakingTurns::new(Arc::new(MemoryBackend::new()), Arc::new(SystemClock::new()), queue);
        let turns = Arc::new(turns);
        let claim = |owner| {
            let name = LockName::new("job").unwrap();
            Claim::new(name, OwnerId::from_u128(owner), Duration::from_secs(10), "".into()).with_waiting(true)
        };
        let (holder, waiter) = (claim(1), claim(2));
        assert!(matches!(turns.try_acquire(&holder).await, Ok(Attempt::Granted(_))));
        assert!(matches!(turns.try_acquire(&waiter).await, Ok(Attempt::Busy(_))));

        let asks = Arc::new(Asks(Arc::clone(&turns), AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&asks));
        let mut news = turns.changed(&waiter);
        assert!(news.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        turns.release(&holder, Duration::ZERO).await.unwrap();
        assert!(asks.1.load(Ordering::Relaxed), "woken under the mutex, or not at all");
    }
}
