use crate::args::InitArgs;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, unprinted};
use std::io::Write;

/// Creates what the store needs, or prints how.
pub(super) async fn init(args: &InitArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let store = invocation.open().await?;
    let admin = store.admin()?;
    let url = store.config.url();
    if !args.print {
        admin.init().await?;
        invocation.console.note(format_args!("{url} is ready"));
        return Ok(Code::SUCCESS);
    }
    match admin.init_script() {
        Some(script) => writeln!(std::io::stdout(), "{}", script.trim_end()).map_err(unprinted)?,
        None => invocation.console.note(format_args!("{url} needs nothing")),
    }
    Ok(Code::SUCCESS)
}
