//! What cases do all the time, and expect of it.

use crate::stop::{Stop, Verdict, ensure, ensure_untimed, ensure_within, was_not_renewed_in_time};
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, Lease, LockAdmin,
    LockGuard, LockMode, LockName, Loss, Wait,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A client of a store, as a subject connects it.
pub(crate) type Client = Arc<dyn DistributedLock>;

/// Shorter words for what cases do all the time.
pub(crate) trait ClientExt {
    async fn take(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard, Stop>;
    /// One attempt with a long lease: the guard, or `None` if it is held.
    async fn poke(&self, name: &LockName) -> Result<Option<LockGuard>, Stop>;
    /// One attempt in a mode: the guard, or `None` if the lock is held in a mode that conflicts.
    async fn poke_in(&self, name: &LockName, mode: LockMode) -> Result<Option<LockGuard>, Stop>;
    fn looking(&self) -> Result<&dyn LockAdmin, Stop>;
}

impl ClientExt for Client {
    async fn take(&self, name: &LockName, options: &AcquireOptions) -> Result<LockGuard, Stop> {
        Ok(self.acquire_with(name, options).await?)
    }

    async fn poke(&self, name: &LockName) -> Result<Option<LockGuard>, Stop> {
        self.poke_in(name, LockMode::Exclusive).await
    }

    async fn poke_in(&self, name: &LockName, mode: LockMode) -> Result<Option<LockGuard>, Stop> {
        let options = AcquireOptions::new().with_wait(Wait::No).with_mode(mode);
        match self.acquire_with(name, &options).await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn looking(&self) -> Result<&dyn LockAdmin, Stop> {
        self.admin().ok_or_else(|| Stop::Skipped("the backend cannot look at its locks".to_owned()))
    }
}

/// What came of it, and how long it took.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    (work.await, start.elapsed())
}

/// Gives the locks back, in this order.
pub(crate) async fn release_all(guards: impl IntoIterator<Item = LockGuard>) -> Verdict {
    for guard in guards {
        guard.release().await?;
    }
    Ok(())
}

/// Takes and gives back a lock, again and again until that succeeds: a server that has just been started may take longer for its
/// first client than one behind a proxy waits.
pub(crate) async fn first_use(
    client: &Client,
    name: &LockName,
    options: &AcquireOptions,
    within: Duration,
) -> Verdict {
    let start = Instant::now();
    loop {
        let used = async { client.acquire_with(name, options).await?.release().await };
        match used.await {
            Err(error) if error.kind() != ErrorKind::Invalid && start.elapsed() < within => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            used => return Ok(used?),
        }
    }
}

/// Expects that a lock is held by another client.
pub(crate) async fn ensure_held(client: &Client, name: &LockName, when: &str) -> Verdict {
    ensure!(client.poke(name).await?.is_none(), "{when}: somebody else got the lock");
    Ok(())
}

/// Expects that a lock is held. A lease that has ended before it was renewed says that the store was slow, or this machine.
pub(crate) fn ensure_not_lost(lease: &Lease, words: impl fmt::Display) -> Verdict {
    if lease.is_held() {
        return Ok(());
    }
    let loss = lease.loss();
    let stop = if loss.as_ref().is_some_and(was_not_renewed_in_time) { Stop::Away } else { Stop::Failed };
    Err(stop(format!("{words}: {loss:?}")))
}

/// Expects that these locks stay held for so long: by their guards, and in the eyes of another client.
pub(crate) async fn held_for(other: &Client, guards: &[LockGuard], time: Duration, when: &str) -> Verdict {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for guard in guards {
            let second = other.poke(guard.name()).await?;
            // The loss comes first: it may be one of a slow machine.
            ensure_not_lost(guard, format_args!("{when}, {} was lost", guard.name()))?;
            ensure!(second.is_none(), "{when}: somebody else got the lock");
        }
        tokio::time::sleep(time / 30).await;
    }
    Ok(())
}

/// Expects that the store keeps a lease for as long as its holder believes in it; for how long it does.
pub(crate) async fn ensure_kept(other: &Client, guard: &LockGuard, when: &str) -> Result<Duration, Stop> {
    let (before, asked) = (guard.remaining(), Instant::now());
    let status = other.looking()?.inspect(guard.name()).await?.pop();
    let unheld = || Stop::Failed(format!("{when}: the store has no holder of {}", guard.name()));
    let endless = || Stop::Skipped("the store does not show when a lease ends".to_owned());
    let kept = status.ok_or_else(unheld)?.ends_in.ok_or_else(endless)?;
    // A renewal meanwhile makes the one of them larger, and the time that it took the other.
    let believed = guard.remaining().min(before.saturating_sub(asked.elapsed()));
    ensure!(kept >= believed, "{when}: the holder believes in {believed:?}, and the store keeps {kept:?}");
    Ok(kept)
}

/// Expects that a lock can be had, and gives it back.
pub(crate) async fn ensure_free(client: &Client, name: &LockName, when: &str) -> Verdict {
    let guard = client.poke(name).await?;
    // Late, not failed: the machine may be slow. Late twice, the lock is not given back.
    Ok(guard.ok_or_else(|| Stop::Late(format!("{when}: the lock is not free"), None))?.release().await?)
}

pub(crate) async fn ensure_all_free(
    client: &Client,
    names: impl IntoIterator<Item = &LockName>,
    when: &str,
) -> Verdict {
    for name in names {
        ensure_free(client, name, when).await?;
    }
    Ok(())
}

/// Expects that a lock can be had within a bound, and gives it back.
pub(crate) async fn free_within(client: &Client, name: &LockName, bound: Duration, when: &str) -> Verdict {
    // Longer than the bound: what comes late is another finding than what never comes.
    let options = AcquireOptions::new().with_wait(bound * 2);
    let (outcome, took) = timed(client.acquire_with(name, &options)).await;
    let words = |error| format!("{when}: not free within {bound:?}, nor within twice that: {error}");
    outcome.map_err(|error| Stop::from(error).map(words))?.release().await?;
    ensure_within!(took, bound, "{when}: not free within {bound:?}, but after {took:?}");
    Ok(())
}

/// Expects an error of this kind.
pub(crate) fn ensure_kind<T>(outcome: Result<T, Error>, kind: ErrorKind, when: &str) -> Verdict {
    let success = || Stop::Failed(format!("{when}: it succeeded instead of being {kind:?}"));
    let error = outcome.err().ok_or_else(success)?;
    ensure!(error.kind() == kind, "{when}: {:?} instead of {kind:?}: {error}", error.kind());
    Ok(())
}

/// Expects an error of this kind, or `Indeterminate`: on a busy machine a short wait may be over before the first answer.
pub(crate) fn ensure_kind_if_known<T>(outcome: Result<T, Error>, kind: ErrorKind, when: &str) -> Verdict {
    match outcome {
        Err(error) if error.is_indeterminate() => Ok(()),
        outcome => ensure_kind(outcome, kind, when),
    }
}

/// Expects that an attempt is refused as one at a store that gives no answer.
pub(crate) fn ensure_outage<T>(outcome: Result<T, Error>, store: &str) -> Verdict {
    let error = outcome.err().ok_or_else(|| Stop::Failed(format!("{store} was reported as no error")))?;
    ensure!(error.is_outage(), "{store} was reported as {:?}: {error}", error.kind());
    Ok(())
}

/// Takes the lock, expects a token larger than the last one, and gives it back.
pub(crate) async fn ensure_larger_token(
    client: &Client,
    name: &LockName,
    options: &AcquireOptions,
    last: FencingToken,
    when: &str,
) -> Verdict {
    let next = client.take(name, options).await?;
    ensure_untimed!(next.token()? > last, "token {} after {last}, {when}", next.token()?);
    Ok(next.release().await?)
}

/// What a hook answered, or `None` where there is no such hook. A hook that was tried and failed fails the case.
pub(crate) fn optional<T>(answer: Result<T, Stop>) -> Result<Option<T>, Stop> {
    match answer {
        Err(Stop::Skipped(_)) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Waits until a condition holds, asking every few milliseconds; false if it does not within the bound.
pub(crate) async fn eventually(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(bound, until).await.is_ok()
}

/// Asks until the answer is right, or the bound is over. The last answer may be wrong: the caller checks it.
pub(crate) async fn last_answer_within<T, F: Future<Output = Result<T, Stop>>>(
    bound: Duration,
    pause: Duration,
    ask: impl Fn() -> F,
    is_right: impl Fn(&T) -> bool,
) -> Result<T, Stop> {
    let start = Instant::now();
    loop {
        let answer = ask().await?;
        if is_right(&answer) || start.elapsed() > bound {
            return Ok(answer);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Waits for the loss of a guard; the case is late if it does not come.
pub(crate) async fn loss_within(guard: &LockGuard, bound: Duration) -> Result<Loss, Stop> {
    let untold = format!("the holder was not told within {bound:?} that it lost the lock");
    let (loss, took) = timed(tokio::time::timeout(bound * 2, guard.lost())).await;
    let loss = loss.map_err(|_| Stop::Late(format!("{untold}, nor within twice that"), None))?;
    ensure_within!(took, bound, "{untold}, but after {took:?}");
    Ok(loss)
}

/// The last moment at which the holder can have said that it holds: taken before each look, so that a thread which is
/// stopped between the two accuses nobody. `None` if it never did.
pub(crate) async fn believed_until(guard: &LockGuard) -> Option<Instant> {
    let mut believed = None;
    loop {
        let now = Instant::now();
        if !guard.is_held() {
            return believed;
        }
        believed = Some(now);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::memory::MemoryBackend;
    use leasehold_core::{LockClient, RuntimeClock};

    const BOUND: Duration = Duration::from_millis(100);

    /// A client in virtual time, and a lock that it holds.
    async fn held() -> (Client, LockGuard) {
        let clock = Arc::new(RuntimeClock::new());
        let memory = Arc::new(MemoryBackend::with_clock(clock.clone()));
        let client: Client = Arc::new(LockClient::builder(memory).with_clock(clock).build());
        let guard = client.poke(&LockName::new("x").unwrap()).await.unwrap().unwrap();
        (client, guard)
    }

    #[tokio::test(start_paused = true)]
    async fn lock_that_was_not_renewed_in_time_is_away_and_one_that_was_taken_away_has_failed() {
        let (client, guard) = held().await;
        ensure_not_lost(&guard, "now").unwrap();
        client.admin().unwrap().force_release(guard.name(), None).await.unwrap();
        guard.lost().await;
        assert!(matches!(ensure_not_lost(&guard, "now"), Err(Stop::Failed(_))));
        let options = AcquireOptions::new().with_fixed_lease();
        let guard = client.acquire_with(guard.name().clone(), &options).await.unwrap();
        guard.lost().await;
        assert!(matches!(ensure_not_lost(&guard, "now"), Err(Stop::Away(_))));
        let guard = client.acquire_with(guard.name().clone(), &options).await.unwrap();
        let lease = guard.lease();
        guard.release().await.unwrap();
        assert!(matches!(ensure_not_lost(&lease, "now"), Err(Stop::Failed(_))), "it has no loss");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_that_is_held_for_twice_the_bound_never_came() {
        let (client, guard) = held().await;
        let name = guard.name().clone();
        let (verdict, took) = timed(free_within(&client, &name, BOUND, "now")).await;
        assert!(matches!(verdict, Err(Stop::Late(_, None))) && took >= BOUND * 2, "{verdict:?}: {took:?}");
        assert!(matches!(ensure_free(&client, &name, "now").await, Err(Stop::Late(_, None))));
        ensure_held(&client, &name, "now").await.unwrap();
        guard.release().await.unwrap();
        ensure_free(&client, &name, "now").await.unwrap();
        free_within(&client, &name, BOUND, "now").await.unwrap();
        assert!(matches!(ensure_held(&client, &name, "now").await, Err(Stop::Failed(_))));
        client.close().await.unwrap();
        let closed = free_within(&client, &name, BOUND, "now").await.unwrap_err();
        assert!(matches!(&closed, Stop::Failed(why) if why.starts_with("now: ")), "{closed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn lock_that_is_freed_after_the_bound_is_late_by_the_rest() {
        let (client, guard) = held().await;
        let name = guard.name().clone();
        let release = async {
            tokio::time::sleep(BOUND * 3 / 2).await;
            guard.release().await.unwrap();
        };
        let (verdict, ()) = tokio::join!(free_within(&client, &name, BOUND, "now"), release);
        assert!(matches!(verdict, Err(Stop::Late(_, Some(by))) if by < BOUND), "{verdict:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn loss_after_the_bound_is_late_by_the_rest_and_beyond_twice_the_bound_never_came() {
        let (client, guard) = held().await;
        let (loss, took) = timed(loss_within(&guard, BOUND)).await;
        assert!(matches!(loss, Err(Stop::Late(_, None))) && took >= BOUND * 2, "{loss:?}: {took:?}");
        client.looking().unwrap().force_release(guard.name(), None).await.unwrap();
        // It is told with the next renewal, after a third of the lease.
        let bound = guard.remaining() / 4;
        let loss = loss_within(&guard, bound).await;
        assert!(matches!(loss, Err(Stop::Late(_, Some(by))) if by < bound), "{loss:?}");
        loss_within(&guard, BOUND).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn lease_of_which_the_store_keeps_less_than_its_holder_believes_is_a_failure() {
        let (client, guard) = held().await;
        ensure_kept(&client, &guard, "now").await.unwrap();
        client.looking().unwrap().force_release(guard.name(), None).await.unwrap();
        assert!(matches!(ensure_kept(&client, &guard, "now").await, Err(Stop::Failed(_))));
        let short = AcquireOptions::new().with_ttl(guard.remaining() / 4);
        let _other = client.take(guard.name(), &short).await.unwrap();
        let kept = ensure_kept(&client, &guard, "now").await;
        assert!(matches!(&kept, Err(Stop::Failed(why)) if why.contains("believes")), "{kept:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn token_that_is_the_last_one_again_is_wrong() {
        let (client, guard) = held().await;
        let (name, token) = (guard.name().clone(), guard.token().unwrap());
        guard.release().await.unwrap();
        let next = FencingToken::new(token.get() + 1);
        let larger =
            async |last| ensure_larger_token(&client, &name, &AcquireOptions::new(), last, "now").await;
        assert!(
            matches!(larger(next).await, Err(Stop::Wrong(_))),
            "time stands still, so the next one is {next}"
        );
        larger(next).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn condition_that_never_holds_is_false_after_its_bound() {
        assert!(!eventually(BOUND, || false).await && eventually(BOUND, || true).await);
    }

    #[test]
    fn error_of_another_kind_is_a_failure_and_an_outage_is_unavailable_or_unknown() {
        use ErrorKind::{Busy, Indeterminate, Unavailable};
        let passed = |expected: fn(Result<(), Error>) -> Verdict| {
            [Some(Busy), Some(Indeterminate), Some(Unavailable), None].map(|kind| {
                match expected(kind.map_or(Ok(()), |kind| Err(Error::new(kind, "it")))) {
                    Ok(()) => true,
                    Err(Stop::Failed(_)) => false,
                    Err(stop) => panic!("{kind:?}: {stop:?}"),
                }
            })
        };
        assert_eq!(passed(|seen| ensure_kind(seen, Busy, "now")), [true, false, false, false]);
        assert_eq!(passed(|seen| ensure_kind_if_known(seen, Busy, "now")), [true, true, false, false]);
        assert_eq!(passed(|seen| ensure_outage(seen, "it")), [false, true, true, false]);
    }
}
