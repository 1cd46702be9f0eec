//! An acquisition: ask, wait, ask again, until the lock is granted or the time is over.

use super::hold::ClientHold;
use super::observed::Observed;
use super::pending_claim::{AttemptOutcome, PendingClaim};
use super::retry::RetrySchedule;
use crate::context::Context;
use crate::keeper::{GrantedLease, Keeper, renewal_due};
use crate::observer::Event;
use crate::wait_queue::{FALLBACK, Place};
use crate::{
    AcquireOptions, Claim, Error, ErrorKind, LockGuard, LockMode, LockName, Moment, OwnerId, Result,
    Semantics, Sharing, Wait,
};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::{Instrument, Span, field};

pub(super) async fn acquire(
    context: &Arc<Context>,
    keeper: &Arc<Keeper>,
    name: &LockName,
    options: &AcquireOptions,
) -> Result<LockGuard> {
    let span = span(context, name);
    let mut acquisition = Acquisition::new(context, name, options)?;
    let outcome = match span.is_disabled() {
        true => acquisition.run().await,
        false => acquisition.run().instrument(span.clone()).await,
    };
    acquisition.report(&span, &outcome);
    let grant = outcome?;
    let hold = ClientHold::new(context, keeper, acquisition.into_claim(), options, &grant);
    Ok(LockGuard::new(hold))
}

fn span(context: &Context, name: &LockName) -> Span {
    tracing::info_span!(
        target: "leasehold",
        "leasehold.acquire",
        otel.kind = "client",
        lock.name = %name,
        lock.backend = context.semantics.backend,
        lock.mode = context.semantics.mode,
        lock.ttl_ms = field::Empty,
        lock.attempts = field::Empty,
        lock.outcome = field::Empty,
        lock.fencing_token = field::Empty,
    )
}

struct Acquisition<'a> {
    context: &'a Arc<Context>,
    options: &'a AcquireOptions,
    deadline: Moment,
    claim: PendingClaim<'a>,
    schedule: RetrySchedule,
    /// In line with other tasks of this client, on a store whose waiters poll in no order.
    place: Option<Place<'a>>,
    /// What went wrong since the store last answered. An unknown outcome is kept in front of later failures: that the last
    /// request was not applied says nothing about the one before.
    failure: Option<Error>,
    observed: Option<Observed<'a>>,
}

/// The next step after an answer.
enum Next {
    Done(GrantedLease),
    AskAgain,
    /// With the time until the present lease ends by itself, if it is known.
    Pause(Option<Duration>),
}

/// What ended a pause.
enum Wake {
    /// The backend, or a release of this client.
    Hint,
    /// The waiters in front have left the line.
    FirstInLine,
    Timer,
}

impl<'a> Acquisition<'a> {
    /// Refuses before any I/O what can be refused, and chooses the owner before the first await.
    fn new(context: &'a Arc<Context>, name: &LockName, options: &'a AcquireOptions) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        context.check_open()?;
        let ttl = options.check()?;
        check_mode(context, options.mode)?;
        let claim = Claim::new(name.clone(), OwnerId::random()?, ttl, Arc::clone(&options.holder))
            .with_waiting(options.wait != Wait::No)
            .with_mode(options.mode);
        Ok(Self {
            deadline: options.wait.deadline(|| context.clock.now()),
            observed: context.events.are_observed().then(|| Observed::new(context, name.clone())),
            claim: PendingClaim::new(context, runtime, claim),
            schedule: RetrySchedule::new(context.semantics.wake_up),
            place: None,
            failure: None,
            context,
            options,
        })
    }

    async fn run(&mut self) -> Result<GrantedLease> {
        if self.options.wait != Wait::No {
            self.place = self.context.wait_queues.join_behind_others(self.claim.claim());
        }
        if self.place.is_some() {
            self.waits();
            Box::pin(self.pause(None)).await;
            self.context.check_open()?;
        }
        loop {
            if self.has_waited() && self.is_out_of_time() {
                return Err(self.out_of_time());
            }
            let releases = self.context.wait_queues.releases();
            let Some(outcome) = self.attempt_in_time().await else {
                return Err(self.out_of_time());
            };
            match self.next(outcome)? {
                Next::Done(grant) => return Ok(grant),
                Next::AskAgain => continue,
                Next::Pause(ends_in) => {
                    if self.place.is_none() {
                        self.place = self.context.wait_queues.join(self.claim.claim(), releases);
                    }
                    // Boxed: an acquisition that does not wait has no use for the space.
                    Box::pin(self.pause(ends_in)).await;
                }
            }
            self.context.check_open()?;
        }
    }

    /// One attempt; `None` at the deadline.
    async fn attempt_in_time(&mut self) -> Option<Result<AttemptOutcome>> {
        if let Some(place) = &mut self.place {
            place.begins_attempt();
        }
        if self.deadline == Moment::NEVER {
            return Some(self.claim.attempt().await);
        }
        let deadline = self.context.clock.sleep_until(self.deadline);
        // Boxed, as a pause is: most acquisitions have no deadline.
        Box::pin(async {
            tokio::select! {
                biased;
                outcome = self.claim.attempt() => Some(outcome),
                () = deadline => None,
            }
        })
        .await
    }

    fn next(&mut self, outcome: Result<AttemptOutcome>) -> Result<Next> {
        match outcome {
            Ok(AttemptOutcome::Granted(grant)) => {
                self.context.check_open()?;
                let now = self.context.clock.now();
                if is_old(&grant, now) {
                    return Ok(Next::AskAgain);
                }
                if now < self.context.drift.valid_until(grant.since, grant.length) {
                    return Ok(Next::Done(grant));
                }
                self.go_on_after(too_late(grant.length))?;
                Ok(Next::Pause(None))
            }
            Ok(AttemptOutcome::Busy(busy)) => {
                self.failure = None;
                if let Some(place) = &mut self.place {
                    place.is_refused();
                }
                if self.options.wait == Wait::No {
                    return Err(self.held_by_another(ErrorKind::Busy, "is held by another owner"));
                }
                self.waits();
                Ok(Next::Pause(busy.ends_in))
            }
            Err(error) => {
                self.go_on_after(error)?;
                Ok(Next::Pause(None))
            }
        }
    }

    /// The store gave no usable answer: ask again, unless this is no outage, the caller wanted one attempt, or an endless
    /// wait would begin on a store that was never reached.
    fn go_on_after(&mut self, error: Error) -> Result<()> {
        let never_reached =
            !self.claim.was_busy() && self.failure.is_none() && error.kind() == ErrorKind::Unavailable;
        let gives_up = !error.is_outage()
            || match self.options.wait {
                Wait::No => true,
                Wait::Forever => never_reached,
                Wait::UpTo(_) => false,
            };
        if gives_up {
            return Err(error);
        }
        let name = self.claim.claim().name();
        self.context.events.tell(&Event::WaitFailed { name, error: &error });
        self.failure = self.failure.take().filter(Error::is_indeterminate).or(Some(error));
        Ok(())
    }

    /// Until a wake-up, or until it is time to ask anyway.
    async fn pause(&mut self, ends_in: Option<Duration>) {
        let mut until = self.next_question(ends_in);
        loop {
            match self.wait_until(until).await {
                Wake::Hint => return self.rest_after_hint().await,
                Wake::FirstInLine => until = self.next_question(None),
                Wake::Timer => {
                    // Not while this client lets other processes have their turn.
                    let yields_until = self.place.as_ref().map_or(Moment::ORIGIN, Place::yields_until);
                    until = yields_until.min(self.deadline);
                    if until <= self.context.clock.now() {
                        return self.schedule.slept();
                    }
                }
            }
        }
    }

    fn next_question(&mut self, ends_in: Option<Duration>) -> Moment {
        let now = self.context.clock.now();
        let pause = match &self.place {
            Some(place) if !place.is_first() => RetrySchedule::pause_behind_others(FALLBACK),
            _ => self.schedule.pause(now, ends_in),
        };
        let left = self.deadline.since(now);
        match self.claim.attempts() {
            // It asks at least once, whatever becomes of the waiters in front: the store may be down, or the lock free.
            0 => now.plus(pause.min(left / 2)),
            _ => now.plus(pause.min(left)),
        }
    }

    async fn wait_until(&mut self, until: Moment) -> Wake {
        let in_line = async {
            match &self.place {
                Some(place) if place.notified().await => Wake::Hint,
                Some(_) => Wake::FirstInLine,
                None => pending().await,
            }
        };
        tokio::select! {
            () = self.context.backend.changed(self.claim.claim()) => Wake::Hint,
            wake = in_line => wake,
            () = self.context.clock.sleep_until(until) => Wake::Timer,
        }
    }

    async fn rest_after_hint(&mut self) {
        let rest = self.schedule.after_wake_up();
        if !rest.is_zero() {
            let until = self.context.clock.now().plus(rest).min(self.deadline);
            self.context.clock.sleep_until(until).await;
        }
    }

    fn has_waited(&self) -> bool {
        self.claim.attempts() > 0 || self.place.is_some()
    }

    fn is_out_of_time(&self) -> bool {
        self.deadline != Moment::NEVER && self.context.clock.now() >= self.deadline
    }

    /// What the deadline found: a lock that stayed held, a store that failed, or a store that said nothing.
    fn out_of_time(&mut self) -> Error {
        let waited = match self.options.wait {
            Wait::UpTo(time) => time,
            Wait::No | Wait::Forever => Duration::ZERO,
        };
        match self.failure.take() {
            // The earlier requests were not applied. The last one may be.
            Some(error) if self.claim.is_asking() && !error.is_indeterminate() => {
                no_answer(waited).with_source(error)
            }
            Some(error) => error.context(format_args!("gave up after {waited:?}")),
            None if self.claim.was_busy() || (self.place.is_some() && !self.claim.is_asking()) => self
                .held_by_another(ErrorKind::TimedOut, &format!("was held by others for all of {waited:?}")),
            None => no_answer(waited),
        }
    }

    fn held_by_another(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("lock {:?} {what}", self.claim.claim().name())).with_help(
            "wait longer, or look at who holds it; a lock is not re-entrant, the holder may be this process",
        )
    }

    fn waits(&mut self) {
        if let Some(observed) = &mut self.observed {
            observed.waits();
        }
    }

    fn report(&mut self, span: &Span, outcome: &Result<GrantedLease>) {
        if let Some(observed) = self.observed.take() {
            observed.ended(outcome);
        }
        if span.is_disabled() {
            return;
        }
        span.record("lock.attempts", self.claim.attempts());
        span.record("lock.ttl_ms", self.claim.claim().ttl_millis());
        match outcome {
            Ok(grant) => {
                span.record("lock.outcome", "acquired").record("lock.fencing_token", grant.token.get())
            }
            Err(error) => span.record("lock.outcome", error.kind().code()),
        };
    }

    /// The acquisition has its grant: leaves the line, and gives the claim to the hold.
    fn into_claim(mut self) -> (Claim, Handle) {
        if let Some(place) = self.place.take() {
            place.granted(self.context.clock.now());
        }
        self.claim.into_hold()
    }
}

/// Refuses the modes of readers and writers on a store that knows no readers.
fn check_mode(context: &Context, mode: LockMode) -> Result<()> {
    let Semantics { backend, mode: store_mode, sharing, .. } = &context.semantics;
    if mode == LockMode::Exclusive || *sharing != Sharing::Unsupported {
        return Ok(());
    }
    let message = format!("{backend} ({store_mode}) has no shared locks: a {mode} lock is refused");
    Err(Error::new(ErrorKind::Unsupported, message)
        .with_help("acquire it exclusively, or use a store that has them"))
}

/// True if a lease was handed over so long ago that it is due to be renewed. It is asked for again at once, which makes it a
/// whole one: the holder of a lock that was handed over begins with at least two thirds of its ttl.
fn is_old(grant: &GrantedLease, now: Moment) -> bool {
    grant.since < grant.asked_at && now >= renewal_due(grant.since, grant.length)
}

/// The lease was over before its grant arrived. The next attempt asks for it afresh.
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
