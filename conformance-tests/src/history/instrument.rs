use super::event::{
    Asked, DROPPED, Done, Extended, Granted, HoldRef, Observed, Phase, Reason, Step, Until, Written,
};
use super::recorder::Recorder;
use crate::kinds::Permits;
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, Lease, LockGuard, LockMode,
    LockName, Loss, Result, Wait,
};
use std::sync::Arc;
use std::time::Duration;

/// A lock of which everything is written into a history. An operation that cannot be written is not done.
///
/// # Errors
///
/// Here and of its guards, those of the library's method of the same name; and [`Unavailable`](ErrorKind::Unavailable) if the history
/// cannot be written.
///
/// # Cancel safety
///
/// As there. The history has an unknown outcome then.
///
/// Not a [`DistributedLock`] itself: its guards have more to say than a [`LockGuard`].
#[derive(Clone, Debug)]
pub struct RecordedLock {
    lock: Arc<dyn DistributedLock>,
    recorder: Recorder,
}

/// A guard of a [`RecordedLock`]. It can be asked what its [`Lease`] can.
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct RecordedGuard {
    guard: Option<LockGuard>,
    lease: Lease,
    token: u64,
    mode: LockMode,
    op: u64,
    recorder: Recorder,
}

impl RecordedLock {
    /// This lock, as a client of the history that the recorder writes.
    pub fn new(lock: Arc<dyn DistributedLock>, recorder: Recorder) -> Self {
        Self { lock, recorder }
    }

    /// Acquires, as [`DistributedLockExt::acquire_with`](leasehold_core::DistributedLockExt::acquire_with) does.
    pub async fn acquire(&self, name: &LockName, options: &AcquireOptions) -> Result<RecordedGuard> {
        record(&self.recorder, asked(name, None, options), self.lock.acquire_with(name, options)).await
    }
}

/// A semaphore of which everything is written into a history.
#[derive(Debug)]
pub(crate) struct RecordedPermits {
    pub(crate) permits: Box<dyn Permits>,
    pub(crate) name: LockName,
    pub(crate) limit: u32,
    pub(crate) recorder: Recorder,
}

impl RecordedPermits {
    /// As [`RecordedLock::acquire`], for a permit.
    pub(crate) async fn acquire(&self, options: &AcquireOptions) -> Result<RecordedGuard> {
        let asked = asked(&self.name, Some(self.limit), options);
        record(&self.recorder, asked, self.permits.acquire(options)).await
    }
}

fn asked(name: &LockName, permits: Option<u32>, options: &AcquireOptions) -> Asked {
    Asked {
        name: name.as_str().to_owned(),
        ttl_ms: millis(options.ttl()),
        wait_ms: wait_millis(options.wait()),
        renewed: options.is_renewed(),
        mode: options.mode(),
        permits,
    }
}

/// Acquires, and writes the question and the answer down.
async fn record(
    recorder: &Recorder,
    asked: Asked,
    acquiring: impl Future<Output = Result<LockGuard>>,
) -> Result<RecordedGuard> {
    let (mode, is_permit) = (asked.mode, asked.permits.is_some());
    let question = Unanswered::new(recorder, Step::Acquire, asked)?;
    let outcome = acquiring.await.and_then(|guard| {
        // A grant that is over by now has no token to be ordered by: what was learnt of it is nothing.
        let (token, until) = (guard.token()?.get(), believed_until(recorder, &guard));
        let slot = guard.slot().filter(|_| is_permit);
        Ok((guard, Granted { token, until, slot }))
    });
    let phase = outcome.as_ref().map_or_else(acquisition, |(_, granted)| Phase::Ok(granted.clone()));
    let op = question.answer(phase)?;
    let (guard, granted) = outcome?;
    let (lease, recorder) = (guard.lease(), recorder.clone());
    Ok(RecordedGuard { guard: Some(guard), lease, token: granted.token, mode, op, recorder })
}

impl RecordedGuard {
    /// The token, whether or not the lock is still held: for what a holder does that does not look.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The kind of hold that was asked for.
    pub fn mode(&self) -> LockMode {
        self.mode
    }

    /// What can be asked of the guard. Nothing of that is written down.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Looks whether it is held, and writes down what was seen.
    pub fn observe(&self) -> Result<bool> {
        let until = believed_until(&self.recorder, &self.lease);
        // After `until` was worked out: a guard that is held now was held then.
        let held = self.lease.is_held();
        let seen = Observed { hold: self.op, held, until: if held { until } else { 0 } };
        self.recorder.begin(Step::Observe(seen)).map_err(unwritten)?;
        Ok(held)
    }

    /// Waits for the loss, and writes it down.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and to call again.
    pub async fn lost(&self) -> Result<Loss> {
        let loss = self.lease.lost().await;
        self.recorder.begin(Step::Lost(HoldRef { hold: self.op })).map_err(unwritten)?;
        Ok(loss)
    }

    /// Makes the lease longer, as [`LockGuard::extend`] does.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let extended = Extended { hold: self.op, ttl_ms: millis(ttl) };
        let question = Unanswered::new(&self.recorder, Step::Renew, extended)?;
        let outcome = guard.extend(ttl).await;
        let renewed = |()| Phase::Ok(Until { until: believed_until(&self.recorder, guard) });
        question.answer(outcome.as_ref().copied().map_or_else(refusal, renewed))?;
        outcome
    }

    /// Releases, as [`LockGuard::release`] does.
    pub async fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let question = Unanswered::new(&self.recorder, Step::Release, HoldRef { hold: self.op })?;
        let outcome = guard.release().await;
        let released = |()| Phase::Ok(Done::default());
        question.answer(outcome.as_ref().copied().map_or_else(refusal, released))?;
        outcome
    }

    /// Writes down what was done to a counter under this grant: the number that was written, or by a reader was read.
    pub fn wrote(&self, resource: &str, fenced: bool, wrote: Option<u64>) -> Result<()> {
        let written = Written {
            hold: self.op,
            token: self.token,
            resource: resource.to_owned(),
            fenced,
            wrote: wrote.unwrap_or_default(),
            accepted: wrote.is_some(),
            mode: self.mode,
        };
        self.recorder.begin(Step::Write(written)).map(drop).map_err(unwritten)
    }
}

impl Drop for RecordedGuard {
    fn drop(&mut self) {
        if self.guard.is_some() {
            // A failure cannot be returned here. A history without these lines has a hold that was never given back, which is
            // what a reader must assume anyway.
            drop(Unanswered::new(&self.recorder, Step::Release, HoldRef { hold: self.op }));
        }
    }
}

/// An operation without an answer. Its caller may leave at any await, and then this is written down.
struct Unanswered<'a, C, A> {
    recorder: &'a Recorder,
    op: u64,
    step: fn(Phase<C, A>) -> Step,
    is_answered: bool,
}

impl<'a, C, A> Unanswered<'a, C, A> {
    /// Writes the question down.
    fn new(recorder: &'a Recorder, step: fn(Phase<C, A>) -> Step, question: C) -> Result<Self> {
        let op = recorder.begin(step(Phase::Invoke(question))).map_err(unwritten)?;
        Ok(Self { recorder, op, step, is_answered: false })
    }

    /// Writes the answer down; the number of the operation.
    fn answer(mut self, answer: Phase<C, A>) -> Result<u64> {
        self.is_answered = true;
        self.recorder.record(self.op, (self.step)(answer)).map_err(unwritten)?;
        Ok(self.op)
    }
}

impl<C, A> Drop for Unanswered<'_, C, A> {
    fn drop(&mut self) {
        if !self.is_answered {
            // Without this line the outcome is unknown as well; it says since when nobody waits for it.
            let left = Phase::Info(Reason { why: DROPPED.to_owned() });
            let _ = self.recorder.record(self.op, (self.step)(left));
        }
    }
}

/// What is lost when it is looked at for the first time was granted: others were refused for its sake.
fn acquisition(error: &Error) -> Phase<Asked, Granted> {
    match error.kind() {
        ErrorKind::Lost => Phase::Info(reason(error)),
        _ => refusal(error),
    }
}

/// By the kind of the error: certainly without effect, or nobody knows.
fn refusal<C, A>(error: &Error) -> Phase<C, A> {
    match error.kind() {
        ErrorKind::Indeterminate | ErrorKind::Closed => Phase::Info(reason(error)),
        _ => Phase::Fail(reason(error)),
    }
}

fn reason(error: &Error) -> Reason {
    Reason { why: format!("{:?}", error.kind()) }
}

/// Worked out from a moment before the guard was asked, so it is never too late.
fn believed_until(recorder: &Recorder, lease: &Lease) -> u64 {
    let now = recorder.now();
    now.saturating_add(u64::try_from(lease.remaining().as_nanos()).unwrap_or(u64::MAX))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn wait_millis(wait: Wait) -> Option<u64> {
    match wait {
        Wait::No => Some(0),
        Wait::UpTo(time) => Some(millis(time)),
        _ => None,
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the history cannot be written").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acquisition_that_ends_in_a_loss_has_an_unknown_outcome() {
        let of = |kind| acquisition(&Error::new(kind, "over"));
        assert!(matches!(of(ErrorKind::Lost), Phase::Info(_)));
        assert!(matches!(of(ErrorKind::Indeterminate), Phase::Info(_)));
        assert!(matches!(of(ErrorKind::Busy), Phase::Fail(_)));
        let renewal: Phase<Extended, Until> = refusal(&Error::new(ErrorKind::Lost, "over"));
        assert!(matches!(renewal, Phase::Fail(_)), "it had no effect");
    }
}
