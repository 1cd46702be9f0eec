//! Latency, hand-over, throughput and costs.

use super::{Axis, Chart, Column, Curve, Datum, Panel, Section, Span, Table};
use crate::bench::{Costs, Passes};
use crate::compare::model::{Distribution, HandOverFigures, PairFigures, Report, StoreReport};
use crate::format::{bytes, count, time};

pub(super) fn hand_over(report: &Report) -> Option<Section> {
    let waiters = waiters(report);
    let spans = waiters.iter().copied().find(|waiters| *waiters >= 8).or(waiters.last().copied())?;
    let rows = stores_with(report, |store| store.speed.hand_over_at(spans).map(|row| &row.gap));
    let panels = panels(report, |store| {
        let rows = store.speed.hand_over.iter();
        rows.map(|row| curve(format!("{} waiting", row.waiters), &row.gap)).collect()
    });
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
        charts: vec![
            Chart::Spans { title: format!("With {spans} waiting"), rows: spans_of(rows) },
            Chart::Panels {
                title: "What part of the hand-overs took no longer than that".to_owned(),
                x: Axis::Time,
                y: Axis::Share,
                panels,
            },
        ],
        tables: vec![Table {
            id: "hand-over-table".to_owned(),
            caption: "Hand-over against waiters".to_owned(),
            columns: headed(&["Store"], &["Waiting", "Processes"]),
            rows: figures.collect(),
        }],
    })
}

pub(super) fn latency(report: &Report) -> Option<Section> {
    let tasks = report.stores.iter().flat_map(|store| &store.speed.pairs).map(|row| row.tasks).min()?;
    let acquires = stores_with(report, |store| store.speed.pairs_at(tasks).map(|row| &row.acquire));
    let panels = panels(report, |store| {
        let rows = store.speed.pairs.iter();
        let both = rows.flat_map(|row| {
            let at = |what: &str| format!("{what}, {} at once", row.tasks);
            [curve(at("acquire"), &row.acquire), curve(at("release"), &row.release)]
        });
        both.collect()
    });
    Some(Section {
        id: "latency",
        title: "Latency",
        lead: "Acquire and release where nobody is in the way: each task on a name of its own, as fast as it goes. With many at once it is the \
               latency of a store as busy as its clients can make it."
            .to_owned(),
        charts: vec![
            Chart::Spans { title: format!("Acquire, {tasks} at once"), rows: spans_of(acquires) },
            Chart::Panels {
                title: "What part of the requests took no longer than that".to_owned(),
                x: Axis::Time,
                y: Axis::Share,
                panels,
            },
        ],
        tables: vec![Table {
            id: "latency-table".to_owned(),
            caption: "Latency of acquire and release".to_owned(),
            columns: headed(&["Store", "Request"], &["At once"]),
            rows: report.stores.iter().flat_map(latencies).collect(),
        }],
    })
}

fn latencies(store: &StoreReport) -> Vec<Vec<Datum>> {
    let row = |what: &str, pairs: &PairFigures, seen: &Distribution| {
        let head = [Datum::words(&store.name), Datum::words(what), whole(pairs.tasks)];
        head.into_iter().chain(distribution(seen)).collect()
    };
    let both =
        |pairs: &PairFigures| [row("acquire", pairs, &pairs.acquire), row("release", pairs, &pairs.release)];
    store.speed.pairs.iter().flat_map(both).collect()
}

pub(super) fn throughput(report: &Report) -> Option<Section> {
    let turns = |row: &HandOverFigures| (row.waiters as f64, row.per_second.median);
    let panels = panels(report, |store| {
        let points: Vec<_> = store.speed.hand_over.iter().map(turns).collect();
        if points.is_empty() {
            Vec::new()
        } else {
            vec![Curve { label: "turns a second".to_owned(), points }]
        }
    });
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(rates).collect();
    (!rows.is_empty()).then(|| Section {
        id: "throughput",
        title: "Throughput",
        lead: "Turns a second of one name that everybody wants, and pairs a second where nobody is in the way. The band \
               is that of the passes: a difference within it is none. Fairness is Jain's index of how often each waiter \
               had the lock: 1 if all had it equally often."
            .to_owned(),
        charts: vec![Chart::Panels {
            title: "Turns a second against waiters".to_owned(),
            x: Axis::Waiters,
            y: Axis::Rate,
            panels,
        }],
        tables: vec![Table {
            id: "throughput-table".to_owned(),
            caption: "Throughput".to_owned(),
            columns: vec![
                Column::words("Store"),
                Column::words("What"),
                Column::figures("Per second"),
                Column::figures("lowest"),
                Column::figures("highest"),
                Column::figures("Fairness"),
            ],
            rows,
        }],
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
    pairs.chain(turns).collect()
}

pub(super) fn costs(report: &Report) -> Option<Section> {
    let rows: Vec<Vec<Datum>> = report.stores.iter().flat_map(costs_of).collect();
    (!rows.is_empty()).then(|| Section {
        id: "costs",
        title: "Costs",
        lead: "For one acquire and release, one turn, or one name that is held. Commands and bytes are what the server \
               has counted, commands inside scripts included; some servers do not tell. Processor time and memory are \
               the client's."
            .to_owned(),
        charts: Vec::new(),
        tables: vec![Table {
            id: "costs-table".to_owned(),
            caption: "Costs".to_owned(),
            columns: vec![
                Column::words("Store"),
                Column::words("Of one"),
                Column::figures("Commands"),
                Column::figures("Bytes"),
                Column::figures("Client CPU"),
                Column::figures("Client memory"),
            ],
            rows,
        }],
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
    pairs.chain(turns).chain(held).collect()
}

/// Every number of waiters that was measured anywhere.
fn waiters(report: &Report) -> Vec<usize> {
    let rows = report.stores.iter().flat_map(|store| &store.speed.hand_over);
    let mut waiters: Vec<usize> = rows.map(|row| row.waiters).collect();
    waiters.sort_unstable();
    waiters.dedup();
    waiters
}

type Named<'a> = Vec<(&'a str, &'a Distribution)>;

fn stores_with<'a>(
    report: &'a Report,
    get: impl Fn(&'a StoreReport) -> Option<&'a Distribution>,
) -> Named<'a> {
    let stores = report.stores.iter();
    stores.filter_map(|store| Some((store.name.as_str(), get(store)?))).collect()
}

/// The fastest first.
fn spans_of(mut rows: Named<'_>) -> Vec<Span> {
    rows.sort_by(|(_, one), (_, other)| one.p50_us.total_cmp(&other.p50_us));
    rows.into_iter().map(|(name, seen)| span(name, seen)).collect()
}

fn span(name: &str, seen: &Distribution) -> Span {
    Span { label: name.to_owned(), p50: seen.p50_us, p99: seen.p99_us, p999: seen.p999_us }
}

fn panels(report: &Report, curves: impl Fn(&StoreReport) -> Vec<Curve>) -> Vec<Panel> {
    let panels = report.stores.iter().map(|store| Panel { label: store.name.clone(), curves: curves(store) });
    panels.filter(|panel| !panel.curves.is_empty()).collect()
}

fn curve(label: String, seen: &Distribution) -> Curve {
    Curve { label, points: seen.curve.iter().map(|point| (point.us, point.share)).collect() }
}

fn distribution(seen: &Distribution) -> [Datum; 5] {
    let at = |us: f64| Datum::figure(us, time(us));
    let how_many = seen.count as f64;
    [
        at(seen.p50_us),
        at(seen.p99_us),
        at(seen.p999_us),
        at(seen.max_us),
        Datum::figure(how_many, count(how_many)),
    ]
}

/// The columns of a distribution behind these.
fn headed(words: &[&str], figures: &[&str]) -> Vec<Column> {
    let words = words.iter().map(|title| Column::words(*title));
    let figures = figures.iter().map(|title| match *title {
        "Processes" => Column::figures("Processes").detail(),
        title => Column::figures(title),
    });
    let times = ["p50", "p99", "p99.9", "max"].map(Column::figures);
    words.chain(figures).chain(times).chain([Column::figures("Measured").detail()]).collect()
}

fn whole(value: usize) -> Datum {
    Datum::figure(value as f64, count(value as f64))
}
