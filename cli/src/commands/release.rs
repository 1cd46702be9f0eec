use crate::args::{ReleaseArgs, stored_name};
use crate::lock_request::permits_of;
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind, FencingToken, LockName, Result};
use leasehold_console::exit::Code;
use leasehold_console::{Console, Failure, Invocation, OpenStore, block, sentence, shown_name};
use std::io::{self, IsTerminal};

/// Takes a lock away from its holder, after a look at who that is. What was seen is what is ended: by its token, in one
/// step of the store, so that nobody who came after it is hit. Another program's lock on Redis has no token: who holds the
/// name by then loses it.
pub(super) async fn release(args: &ReleaseArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let (mut name, console) = (stored_name(&args.name)?, invocation.console);
    if let Some(slot) = args.slot {
        name = LockName::from_store(format!("{name}::slot:{slot}"))?;
    }
    let store = invocation.open().await?;
    let admin = store.admin()?;
    let holds = admin.inspect(&name).await?;
    if holds.is_empty() {
        refuse_semaphore(args, &store, &name).await?;
        return Ok(nothing_to_release(&name, console));
    }
    let holds = those_that_are_meant(args, &holds)?;
    for hold in &holds {
        console.note(sentence(hold));
        let lines = block(hold);
        console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    }
    if !args.yes && !confirmed(&name, console)? {
        return Ok(Code::DECLINED);
    }
    let mut ended = 0;
    for hold in &holds {
        ended += admin.force_release(&name, hold.token).await?.len();
    }
    if ended == 0 {
        // It was released meanwhile. A later holder is not meant.
        if admin.inspect(&name).await?.is_empty() {
            return Ok(nothing_to_release(&name, console));
        }
        let message =
            format!("{} is not held by that holder any more; nothing was released", shown_name(&name));
        return Err(Error::new(ErrorKind::Busy, message).into());
    }
    let holders = if ended == 1 { "holder" } else { "holders" };
    console.note(format_args!("{} was taken from its {holders}", shown_name(&name)));
    Ok(Code::SUCCESS)
}

/// A semaphore is not released as a whole: which slots it has, only its users know.
async fn refuse_semaphore(args: &ReleaseArgs, store: &OpenStore, name: &LockName) -> Result<(), Failure> {
    let semaphore = stored_name(&args.name)?;
    let used = permits_of(store, &semaphore).await?;
    let slots: Vec<String> = used.iter().filter_map(|permit| Some(permit.name.slot()?.to_string())).collect();
    let problem = match (slots.is_empty(), args.slot) {
        (true, None) => return Ok(()),
        (_, Some(slot)) => format!("slot {slot} of semaphore {semaphore:?} is not held"),
        (false, None) => format!("{name:?} is a semaphore"),
    };
    let fix = match slots.as_slice() {
        [] => "none of its slots is: leasehold ls shows what is held".to_owned(),
        slots => format!("end one of its holders: --slot N, with N of {}", slots.join(", ")),
    };
    Err(Error::invalid("call", problem, fix).into())
}

/// The holds that fit the conditions of the call: several only if readers share the lock.
fn those_that_are_meant<'a>(
    args: &ReleaseArgs,
    holds: &'a [LockStatus],
) -> Result<Vec<&'a LockStatus>, Failure> {
    let (mut meant, mut refused) = (Vec::new(), None);
    for hold in holds {
        match check_conditions(args, hold) {
            Ok(()) => meant.push(hold),
            Err(error) => refused = refused.or(Some(Failure::new(error).with_lines(block(hold)))),
        }
    }
    match refused {
        Some(failure) if meant.is_empty() => Err(failure),
        _ => Ok(meant),
    }
}

fn nothing_to_release(name: &LockName, console: Console) -> Code {
    console.note(format_args!("{} is free, there is nothing to release", shown_name(name)));
    Code::SUCCESS
}

fn check_conditions(args: &ReleaseArgs, lock: &LockStatus) -> Result<()> {
    if let Some(token) = args.reader
        && !(lock.mode.is_shared() && lock.token == Some(FencingToken::new(token)))
    {
        let message = format!("{:?} has no reader with token {token}", lock.name);
        return Err(Error::new(ErrorKind::Busy, message));
    }
    if let Some(token) = args.if_token
        && lock.token != Some(FencingToken::new(token))
    {
        let message = format!("{} is not held with token {token}", shown_name(&lock.name));
        return Err(Error::new(ErrorKind::Busy, message));
    }
    let Some(text) = &args.if_holder else {
        return Ok(());
    };
    if lock.token.is_none() {
        let message =
            format!("{:?} was taken by another program, whose hold cannot be told from the next", lock.name);
        return Err(Error::new(ErrorKind::Unsupported, message).with_help("leave --if-holder out"));
    }
    let holder = format!("{} {}", lock.holder, lock.holder.doing);
    if holder.contains(text.as_str()) {
        Ok(())
    } else {
        let message = format!("{} is not held by {text:?}", shown_name(&lock.name));
        Err(Error::new(ErrorKind::Busy, message))
    }
}

fn confirmed(name: &LockName, console: Console) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let error = Error::invalid("call", "there is no terminal to ask on", "add --yes");
        return Err(error.into());
    }
    console
        .ask(format_args!("Take {} away? Its holder may work on until its next renewal.", shown_name(name)))
        .map_err(|error| Failure::internal("cannot read the answer", error))
}
