use crate::args::PurgeArgs;
use leasehold::admin::Purge;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, brief};

/// Forgets names that nobody has used for long, or counts them.
pub(super) async fn purge(args: &PurgeArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let store = invocation.open().await?;
    let what = if args.dry_run { Purge::Count } else { Purge::Delete };
    let Some(names) = store.admin()?.purge(args.idle, what).await? else {
        invocation
            .console
            .note(format_args!("{} forgets by itself the names that nobody holds", store.config.url()));
        return Ok(Code::SUCCESS);
    };
    let (names, idle) = (counted(names), brief(args.idle));
    match args.dry_run {
        true => invocation.console.note(format_args!("{names} not used for {idle} would be forgotten")),
        false => invocation.console.note(format_args!("{names} not used for {idle} forgotten")),
    }
    Ok(Code::SUCCESS)
}

fn counted(names: u64) -> String {
    match names {
        1 => "1 name".to_owned(),
        names => format!("{names} names"),
    }
}
