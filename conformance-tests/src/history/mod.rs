//! Histories: what all clients of a lock did and saw, in the order of time, from any number of processes of one host.
//!
//! A history is a directory. Every [`Recorder`] writes a file of its own there, one JSON object in a line:
//!
//! ```text
//! {"at":8123451000,"process":77,"op":1,"f":"acquire","name":"job","ttl_ms":900,"wait_ms":0,"renewed":true}
//! {"at":8123482000,"process":77,"op":1,"f":"granted","token":41,"until":9012300000}
//! {"at":8123490000,"process":77,"op":2,"f":"observe","hold":1,"held":true,"until":9012300000}
//! {"at":8123700000,"process":77,"op":3,"f":"release","hold":1}
//! {"at":8123733000,"process":77,"op":3,"f":"released"}
//! {"at":8130000000,"process":70,"op":9,"f":"fault","fault":"holder-killed","on":true,"target":77}
//! ```
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`. What each field means stands in `event.rs`. A [`RecordedLock`] writes down what is done
//! with a lock; the owner of a fault writes it down with [`Recorder::injected`]. [`checker`](crate::checker) says whether it is the
//! history of a lock.

mod event;
mod instrument;
mod operation;
mod pairing;
mod recorder;
mod resource;

pub(crate) use instrument::{RecordedGuard, RecordedLock, RecordedPermits};
pub(crate) use operation::{AcquireOutcome, Acquisition, Answer, Call, FaultSpan, History, Write};
pub(crate) use recorder::Recorder;
pub(crate) use resource::{FencedCounter, NO_TOKEN};

#[cfg(test)]
pub(crate) use event::{Asked, HistoryEvent, Step, Written};
#[cfg(test)]
pub(crate) use operation::HoldRecord;
