//! The result, for people.

use super::figures::{Latency, Passes};
use super::plan::Row;
use super::result::{BenchResult, RowResult, StoreFigures};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use leasehold_console::safe;
use std::io::{self, Write};

const HEADER: [&str; 10] =
    ["ROW", "PER SECOND", "OF RAW", "p50", "p99", "p99.9", "max", "COMMANDS", "BYTES", "CLIENT CPU"];

pub(super) fn show(result: &BenchResult) -> io::Result<()> {
    let mut out = anstream::stdout();
    let machine = &result.machine;
    writeln!(
        out,
        "leasehold {}, {} cores, {}; medians of {} passes of {} ms, latencies in µs",
        result.leasehold,
        machine.cores,
        safe(&machine.system),
        result.passes,
        result.window_ms
    )?;
    for store in &result.stores {
        let figures = &store.figures;
        let server = figures.server.as_deref().unwrap_or("no server of its own");
        writeln!(out, "\n{} ({})", safe(&store.url), safe(server))?;
        writeln!(out, "{}", table(figures))?;
        for line in figures.rows.iter().filter_map(more) {
            writeln!(out, "  {line}")?;
        }
        for left_out in &figures.left_out {
            writeln!(out, "  not measured: {} ({})", left_out.row, left_out.why)?;
        }
    }
    Ok(())
}

fn table(figures: &StoreFigures) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(HEADER);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(figures.rows.iter().filter(|row| row.held.is_none()).map(cells));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn cells(row: &RowResult) -> [String; 10] {
    let dash = || "-".to_owned();
    let rate = |passes: Passes| format!("{:.0} ({:.0}..{:.0})", passes.median, passes.min, passes.max);
    let latency =
        |of: fn(&Latency) -> f64| row.latency_us.as_ref().map_or_else(dash, |latency| figure(of(latency)));
    [
        row.row.to_string(),
        row.per_second.map_or_else(dash, rate),
        row.of_raw.map_or_else(dash, |passes| format!("{:.2}", passes.median)),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        latency(|latency| latency.max),
        row.server_commands.map_or_else(dash, |commands| format!("{commands:.1}")),
        row.server_bytes.map_or_else(dash, |bytes| format!("{bytes:.0}")),
        row.client_cpu_us.map_or_else(dash, |micros| format!("{micros:.1} µs")),
    ]
}

/// Three places that matter.
fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// What has no column.
fn more(row: &RowResult) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(held) = &row.held {
        let bytes = held.bytes_each.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        parts.push(format!(
            "{bytes} bytes each in the client, {:.1} % of a core to renew them at a ttl of 30 s, acquired in {:.2} s, released in {:.2} s, {} lost",
            held.client_cpu_at_30s * 100.0,
            held.acquired_in_s,
            held.released_in_s,
            held.lost
        ));
    }
    if let Some(writes) = row.writes_per_second {
        let writes = writes.median;
        parts
            .push(format!("{writes:.0} writes a second beside these reads; latencies are the writer's wait"));
    }
    match row.row {
        Row::Permits { .. } => parts.push("latencies are the wait for a permit".to_owned()),
        Row::IdleWaiters { .. } => parts.push("costs are those of one waiter in a second".to_owned()),
        _ => {}
    }
    if let Some(fairness) = row.fairness {
        parts.push(format!("fairness {:.3} (1 is equal)", fairness.median));
    }
    parts.extend(row.violations());
    if let Some(why) = row.repeated.first() {
        parts.push(format!("passes made again: {}, because {}", row.repeated.len(), safe(why)));
    }
    if row.noisy {
        let spread = row.spread();
        parts.push(if spread.is_finite() {
            format!("too noisy to tell differences below {:.0} %", spread * 100.0)
        } else {
            "too noisy to tell anything: in most windows nothing has ended".to_owned()
        });
    }
    (!parts.is_empty()).then(|| format!("{}: {}", row.row, parts.join("; ")))
}
