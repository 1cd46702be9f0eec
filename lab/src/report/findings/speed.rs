//! What was measured of speed: a table for each way to use a lock, with rates, times and costs side by side.

use super::table::{Chart, Column, Datum, Section};
use crate::format::{bytes, count, time};
use crate::measure::{Latency, Passes, Row, RowResult};
use crate::report::Report;

pub(super) fn sections(report: &Report) -> Vec<Section> {
    let all = [hand_over(report), alone(report), kinds(report), at_rest(report)];
    all.into_iter().flatten().collect()
}

fn hand_over(report: &Report) -> Option<Section> {
    let rows = rows(report, |result| match result.row {
        Row::HandOver { waiters, processes } => vec![figures(vec![whole(waiters), whole(processes)], result)],
        _ => Vec::new(),
    });
    let mut section = Section::new(
        "hand-over",
        "Hand-over",
        "One name goes round; so many wait for it at any time. Times are from the beginning of a release until the next \
         waiter has the lock. Fairness is Jain's index of how often each waiter had it: 1 if all had it equally often. \
         Costs are those of one turn.",
        "Hand-over against waiters",
        columns(vec![Column::figures("Waiting"), Column::detail("Processes")]),
        some(rows)?,
    );
    let is_charted = |row| matches!(row, Row::HandOver { waiters: 8, .. });
    section.charts = chart(report, "With 8 waiting", is_charted).into_iter().collect();
    Some(section)
}

fn alone(report: &Report) -> Option<Section> {
    let rows = rows(report, |result| match result.row {
        Row::Pairs { tasks } => vec![figures(vec![whole(tasks)], result)],
        _ => Vec::new(),
    });
    let mut section = Section::new(
        "alone",
        "Alone",
        "Acquire and release where nobody is in the way: each task on a name of its own, as fast as it goes. With many at \
         once, times are those of a store as busy as its clients can make it. Costs are those of one acquire and release.",
        "Acquire and release",
        columns(vec![Column::figures("At once")]),
        some(rows)?,
    );
    section.charts = chart(report, "Acquire and release, one at once", |row| row == Row::Pairs { tasks: 1 })
        .into_iter()
        .collect();
    Some(section)
}

fn kinds(report: &Report) -> Option<Section> {
    let rows = rows(report, |result| match result.row {
        Row::Reads { tasks } => vec![figures(vec![Datum::words(format!("{tasks} readers"))], result)],
        Row::Mixed { readers } => {
            let reads = RowResult { latency_us: None, ..result.clone() };
            let writes = RowResult {
                per_second: result.writes_per_second,
                server_commands: None,
                server_bytes: None,
                client_cpu_us: None,
                ..result.clone()
            };
            vec![
                figures(vec![Datum::words(format!("{readers} with a writer"))], &reads),
                figures(vec![Datum::words("their writer".to_owned())], &writes),
            ]
        }
        Row::Permits { tasks, permits } => {
            vec![figures(vec![Datum::words(format!("{tasks} on {permits} permits"))], result)]
        }
        _ => Vec::new(),
    });
    Some(Section::new(
        "kinds",
        "Readers and permits",
        "One name that many share, without and with a writer that wants it again and again, and one semaphore. Times are \
         those of acquire and release of a read, and the waits of the writer or for a permit. Costs are those of one hold.",
        "Readers, a writer beside readers, and permits",
        columns(vec![Column::words("What")]),
        some(rows)?,
    ))
}

/// What waits and what is held, while nothing happens.
fn at_rest(report: &Report) -> Option<Section> {
    let rows = rows(report, |result| {
        let (what, cpu, memory) = match (result.row, result.held) {
            (Row::IdleWaiters { waiters }, _) => {
                (format!("a waiter, of {waiters}"), result.client_cpu_us, None)
            }
            (Row::Held { count: all }, Some(held)) => {
                let each = held.client_cpu_at_30s * 1e6 / all as f64;
                (
                    format!("a hold, of {}", count(all as f64)),
                    Some(each),
                    held.bytes_each.map(|bytes| bytes as f64),
                )
            }
            _ => return Vec::new(),
        };
        vec![vec![
            Datum::words(what),
            Datum::maybe(result.server_commands, count),
            Datum::maybe(result.server_bytes, bytes),
            Datum::maybe(cpu, time),
            Datum::maybe(memory, bytes),
        ]]
    });
    Some(Section::new(
        "at-rest",
        "Waiting and holding",
        "What one task that waits, or one name that is held and renewed at a ttl of 30 s, costs in a second while nothing \
         happens. Commands and bytes are what the server has counted; some do not tell. Processor time and memory are \
         the client's.",
        "Costs in a second",
        Column::all(&["Store", "What"], &["Commands", "Bytes", "Client CPU", "Client memory"]),
        some(rows)?,
    ))
}

/// The rows of all stores, each behind the name of its store.
fn rows(report: &Report, of: impl Fn(&RowResult) -> Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    let mut rows = Vec::new();
    for store in &report.stores {
        let of_store = store.speed.rows.iter().flat_map(&of);
        rows.extend(of_store.map(|row| [Datum::words(&store.name)].into_iter().chain(row).collect()));
    }
    rows
}

fn some(rows: Vec<Vec<Datum>>) -> Option<Vec<Vec<Datum>>> {
    (!rows.is_empty()).then_some(rows)
}

fn columns(of_row: Vec<Column>) -> Vec<Column> {
    let figures = [
        Column::figures("Per second"),
        Column::detail("lowest"),
        Column::detail("highest"),
        Column::figures("p50"),
        Column::figures("p99"),
        Column::figures("max"),
        Column::detail("Fairness"),
        Column::figures("Commands"),
        Column::detail("Bytes"),
        Column::detail("Client CPU"),
    ];
    [Column::words("Store")].into_iter().chain(of_row).chain(figures).collect()
}

fn figures(mut of_row: Vec<Datum>, result: &RowResult) -> Vec<Datum> {
    let rate = |of: fn(Passes) -> f64| Datum::maybe(result.per_second.map(of), count);
    let at = |of: fn(Latency) -> f64| Datum::maybe(result.latency_us.map(of), time);
    of_row.extend([
        rate(|rate| rate.median),
        rate(|rate| rate.min),
        rate(|rate| rate.max),
        at(|latency| latency.p50),
        at(|latency| latency.p99),
        at(|latency| latency.max),
        Datum::maybe(result.fairness.map(|fairness| fairness.median), |value| format!("{value:.3}")),
        Datum::maybe(result.server_commands, count),
        Datum::maybe(result.server_bytes, bytes),
        Datum::maybe(result.client_cpu_us, time),
    ]);
    of_row
}

/// The times of one row on each store; those without it are left out.
fn chart(report: &Report, title: &str, is_it: fn(Row) -> bool) -> Option<Chart> {
    let times = report.stores.iter().filter_map(|store| {
        let latency = store.row(is_it)?.latency_us?;
        Some((store.name.clone(), [latency.p50, latency.p99, latency.p999]))
    });
    Chart::of_times(title.to_owned(), times.collect())
}

fn whole(value: usize) -> Datum {
    Datum::figure(value as f64, count(value as f64))
}
