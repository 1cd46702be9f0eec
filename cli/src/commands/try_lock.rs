use super::unprinted;
use crate::args::{Common, TryArgs, lock_name};
use crate::exit::Code;
use crate::report::{Console, Failure, State, block, print_json, sentence};
use crate::store::{Store, sources};
use leasehold::admin::LockStatus;
use std::io::Write;

/// Tells whether a lock is free. Asks the store and takes nothing.
pub(super) async fn try_lock(args: &TryArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let name = lock_name(&args.name)?;
    let store = Store::open(sources(common), console).await?;
    let lock = store.admin()?.inspect(&name).await?;
    let printed = match &lock {
        _ if args.json => print_json(&State {
            name: name.as_str(),
            held: lock.is_some(),
            released: lock.as_ref().is_some_and(LockStatus::is_released),
            lock: lock.as_ref(),
            waiters: None,
        }),
        Some(lock) => writeln!(anstream::stdout(), "{}", sentence(lock)),
        None => writeln!(anstream::stdout(), "{name:?} is free"),
    };
    printed.map_err(unprinted)?;
    if let (Some(lock), false) = (&lock, args.json) {
        let lines = block(lock);
        console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    }
    Ok(if lock.is_some() { Code::HELD } else { Code::SUCCESS })
}
