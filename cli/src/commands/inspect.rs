use super::lock_state::LockState;
use crate::args::{InspectArgs, stored_name};
use leasehold::admin::{LockStatus, Waiter};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, block, brief, print_json, safe, sentence, unprinted};
use std::io::{self, Write};

/// Shows everything that is known of a lock.
pub(super) async fn inspect(args: &InspectArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let store = invocation.open().await?;
    let admin = store.admin()?;
    let holds = admin.inspect(&name).await?;
    let waiters = admin.waiters(&name).await?;
    let printed = match holds.as_slice() {
        _ if args.json => print_json(&LockState::new(&name, &holds, Some(&waiters))),
        [] => writeln!(anstream::stdout(), "{name:?} is free"),
        holds => print(holds, &waiters),
    };
    printed.map_err(unprinted)?;
    Ok(Code::SUCCESS)
}

fn print(holds: &[LockStatus], waiters: &[Waiter]) -> io::Result<()> {
    let mut out = anstream::stdout();
    for hold in holds {
        writeln!(out, "{}", sentence(hold))?;
        for (label, text) in block(hold) {
            writeln!(out, "  {label:<8} {text}")?;
        }
        if let Some(owner) = hold.owner {
            writeln!(out, "  owner    {owner}")?;
        }
    }
    for waiter in waiters {
        let waiting = waiter.waiting.map(|time| format!(" for {}", brief(time))).unwrap_or_default();
        writeln!(out, "  waiting  {}{waiting}", safe(&waiter.holder.to_string()))?;
    }
    Ok(())
}
