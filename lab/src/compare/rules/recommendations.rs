//! Which store for whom: every recommendation is a rule over the data, and a store that cannot be told from the best stands
//! beside it.

use super::card::known;
use crate::bench::Passes;
use crate::compare::model::{Declared, Report, StoreReport};
use crate::format::{count, fault, reach, time};
use leasehold::semantics::{Fairness, Fault, Outcome, Reach};
use serde::Serialize;

/// One reason to choose a store.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Recommendation {
    /// What somebody wants.
    pub(crate) want: &'static str,
    pub(crate) stores: Vec<String>,
    pub(crate) why: String,
}

/// The recommendations that these data allow. A store that was seen broken is recommended for nothing.
pub(crate) fn recommendations(report: &Report) -> Vec<Recommendation> {
    let candidates: Vec<&StoreReport> = report.measured().filter(|store| !store.is_broken()).collect();
    let shared = between_processes(&candidates);
    let rules = [
        no_server(&candidates),
        most_faults(&shared),
        fail_over(&shared),
        fastest_hand_over(&shared),
        cheapest_pair(&shared),
        most_pairs(&shared),
        in_order(&shared),
    ];
    rules.into_iter().flatten().collect()
}

/// A lock that excludes nobody outside one process is compared with others only if there are no others.
fn between_processes<'a>(stores: &[&'a StoreReport]) -> Vec<&'a StoreReport> {
    let shared: Vec<&StoreReport> =
        stores.iter().copied().filter(|store| store_reach(store) != Some(Reach::Process)).collect();
    if shared.is_empty() { stores.to_vec() } else { shared }
}

fn no_server(stores: &[&StoreReport]) -> Option<Recommendation> {
    let local: Vec<(&StoreReport, Reach)> = stores
        .iter()
        .filter_map(|store| Some((*store, store_reach(store).filter(|reach| *reach != Reach::Network)?)))
        .collect();
    let widest =
        if local.iter().any(|(_, reach)| *reach == Reach::Host) { Reach::Host } else { Reach::Process };
    let chosen: Vec<&StoreReport> =
        local.into_iter().filter(|(_, reach)| *reach == widest).map(|(store, _)| store).collect();
    recommend("no server to run", &chosen, || format!("excludes {}", reach(widest)))
}

/// The largest part of the faults that can happen to it leaves one owner.
fn most_faults(stores: &[&StoreReport]) -> Option<Recommendation> {
    let network: Vec<&StoreReport> =
        stores.iter().copied().filter(|store| store_reach(store) == Some(Reach::Network)).collect();
    let share = |store: &StoreReport| {
        let all = known(store).count();
        let one = known(store).filter(|(_, outcome)| leaves_one_owner(*outcome)).count();
        (one, all)
    };
    let part = |store: &StoreReport| {
        let (one, all) = share(store);
        if all == 0 { 0.0 } else { one as f64 / all as f64 }
    };
    let best = network.iter().map(|store| part(store)).max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
    let chosen: Vec<&StoreReport> =
        network.into_iter().filter(|store| (part(store) - best).abs() < 1e-9).collect();
    let (one, all) = share(chosen.first()?);
    let seen = if chosen.iter().all(|store| was_tried(store)) { "seen" } else { "promised" };
    recommend("one owner on many hosts under most faults", &chosen, || {
        format!("one owner under {one} of {all} faults ({seen})")
    })
}

fn fail_over(stores: &[&StoreReport]) -> Option<Recommendation> {
    let holds = |store: &&&StoreReport| known(store).any(|pair| pair == (Fault::FailOver, Outcome::Holds));
    let chosen: Vec<&StoreReport> = stores.iter().filter(holds).copied().collect();
    let seen = if chosen.iter().all(|store| was_tried(store)) { "seen" } else { "promised" };
    recommend("a server that may die, and still one owner", &chosen, || {
        format!("holds under {} ({seen})", fault(Fault::FailOver))
    })
}

fn fastest_hand_over(stores: &[&StoreReport]) -> Option<Recommendation> {
    let waiters = *[8, 64, 1]
        .iter()
        .find(|waiters| stores.iter().any(|store| store.speed.hand_over_at(**waiters).is_some()))?;
    let turns = |store: &StoreReport| store.speed.hand_over_at(waiters).map(|row| row.per_second);
    let chosen = best(stores, turns);
    let gap = &chosen.first()?.speed.hand_over_at(waiters)?.gap;
    recommend("the fastest hand-over", &chosen, || {
        format!("with {waiters} waiting: median {}, p99 {}", time(gap.p50_us), time(gap.p99_us))
    })
}

fn cheapest_pair(stores: &[&StoreReport]) -> Option<Recommendation> {
    let pairs = |store: &StoreReport| store.speed.pairs_at(1).map(|row| row.per_second);
    let chosen = best(stores, pairs);
    let row = chosen.first()?.speed.pairs_at(1)?;
    recommend("the quickest lock that nobody else wants", &chosen, || {
        format!("acquire {}, release {} (medians)", time(row.acquire.p50_us), time(row.release.p50_us))
    })
}

fn most_pairs(stores: &[&StoreReport]) -> Option<Recommendation> {
    let tasks = stores.iter().flat_map(|store| &store.speed.pairs).map(|row| row.tasks).max()?;
    let pairs = |store: &StoreReport| store.speed.pairs_at(tasks).map(|row| row.per_second);
    let chosen = best(stores, pairs);
    let rate = pairs(chosen.first()?)?;
    recommend("the most locks a second", &chosen, || {
        format!("{} pairs a second, {tasks} at once", count(rate.median))
    })
}

fn in_order(stores: &[&StoreReport]) -> Option<Recommendation> {
    let fifo = |store: &&&StoreReport| declared(store).is_some_and(|it| it.fairness == Fairness::Fifo);
    let chosen: Vec<&StoreReport> = stores.iter().filter(fifo).copied().collect();
    recommend("waiters served in their order", &chosen, || "first come, first served (declared)".to_owned())
}

/// The best of all, first, and behind it those whose band touches the best one's: they cannot be told apart.
fn best<'a>(
    stores: &[&'a StoreReport],
    rate: impl Fn(&StoreReport) -> Option<Passes>,
) -> Vec<&'a StoreReport> {
    let mut rated: Vec<(&StoreReport, Passes)> =
        stores.iter().filter_map(|store| Some((*store, rate(store)?))).collect();
    rated.sort_by(|(_, one), (_, other)| other.median.total_cmp(&one.median));
    let Some((_, top)) = rated.first().copied() else { return Vec::new() };
    rated.into_iter().filter(|(_, rate)| rate.overlaps(top)).map(|(store, _)| store).collect()
}

fn recommend(
    want: &'static str,
    stores: &[&StoreReport],
    why: impl FnOnce() -> String,
) -> Option<Recommendation> {
    let names: Vec<String> = stores.iter().map(|store| store.name.clone()).collect();
    (!names.is_empty()).then(|| Recommendation { want, stores: names, why: why() })
}

fn leaves_one_owner(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Holds | Outcome::Unavailable)
}

fn was_tried(store: &StoreReport) -> bool {
    store.cells.iter().any(|cell| cell.measured.is_some())
}

fn declared(store: &StoreReport) -> Option<&Declared> {
    store.declared.as_ref()
}

fn store_reach(store: &StoreReport) -> Option<Reach> {
    declared(store).map(|declared| declared.reach)
}
