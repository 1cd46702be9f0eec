use super::lock_state::LockState;
use super::unless_unseen;
use crate::args::{InspectArgs, stored_name};
use crate::lock_request::{permit_waiters, reachable_permits_of};
use leasehold::LockName;
use leasehold::admin::{LockStatus, Waiter};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, block, brief, print_json, safe, sentence, unprinted};
use std::io::{self, Write};

/// Shows everything that is known of a lock; of a semaphore, if there is no lock of this name.
pub(super) async fn inspect(args: &InspectArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let store = invocation.open().await?;
    let admin = store.admin()?;
    let mut holds = admin.inspect(&name).await?;
    let mut waiters = admin.waiters(&name).await?;
    let mut unseen = Vec::new();
    let is_part = name.semaphore().is_some();
    if holds.is_empty() && waiters.is_empty() && !is_part {
        (holds, unseen) = reachable_permits_of(&store, &name).await?;
        waiters = permit_waiters(&store, &name).await.unwrap_or_else(|why| {
            unseen.push(why);
            Vec::new()
        });
    }
    let printed = match holds.as_slice() {
        _ if args.json => print_json(&LockState::new(&name, &holds, Some(&waiters))),
        [] => writeln!(anstream::stdout(), "{name:?} is free"),
        holds => print(&name, holds, &waiters),
    };
    printed.map_err(unprinted)?;
    unless_unseen(unseen, invocation.console)?;
    Ok(Code::SUCCESS)
}

fn print(name: &LockName, holds: &[LockStatus], waiters: &[Waiter]) -> io::Result<()> {
    let mut out = anstream::stdout();
    let are_permits = holds.iter().any(|hold| hold.name != *name);
    if are_permits {
        let permits = if holds.len() == 1 { "permit" } else { "permits" };
        writeln!(out, "{name:?} is a semaphore, with {} {permits} in use", holds.len())?;
    }
    for hold in holds {
        match hold.name.slot().filter(|_| are_permits) {
            Some(slot) => writeln!(out, "slot {slot}")?,
            None => writeln!(out, "{}", sentence(hold))?,
        }
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
