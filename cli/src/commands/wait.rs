use crate::args::{WaitArgs, stored_name};
use crate::lock_request::LockRequest;
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind, Wait};
use leasehold_console::exit::Code;
use leasehold_console::{Console, Failure, Invocation, Poller, brief, sentence, short_sentence};
use std::time::{Duration, Instant};

/// Waits until a lock is free. Takes nothing, and so has no place in a queue.
pub(super) async fn wait(args: &WaitArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let (name, console) = (stored_name(&args.name)?, invocation.console);
    let request = LockRequest::of(name, args.kind);
    let store = invocation.open().await?;
    request.check(&store)?;
    let mut poller = Poller::new(console, format!("still waiting for {request}"), false)?;
    let limit = args.wait.map_or(Wait::Forever, Wait::from);
    let (start, mut holds, mut is_shown) = (Instant::now(), Vec::new(), false);
    loop {
        if let Some(seen) = poller.next(request.blockers(&store)).await? {
            let Some(first) = seen.first() else { break };
            // The first look is at once, and may be the only one.
            if !holds.is_empty() {
                show(first, &mut is_shown, console);
            }
            holds = seen;
        }
        let left = match limit {
            Wait::No => Duration::ZERO,
            Wait::UpTo(time) => time.saturating_sub(start.elapsed()),
            _ => Duration::MAX,
        };
        if left.is_zero() {
            let message = format!("{request} was held for all of {}", brief(start.elapsed()));
            let failure = Failure::new(Error::new(ErrorKind::TimedOut, message));
            return Err(failure.with_holder(holds.into_iter().next()));
        }
        poller.hurry(left);
    }
    console.end_progress();
    Ok(Code::SUCCESS)
}

/// Shows who holds the lock: at a terminal in one line that is rewritten, elsewhere once.
fn show(hold: &LockStatus, is_shown: &mut bool, console: Console) {
    if console.is_at_terminal() {
        console.progress(format_args!("waiting: {}", short_sentence(hold)));
    } else if !std::mem::replace(is_shown, true) {
        console.note(format_args!("waiting: {}", sentence(hold)));
    }
}
