use super::{ago, brief, safe};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use leasehold::admin::LockStatus;
use std::time::SystemTime;

const HEADER: [&str; 6] = ["NAME", "HOLDER", "DOING", "HELD", "ENDS IN", "TOKEN"];

/// One line of the table.
pub(crate) type Row = [String; 6];

/// A table of locks, as wide as the terminal at most. Without a terminal, every lock is one line.
pub(crate) fn table(locks: &[LockStatus], width: Option<u16>) -> String {
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

fn row(lock: &LockStatus) -> Row {
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
