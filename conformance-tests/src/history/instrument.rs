use super::event::{Asked, DROPPED, Step, Written};
use super::recorder::Recorder;
use crate::kinds::Permits;
use crate::time_scale::{millis, nanos};
use leasehold_core::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, ErrorKind, Lease, LockGuard, LockMode,
    LockName, Result, Wait,
};
use std::sync::Arc;
use std::time::Duration;

/// A lock of which everything is written into a history. An operation that cannot be written is not done: it fails with
/// [`Unavailable`](ErrorKind::Unavailable).
///
/// Not a [`DistributedLock`] itself: its guards have more to say than a [`LockGuard`].
#[derive(Debug)]
pub(crate) struct RecordedLock {
    lock: Arc<dyn DistributedLock>,
    recorder: Recorder,
}

/// A semaphore of which everything is written into a history.
#[derive(Debug)]
pub(crate) struct RecordedPermits {
    pub(crate) permits: Box<dyn Permits>,
    pub(crate) name: LockName,
    pub(crate) limit: u32,
    pub(crate) recorder: Recorder,
}

/// A guard of a [`RecordedLock`].
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub(crate) struct RecordedGuard {
    guard: Option<LockGuard>,
    lease: Lease,
    token: u64,
    mode: LockMode,
    op: u64,
    recorder: Recorder,
}

impl RecordedLock {
    /// This lock, as a client of the history that the recorder writes.
    pub(crate) fn new(lock: Arc<dyn DistributedLock>, recorder: Recorder) -> Self {
        Self { lock, recorder }
    }

    pub(crate) async fn acquire(&self, name: &LockName, options: &AcquireOptions) -> Result<RecordedGuard> {
        record(&self.recorder, asked(name, None, options), self.lock.acquire_with(name, options)).await
    }
}

impl RecordedPermits {
    pub(crate) async fn acquire(&self, options: &AcquireOptions) -> Result<RecordedGuard> {
        let asked = asked(&self.name, Some(self.limit), options);
        record(&self.recorder, asked, self.permits.acquire(options)).await
    }
}

fn asked(name: &LockName, permits: Option<u32>, options: &AcquireOptions) -> Asked {
    let wait_ms = match options.wait() {
        Wait::No => Some(0),
        Wait::UpTo(time) => Some(millis(time)),
        _ => None,
    };
    Asked {
        name: name.as_str().to_owned(),
        ttl_ms: millis(options.ttl()),
        wait_ms,
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
    let question = Unanswered::new(recorder, Step::Acquire(asked))?;
    // A grant that is over by now has no token to be ordered by: what was learnt of it is nothing.
    let outcome = acquiring.await.and_then(|guard| Ok((guard.token()?.get(), guard)));
    match outcome {
        Ok((token, guard)) => {
            let (until, slot) = (believed_until(recorder, &guard), guard.slot().filter(|_| is_permit));
            let op = question.answer(Step::Granted { token, until, slot })?;
            let (lease, recorder) = (guard.lease(), recorder.clone());
            Ok(RecordedGuard { guard: Some(guard), lease, token, mode, op, recorder })
        }
        Err(error) => {
            question.answer(acquisition(&error))?;
            Err(error)
        }
    }
}

impl RecordedGuard {
    /// The token, whether or not the lock is still held: for what a holder does that does not look.
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// The kind of hold that was asked for.
    pub(crate) fn mode(&self) -> LockMode {
        self.mode
    }

    /// Looks whether it is held, and writes down what was seen.
    pub(crate) fn observe(&self) -> Result<bool> {
        let until = believed_until(&self.recorder, &self.lease);
        // After `until` was worked out: a guard that is held now was held then.
        let held = self.lease.is_held();
        self.write(Step::Observe { hold: self.op, held, until: if held { until } else { 0 } })?;
        Ok(held)
    }

    /// Waits for the loss, and writes it down.
    pub(crate) async fn lost(&self) -> Result<()> {
        self.lease.lost().await;
        self.write(Step::Lost { hold: self.op })
    }

    /// Makes the lease longer, as [`LockGuard::extend`] does.
    pub(crate) async fn extend(&self, ttl: Duration) -> Result<()> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let question = Unanswered::new(&self.recorder, Step::Renew { hold: self.op, ttl_ms: millis(ttl) })?;
        let outcome = guard.extend(ttl).await;
        let renewed = |()| Step::Renewed { until: believed_until(&self.recorder, guard) };
        question.answer(outcome.as_ref().copied().map_or_else(refusal, renewed))?;
        outcome
    }

    /// Releases, as [`LockGuard::release`] does.
    pub(crate) async fn release(mut self) -> Result<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let question = Unanswered::new(&self.recorder, Step::Release { hold: self.op })?;
        let outcome = guard.release().await;
        question.answer(outcome.as_ref().copied().map_or_else(refusal, |()| Step::Released))?;
        outcome
    }

    /// Writes down what was done to a counter under this grant: the number that was written, or by a reader was read.
    pub(crate) fn wrote(&self, resource: &str, fenced: bool, wrote: Option<u64>) -> Result<()> {
        let (token, resource, mode) = (self.token, resource.to_owned(), self.mode);
        self.write(Step::Write(Written { token, resource, fenced, wrote, mode }))
    }

    fn write(&self, step: Step) -> Result<()> {
        self.recorder.begin(step).map(drop).map_err(unwritten)
    }
}

impl Drop for RecordedGuard {
    fn drop(&mut self) {
        if self.guard.is_some() {
            // A failure cannot be returned here. A history without these lines has a hold that was never given back, which is
            // what a reader must assume anyway.
            drop(Unanswered::new(&self.recorder, Step::Release { hold: self.op }));
        }
    }
}

/// An operation without an answer. Its caller may leave at any await, and then this is written down.
struct Unanswered<'a> {
    recorder: &'a Recorder,
    op: u64,
    is_answered: bool,
}

impl<'a> Unanswered<'a> {
    /// Writes the question down.
    fn new(recorder: &'a Recorder, question: Step) -> Result<Self> {
        let op = recorder.begin(question).map_err(unwritten)?;
        Ok(Self { recorder, op, is_answered: false })
    }

    /// Writes the answer down; the number of the operation.
    fn answer(mut self, answer: Step) -> Result<u64> {
        self.is_answered = true;
        self.recorder.record(self.op, answer).map_err(unwritten)?;
        Ok(self.op)
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            // Without this line the outcome is unknown as well; it says since when nobody waits for it.
            let _ = self.recorder.record(self.op, Step::Unknown { why: DROPPED.to_owned() });
        }
    }
}

/// What is lost when it is looked at for the first time was granted: others were refused for its sake.
fn acquisition(error: &Error) -> Step {
    match error.kind() {
        kind @ ErrorKind::Lost => Step::Unknown { why: format!("{kind:?}") },
        _ => refusal(error),
    }
}

/// By the kind of the error: certainly without effect, or nobody knows.
fn refusal(error: &Error) -> Step {
    let why = format!("{:?}", error.kind());
    match error.kind() {
        ErrorKind::Indeterminate | ErrorKind::Closed => Step::Unknown { why },
        _ => Step::Failed { why },
    }
}

/// Worked out from a moment before the guard was asked, so it is never too late.
fn believed_until(recorder: &Recorder, lease: &Lease) -> u64 {
    let now = recorder.now();
    now.saturating_add(nanos(lease.remaining()))
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
        assert!(matches!(of(ErrorKind::Lost), Step::Unknown { .. }));
        assert!(matches!(of(ErrorKind::Indeterminate), Step::Unknown { .. }));
        assert!(matches!(of(ErrorKind::Busy), Step::Failed { .. }));
        let renewal = refusal(&Error::new(ErrorKind::Lost, "over"));
        assert!(matches!(renewal, Step::Failed { .. }), "it had no effect");
    }
}
