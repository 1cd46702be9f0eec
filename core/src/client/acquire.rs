//! An acquisition: ask, wait, ask again, until the lock is granted or the time is over.

use super::pending_claim::PendingClaim;
use super::retry::{RetrySchedule, between};
use super::telemetry::{AcquisitionEvents, WaitFailures, record, span};
use crate::context::Context;
use crate::keeper::{GrantedLease, Keeper, renewal_due, valid_until};
use crate::options::whole_millis;
use crate::wait_queue::{FALLBACK, Notification, Place};
use crate::{
    AcquireOptions, Attempt, Claim, Error, ErrorKind, HoldKind, LockGuard, LockMode, LockName, Moment,
    OwnerId, Result, Semantics, Sharing, Wait,
};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Instrument;

/// The least time between two requests of a waiter that the store refuses, whatever wakes it.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn acquire(
    keeper: &Arc<Keeper>,
    name: &LockName,
    options: &AcquireOptions,
) -> Result<LockGuard> {
    let context = &keeper.context;
    let span = span(context, name);
    let mut acquisition = Acquisition::new(context, name, options)?;
    let outcome = acquisition.run().instrument(span.clone()).await;
    acquisition.events.ended(&outcome);
    record(&span, &acquisition.claim.claim, acquisition.claim.attempts, &outcome);
    let grant = outcome?;
    if let Some(place) = acquisition.place.take() {
        place.granted(context.clock.now());
    }
    Ok(LockGuard::new(keeper.keep(acquisition.claim.into_hold(), options, &grant)))
}

struct Acquisition<'a> {
    context: &'a Arc<Context>,
    options: &'a AcquireOptions,
    deadline: Moment,
    claim: PendingClaim<'a>,
    schedule: RetrySchedule,
    /// In line with other tasks of this client, on a store that keeps no queue.
    place: Option<Place<'a>>,
    /// The store serves this claim in a queue of its own, for which the line does not yield.
    is_queued: bool,
    /// True once the store has said that another owner holds the lock.
    was_busy: bool,
    failures: WaitFailures,
    events: AcquisitionEvents<'a>,
}

/// What wakes a waiter in its pause.
enum WakeSource {
    Store,
    /// A task of this client that stood in front, or released the lock.
    Line(Notification),
    Timer,
}

impl<'a> Acquisition<'a> {
    /// Refuses before any I/O what can be refused, and chooses the owner before the first await.
    fn new(context: &'a Arc<Context>, name: &LockName, options: &'a AcquireOptions) -> Result<Self> {
        let runtime = runtime()?;
        context.check_open()?;
        options.check()?;
        check_mode(context, options.mode)?;
        let is_lease = context.semantics.hold == HoldKind::Lease;
        let max_waiting_ttl = if is_lease { options.max_waiting_ttl } else { Duration::MAX };
        let (owner, ttl) = (OwnerId::random()?, whole_millis(options.ttl));
        let claim = Claim::new(name.clone(), owner, ttl, Arc::clone(&options.holder))
            .with_waiting(options.wait != Wait::No)
            .with_mode(options.mode);
        Ok(Self {
            deadline: match options.wait {
                Wait::UpTo(time) => context.clock.now().plus(time),
                Wait::No | Wait::Forever => Moment::NEVER,
            },
            events: AcquisitionEvents::new(context, &claim),
            claim: PendingClaim::new(context, runtime, claim, max_waiting_ttl),
            schedule: RetrySchedule::new(context.semantics.wake_up),
            place: None,
            is_queued: false,
            was_busy: false,
            failures: WaitFailures::default(),
            context,
            options,
        })
    }

    async fn run(&mut self) -> Result<GrantedLease> {
        if self.options.wait != Wait::No {
            self.place = self.context.wait_queues.join_behind_others(&self.claim.claim);
        }
        if self.place.is_some() {
            self.events.waits();
            self.pause(None).await;
            self.context.check_open()?;
        }
        let has_deadline = self.deadline != Moment::NEVER;
        loop {
            let has_waited = self.claim.attempts > 0 || self.place.is_some();
            if has_waited && has_deadline && self.context.clock.now() >= self.deadline {
                return Err(self.out_of_time());
            }
            let releases = self.context.wait_queues.releases();
            if let Some(place) = &mut self.place {
                place.note_attempt(self.context.clock.now());
            }
            let answer = tokio::select! {
                biased;
                answer = self.claim.attempt() => answer,
                () = async { self.context.clock.sleep_until(self.deadline).await }, if has_deadline => {
                    return Err(self.out_of_time());
                }
            };
            let mut not_before = Moment::ORIGIN;
            let ends_in = match answer {
                Ok(Attempt::Granted(grant)) => {
                    self.context.check_open()?;
                    let (grant, now) = (self.claim.granted_lease(&grant), self.context.clock.now());
                    if self.claim.asked_for_less() || is_due_for_renewal(&grant, now) {
                        continue;
                    }
                    if now < valid_until(grant.since, grant.length) {
                        return Ok(grant);
                    }
                    let lease = grant.length;
                    let problem =
                        format!("the store granted the lock, but not within its lease of {lease:?}");
                    let error = Error::new(ErrorKind::Indeterminate, problem);
                    // The next attempt asks for it afresh.
                    self.go_on_after(error.with_help("lengthen the ttl, or find out why the store is slow"))?;
                    None
                }
                Ok(Attempt::Busy(busy)) => {
                    self.was_busy = true;
                    self.failures.clear();
                    if let Some(place) = &mut self.place {
                        place.note_refusal();
                    }
                    if self.options.wait == Wait::No {
                        return Err(self.held_by_another(ErrorKind::Busy, "is held by another owner"));
                    }
                    self.events.waits();
                    self.is_queued = busy.queued;
                    busy.ends_in
                }
                Err(error) => {
                    if !error.is_outage() {
                        not_before = self.context.clock.now().plus(REFUSAL_INTERVAL).min(self.deadline);
                    }
                    self.go_on_after(error)?;
                    None
                }
            };
            if self.place.is_none() {
                self.place = self.context.wait_queues.join(&self.claim.claim, releases);
            }
            self.pause(ends_in).await;
            if not_before > self.context.clock.now() {
                self.context.clock.sleep_until(not_before).await;
            }
            self.context.check_open()?;
        }
    }

    /// The store gave no usable answer: asks again within the wait, if that is of use. The first request of an acquisition finds
    /// what is wrong with the configuration. Once the store has answered, a refusal may pass too.
    fn go_on_after(&mut self, error: Error) -> Result<()> {
        let begins_on_outage =
            self.options.awaits_store || !self.failures.is_empty() || error.is_indeterminate();
        let goes_on = match self.options.wait {
            Wait::No => false,
            Wait::UpTo(_) | Wait::Forever if self.was_busy || self.options.was_answered => error.may_pass(),
            Wait::UpTo(_) => error.is_outage(),
            Wait::Forever => error.is_outage() && begins_on_outage,
        };
        if !goes_on {
            return Err(error);
        }
        self.failures.note(error, self.context, self.claim.claim.name());
        Ok(())
    }

    /// Waits for a hint, or until it is time to ask anyway.
    async fn pause(&mut self, ends_in: Option<Duration>) {
        let latest = self.latest_question();
        let mut timer = self.next_question(ends_in).min(latest);
        let mut awaits_hint = true;
        loop {
            match self.next_wake_up(timer, awaits_hint).await {
                WakeSource::Line(Notification::Ask) => break,
                WakeSource::Line(Notification::Replan) => timer = self.next_question(None).min(latest),
                WakeSource::Store => {
                    timer = self.follows_hints_from().min(latest);
                    if timer <= self.context.clock.now() {
                        break;
                    }
                    awaits_hint = false;
                }
                WakeSource::Timer => {
                    timer = self.place.as_ref().map_or(Moment::ORIGIN, Place::asks_from).min(latest);
                    if timer <= self.context.clock.now() {
                        return self.schedule.slept();
                    }
                }
            }
        }
        // The least time between a wake-up and the question that follows it.
        let rest = self.schedule.after_wake_up();
        if !rest.is_zero() {
            let until = self.context.clock.now().plus(rest).min(self.deadline);
            self.context.clock.sleep_until(until).await;
        }
    }

    /// Waits for the first of three: the line of this client, the timer, and, if `awaits_hint`, the store.
    async fn next_wake_up(&mut self, timer: Moment, awaits_hint: bool) -> WakeSource {
        // The store wakes the first in line alone.
        let awaits_hint = awaits_hint && self.place.as_ref().is_none_or(Place::is_first);
        let hint = async {
            if !awaits_hint {
                pending::<()>().await;
            }
            self.context.backend.changed(&self.claim.claim).await;
        };
        let in_line = async {
            match &self.place {
                Some(place) => place.notified().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = hint => WakeSource::Store,
            notification = in_line => WakeSource::Line(notification),
            () = self.context.clock.sleep_until(timer) => WakeSource::Timer,
        }
    }

    /// The deadline. For a waiter that has not asked yet, half of the time: it asks at least once, whatever becomes of the waiters in
    /// front, because the store may be down, or the lock free.
    fn latest_question(&self) -> Moment {
        let now = self.context.clock.now();
        let left = self.deadline.since(now);
        now.plus(if self.claim.attempts == 0 { left / 2 } else { left })
    }

    /// The moment from which this waiter follows a hint of the store: the end of the pause in which the line yields. A claim in a queue
    /// of the store does not yield.
    fn follows_hints_from(&self) -> Moment {
        let place = self.place.as_ref().filter(|_| !self.is_queued);
        place.map_or(Moment::ORIGIN, Place::yields_until)
    }

    /// When the timer of a pause is to end.
    fn next_question(&mut self, ends_in: Option<Duration>) -> Moment {
        let now = self.context.clock.now();
        match &self.place {
            // This timer matters only if the first waiter is never polled.
            Some(place) if !place.is_first() => now.plus(between(FALLBACK / 2, FALLBACK)),
            Some(place) if place.yields_until() > now => place.yields_until(),
            _ => now.plus(self.schedule.pause(now, ends_in)),
        }
    }

    /// What the deadline found: a lock that stayed held, a store that failed, or a store that said nothing.
    fn out_of_time(&mut self) -> Error {
        let waited = self.options.wait.time();
        match self.failures.take() {
            // The earlier requests were not applied. The last one may be.
            Some(error) if self.claim.is_unanswered() && !error.is_indeterminate() => {
                unanswered(format!("the last request was without an answer when {waited:?} were over"))
                    .with_source(error)
            }
            Some(error) => error.context(format_args!("gave up after {waited:?}")),
            None if self.was_busy || (self.place.is_some() && !self.claim.is_unanswered()) => self
                .held_by_another(ErrorKind::TimedOut, &format!("was held by others for all of {waited:?}")),
            None => no_answer(waited),
        }
    }

    fn held_by_another(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("lock {:?} {what}", self.claim.claim.name())).with_help(
            "wait longer, or look at who holds it; a lock is not re-entrant, the holder may be this process",
        )
    }
}

pub(crate) fn runtime() -> Result<Handle> {
    Handle::try_current().map_err(|_| {
        Error::new(ErrorKind::Misconfigured, "acquiring a lock needs a Tokio runtime, and there is none here")
            .with_help("call it from async code that runs on Tokio, for instance under #[tokio::main]")
    })
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
/// whole one: the holder of a lock that was handed over begins with about two thirds of its ttl.
fn is_due_for_renewal(grant: &GrantedLease, now: Moment) -> bool {
    grant.since < grant.asked_at && now >= renewal_due(grant.since, grant.length)
}

/// The store has said nothing for all of a wait.
pub(crate) fn no_answer(waited: Duration) -> Error {
    unanswered(format!("the store did not answer within {waited:?}"))
}

fn unanswered(message: String) -> Error {
    Error::new(ErrorKind::Indeterminate, message).with_help(
        "if it granted the lock, the grant is being taken back and ends with its lease at the latest",
    )
}
