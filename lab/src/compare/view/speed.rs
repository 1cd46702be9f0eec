//! Latency, hand-over, throughput and costs.

use super::{Chart, Column, Datum, Section, Span, Table};
use crate::bench::{Costs, Passes};
use crate::compare::model::{Distribution, KindFigures, PairFigures, Report, StoreReport};
use crate::format::{bytes, count, time};

pub(super) fn hand_over(report: &Report) -> Option<Section> {
    let waiters = || report.stores.iter().flat_map(|store| &store.speed.hand_over).map(|row| row.waiters);
    let spans = waiters().filter(|waiters| *waiters >= 8).min().or(waiters().max())?;
    let figures = report.stores.iter().flat_map(|store| {
        store.speed.hand_over.iter().map(|row| {
            let head = [Datum::words(&store.name), whole(row.waiters), whole(row.processes)];
            head.into_iter().chain(distribution(&row.gap)).collect()
        })
    });
    Some(Section {
        id: "hand-over",
        title: "Hand-over",
        lead: "From the beginning of a release until the next waiter has the lock. One name goes round; so many wait \
               for it at any time."
            .to_owned(),
        charts: vec![spans_of(report, format!("With {spans} waiting"), |store| {
            Some(&store.speed.hand_over_at(spans)?.gap)
        })],
        table: Table::new(
            "hand-over-table",
            "Hand-over against waiters",
            headed(&["Store"], [Column::figures("Waiting"), Column::figures("Processes").detail()]),
            figures.collect(),
        ),
    })
}

pub(super) fn latency(report: &Report) -> Option<Section> {
    let tasks = report.stores.iter().flat_map(|store| &store.speed.pairs).map(|row| row.tasks).min()?;
    Some(Section {
        id: "latency",
        title: "Latency",
        lead: "Acquire and release where nobody is in the way: each task on a name of its own, as fast as it goes. With many at once it is the \
               latency of a store as busy as its clients can make it."
            .to_owned(),
        charts: vec![spans_of(report, format!("Acquire, {tasks} at once"), |store| {
            Some(&store.speed.pairs_at(tasks)?.acquire)
        })],
        table: Table::new(
            "latency-table",
            "Latency of acquire and release",
            headed(&["Store", "Request"], [Column::figures("At once")]),
            report.stores.iter().flat_map(latencies).collect(),
        ),
    })
}

fn latencies(store: &StoreReport) -> Vec<Vec<Datum>> {
    let row = |what: &str, pairs: &PairFigures, seen: &Distribution| {
        let head = [Datum::words(&store.name), Datum::words(what), whole(pairs.tasks)];
        head.into_iter().chain(distribution(seen)).collect()
    };
    let both =
        |pairs: &PairFigures| [row("acquire", pairs, &pairs.acquire), row("release", pairs, &pairs.release)];
    let kinds = store.speed.kinds.iter().map(|kind| {
        let head = [Datum::words(&store.name), Datum::words(kind_words(kind).1), Datum::none()];
        head.into_iter().chain(distribution(&kind.latency)).collect()
    });
    store.speed.pairs.iter().flat_map(both).chain(kinds).collect()
}

pub(super) fn throughput(report: &Report) -> Option<Section> {
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(rates).collect();
    (!rows.is_empty()).then(|| Section {
        id: "throughput",
        title: "Throughput",
        lead: "Turns a second of one name that everybody wants, and pairs a second where nobody is in the way. The band \
               is that of the passes: a difference within it is none. Fairness is Jain's index of how often each waiter \
               had the lock: 1 if all had it equally often."
            .to_owned(),
        charts: Vec::new(),
        table: Table::new(
            "throughput-table",
            "Throughput",
            Column::all(&["Store", "What"], &["Per second", "lowest", "highest", "Fairness"]),
            rows,
        ),
    })
}

fn rates(store: &StoreReport) -> Vec<Vec<Datum>> {
    let row = |what: String, rate: Passes, fairness: Option<Passes>| {
        let each = |value: f64| Datum::figure(value, count(value));
        vec![
            Datum::words(&store.name),
            Datum::words(what),
            each(rate.median),
            each(rate.min),
            each(rate.max),
            Datum::maybe(fairness.map(|fairness| fairness.median), |value| format!("{value:.3}")),
        ]
    };
    let speed = &store.speed;
    let pairs = speed
        .pairs
        .iter()
        .map(|pairs| row(format!("pairs, {} at once", pairs.tasks), pairs.per_second, None));
    let turns = speed.hand_over.iter();
    let turns =
        turns.map(|turn| row(format!("turns, {} waiting", turn.waiters), turn.per_second, turn.fairness));
    let kinds = speed.kinds.iter().flat_map(|kind| {
        let writes = kind
            .writes_per_second
            .map(|rate| row(kind_words(kind).1.replace("wait of a writer", "writes"), rate, None));
        [Some(row(kind_words(kind).0, kind.per_second, kind.fairness)), writes].into_iter().flatten()
    });
    pairs.chain(turns).chain(kinds).collect()
}

/// What a row of another kind counts, and what its latency is.
fn kind_words(kind: &KindFigures) -> (String, String) {
    match kind.row.split_once('@') {
        Some(("mixed", readers)) => (
            format!("reads by {readers} beside a writer"),
            format!("wait of a writer beside {readers} readers"),
        ),
        Some(("permits", tasks)) => {
            let (tasks, permits) = tasks.split_once('/').unwrap_or((tasks, "?"));
            (
                format!("{permits} permits, {tasks} at once"),
                format!("wait for one of {permits} permits, {tasks} at once"),
            )
        }
        Some((_, tasks)) => {
            (format!("reads, {tasks} at once"), format!("acquire and release of a read, {tasks} at once"))
        }
        None => (kind.row.clone(), kind.row.clone()),
    }
}

pub(super) fn costs(report: &Report) -> Option<Section> {
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(costs_of).collect();
    (!rows.is_empty()).then(|| Section {
        id: "costs",
        title: "Costs",
        lead: "For one acquire and release, one turn, one read or permit, one task that waits for a second, or one name \
               that is held. Commands and bytes are what the server \
               has counted, commands inside scripts included; some servers do not tell. Processor time and memory are \
               the client's."
            .to_owned(),
        charts: Vec::new(),
        table: Table::new(
            "costs-table",
            "Costs",
            Column::all(&["Store", "Of one"], &["Commands", "Bytes", "Client CPU", "Client memory"]),
            rows,
        ),
    })
}

fn costs_of(store: &StoreReport) -> Vec<Vec<Datum>> {
    let row = |what: String, costs: Costs, memory: Option<f64>| {
        vec![
            Datum::words(&store.name),
            Datum::words(what),
            Datum::maybe(costs.server_commands, count),
            Datum::maybe(costs.server_bytes, bytes),
            Datum::maybe(costs.client_cpu_us, time),
            Datum::maybe(memory, bytes),
        ]
    };
    let speed = &store.speed;
    let pairs =
        speed.pairs.iter().map(|pairs| row(format!("pair, {} at once", pairs.tasks), pairs.costs, None));
    let turns = speed.hand_over.iter();
    let turns = turns.map(|turn| row(format!("turn, {} waiting", turn.waiters), turn.costs, None));
    let held = speed.held.iter().map(|held| {
        let what = format!("name held, of {}", count(held.count as f64));
        row(what, Costs::default(), held.bytes_each.map(|bytes| bytes as f64))
    });
    let kinds =
        speed.kinds.iter().map(|kind| row(format!("one of {}", kind_words(kind).0), kind.costs, None));
    let waiting = speed.waiting.iter();
    let waiting = waiting.map(|all| row(format!("waiter, of {}, a second", all.tasks), all.costs, None));
    pairs.chain(turns).chain(kinds).chain(waiting).chain(held).collect()
}

/// The fastest store first; those without this distribution are left out.
fn spans_of(report: &Report, title: String, seen: impl Fn(&StoreReport) -> Option<&Distribution>) -> Chart {
    let spans = report.stores.iter().filter_map(|store| {
        let seen = seen(store)?;
        Some(Span { label: store.name.clone(), p50: seen.p50_us, p99: seen.p99_us, p999: seen.p999_us })
    });
    let mut rows: Vec<Span> = spans.collect();
    rows.sort_by(|one, other| one.p50.total_cmp(&other.p50));
    Chart { title, rows }
}

fn distribution(seen: &Distribution) -> [Datum; 3] {
    [seen.p50_us, seen.p99_us, seen.max_us].map(|us| Datum::figure(us, time(us)))
}

/// The columns of a distribution behind these.
fn headed<const N: usize>(words: &[&str], figures: [Column; N]) -> Vec<Column> {
    let words = words.iter().map(|title| Column::words(*title));
    let times = ["p50", "p99", "max"].map(Column::figures);
    words.chain(figures).chain(times).collect()
}

fn whole(value: usize) -> Datum {
    Datum::figure(value as f64, count(value as f64))
}
