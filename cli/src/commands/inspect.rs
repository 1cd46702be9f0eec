use super::unprinted;
use crate::args::{Common, InspectArgs, lock_name};
use crate::exit::Code;
use crate::report::{Console, Failure, State, block, brief, print_json, safe, sentence};
use crate::store::{Store, sources};
use leasehold::admin::{LockStatus, Waiter};
use std::io::{self, Write};

/// Shows everything that is known of a lock.
pub(super) async fn inspect(args: &InspectArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let name = lock_name(&args.name)?;
    let store = Store::open(sources(common), console).await?;
    let admin = store.admin()?;
    let lock = admin.inspect(&name).await?;
    let waiters = admin.waiters(&name).await?;
    let printed = match &lock {
        _ if args.json => print_json(&State {
            name: name.as_str(),
            held: lock.is_some(),
            released: lock.as_ref().is_some_and(LockStatus::is_released),
            lock: lock.as_ref(),
            waiters: Some(&waiters),
        }),
        Some(lock) => print(lock, &waiters),
        None => writeln!(anstream::stdout(), "{name:?} is free"),
    };
    printed.map_err(unprinted)?;
    Ok(Code::SUCCESS)
}

fn print(lock: &LockStatus, waiters: &[Waiter]) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{}", sentence(lock))?;
    for (label, text) in block(lock) {
        writeln!(out, "  {label:<8} {text}")?;
    }
    if let Some(owner) = lock.owner {
        writeln!(out, "  owner    {owner}")?;
    }
    for waiter in waiters {
        let waiting = waiter.waiting.map(|time| format!(" for {}", brief(time))).unwrap_or_default();
        writeln!(out, "  waiting  {}{waiting}", safe(&waiter.holder.to_string()))?;
    }
    Ok(())
}
