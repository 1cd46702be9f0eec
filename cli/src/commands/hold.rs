use crate::acquire::{Acquired, acquire, options};
use crate::args::HoldArgs;
use crate::give_back::{Released, give_back};
use crate::lock_request::{HeldLocks, LockRequest};
use crate::nesting::Stack;
use leasehold::{DistributedLock, Error, ErrorKind, FencingToken, LockGuard, LockName, LossCause};
use leasehold_console::exit::Code;
use leasehold_console::signals::{Signals, ends, suspend};
use leasehold_console::{Console, Failure, Invocation, OpenStore, brief, print_json, unprinted};
use rustix::fs::{FileType, fstat};
use rustix::process::Signal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

/// What is printed when the lock is held.
#[derive(Debug, Serialize)]
struct HeldLine {
    #[serde(flatten)]
    locks: LockLine,
    backend: &'static str,
    ttl_ms: u64,
    acquired_at: String,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum LockLine {
    One {
        name: LockName,
        token: FencingToken,
        #[serde(skip_serializing_if = "Option::is_none")]
        slot: Option<u32>,
    },
    Several {
        names: Vec<LockName>,
        tokens: BTreeMap<LockName, FencingToken>,
    },
}

impl LockLine {
    fn new(request: &LockRequest, held: &HeldLocks) -> Self {
        match (request, held.tokens.as_slice()) {
            (LockRequest::Lock(name, _) | LockRequest::Permit(name, _), [(_, token)]) => {
                Self::One { name: name.clone(), token: *token, slot: held.guard.slot() }
            }
            (_, tokens) => {
                Self::Several { names: request.names().to_vec(), tokens: tokens.iter().cloned().collect() }
            }
        }
    }
}

/// The hold lasts so long at least for its line to be printed: standard input may have ended before it began.
const PRINT_TIMEOUT: Duration = Duration::from_millis(500);

/// Holds a lock until it is told to stop.
pub(super) async fn hold(args: &HoldArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let (request, console) = (LockRequest::read(&args.names, args.kind)?, invocation.console);
    let store = invocation.open_with_ttl(args.acquire.lease.ttl.as_deref()).await?;
    request.check(&store)?;
    let stack = Stack::of_this_process();
    stack.check(&store, &request).await?;
    let mut signals = Signals::listen()?;
    let options = options(&args.acquire, &store, "leasehold hold", console);
    let acquisition = request.acquire(&store.locks, &options);
    let held = match acquire(&store, &request, acquisition, &mut signals, console).await? {
        Acquired::Locks(held) => held,
        Acquired::Interrupted(signal) => return Ok(Code::of_signal(signal.as_raw())),
    };
    store.introduce(stack.is_in_another_store(&store), console);
    let line = HeldLine {
        locks: LockLine::new(&request, &held),
        backend: store.locks.semantics().backend,
        ttl_ms: u64::try_from(options.ttl().as_millis()).unwrap_or(u64::MAX),
        acquired_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
    };
    let (guard, since) = (held.guard, Instant::now());
    let printed = until_the_end(&guard, line, &mut signals).await;
    let held_for = since.elapsed();
    let released = match guard.loss() {
        // The end is the only word that the caller gets, and in a moment somebody else may have the lock.
        Some(loss) if loss.cause() != LossCause::MaxHold => Released::Lost(loss),
        _ => {
            let at_least = options.hold_at_least().saturating_sub(held_for);
            give_back(&store, &request, guard, at_least, false, &mut signals, console).await
        }
    };
    released.settle(&store).await;
    printed.map_err(unprinted)?;
    conclude(&released, &store, &request, held_for, console)
}

/// Until the lock is lost, a signal says so, or the pipe on standard input ends; or until it cannot be printed what is held.
async fn until_the_end(guard: &LockGuard, held: HeldLine, signals: &mut Signals) -> io::Result<()> {
    let mut printed = pin!(printed(held));
    let early = tokio::time::timeout(PRINT_TIMEOUT, &mut printed).await.ok().transpose()?;
    let mut is_printed = early.is_some();
    let mut input = input_end();
    loop {
        tokio::select! {
            _ = guard.lost() => return Ok(()),
            () = &mut input => return Ok(()),
            signal = signals.next() => match signal {
                Signal::TSTP => suspend(),
                signal if ends(signal) => return Ok(()),
                _ => {}
            },
            printed = &mut printed, if !is_printed => {
                printed?;
                is_printed = true;
            }
        }
    }
}

/// Completes when the line is printed. A full pipe may delay that for long; the lock is renewed meanwhile.
async fn printed(held: HeldLine) -> io::Result<()> {
    let (done, printed) = oneshot::channel();
    // A detached thread: a write into a full pipe cannot be cancelled.
    std::thread::spawn(move || {
        let _ = done.send(print_json(&held));
    });
    printed.await.unwrap_or(Ok(()))
}

/// Ready when standard input ends, if that is a pipe. A terminal is left to whoever reads from it, and `/dev/null`, which
/// service managers give, has ended before it begins.
fn input_end() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let kind = fstat(rustix::stdio::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return Box::pin(std::future::pending());
    }
    let (ended, end) = oneshot::channel();
    // A thread that nobody waits for: a read from a pipe cannot be called off.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = ended.send(());
    });
    Box::pin(async move {
        let _ = end.await;
    })
}

/// What is said at the end. A lock that was lost by then was not held to the end.
fn conclude(
    released: &Released,
    store: &OpenStore,
    request: &LockRequest,
    held_for: Duration,
    console: Console,
) -> Result<Code, Failure> {
    released.warn(store, request, console);
    let Some(loss) = released.loss() else {
        return Ok(Code::SUCCESS);
    };
    let locks = loss.lock().map_or_else(|| request.to_string(), |name| format!("{name:?}"));
    let message = format!("lock {locks} was lost after {}: {loss}", brief(held_for));
    Err(Error::new(ErrorKind::Lost, message).with_help("stop what relies on it").into())
}
