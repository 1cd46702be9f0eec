//! One answer to one question: the best store, those that cannot be told from it, and those that stand apart.

use super::Basis;
use crate::bench::Passes;
use crate::compare::model::StoreReport;
use leasehold::semantics::Reach;
use serde::Serialize;

/// What somebody asks before choosing a store, and what the data say.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Answer {
    pub(crate) question: &'static str,
    /// `None` if no store has the asked property.
    pub(crate) store: Option<String>,
    /// The figure of that store, with the sign of its basis.
    pub(crate) figure: String,
    /// Stores that cannot be told from the best one.
    pub(crate) as_good: Vec<String>,
    /// Stores that are not compared with the others, each with the reason and its own figure.
    pub(crate) apart: Vec<String>,
}

/// A store in the order of one question.
pub(super) struct Ranked<'a> {
    pub(super) store: &'a StoreReport,
    /// Stores of a higher class are worse, whatever their figures are.
    pub(super) class: usize,
    /// What is compared within a class: the smaller, the better; of a rate, the time that one takes. Stores whose bands touch cannot be told apart.
    pub(super) value: f64,
    pub(super) band: (f64, f64),
    pub(super) figure: String,
    pub(super) basis: Basis,
}

impl<'a> Ranked<'a> {
    pub(super) fn of_class(store: &'a StoreReport, class: usize, figure: String, basis: Basis) -> Self {
        Self { store, class, value: 0.0, band: (0.0, 0.0), figure, basis }
    }

    /// By one figure, of which there is no band: others that are a quarter worse are as good.
    pub(super) fn by(mut self, value: f64) -> Self {
        (self.value, self.band) = (value, (value / 1.25, value));
        self
    }

    /// By a rate, of which there is one for each pass.
    pub(super) fn by_rate(mut self, rate: Passes) -> Self {
        (self.value, self.band) = (rate.median.recip(), (rate.max.recip(), rate.min.recip()));
        self
    }

    fn is_as_good_as(&self, best: &Self) -> bool {
        self.class == best.class && self.band.0 <= best.band.1
    }

    fn is_of_one_host(&self) -> bool {
        self.store.reach().is_some_and(|reach| reach != Reach::Network)
    }

    fn signed(&self) -> String {
        format!("{}{}", self.figure, self.basis.sign())
    }
}

/// Stores of one host are ranked only if no store serves many hosts; otherwise the best of them is named apart.
pub(super) fn answer(
    question: &'static str,
    ranked: Vec<Ranked<'_>>,
    without: Option<String>,
) -> Option<Answer> {
    let (hosts, network): (Vec<_>, Vec<_>) = ranked.into_iter().partition(Ranked::is_of_one_host);
    let (hosts, network) = (best_first(hosts), best_first(network));
    let (ranked, of_one_host) =
        if network.is_empty() { (hosts, None) } else { (network, hosts.into_iter().next()) };
    let of_one_host = of_one_host.map(|of| format!("one host only: {}, {}", of.store.name, of.signed()));
    let apart: Vec<String> = of_one_host.into_iter().chain(without).collect();
    let Some((best, others)) = ranked.split_first() else {
        let figure = "no store here".to_owned();
        return (!apart.is_empty()).then(|| Answer {
            question,
            store: None,
            figure,
            as_good: Vec::new(),
            apart,
        });
    };
    let as_good = others.iter().filter(|other| other.is_as_good_as(best));
    Some(Answer {
        question,
        store: Some(best.store.name.clone()),
        figure: best.signed(),
        as_good: as_good.map(|other| other.store.name.clone()).collect(),
        apart,
    })
}

/// The best one first; stores of one process are always last.
fn best_first(mut ranked: Vec<Ranked<'_>>) -> Vec<Ranked<'_>> {
    let of_one_process = |of: &Ranked<'_>| of.store.reach() == Some(Reach::Process);
    ranked.sort_by(|one, other| {
        let classes = (of_one_process(one), one.class).cmp(&(of_one_process(other), other.class));
        classes.then(one.value.total_cmp(&other.value))
    });
    ranked
}
