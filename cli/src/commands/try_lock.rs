use super::lock_state::LockState;
use crate::args::{TryArgs, stored_name};
use crate::lock_request::LockRequest;
use leasehold::admin::LockStatus;
use leasehold::{LockName, Semaphore};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, block, print_json, sentence, unprinted};
use serde::Serialize;
use std::io::{self, Write};

/// Tells whether a lock is free. Asks the store and takes nothing.
pub(super) async fn try_lock(args: &TryArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let request = LockRequest::of(name.clone(), args.kind);
    let store = invocation.open().await?;
    request.check(&store)?;
    if let Some(permits) = args.kind.permits {
        return try_permit(args, &name, permits, &request.holders(&store).await?);
    }
    let holds = request.blockers(&store).await?;
    let printed = match holds.as_slice() {
        _ if args.json => print_json(&LockState::new(&name, &holds, None)),
        [] => writeln!(
            anstream::stdout(),
            "{name:?} is free{}",
            if args.kind.shared { " for a reader" } else { "" }
        ),
        holds => holds.iter().try_for_each(|hold| writeln!(anstream::stdout(), "{}", sentence(hold))),
    };
    printed.map_err(unprinted)?;
    for hold in holds.iter().filter(|_| !args.json) {
        let lines = block(hold);
        invocation.console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    }
    Ok(if !holds.is_empty() { Code::HELD } else { Code::SUCCESS })
}

/// A semaphore as `try` prints it.
#[derive(Debug, Serialize)]
struct SemaphoreState<'a> {
    name: &'a str,
    held: bool,
    permits: u32,
    free: u32,
}

fn try_permit(args: &TryArgs, name: &LockName, permits: u32, used: &[LockStatus]) -> Result<Code, Failure> {
    let free = permits.saturating_sub(u32::try_from(used.len()).unwrap_or(Semaphore::MAX_PERMITS));
    let printed: io::Result<()> = match args.json {
        true => print_json(&SemaphoreState { name: name.as_str(), held: free == 0, permits, free }),
        false => writeln!(anstream::stdout(), "{name:?} has {free} of {permits} permits free"),
    };
    printed.map_err(unprinted)?;
    Ok(if free == 0 { Code::HELD } else { Code::SUCCESS })
}
