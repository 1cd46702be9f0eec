//! Waiting for a lock, in a process that may be told to stop waiting.

use crate::args::AcquireArgs;
use crate::give_back::CLOSE_TIMEOUT;
use crate::lock_request::{HeldLocks, LockRequest};
use leasehold::admin::LockStatus;
use leasehold::{AcquireOptions, DistributedLock, ErrorKind, HolderInfo, Result};
use leasehold_console::signals::{Signals, ends, suspend};
use leasehold_console::{Console, Failure, OpenStore, brief, sentence};
use rustix::process::Signal;
use std::pin::pin;
use std::time::{Duration, Instant};

/// The wait after which the holder is shown at a terminal.
const ANNOUNCE_AFTER: Duration = Duration::from_secs(1);

/// How waiting for a lock ended, if not with an error.
#[derive(Debug)]
pub(crate) enum Acquired {
    Locks(HeldLocks),
    /// A signal ended the wait. Nothing is left in the store that could be taken back.
    Interrupted(Signal),
}

/// How the lock is to be acquired: the configured way, but for what the command line says.
pub(crate) fn options(args: &AcquireArgs, store: &OpenStore, doing: &str) -> AcquireOptions {
    let mut options = store.config.options();
    if let Some(wait) = args.wait() {
        options = options.with_wait(wait);
    }
    if let Some(max_hold) = args.lease.max_hold {
        options = options.with_max_hold(max_hold);
    }
    if let Some(hold_at_least) = args.hold_at_least {
        options = options.with_hold_at_least(hold_at_least);
    }
    let info = args.lease.info.iter();
    let holder = info.fold(HolderInfo::this_process().with_doing(doing), |holder, info| {
        holder.with_label(&info.key, &info.value)
    });
    options.with_holder(&holder)
}

/// Waits until this acquisition of the request ends, unless a signal ends the wait first. A lock that is held by somebody else is
/// an error that says by whom.
pub(crate) async fn acquire(
    store: &OpenStore,
    request: &LockRequest,
    acquisition: impl Future<Output = Result<HeldLocks>>,
    signals: &mut Signals,
    console: Console,
) -> Result<Acquired, Failure> {
    let since = Instant::now();
    let outcome = {
        let mut acquiring = pin!(acquisition);
        // Beside the acquisition, never before it: the store may be slow to say who holds the lock.
        let mut telling = pin!(announce_holder(store, request, console));
        let mut told = !console.is_watched();
        loop {
            tokio::select! {
                biased;
                outcome = &mut acquiring => break Ok(outcome),
                signal = signals.next() => match signal {
                    Signal::TSTP => suspend(),
                    signal if ends(signal) => break Err(signal),
                    _ => {}
                },
                () = &mut telling, if !told => told = true,
            }
        }
    };
    let waited = since.elapsed();
    match outcome {
        Ok(Ok(held)) => Ok(Acquired::Locks(held)),
        Ok(Err(error)) if error.is_contended() => {
            let waited = (error.kind() == ErrorKind::TimedOut).then(|| ("waited", brief(waited)));
            let holders =
                tokio::time::timeout(CLOSE_TIMEOUT, request.holders(store)).await.ok().and_then(Result::ok);
            if error.kind() == ErrorKind::TimedOut {
                take_back_in_passing(store).await;
            }
            Err(with_holders(Failure::from(error).with_lines(waited), request, holders.unwrap_or_default()))
        }
        Ok(Err(error)) => {
            take_back_in_passing(store).await;
            Err(error.into())
        }
        Err(signal) => {
            take_back(store, signals).await;
            Ok(Acquired::Interrupted(signal))
        }
    }
}

/// A semaphore is full by all of its holders together, and a lock is held by the first, if readers share it.
fn with_holders(failure: Failure, request: &LockRequest, holders: Vec<LockStatus>) -> Failure {
    match request {
        LockRequest::Permit(..) => {
            failure.with_lines(holders.iter().map(|holder| ("holder", holder_line(holder))))
        }
        LockRequest::Lock(..) | LockRequest::Set(_) => failure.with_holder(holders.into_iter().next()),
    }
}

/// A holder of a semaphore.
fn holder_line(permit: &LockStatus) -> String {
    let slot = permit.name.slot().map_or(String::new(), |slot| format!(", slot {slot}"));
    let doing =
        if permit.holder.doing.is_empty() { String::new() } else { format!(" ({})", permit.holder.doing) };
    format!("{}{doing}{slot}", permit.holder)
}

/// Takes back what a failed acquisition may have left in the store: a grant whose reply was lost, a place in a queue. That
/// happens in the background, and would end with this process. After an answer to who does not wait nothing is left.
async fn take_back_in_passing(store: &OpenStore) {
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, store.locks.close()).await;
}

/// Waits until what the acquisition may have left in the store is taken back. A second signal ends the wait.
async fn take_back(store: &OpenStore, signals: &mut Signals) {
    let again = async { while !ends(signals.next().await) {} };
    tokio::select! {
        _ = store.locks.close() => {}
        () = again => {}
    }
}

/// Prints the holder as soon as the store tells it.
async fn announce_holder(store: &OpenStore, request: &LockRequest, console: Console) {
    loop {
        tokio::time::sleep(ANNOUNCE_AFTER).await;
        let holders = request.holders(store).await.unwrap_or_default();
        match (request, holders.first()) {
            (_, None) => {}
            (LockRequest::Permit(..), Some(_)) => {
                let all: Vec<String> = holders.iter().map(holder_line).collect();
                return console
                    .note(format_args!("waiting for a permit of {request}: held by {}", all.join("; ")));
            }
            (_, Some(holder)) => return console.note(format_args!("waiting: {}", sentence(holder))),
        }
    }
}
