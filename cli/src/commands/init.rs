use super::unprinted;
use crate::args::{Common, InitArgs};
use crate::exit::Code;
use crate::report::{Console, Failure};
use crate::store::{Store, sources};
use std::io::Write;

/// Creates what the store needs, or prints how.
pub(super) async fn init(args: &InitArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let store = Store::open(sources(common), console).await?;
    let admin = store.admin()?;
    let url = store.config.url();
    if !args.print {
        admin.init().await?;
        console.note(format_args!("{url} is ready"));
        return Ok(Code::SUCCESS);
    }
    match admin.init_script() {
        Some(script) => writeln!(std::io::stdout(), "{}", script.trim_end()).map_err(unprinted)?,
        None => console.note(format_args!("{url} needs nothing")),
    }
    Ok(Code::SUCCESS)
}
