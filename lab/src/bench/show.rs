//! The result, for people.

use super::figures::{Latency, Passes};
use super::result::{BenchResult, RowResult, StoreResult};
use comfy_table::{CellAlignment, ContentArrangement, Table};
use leasehold_console::safe;
use std::io::{self, Write};

const HEADER: [&str; 10] =
    ["ROW", "PER SECOND", "OF RAW", "p50", "p90", "p99", "max", "COMMANDS", "BYTES", "CLIENT CPU"];

pub(super) fn show(result: &BenchResult, baseline: Option<&BenchResult>) -> io::Result<()> {
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
        let server = store.server.as_deref().unwrap_or("no server of its own");
        writeln!(out, "\n{} ({})", safe(&store.url), safe(server))?;
        writeln!(out, "{}", table(store))?;
        for line in store.rows.iter().filter_map(more) {
            writeln!(out, "  {line}")?;
        }
        if let Some(baseline) = baseline {
            if let Some(differences) = differences(result, baseline) {
                writeln!(out, "  {differences}")?;
            }
            compare(&mut out, store, baseline)?;
        }
        for left_out in &store.left_out {
            writeln!(out, "  not measured: {} ({})", left_out.row, left_out.why)?;
        }
    }
    Ok(())
}

fn table(store: &StoreResult) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(HEADER);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(store.rows.iter().filter(|row| row.held.is_none()).map(cells));
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
        row.row.clone(),
        row.per_second.map_or_else(dash, rate),
        row.of_raw.map_or_else(dash, |passes| format!("{:.2}", passes.median)),
        latency(|latency| latency.p50),
        latency(|latency| latency.p90),
        latency(|latency| latency.p99),
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
    if let Some(passes) = row.raw_of_tokenless {
        parts.push(format!("by hand, {:.2} of what there would be without a token", passes.median));
    }
    if let Some((own, raw)) = row.latency_us.zip(row.raw_latency_us) {
        parts.push(format!(
            "p99 is {:.1} times that of a release by hand until another was told of it, {} µs",
            own.p99 / raw.p99,
            figure(raw.p99)
        ));
    }
    if let Some(writes) = row.writes_per_second {
        parts.push(format!(
            "{:.0} writes a second beside these reads; latencies are the writer's wait",
            writes.median
        ));
    }
    if row.row.starts_with("permits@") {
        parts.push("latencies are the wait for a permit".to_owned());
    }
    if row.row.starts_with("waiting@") {
        parts.push("costs are those of one waiter in a second".to_owned());
    }
    if let Some(fairness) = row.fairness {
        parts.push(format!("fairness {:.3} (1 is equal)", fairness.median));
    }
    if let Some((overlaps, stale)) = row.overlaps.zip(row.stale_tokens) {
        parts.push(format!("holders too many: {overlaps}, tokens that did not grow: {stale}"));
    }
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

fn compare(out: &mut impl Write, store: &StoreResult, baseline: &BenchResult) -> io::Result<()> {
    let Some(earlier) = baseline.find(store) else {
        return writeln!(out, "  baseline: has no such store");
    };
    if earlier.url != store.url {
        writeln!(out, "  baseline: {}, which is another store of this kind", safe(&earlier.url))?;
    }
    for row in &store.rows {
        let Some(now) = row.per_second else { continue };
        let before = earlier.rows.iter().find(|before| before.row == row.row);
        match before.and_then(|before| before.per_second).filter(|before| before.median > 0.0) {
            Some(before) => {
                let part = now.median / before.median;
                writeln!(out, "  {}: {part:.2} of the baseline, {}", row.row, verdict(now, before))?;
            }
            None => writeln!(out, "  {}: the baseline has no such row", row.row)?,
        }
    }
    Ok(())
}

/// What makes the two runs different, beside what they measured.
fn differences(result: &BenchResult, baseline: &BenchResult) -> Option<String> {
    let mut all = Vec::new();
    let mut differ = |what: &str, now: String, before: String| {
        if now != before {
            all.push(format!("{what} {} and not {}", safe(&before), safe(&now)));
        }
    };
    differ("windows of", format!("{} ms", result.window_ms), format!("{} ms", baseline.window_ms));
    differ("passes:", result.passes.to_string(), baseline.passes.to_string());
    differ("cores:", result.machine.cores.to_string(), baseline.machine.cores.to_string());
    differ("on", result.machine.system.clone(), baseline.machine.system.clone());
    differ("leasehold", result.leasehold.clone(), baseline.leasehold.clone());
    (!all.is_empty()).then(|| format!("the baseline had {}", all.join(", ")))
}

fn verdict(now: Passes, before: Passes) -> &'static str {
    if now.is_alone() || before.is_alone() {
        "and one pass alone tells nothing of noise"
    } else if now.overlaps(before) {
        "no difference to be told from noise"
    } else if now.median > before.median {
        "faster"
    } else {
        "slower"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_within_the_noise_is_none() {
        let passes = |values: [f64; 3]| Passes::of(values.to_vec());
        assert_eq!(
            verdict(passes([9.0, 10.0, 11.0]), passes([10.5, 12.0, 13.0])),
            "no difference to be told from noise"
        );
        assert_eq!(verdict(passes([9.0, 10.0, 11.0]), passes([12.0, 12.5, 13.0])), "slower");
        assert_eq!(verdict(passes([20.0, 21.0, 22.0]), passes([12.0, 12.5, 13.0])), "faster");
        let alone = "and one pass alone tells nothing of noise";
        assert_eq!(verdict(Passes::of(vec![20.0]), passes([12.0, 12.5, 13.0])), alone);
    }
}
