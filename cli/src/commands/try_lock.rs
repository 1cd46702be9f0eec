use super::lock_state::LockState;
use crate::args::{TryArgs, stored_name};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, block, print_json, sentence, unprinted};
use std::io::Write;

/// Tells whether a lock is free. Asks the store and takes nothing.
pub(super) async fn try_lock(args: &TryArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let store = invocation.open().await?;
    let holds = store.admin()?.inspect(&name).await?;
    let printed = match holds.as_slice() {
        _ if args.json => print_json(&LockState::new(&name, &holds, None)),
        [] => writeln!(anstream::stdout(), "{name:?} is free"),
        holds => holds.iter().try_for_each(|hold| writeln!(anstream::stdout(), "{}", sentence(hold))),
    };
    printed.map_err(unprinted)?;
    for hold in holds.iter().filter(|_| !args.json) {
        let lines = block(hold);
        invocation.console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    }
    Ok(if !holds.is_empty() { Code::HELD } else { Code::SUCCESS })
}
