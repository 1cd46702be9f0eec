use super::unprinted;
use crate::args::{Common, TryArgs, stored_name};
use crate::exit::Code;
use crate::report::{Console, Failure, State, block, print_json, sentence};
use crate::store::{Store, sources};
use std::io::Write;

/// Tells whether a lock is free. Asks the store and takes nothing.
pub(super) async fn try_lock(args: &TryArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let store = Store::open(sources(common), console).await?;
    let holds = store.admin()?.inspect(&name).await?;
    let printed = match holds.as_slice() {
        _ if args.json => print_json(&State::new(&name, &holds, None)),
        [] => writeln!(anstream::stdout(), "{name:?} is free"),
        holds => holds.iter().try_for_each(|hold| writeln!(anstream::stdout(), "{}", sentence(hold))),
    };
    printed.map_err(unprinted)?;
    for hold in holds.iter().filter(|_| !args.json) {
        let lines = block(hold);
        console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    }
    Ok(if !holds.is_empty() { Code::HELD } else { Code::SUCCESS })
}
