use crate::args::{Common, ReleaseArgs, lock_name};
use crate::exit::Code;
use crate::report::{Console, Failure, block, sentence};
use crate::store::{Store, sources};
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind, FencingToken, LockName, Result};
use std::io::{self, IsTerminal};

/// Takes a lock away from its holder, after a look at who that is. What was seen is what is ended: by its token, in one
/// step of the store, so that nobody who came after it is hit. Another program's lock on Redis has no token: who holds the
/// name by then loses it.
pub(super) async fn release(args: &ReleaseArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let name = lock_name(&args.name)?;
    let store = Store::open(sources(common), console).await?;
    let admin = store.admin()?;
    let Some(lock) = admin.inspect(&name).await? else {
        return Ok(nothing_to_release(&name, console));
    };
    check_conditions(args, &lock).map_err(|error| Failure::new(error).with_lines(block(&lock)))?;
    console.note(sentence(&lock));
    let lines = block(&lock);
    console.lines(lines.iter().map(|(label, text)| (*label, text.as_str())));
    if !args.yes && !confirmed(&lock, console)? {
        return Ok(Code::DECLINED);
    }
    if admin.force_release(&name, lock.token).await?.is_none() {
        // It was given back meanwhile; somebody else may have come since, who is not meant.
        if admin.inspect(&name).await?.is_none() {
            return Ok(nothing_to_release(&name, console));
        }
        let message = format!("{name:?} is not held by that holder any more; nothing was released");
        return Err(Error::new(ErrorKind::Busy, message).into());
    }
    console.note(format_args!("{name:?} was taken from its holder"));
    Ok(Code::SUCCESS)
}

fn nothing_to_release(name: &LockName, console: Console) -> Code {
    console.note(format_args!("{name:?} is free, there is nothing to release"));
    Code::SUCCESS
}

fn check_conditions(args: &ReleaseArgs, lock: &LockStatus) -> Result<()> {
    if let Some(token) = args.if_token
        && lock.token != Some(FencingToken::new(token))
    {
        let message = format!("{:?} is not held with token {token}", lock.name);
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
        Err(Error::new(ErrorKind::Busy, format!("{:?} is not held by {text:?}", lock.name)))
    }
}

fn confirmed(lock: &LockStatus, console: Console) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let error = Error::invalid("call", "there is no terminal to ask on", "add --yes");
        return Err(error.into());
    }
    console
        .ask(format_args!("Take {:?} away? Its holder may work on until its next renewal.", lock.name))
        .map_err(|error| Failure::internal("cannot read the answer", error))
}
