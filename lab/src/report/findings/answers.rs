//! The questions that people ask before they choose a store. Each is a rule over the data: the best store, those that cannot be told
//! from it, and those that stand apart.

use super::Basis;
use super::faults::{UnderFault, class_of};
use crate::format::{count, time};
use crate::measure::{Passes, Row, RowResult};
use crate::report::{Declared, Report, StoreReport, Verdict};
use leasehold::semantics::{CrashBound, Fairness, Fault, LossSignal, Reach, Sharing};
use serde::Serialize;

/// What somebody asks before choosing a store, and what the data say.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    pub(crate) question: &'static str,
    /// `None` if no store has the asked property.
    pub(crate) store: Option<String>,
    /// The figure of that store, with the sign of its basis.
    pub(crate) figure: String,
    /// Stores of the best one's class whose figures cannot be told from its own; an outcome or a declaration has no figure.
    pub(crate) as_good: Vec<String>,
    /// Stores that are not compared with the others: for each reason their names, and the figure of the best one if it has one.
    pub(crate) apart: Vec<String>,
}

/// The case that holds the declared order of waiters against what it sees.
const ORDER_CASE: &str = "H05";

/// A store in the order of one question.
struct Ranked<'a> {
    store: &'a StoreReport,
    /// Stores of a higher class are worse, whatever their figures are.
    class: usize,
    /// What is compared within a class: the smaller, the better. Stores whose bands touch cannot be told apart.
    value: f64,
    band: (f64, f64),
    /// With the sign of its basis.
    figure: String,
}

/// The answers that these data allow. A store that was seen broken, or of which nothing is known, is never the answer.
pub(super) fn answers(report: &Report) -> Vec<Answer> {
    let is_known = |store: &&StoreReport| !matches!(store.verdict(), Verdict::Broken | Verdict::NotRun);
    let known: Vec<(&StoreReport, &Declared)> = report
        .stores
        .iter()
        .filter(is_known)
        .filter_map(|store| Some((store, store.declared.as_ref()?)))
        .collect();
    let stores: Vec<&StoreReport> = known.iter().map(|(store, _)| *store).collect();
    let questions = [
        owners_under(&known, "one owner while servers fail over?", Fault::FailOver),
        owners_under(&known, "one owner over a restart of the store?", Fault::StoreRestarted),
        crashed_holder(&known),
        told_of_a_loss(&known),
        order_of_waiters(&known),
        hand_over(&stores),
        alone(&stores),
        held(&stores),
        readers(&known),
        permits(&stores),
        idle_waiter(&stores),
    ];
    questions.into_iter().flatten().collect()
}

/// By outcome. Equals keep the order of the report: the time to the next holder differs from run to run.
fn owners_under(
    stores: &[(&StoreReport, &Declared)],
    question: &'static str,
    fault: Fault,
) -> Option<Answer> {
    let (mut ranked, mut without) = (Vec::new(), Vec::new());
    for (store, declared) in stores {
        let Some(seen) = UnderFault::of(store, fault) else { continue };
        let Some(class) = UnderFault::expected(store, fault).and_then(class_of) else {
            without.extend((declared.reach == Reach::Network).then_some(*store));
            continue;
        };
        ranked.push(Ranked::of_class(store, class, &seen.words(), seen.basis()));
    }
    answer(question, ranked, named("cannot happen to", &without))
}

fn crashed_holder(stores: &[(&StoreReport, &Declared)]) -> Option<Answer> {
    let in_time = stores.iter().filter(|(store, _)| !store.was_late_under(Fault::HolderKilled));
    let ranked = in_time.map(|(store, declared)| {
        let seen = store.judged_cell(Fault::HolderKilled).and_then(|cell| cell.figures.recovered_ms);
        let (class, bound) = match declared.crash_bound {
            CrashBound::Connection => (0, "as soon as its connection ends"),
            CrashBound::Session => (1, "when its session ends"),
            _ => (1, "when its lease ends"),
        };
        Ranked::by_cause(store, class, bound, seen, "the crash")
    });
    answer("a crashed holder frees it when?", ranked.collect(), None)
}

fn told_of_a_loss(stores: &[(&StoreReport, &Declared)]) -> Option<Answer> {
    let in_time = stores.iter().filter(|(store, _)| !store.was_late_under(Fault::RecordDeleted));
    let ranked = in_time.map(|(store, declared)| {
        let seen = store.judged_cell(Fault::RecordDeleted).and_then(|cell| cell.figures.detected_ms);
        let (class, by) = match declared.loss_signal {
            LossSignal::Push => (0, "the store tells it at once"),
            _ => (1, "with its next renewal"),
        };
        Ranked::by_cause(store, class, by, seen, "its record was deleted")
    });
    answer("told of a loss how soon?", ranked.collect(), None)
}

fn order_of_waiters(stores: &[(&StoreReport, &Declared)]) -> Option<Answer> {
    let (mut fifo, mut unordered) = (Vec::new(), Vec::new());
    for (store, declared) in stores {
        if declared.fairness == Fairness::Fifo {
            let basis = if store.has_passed(ORDER_CASE) { Basis::Measured } else { Basis::Declared };
            fifo.push(Ranked::of_class(store, 0, "first come, first served", basis));
        } else {
            unordered.push(*store);
        }
    }
    answer("served in order?", fifo, named("in no order", &unordered))
}

fn hand_over(stores: &[&StoreReport]) -> Option<Answer> {
    let is_row = |wanted: usize| move |row| matches!(row, Row::HandOver { waiters, .. } if waiters == wanted);
    let has = |waiters: &usize| stores.iter().any(|store| store.row(is_row(*waiters)).is_some());
    let waiters = [8, 64, 1].into_iter().find(has)?;
    let figure = |_: &StoreReport, result: &RowResult| {
        let gap = result.latency_us?;
        Some(format!("median {}, p99 {}, with {waiters} waiting", time(gap.p50), time(gap.p99)))
    };
    answer("fastest hand-over?", by_rate(stores, is_row(waiters), figure), None)
}

fn alone(stores: &[&StoreReport]) -> Option<Answer> {
    let figure = |_: &StoreReport, result: &RowResult| {
        let pair = result.latency_us?;
        Some(format!("acquire and release in {}, p99 {}", time(pair.p50), time(pair.p99)))
    };
    answer("fastest alone?", by_rate(stores, |row| row == Row::Pairs { tasks: 1 }, figure), None)
}

/// By how many were lost, and then by what the client spends on renewing them.
fn held(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let mut rows = store.speed.rows.iter().filter_map(|result| Some((result.row, result.held?)));
        let (Row::Held { count: all }, held) = rows.next_back()? else { return None };
        let cpu = held.client_cpu_at_30s;
        let figure = format!("{} held with {:.1} % of a core", count(all as f64), cpu * 100.0);
        Some(Ranked::by(store, held.lost, cpu, &figure))
    });
    answer("cheapest for many holds?", ranked.collect(), None)
}

fn readers(stores: &[(&StoreReport, &Declared)]) -> Option<Answer> {
    let (mut serving, mut refusing) = (Vec::new(), Vec::new());
    for (store, declared) in stores {
        let serves = declared.sharing != Sharing::Unsupported;
        if serves { serving.push(*store) } else { refusing.push(*store) }
    }
    let figure = |store: &StoreReport, reads: &RowResult| {
        let mixed = store.row(|row| matches!(row, Row::Mixed { .. })).and_then(|mixed| mixed.latency_us);
        let wait = mixed
            .map(|wait| format!(", a writer beside them waits {}, p99 {}", time(wait.p50), time(wait.p99)));
        Some(format!("{} reads a second{}", count(reads.per_second?.median), wait.unwrap_or_default()))
    };
    let ranked = by_rate(&serving, |row| matches!(row, Row::Reads { .. }), figure);
    answer("fastest for readers?", ranked, named("refuse readers", &refusing))
}

fn permits(stores: &[&StoreReport]) -> Option<Answer> {
    let figure = |_: &StoreReport, result: &RowResult| {
        let fairness = result.fairness.map(|fairness| format!(", fairness {:.2}", fairness.median));
        Some(format!("{} grants a second{}", count(result.per_second?.median), fairness.unwrap_or_default()))
    };
    answer("fastest for permits?", by_rate(stores, |row| matches!(row, Row::Permits { .. }), figure), None)
}

/// By what the server does for it. Stores whose server does not tell that come after them, by the client's time.
fn idle_waiter(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let costs = store.row(|row| matches!(row, Row::IdleWaiters { .. }))?;
        let cpu = costs.client_cpu_us.map_or_else(|| "?".to_owned(), time);
        Some(match costs.server_commands {
            Some(commands) => {
                let figure = format!("{} commands and {cpu} of the client a second", count(commands));
                Ranked::by(store, 0, commands, &figure)
            }
            None => Ranked::by(store, 1, costs.client_cpu_us?, &format!("{cpu} of the client a second")),
        })
    });
    answer("what does an idle waiter cost?", ranked.collect(), None)
}

/// The stores that have such a row, by its rate.
fn by_rate<'a>(
    stores: &[&'a StoreReport],
    is_row: impl Fn(Row) -> bool,
    figure: impl Fn(&StoreReport, &RowResult) -> Option<String>,
) -> Vec<Ranked<'a>> {
    let ranked = stores.iter().filter_map(|store| {
        let result = store.row(&is_row)?;
        let Passes { median, min, max } = result.per_second?;
        let (value, band) = (median.recip(), (max.recip(), min.recip()));
        Some(Ranked { store, class: 0, value, band, figure: figure(store, result)? })
    });
    ranked.collect()
}

impl<'a> Ranked<'a> {
    /// By an outcome or a declaration: all of one class are as good.
    fn of_class(store: &'a StoreReport, class: usize, figure: &str, basis: Basis) -> Self {
        Self { store, class, value: 0.0, band: (0.0, 0.0), figure: format!("{figure}{}", basis.sign()) }
    }

    /// By one measured figure, of which there is no band: others that are a quarter worse are as good.
    fn by(store: &'a StoreReport, class: usize, value: f64, figure: &str) -> Self {
        Self { store, class, value, band: (value / 1.25, value), figure: figure.to_owned() }
    }

    /// By what is declared, which a busy machine does not change; within that, what was measured comes first.
    fn by_cause(store: &'a StoreReport, class: usize, cause: &str, seen: Option<f64>, event: &str) -> Self {
        match seen {
            Some(ms) => Self::by(store, class * 2, ms, &format!("{cause}: {} after {event}", time(ms * 1e3))),
            None => Self::of_class(store, class * 2 + 1, cause, Basis::Declared),
        }
    }

    fn is_as_good_as(&self, best: &Self) -> bool {
        self.place() == best.place() && self.band.0 <= best.band.1
    }

    /// Stores of a later place are worse, whatever their figures are: stores of one process are last.
    fn place(&self) -> (bool, usize) {
        (self.store.reach() == Some(Reach::Process), self.class)
    }
}

/// Stores of one host are ranked only if no store serves many hosts; otherwise the best of them is named apart.
fn answer(question: &'static str, ranked: Vec<Ranked<'_>>, without: Option<String>) -> Option<Answer> {
    let (network, hosts): (Vec<_>, Vec<_>) =
        ranked.into_iter().partition(|of| of.store.reach() == Some(Reach::Network));
    let (network, hosts) = (best_first(network), best_first(hosts));
    let (ranked, of_one_host) =
        if network.is_empty() { (hosts, None) } else { (network, hosts.into_iter().next()) };
    let of_one_host = of_one_host.map(|of| format!("one host only: {}, {}", of.store.name, of.figure));
    let apart: Vec<String> = of_one_host.into_iter().chain(without).collect();
    let Some((best, others)) = ranked.split_first() else {
        let figure = "no store here".to_owned();
        return (!apart.is_empty()).then(|| Answer { question, store: None, figure, as_good: vec![], apart });
    };
    let as_good = others.iter().filter(|other| other.is_as_good_as(best));
    let as_good = as_good.map(|other| other.store.name.clone()).collect();
    let (store, figure) = (Some(best.store.name.clone()), best.figure.clone());
    Some(Answer { question, store, figure, as_good, apart })
}

/// The best one first.
fn best_first(mut ranked: Vec<Ranked<'_>>) -> Vec<Ranked<'_>> {
    ranked.sort_by(|one, other| one.place().cmp(&other.place()).then(one.value.total_cmp(&other.value)));
    ranked
}

fn named(words: &str, stores: &[&StoreReport]) -> Option<String> {
    let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
}
