//! The lines of a history.

use leasehold_core::{Fault, LockMode};
use serde::{Deserialize, Serialize};

/// One line of a history: what a process did or saw, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HistoryEvent {
    /// When, in nanoseconds of this host's `CLOCK_BOOTTIME`: comparable across its processes. Taken before the request
    /// where an operation begins, and else after the answer, so that what happened in the store lies in between.
    pub(crate) at: u64,
    /// The process, by its number in the operating system.
    pub(crate) process: u32,
    /// The operation, by a number of its own in that process. Its answer has the same.
    pub(crate) op: u64,
    #[serde(flatten)]
    pub(crate) step: Step,
}

/// What happened. `Acquire`, `Renew` and `Release` begin an operation. It ends with its success, `Failed` or `Unknown`; without any
/// of these its outcome is unknown as well.
///
/// A `hold` is the number of the acquisition, of the same process, whose grant is meant. An `until` is the moment until which the
/// holder believes in its grant if it hears nothing more, by the clock of [`HistoryEvent::at`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "kebab-case")]
pub(crate) enum Step {
    Acquire(Asked),
    /// The answer to `Acquire`.
    Granted {
        token: u64,
        until: u64,
        /// The slot, of a permit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<u32>,
    },
    /// Making the lease longer, by its holder's call. What the keeper does is not seen from here, but in `Observe`.
    Renew {
        hold: u64,
        ttl_ms: u64,
    },
    /// The answer to `Renew`.
    Renewed {
        until: u64,
    },
    /// A guard that is dropped is a release of unknown outcome.
    Release {
        hold: u64,
    },
    /// The answer to `Release`.
    Released,
    /// The operation had certainly no effect, by the name of this [`ErrorKind`](leasehold_core::ErrorKind).
    Failed {
        why: String,
    },
    /// Whether the operation had an effect is unknown, by the name of the error's kind, or [`DROPPED`].
    Unknown {
        why: String,
    },
    /// The holder was told that it holds no longer.
    Lost {
        hold: u64,
    },
    /// The holder looked at its guard.
    Observe {
        hold: u64,
        held: bool,
        until: u64,
    },
    Write(Written),
    /// A fault was made, or is over: healed, resumed, started again.
    Fault {
        fault: Fault,
        on: bool,
        /// The process that it hits, if it does not hit all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<u32>,
    },
}

/// Why an outcome is unknown that no caller waited for.
pub(super) const DROPPED: &str = "Dropped";

/// What an acquisition wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) name: String,
    pub(crate) ttl_ms: u64,
    /// How long to wait. Absent: for ever; zero: a single attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wait_ms: Option<u64>,
    /// True if the keeper is to renew it.
    pub(crate) renewed: bool,
    #[serde(default, skip_serializing_if = "is_exclusive")]
    pub(crate) mode: LockMode,
    /// The number of permits of a semaphore. Absent: it is a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) permits: Option<u32>,
}

/// One use of a counter that the lock protects: it was read, worked on, and written one higher. A reader only reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// The token that was shown to the counter, whether or not it looks.
    pub(crate) token: u64,
    pub(crate) resource: String,
    /// True if the counter looks at tokens.
    pub(crate) fenced: bool,
    /// What was written, or by a reader what was read. Absent: it was refused for its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wrote: Option<u64>,
    /// The mode of the hold: if shared, the counter was only read.
    #[serde(default, skip_serializing_if = "is_exclusive")]
    pub(crate) mode: LockMode,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_exclusive(mode: &LockMode) -> bool {
    *mode == LockMode::Exclusive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_mode_is_not_written_and_others_are() {
        let asked = |mode| Asked {
            name: "job".to_owned(),
            ttl_ms: 900,
            wait_ms: None,
            renewed: true,
            mode,
            permits: None,
        };
        let text = |mode| serde_json::to_string(&asked(mode)).unwrap();
        let exclusive = r#"{"name":"job","ttl_ms":900,"renewed":true}"#;
        assert_eq!(text(LockMode::Exclusive), exclusive);
        assert_eq!(serde_json::from_str::<Asked>(exclusive).unwrap(), asked(LockMode::Exclusive));
        let shared = text(LockMode::Shared);
        assert!(shared.ends_with(r#""mode":"shared"}"#), "{shared}");
        assert_eq!(serde_json::from_str::<Asked>(&shared).unwrap(), asked(LockMode::Shared));
    }

    #[test]
    fn every_step_is_read_as_it_was_written() {
        let (hold, until, why) = (4, 9, || "Busy".to_owned());
        let written = Written {
            token: 7,
            resource: "fenced".to_owned(),
            fenced: true,
            wrote: None,
            mode: LockMode::Shared,
        };
        let steps = [
            Step::Granted { token: 7, until, slot: Some(0) },
            Step::Renew { hold, ttl_ms: 900 },
            Step::Renewed { until },
            Step::Release { hold },
            Step::Released,
            Step::Failed { why: why() },
            Step::Unknown { why: why() },
            Step::Lost { hold },
            Step::Observe { hold, held: true, until },
            Step::Write(written),
            Step::Fault { fault: Fault::HolderKilled, on: true, target: Some(77) },
        ];
        for step in steps {
            let event = HistoryEvent { at: 1, process: 2, op: 3, step };
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<HistoryEvent>(&line).unwrap(), event, "{line}");
        }
    }
}
