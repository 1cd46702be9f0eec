use crate::args::LsArgs;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use leasehold::admin::LockStatus;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, ago, brief, print_json, safe, unprinted};
use std::io::Write;
use std::time::SystemTime;

const HEADER: [&str; 6] = ["NAME", "HOLDER", "DOING", "HELD", "ENDS IN", "TOKEN"];

/// Lists the locks that are held.
pub(super) async fn ls(args: &LsArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let store = invocation.open().await?;
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

/// A table of locks, as wide as the terminal at most. Without a terminal, every lock is one line.
fn table(locks: &[LockStatus], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(HEADER);
    match width {
        Some(width) => table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table.add_rows(locks.iter().map(row));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (3..=5).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn row(lock: &LockStatus) -> [String; 6] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (doing, held) = (&lock.holder.doing, !lock.is_released());
    [
        safe(lock.name.as_str()),
        if held { safe(&lock.holder.to_string()) } else { "(released)".to_owned() },
        or_dash((held && !doing.is_empty()).then(|| safe(doing))),
        or_dash(lock.acquired_at.filter(|_| held).map(|since| ago(since, SystemTime::now()))),
        or_dash(lock.ends_in.map(brief)),
        or_dash(lock.token.map(|token| token.to_string())),
    ]
}
