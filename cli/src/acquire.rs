//! Waiting for a lock, in a process that may be told to stop waiting.

use crate::args::AcquireArgs;
use crate::give_back::CLOSE_TIMEOUT;
use crate::lock_request::{HeldLocks, LockRequest};
use leasehold::admin::LockStatus;
use leasehold::{AcquireOptions, DistributedLock, ErrorKind, HolderInfo, Result};
use leasehold_console::signals::{Signals, suspend};
use leasehold_console::{Console, Failure, OpenStore, ago, brief, sentence, short_sentence};
use rustix::process::Signal;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

/// The wait after which the holder is shown, and the time between two looks at it at a terminal.
const SHOW_INTERVAL: Duration = Duration::from_secs(1);

/// How waiting for a lock ended, if not with an error.
#[derive(Debug)]
pub(crate) enum Acquired {
    Locks(HeldLocks),
    /// A signal ended the wait. Nothing is left in the store that could be taken back.
    Interrupted(Signal),
}

/// How the lock is to be acquired: the configured way, but for what the command line says.
pub(crate) fn options(
    args: &AcquireArgs,
    store: &OpenStore,
    doing: &str,
    console: Console,
) -> AcquireOptions {
    warn_of_session(args, store, console);
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

/// Where a hold is a part of a session, that ends it, however long a lease is asked for.
fn warn_of_session(args: &AcquireArgs, store: &OpenStore, console: Console) {
    let asked = args.lease.ttl.as_ref().map(|_| store.config.options().ttl());
    let (Some(asked), Some(session)) = (asked, store.locks.semantics().session_timeout) else { return };
    if asked > session {
        let (asked, session) = (brief(asked), brief(session));
        let what = format_args!(
            "--ttl {asked} is longer than the session with the store: a hold ends with it, after {session}"
        );
        console.warn(what, Some("ask for a longer session in the URL: session_timeout=2m"));
    }
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
        let mut showing = pin!(show_wait(store, request, console));
        let mut shown = !console.is_talkative();
        loop {
            tokio::select! {
                biased;
                outcome = &mut acquiring => break Ok(outcome),
                signal = signals.next() => match signal {
                    Signal::TSTP => {
                        console.end_progress();
                        suspend();
                    }
                    signal if signals.ends(signal) => break Err(signal),
                    _ => {}
                },
                () = &mut showing, if !shown => shown = true,
            }
        }
    };
    console.end_progress();
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
    let since =
        permit.acquired_at.map(|since| format!(" for {}", ago(since, SystemTime::now()))).unwrap_or_default();
    format!("{}{doing}{since}{slot}", permit.holder)
}

/// Takes back what a failed acquisition may have left in the store: a grant whose reply was lost, a place in a queue. That
/// happens in the background, and would end with this process. After an answer to who does not wait nothing is left.
async fn take_back_in_passing(store: &OpenStore) {
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, store.locks.close()).await;
}

/// Waits until what the acquisition may have left in the store is taken back. A second signal ends the wait.
async fn take_back(store: &OpenStore, signals: &mut Signals) {
    let _ = signals.unless_ended(store.locks.close()).await;
}

/// Shows who holds the lock, and the place of this process in the queue: at a terminal in one line that is rewritten, elsewhere once.
async fn show_wait(store: &OpenStore, request: &LockRequest, console: Console) {
    loop {
        tokio::time::sleep(SHOW_INTERVAL).await;
        let holders = request.holders(store).await.unwrap_or_default();
        let Some(first) = holders.first() else { continue };
        let place = match request.place(store, first).await {
            Ok(Some(place)) => format!(" (place {place})"),
            _ => String::new(),
        };
        let held = |sentence: fn(&LockStatus) -> String| match request {
            LockRequest::Permit(..) => {
                let all: Vec<String> = holders.iter().map(holder_line).collect();
                format!("waiting{place} for a permit of {request}: held by {}", all.join("; "))
            }
            _ if holders.len() > 1 => {
                format!("waiting{place}: {}, and by {} more", sentence(first), holders.len() - 1)
            }
            _ => format!("waiting{place}: {}", sentence(first)),
        };
        if !console.is_at_terminal() {
            return console.note(held(sentence));
        }
        console.progress(held(short_sentence));
    }
}
