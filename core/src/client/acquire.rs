//! The attempt: ask, wait, ask again, until granted or out of time.

use super::attempt_span::AttemptSpan;
use super::pace::Pace;
use super::pending::{Asked, Granted, PendingClaim};
use super::{Core, Held};
use crate::keeper::renewal_due;
use crate::observer::Event;
use crate::{AcquireOptions, Claim, Error, ErrorKind, LockGuard, LockName, Moment, OwnerId, Result, Wait};
use futures_util::TryFutureExt;
use futures_util::future::lazy;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Span;

/// In two steps, and not in one async function: that would keep what it was called with, beside what it makes of it, for as
/// long as its caller waits.
pub(super) fn acquire<'a>(
    core: &'a Arc<Core>,
    name: &'a LockName,
    options: &'a AcquireOptions,
) -> impl Future<Output = Result<LockGuard>> + Send + 'a {
    lazy(move |_| {
        let span = AttemptSpan::new(core, name);
        prepare(core, name, options, span)
    })
    .and_then(Acquisition::into_guard)
}

/// Everything that can be refused is refused here, before any I/O; and the owner is chosen before the first await.
fn prepare<'a>(
    core: &'a Arc<Core>,
    name: &LockName,
    options: &'a AcquireOptions,
    span: AttemptSpan,
) -> Result<Acquisition<'a>> {
    let runtime = Handle::try_current().map_err(|_| no_runtime())?;
    core.check_open()?;
    let ttl = options.check()?;
    let claim = Claim::new(name.clone(), OwnerId::random()?, ttl, Arc::clone(&options.holder))
        .with_waiting(options.wait != Wait::No);
    Ok(Acquisition {
        deadline: options.wait.deadline(|| core.clock.now()),
        pending: PendingClaim::new(core, runtime, claim),
        pace: Pace::new(core.semantics.wake_up),
        options,
        span,
        trouble: None,
    })
}

/// Small on purpose: whoever waits keeps one.
struct Acquisition<'a> {
    options: &'a AcquireOptions,
    deadline: Moment,
    pending: PendingClaim<'a>,
    pace: Pace,
    /// In which the backend is called and the observer is told. Not around the whole: that would be a future in a future, and
    /// four words more.
    span: AttemptSpan,
    /// What went wrong since the store last answered. An unknown outcome stays in front of later failures: that the last
    /// request was not applied says nothing of the one before.
    trouble: Option<Error>,
}

/// How it goes on after an answer.
enum Next {
    Done(Granted),
    Ask,
    Pause { until: Moment },
}

impl<'a> Acquisition<'a> {
    #[expect(
        clippy::manual_async_fn,
        reason = "an async method keeps two of everything that it is called with"
    )]
    fn into_guard(mut self) -> impl Future<Output = Result<LockGuard>> + Send + use<'a> {
        async move {
            let outcome = loop {
                if self.pending.attempts() > 0 && self.is_out_of_time() {
                    break Err(self.out_of_time());
                }
                self.pending.count_attempt();
                let Some(asked) = self.ask_in_time().await else {
                    break Err(self.out_of_time());
                };
                let until = match self.next(asked) {
                    Ok(Next::Done(grant)) => break Ok(grant),
                    Ok(Next::Ask) => continue,
                    Ok(Next::Pause { until }) => until,
                    Err(error) => break Err(error),
                };
                let hinted = self.hinted_before(until).await;
                if let Some(until) = self.rest_after(hinted) {
                    self.core().clock.sleep_until(until).await;
                }
                if let Err(error) = self.core().check_open() {
                    break Err(error);
                }
            };
            if let Some(span) = self.span.get() {
                self.record(span, &outcome);
            }
            Ok(self.guard(&outcome?))
        }
    }

    fn record(&self, span: &Span, outcome: &Result<Granted>) {
        span.record("lock.attempts", self.pending.attempts());
        span.record("lock.ttl_ms", self.pending.claim().ttl_millis());
        match outcome {
            Ok(grant) => {
                span.record("lock.outcome", "acquired").record("lock.fencing_token", grant.token.get())
            }
            Err(error) => span.record("lock.outcome", error.kind().code()),
        };
    }

    /// What to do about an answer. Apart from the loop, so that no answer is kept while it waits.
    fn next(&mut self, asked: Result<Asked>) -> Result<Next> {
        let ends_in = match asked {
            Ok(Asked::Granted(grant)) => {
                self.core().check_open()?;
                if self.is_old(&grant) {
                    return Ok(Next::Ask);
                }
                if self.core().clock.now() < self.valid_until(&grant) {
                    return Ok(Next::Done(grant));
                }
                self.go_on_after(too_late(grant.lease))?;
                None
            }
            Ok(Asked::Busy(busy)) => {
                self.go_on_after_busy()?;
                busy.ends_in
            }
            Err(error) => {
                self.go_on_after(error)?;
                None
            }
        };
        let now = self.core().clock.now();
        let wake_up = self.core().semantics.wake_up;
        let until = now.plus(self.pace.pause(wake_up, now, ends_in)).min(self.deadline);
        Ok(Next::Pause { until })
    }

    /// So much later, but not after the deadline.
    fn in_time(&self, pause: Duration) -> Moment {
        self.core().clock.now().plus(pause).min(self.deadline)
    }

    /// True if a lease was handed over so long ago that it is due to be renewed. It is asked for again at once, which
    /// makes it a whole one: every holder begins with two thirds of its ttl at least.
    fn is_old(&self, grant: &Granted) -> bool {
        grant.since < grant.sent_at && self.core().clock.now() >= renewal_due(grant.since, grant.lease)
    }

    fn valid_until(&self, grant: &Granted) -> Moment {
        self.core().drift.valid_until(grant.since, grant.lease)
    }

    /// One attempt, or `None` at the deadline. Without a deadline there is no timer: the fast path pays for none.
    fn ask_in_time(&mut self) -> impl Future<Output = Option<Result<Asked>>> {
        let (deadline, clock) = (self.deadline, &self.core().clock);
        let (pending, span) = (&mut self.pending, &self.span);
        let mut end = (deadline != Moment::NEVER).then(|| clock.sleep_until(deadline));
        poll_fn(move |cx| match (span.within(|| pending.poll_ask(cx)), &mut end) {
            (Poll::Ready(asked), _) => Poll::Ready(Some(asked)),
            (Poll::Pending, Some(end)) => end.as_mut().poll(cx).map(|()| None),
            (Poll::Pending, None) => Poll::Pending,
        })
    }

    fn is_out_of_time(&self) -> bool {
        self.deadline != Moment::NEVER && self.core().clock.now() >= self.deadline
    }

    /// Somebody else holds it: wait, unless the caller would not.
    fn go_on_after_busy(&mut self) -> Result<()> {
        self.trouble = None;
        match self.options.wait {
            Wait::No => Err(self.held_by_another(ErrorKind::Busy, "is held by another owner")),
            _ => Ok(()),
        }
    }

    /// The store gave no usable answer: go on asking, unless that is no outage, or the caller wanted one attempt, or
    /// an endless wait would begin on a store that was never reached.
    fn go_on_after(&mut self, error: Error) -> Result<()> {
        let never_reached =
            !self.pending.was_busy() && self.trouble.is_none() && error.kind() == ErrorKind::Unavailable;
        let give_up = !error.is_outage()
            || match self.options.wait {
                Wait::No => true,
                Wait::Forever => never_reached,
                Wait::UpTo(_) => false,
            };
        if give_up {
            return Err(error);
        }
        let event = Event::WaitTrouble { name: self.pending.claim().name(), error: &error };
        self.span.within(|| self.core().tell(&event));
        self.trouble = self.trouble.take().filter(Error::is_indeterminate).or(Some(error));
        Ok(())
    }

    /// Until it is worth asking again: the backend's hint, or this moment. True if it was the hint. Both are boxed by who
    /// makes them: what selects by itself would keep more than the two.
    fn hinted_before(&self, until: Moment) -> impl Future<Output = bool> + use<'_> {
        let (core, span) = (self.core(), &self.span);
        let mut hint = span.within(|| core.backend.changed(self.pending.claim()));
        let mut end = core.clock.sleep_until(until);
        poll_fn(move |cx| match span.within(|| hint.as_mut().poll(cx)) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending => end.as_mut().poll(cx).map(|()| false),
        })
    }

    /// What a hint that came too often has to wait for.
    fn rest_after(&mut self, hinted: bool) -> Option<Moment> {
        if !hinted {
            self.pace.nobody_woke();
            return None;
        }
        let least = self.pace.after_wake_up();
        (!least.is_zero()).then(|| self.in_time(least))
    }

    fn core(&self) -> &'a Arc<Core> {
        self.pending.core()
    }

    /// What the deadline found: a lock that stayed held, a store that failed, or a store that said nothing.
    fn out_of_time(&mut self) -> Error {
        let waited = match self.options.wait {
            Wait::UpTo(time) => time,
            Wait::No | Wait::Forever => Duration::ZERO,
        };
        match self.trouble.take() {
            // That the requests before were not applied says nothing of the last one.
            Some(error) if self.pending.is_asking() && !error.is_indeterminate() => {
                no_answer(waited).with_source(error)
            }
            Some(error) => error.context(format_args!("gave up after {waited:?}")),
            None if self.pending.was_busy() => self
                .held_by_another(ErrorKind::TimedOut, &format!("was held by others for all of {waited:?}")),
            None => no_answer(waited),
        }
    }

    fn held_by_another(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("lock {:?} {what}", self.pending.claim().name())).with_help(
            "wait longer, or look at who holds it; a lock is not re-entrant, the holder may be this process",
        )
    }

    fn guard(self, grant: &Granted) -> LockGuard {
        let core = self.core();
        let (claim, runtime) = self.pending.granted();
        LockGuard::new(Held::new(core, runtime, claim, self.options, grant))
    }
}

/// The lease was over before its grant arrived. It is not ours to use; the next attempt asks for it afresh.
fn too_late(lease: Duration) -> Error {
    Error::new(
        ErrorKind::Indeterminate,
        format!("the store granted the lock, but not within its lease of {lease:?}"),
    )
    .with_help("lengthen the ttl, or find out why the store is slow")
}

fn no_answer(waited: Duration) -> Error {
    Error::new(ErrorKind::Indeterminate, format!("the store did not answer within {waited:?}")).with_help(
        "if it granted the lock, the grant is being taken back and ends with its lease at the latest",
    )
}

fn no_runtime() -> Error {
    Error::new(ErrorKind::Misconfigured, "acquiring a lock needs a Tokio runtime, and there is none here")
        .with_help("call it from async code that runs on Tokio, for instance under #[tokio::main]")
}
