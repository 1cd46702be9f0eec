//! The questions that people ask before they choose a store. Each is a rule over the data; no store is named here.

use super::Basis;
use super::answers::{Answer, Ranked, answer};
use super::under_fault::UnderFault;
use crate::compare::model::{Declared, Report, StoreReport, Verdict};
use crate::format::{count, time};
use leasehold::semantics::{CrashBound, Fairness, Fault, LossSignal, Outcome, Reach};

/// The answers that these data allow. A store that was seen broken, or of which nothing is known, is the answer to none.
pub(crate) fn answers(report: &Report) -> Vec<Answer> {
    let is_known = |store: &&StoreReport| {
        !matches!(store.verdict(), Verdict::Broken | Verdict::NotRun) && store.declared.is_some()
    };
    let stores: Vec<&StoreReport> = report.stores.iter().filter(is_known).collect();
    let questions = [
        owners_under(&stores, "one owner while servers fail over?", Fault::FailOver),
        owners_under(&stores, "one owner over a restart of the store?", Fault::StoreRestarted),
        crashed_holder(&stores),
        told_of_a_loss(&stores),
        in_order(&stores),
        hand_over(&stores),
        alone(&stores),
        held(&stores),
        readers(&stores),
        permits(&stores),
        idle_waiter(&stores),
    ];
    questions.into_iter().flatten().collect()
}

/// By what becomes of the one owner, then by how soon the next one holds.
fn owners_under(stores: &[&StoreReport], question: &'static str, fault: Fault) -> Option<Answer> {
    let (mut ranked, mut without) = (Vec::new(), Vec::new());
    for store in stores {
        let Some(seen) = UnderFault::of(store, fault) else { continue };
        let Some(class) = class(seen.outcome) else {
            without.extend(Some(*store).filter(|store| store.reach() == Some(Reach::Network)));
            continue;
        };
        // One run that shows more than is promised may have been lucky.
        let promised = store.declared.as_ref().and_then(|declared| declared.under(fault));
        let class = class.max(promised.and_then(self::class).unwrap_or(0));
        let mut of = Ranked::of_class(store, class, seen.words(), seen.basis());
        of.value = seen.recovered_ms().unwrap_or(f64::INFINITY);
        ranked.push(of);
    }
    answer(question, ranked, named("cannot happen to", &without))
}

/// From the best outcome to the worst; `None` of a fault that cannot happen.
fn class(outcome: Outcome) -> Option<usize> {
    match outcome {
        Outcome::Holds => Some(0),
        Outcome::Unavailable => Some(1),
        Outcome::FencedOnly => Some(2),
        Outcome::MayBreak => Some(3),
        Outcome::NotApplicable => None,
    }
}

/// What was measured comes before what is declared.
fn crashed_holder(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = declaring(stores, |store, declared| {
        let seen = store.cell(Fault::HolderKilled).and_then(|cell| cell.figures.recovered_ms);
        let (class, bound) = match declared.crash_bound {
            CrashBound::Connection => (1, "as soon as its connection ends"),
            CrashBound::Session => (2, "when its session ends"),
            _ => (2, "when its lease ends"),
        };
        match seen {
            Some(ms) => {
                let figure = format!("{bound}: after {}", time(ms * 1e3));
                Ranked::of_class(store, 0, figure, Basis::Measured).by(ms)
            }
            None => Ranked::of_class(store, class, bound.to_owned(), Basis::Declared),
        }
    });
    answer("a crashed holder frees it when?", ranked, None)
}

fn told_of_a_loss(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = declaring(stores, |store, declared| {
        let seen = store.cell(Fault::RecordDeleted).and_then(|cell| cell.figures.detected_ms);
        let (class, by) = match declared.loss_signal {
            LossSignal::Push => (1, "the store tells it at once"),
            _ => (2, "with its next renewal"),
        };
        match seen {
            Some(ms) => {
                let figure = format!("{by}: {} after its record was deleted", time(ms * 1e3));
                Ranked::of_class(store, 0, figure, Basis::Measured).by(ms)
            }
            None => Ranked::of_class(store, class, by.to_owned(), Basis::Declared),
        }
    });
    answer("told of a loss how soon?", ranked, None)
}

fn in_order(stores: &[&StoreReport]) -> Option<Answer> {
    let is_fifo = |store: &&StoreReport| {
        store.declared.as_ref().is_some_and(|declared| declared.fairness == Fairness::Fifo)
    };
    let (in_order, others): (Vec<&StoreReport>, Vec<&StoreReport>) =
        stores.iter().copied().partition(is_fifo);
    let ranked = declaring(&in_order, |store, _| {
        // The suite holds the declared order against what it sees.
        let basis = if store.counts().passed > 0 { Basis::Measured } else { Basis::Declared };
        Ranked::of_class(store, 0, "first come, first served".to_owned(), basis)
    });
    answer("served in order?", ranked, named("in no order", &others))
}

fn hand_over(stores: &[&StoreReport]) -> Option<Answer> {
    let has = |waiters: &usize| stores.iter().any(|store| store.speed.hand_over_at(*waiters).is_some());
    let waiters = [8, 64, 1].into_iter().find(has)?;
    let ranked = stores.iter().filter_map(|store| {
        let row = store.speed.hand_over_at(waiters)?;
        let figure =
            format!("median {}, p99 {}, with {waiters} waiting", time(row.gap.p50_us), time(row.gap.p99_us));
        Some(Ranked::of_class(store, 0, figure, Basis::Measured).by_rate(row.per_second))
    });
    answer("fastest hand-over?", ranked.collect(), None)
}

fn alone(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let row = store.speed.pairs_at(1)?;
        let figure = format!("acquire {}, release {}", time(row.acquire.p50_us), time(row.release.p50_us));
        Some(Ranked::of_class(store, 0, figure, Basis::Measured).by_rate(row.per_second))
    });
    answer("fastest alone?", ranked.collect(), None)
}

/// By what the client spends on renewing them.
fn held(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let row = store.speed.held.iter().max_by_key(|row| row.count)?;
        let figure =
            format!("{} held with {:.1} % of a core", count(row.count as f64), row.client_cpu * 100.0);
        Some(Ranked::of_class(store, row.lost, figure, Basis::Measured).by(row.client_cpu))
    });
    answer("cheapest for many holds?", ranked.collect(), None)
}

fn readers(stores: &[&StoreReport]) -> Option<Answer> {
    let (served, refused): (Vec<&StoreReport>, Vec<&StoreReport>) =
        stores.iter().copied().partition(|store| store.serves_readers());
    let ranked = served.iter().filter_map(|store| {
        let reads = store.speed.kind("reads")?;
        let wait = store.speed.kind("mixed").map(|mixed| {
            let (median, p99) = (time(mixed.latency.p50_us), time(mixed.latency.p99_us));
            format!(", a writer beside them waits {median}, p99 {p99}")
        });
        let figure = format!("{} reads a second{}", count(reads.per_second.median), wait.unwrap_or_default());
        Some(Ranked::of_class(store, 0, figure, Basis::Measured).by_rate(reads.per_second))
    });
    answer("fastest for readers?", ranked.collect(), named("refuse readers", &refused))
}

fn permits(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let row = store.speed.kind("permits")?;
        let fairness = row.fairness.map(|fairness| format!(", fairness {:.2}", fairness.median));
        let figure =
            format!("{} grants a second{}", count(row.per_second.median), fairness.unwrap_or_default());
        Some(Ranked::of_class(store, 0, figure, Basis::Measured).by_rate(row.per_second))
    });
    answer("fastest for permits?", ranked.collect(), None)
}

/// By what the server does for it; where that is not told, by the client's time.
fn idle_waiter(stores: &[&StoreReport]) -> Option<Answer> {
    let ranked = stores.iter().filter_map(|store| {
        let costs = store.speed.waiting.first()?.costs;
        let cpu = costs.client_cpu_us.map_or_else(|| "?".to_owned(), time);
        let (class, value, figure) = match costs.server_commands {
            Some(commands) => {
                (0, commands, format!("{} commands and {cpu} of the client a second", count(commands)))
            }
            None => (1, costs.client_cpu_us?, format!("{cpu} of the client a second")),
        };
        Some(Ranked::of_class(store, class, figure, Basis::Measured).by(value))
    });
    answer("what does an idle waiter cost?", ranked.collect(), None)
}

fn named(words: &str, stores: &[&StoreReport]) -> Option<String> {
    let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{words}: {}", names.join(", ")))
}

fn declaring<'a>(
    stores: &[&'a StoreReport],
    rank: impl Fn(&'a StoreReport, &Declared) -> Ranked<'a>,
) -> Vec<Ranked<'a>> {
    stores.iter().filter_map(|store| Some(rank(store, store.declared.as_ref()?))).collect()
}
