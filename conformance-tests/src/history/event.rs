use leasehold_core::{Fault, LockMode};
use serde::{Deserialize, Serialize};

/// One line of a history: who did what, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HistoryEvent {
    /// When, in nanoseconds of this host's `CLOCK_BOOTTIME`: comparable across its processes. Taken before the request
    /// for an `invoke`, after the answer for anything else, so that what happened in the store lies in between.
    pub at: u64,
    /// The process, by its number in the operating system.
    pub process: u32,
    /// The operation, by a number of its own in that process. The phases of one operation have the same.
    pub op: u64,
    /// What.
    #[serde(flatten)]
    pub step: Step,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "f", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// Acquiring. A wait of zero is a single attempt.
    Acquire(Phase<Asked, Granted>),
    /// Making the lease longer, by its holder's call. What the keeper does is not seen from here: see
    /// [`Observe`](Self::Observe).
    Renew(Phase<Extended, Until>),
    /// Releasing. A guard that is dropped is a release of unknown outcome.
    Release(Phase<HoldRef, Done>),
    /// The holder was told that it holds no longer.
    Lost(HoldRef),
    /// The holder looked at its guard.
    Observe(Observed),
    /// A resource was read and written under the lock, or only read by a reader; or it refused that.
    Write(Written),
    /// Something was done to the processes, the network or the store; or undone.
    Fault(Injected),
}

/// How far an operation has come. There is no phase after `Ok`, `Fail` and `Info`; an operation that has none of the
/// three has an unknown outcome, as `Info` has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case")]
#[expect(clippy::exhaustive_enums, reason = "complete: the four phases of Jepsen's histories")]
pub enum Phase<Call, Answer> {
    /// It begins.
    Invoke(Call),
    /// It had its effect.
    Ok(Answer),
    /// It certainly had none.
    Fail(Reason),
    /// Whether it had one is unknown.
    Info(Reason),
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Asked {
    /// The lock.
    pub name: String,
    /// The length of the lease.
    pub ttl_ms: u64,
    /// How long to wait. Absent: for ever; zero: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// True if the keeper is to renew it.
    pub renewed: bool,
    /// The kind of hold.
    #[serde(default, skip_serializing_if = "is_exclusive")]
    pub mode: LockMode,
    /// The number of permits of a semaphore. Absent: it is a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_exclusive(mode: &LockMode) -> bool {
    *mode == LockMode::Exclusive
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Granted {
    /// Its fencing token.
    pub token: u64,
    /// Until when the holder believes in it if it hears nothing more; same clock as [`HistoryEvent::at`].
    pub until: u64,
    /// The slot, of a permit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
}

/// A renewal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Extended {
    /// The acquisition whose grant it is, of the same process.
    pub hold: u64,
    /// The new length of the lease.
    pub ttl_ms: u64,
}

/// The new end of a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Until {
    /// As [`Granted::until`].
    pub until: u64,
}

/// Concerns this grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HoldRef {
    /// The acquisition whose grant it is, of the same process.
    pub hold: u64,
}

/// Nothing more to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {}

/// The reason of who did not wait for an answer.
pub(super) const DROPPED: &str = "Dropped";

/// Why not, or why nobody knows: the name of an [`ErrorKind`](leasehold_core::ErrorKind), or `Dropped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reason {
    /// The name.
    pub why: String,
}

/// What a holder saw of its guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Observed {
    /// The acquisition whose grant it is, of the same process.
    pub hold: u64,
    /// What `is_held` answered.
    pub held: bool,
    /// As [`Granted::until`]; zero if it is not held.
    pub until: u64,
}

/// One reading and writing of a counter that the lock protects: it was read, worked on, and written one higher. A reader only
/// reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// The acquisition under whose grant it was done, of the same process.
    pub hold: u64,
    /// The token that was shown to the resource, whether or not it looks.
    pub token: u64,
    /// Which counter.
    pub resource: String,
    /// True if it looks at tokens.
    pub fenced: bool,
    /// What was written, or by a reader what was read; zero if it was refused.
    pub wrote: u64,
    /// False if it was refused for its token.
    pub accepted: bool,
    /// The mode of the hold: if shared, the counter was only read.
    #[serde(default, skip_serializing_if = "is_exclusive")]
    pub mode: LockMode,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Injected {
    /// Which.
    pub fault: Fault,
    /// False once it is over: healed, resumed, started again.
    pub on: bool,
    /// The process that it hits, if it does not hit all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<u32>,
    /// The lock that it hits, if it does not hit all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
}
