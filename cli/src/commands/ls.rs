use super::unprinted;
use crate::args::{Common, LsArgs};
use crate::exit::Code;
use crate::report::{Console, Failure, print_json, table};
use crate::store::{Store, sources};
use std::io::Write;

/// Lists the locks that are held.
pub(super) async fn ls(args: &LsArgs, common: &Common, console: Console) -> Result<Code, Failure> {
    let store = Store::open(sources(common), console).await?;
    let locks = store.admin()?.list(&args.prefix).await?;
    if args.json {
        print_json(&locks).map_err(unprinted)?;
    } else if !locks.is_empty() {
        let mut out = anstream::stdout();
        writeln!(out, "{}", table(&locks, width())).map_err(unprinted)?;
    }
    Ok(Code::SUCCESS)
}

/// How wide the terminal is, if there is one.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}
