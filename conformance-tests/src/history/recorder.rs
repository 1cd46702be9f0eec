use super::event::{HistoryEvent, Step};
use crate::time_scale::nanos;
use leasehold_core::{Clock, Fault, Moment, SystemClock};
use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes events, each as one line in one `write(2)`: before a request is sent it is in the kernel, so a process that is
/// killed leaves a history of all that it has asked for.
///
/// No lock and no queue stands before the file, and every recorder has a file of its own: those of one history wait for
/// each other nowhere. Clones share a file.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    file: Arc<File>,
    clock: SystemClock,
}

/// The operations of this process, in all of its histories.
static OPERATIONS: AtomicU64 = AtomicU64::new(1);
/// The recorders of this process.
static RECORDERS: AtomicU64 = AtomicU64::new(1);

impl Recorder {
    /// A recorder of the history in this directory, which any number of tasks and processes of this host may record.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let number = RECORDERS.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{}-{number}.jsonl", std::process::id()));
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Self { file: Arc::new(file), clock: SystemClock::new() })
    }

    /// The time of histories.
    pub(crate) fn now(&self) -> u64 {
        nanos(self.clock.now().since(Moment::ORIGIN))
    }

    /// Records the beginning of an operation, and answers its number. If it cannot be recorded, it must not begin.
    pub(super) fn begin(&self, step: Step) -> Result<u64> {
        let op = OPERATIONS.fetch_add(1, Ordering::Relaxed);
        self.record(op, step)?;
        Ok(op)
    }

    /// Records what has become of an operation, now. If it cannot be recorded, the outcome counts as unknown.
    pub(super) fn record(&self, op: u64, step: Step) -> Result<()> {
        let event = HistoryEvent { at: self.now(), process: std::process::id(), op, step };
        let line = serde_json::to_string(&event)? + "\n";
        // One call: lines of clones never run into each other (`O_APPEND`, `write(2)`).
        (&*self.file).write_all(line.as_bytes())
    }

    /// Records that a fault begins: just before it does. It hits this process of the host, or with `None` all alike.
    pub(crate) fn injected(&self, fault: Fault, target: Option<u32>) -> Result<()> {
        self.begin(Step::Fault { fault, on: true, target }).map(drop)
    }

    /// Records that a fault is over: just after it is.
    pub(crate) fn healed(&self, fault: Fault, target: Option<u32>) -> Result<()> {
        self.begin(Step::Fault { fault, on: false, target }).map(drop)
    }
}
