//! Histories by hand. All times are milliseconds.

use super::{TTL, rules};
use crate::checker::{CheckReport, Model, Rule, check};
use crate::history::{Asked, History, HistoryEvent, Step, Written};
use leasehold_core::{Fault, LockMode};

/// Every acquisition is that of a process of its own, with the same number.
#[derive(Default)]
pub(super) struct Script {
    events: Vec<HistoryEvent>,
    ops: u64,
    name: &'static str,
    mode: LockMode,
    permits: Option<u32>,
    slot: Option<u32>,
}

/// From when to when an operation took.
pub(super) type Took = (u64, u64);

pub(super) const MILLI: u64 = 1_000_000;

impl Script {
    /// What follows is on this lock.
    pub(super) fn on(&mut self, name: &'static str) {
        self.name = name;
    }

    /// What follows is asked for, or done, in this mode.
    pub(super) fn by(&mut self, mode: LockMode) {
        self.mode = mode;
    }

    /// What follows is about a semaphore of so many permits, and about this slot of it if it is a grant.
    pub(super) fn permit(&mut self, permits: u32, slot: u32) {
        (self.permits, self.slot) = (Some(permits), Some(slot));
    }

    /// A fixed lease, granted.
    pub(super) fn grant(&mut self, took: Took, token: u64) -> u64 {
        self.grant_for(took, token, None, false, took.0 + 988)
    }

    /// The same, for somebody who asked again and again: its lease counts from the last time.
    pub(super) fn grant_until(&mut self, took: Took, token: u64, until: u64) -> u64 {
        self.grant_for(took, token, None, false, until)
    }

    /// The same, for somebody who was ready to wait so long.
    pub(super) fn waited(&mut self, took: Took, wait: u64, token: u64) -> u64 {
        self.grant_for(took, token, Some(wait), false, took.0 + 988)
    }

    /// The same, but kept up by a keeper.
    pub(super) fn kept_up(&mut self, took: Took, token: u64) -> u64 {
        self.grant_for(took, token, None, true, took.0 + 988)
    }

    fn grant_for(
        &mut self,
        (asked, answered): Took,
        token: u64,
        wait: Option<u64>,
        renewed: bool,
        until: u64,
    ) -> u64 {
        let op = self.asks(asked, wait, renewed);
        let until = until * MILLI;
        self.push(answered, op, op, Step::Granted { token, until, slot: self.slot });
        op
    }

    fn asks(&mut self, at: u64, wait_ms: Option<u64>, renewed: bool) -> u64 {
        let op = self.number();
        let ttl_ms = u64::try_from(TTL.as_millis()).unwrap();
        let asked = Asked {
            name: self.name.to_owned(),
            ttl_ms,
            wait_ms,
            renewed,
            mode: self.mode,
            permits: self.permits,
        };
        self.push(at, op, op, Step::Acquire(asked));
        op
    }

    /// A single attempt, answered `Busy`.
    pub(super) fn refused(&mut self, (asked, answered): Took) {
        let op = self.asks(asked, Some(0), false);
        self.push(answered, op, op, failed("Busy"));
    }

    /// A single attempt that came to nothing.
    pub(super) fn failed(&mut self, (asked, answered): Took) {
        let op = self.asks(asked, Some(0), false);
        self.push(answered, op, op, failed("Unavailable"));
    }

    /// A wait of so many milliseconds, in vain.
    pub(super) fn timed_out(&mut self, (asked, answered): Took, wait: u64) {
        let op = self.asks(asked, Some(wait), false);
        self.push(answered, op, op, failed("TimedOut"));
    }

    /// An acquisition of which nothing was heard.
    pub(super) fn unanswered(&mut self, asked: u64) {
        self.asks(asked, None, false);
    }

    /// An acquisition that its caller left.
    pub(super) fn left(&mut self, (asked, left): Took) {
        let op = self.asks(asked, None, false);
        self.push(left, op, op, unknown("Dropped"));
    }

    pub(super) fn release(&mut self, hold: u64, took: Took) {
        self.released(hold, took, Step::Released);
    }

    pub(super) fn release_refused(&mut self, hold: u64, took: Took) {
        self.released(hold, took, failed("Lost"));
    }

    pub(super) fn release_unknown(&mut self, hold: u64, took: Took) {
        self.released(hold, took, unknown("Indeterminate"));
    }

    fn released(&mut self, hold: u64, (asked, answered): Took, answer: Step) {
        let op = self.number();
        self.push(asked, hold, op, Step::Release { hold });
        self.push(answered, hold, op, answer);
    }

    pub(super) fn renew(&mut self, hold: u64, took: Took) {
        self.renewed(hold, took, Step::Renewed { until: (took.0 + 988) * MILLI });
    }

    pub(super) fn renew_unknown(&mut self, hold: u64, took: Took) {
        self.renewed(hold, took, unknown("Indeterminate"));
    }

    fn renewed(&mut self, hold: u64, (asked, answered): Took, answer: Step) {
        let op = self.number();
        self.push(asked, hold, op, Step::Renew { hold, ttl_ms: 1000 });
        self.push(answered, hold, op, answer);
    }

    /// The holder looks, and believes until then.
    pub(super) fn believes(&mut self, hold: u64, at: u64, until: u64) {
        let op = self.number();
        self.push(at, hold, op, Step::Observe { hold, held: true, until: until * MILLI });
    }

    pub(super) fn is_told_of_its_loss(&mut self, hold: u64, at: u64) {
        let op = self.number();
        self.push(at, hold, op, Step::Lost { hold });
    }

    pub(super) fn writes(&mut self, hold: u64, at: u64, fenced: bool, token: u64, wrote: Option<u64>) {
        let op = self.number();
        let written = Written { token, resource: "counter".to_owned(), fenced, wrote, mode: self.mode };
        self.push(at, hold, op, Step::Write(written));
    }

    pub(super) fn kill(&mut self, process: u64, at: u64) {
        self.fault(Fault::HolderKilled, at, true, u32::try_from(process).ok());
    }

    pub(super) fn fault(&mut self, fault: Fault, at: u64, on: bool, target: Option<u32>) {
        let op = self.number();
        self.push(at, 0, op, Step::Fault { fault, on, target });
    }

    fn number(&mut self) -> u64 {
        self.ops += 1;
        self.ops
    }

    fn push(&mut self, at: u64, process: u64, op: u64, step: Step) {
        let process = u32::try_from(process).unwrap();
        self.events.push(HistoryEvent { at: at * MILLI, process, op, step });
    }

    pub(super) fn history(mut self) -> History {
        self.events.sort_by_key(|event| event.at);
        History::from_events(self.events).unwrap()
    }

    pub(super) fn check(self, model: &Model) -> CheckReport {
        check(&self.history(), model)
    }

    /// It breaks exactly these rules.
    #[track_caller]
    pub(super) fn breaks(self, model: &Model, expected: &[Rule]) {
        let report = self.check(model);
        assert_eq!(rules(&report), expected.iter().copied().collect(), "{report}");
    }
}

fn failed(why: &str) -> Step {
    Step::Failed { why: why.to_owned() }
}

fn unknown(why: &str) -> Step {
    Step::Unknown { why: why.to_owned() }
}
