use super::event::Written;
use leasehold_core::{Fault, LockMode};
use std::collections::HashMap;

/// A history as operations: each from its beginning to its answer, with all that has happened to its grant.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) acquisitions: Vec<Acquisition>,
    pub(crate) writes: Vec<Write>,
    pub(crate) faults: Vec<FaultSpan>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Acquisition {
    pub(crate) name: String,
    pub(crate) process: u32,
    pub(crate) op: u64,
    pub(crate) asked_at: u64,
    /// `None` if there was no answer.
    pub(crate) answered_at: Option<u64>,
    pub(crate) ttl: u64,
    /// `None`: for ever.
    pub(crate) wait: Option<u64>,
    pub(crate) renewed: bool,
    pub(crate) mode: LockMode,
    /// The number of permits of a semaphore; `None` for a lock.
    pub(crate) permits: Option<u32>,
    /// True if its caller did not wait for the answer.
    pub(crate) was_dropped: bool,
    pub(crate) outcome: AcquireOutcome,
    /// What has become of its grant; nothing unless it was granted.
    pub(crate) hold: HoldRecord,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AcquireOutcome {
    Granted,
    /// The store says that another owner held it.
    Contended,
    /// Certainly not granted, for another reason.
    Failed,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HoldRecord {
    pub(crate) token: u64,
    /// The slot of a permit.
    pub(crate) slot: Option<u32>,
    /// Until when its holder believed in it at first.
    pub(crate) until: u64,
    /// Until when its holder believed in it at last, as far as was seen.
    pub(crate) seen_until: u64,
    /// The first sight that its holder had of its end.
    pub(crate) seen_ended: Option<u64>,
    pub(crate) renewals: Vec<Call>,
    pub(crate) release: Option<Call>,
}

/// A renewal or a release.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) op: u64,
    pub(crate) asked_at: u64,
    pub(crate) answered_at: Option<u64>,
    pub(crate) answer: Answer,
    /// The lease that a renewal asks for; zero for a release.
    pub(crate) ttl: u64,
    /// The new end, if it was renewed.
    pub(crate) until: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    Failed,
    #[default]
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) at: u64,
    pub(crate) process: u32,
    pub(crate) op: u64,
    pub(crate) what: Written,
}

/// A fault, from its injection until it is healed, if it ever is.
#[derive(Clone, Debug)]
pub(crate) struct FaultSpan {
    pub(crate) fault: Fault,
    pub(crate) target: Option<u32>,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

impl History {
    pub(crate) fn grants(&self) -> impl Iterator<Item = &Acquisition> {
        self.acquisitions.iter().filter(|one| one.is_granted())
    }

    /// The processes that were killed, and when.
    pub(crate) fn kills(&self) -> HashMap<u32, u64> {
        let kills = self.faults.iter().filter(|span| span.fault == Fault::HolderKilled);
        kills.filter_map(|span| Some((span.target?, span.from))).collect()
    }
}

impl Acquisition {
    pub(crate) fn is_granted(&self) -> bool {
        self.outcome == AcquireOutcome::Granted
    }

    /// Its process, and its number there.
    pub(crate) fn id(&self) -> (u32, u64) {
        (self.process, self.op)
    }

    /// The latest moment at which the store can have answered.
    pub(crate) fn answered_by(&self) -> u64 {
        self.answered_at.unwrap_or(u64::MAX)
    }
}

impl HoldRecord {
    /// The release that the store has confirmed.
    pub(crate) fn released(&self) -> Option<&Call> {
        self.release.as_ref().filter(|release| release.answer == Answer::Ok)
    }

    /// When the store has confirmed its release.
    pub(crate) fn released_at(&self) -> Option<u64> {
        self.released()?.answered_at
    }
}

impl FaultSpan {
    pub(crate) fn hits(&self, process: u32) -> bool {
        self.target.is_none_or(|target| target == process)
    }
}
