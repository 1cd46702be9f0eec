//! The cases, by family. Names are properties; ids are for good.

mod basics;
mod blocking;
mod cancellation;
mod crash;
mod databases;
mod elections;
mod faults;
mod fencing;
mod handover;
mod histories;
mod identity;
mod late;
mod lease;
mod limits;
mod loss;
mod members;
mod names;
mod network;
mod nodes;
mod order;
mod ownership;
mod permits;
pub(crate) mod prelude;
mod programs;
mod queue;
mod replicas;
mod scopes;
mod secrets;
mod sets;
mod shared_records;
mod sharing;
mod similar_names;
mod table;
mod values;
mod waiting;

use crate::case::Case;
use crate::context::Context;
use crate::stop::{Stop, Verdict};
use table::{CaseFn, CaseTable};

/// Every case, in the order of the families: A basics, B waiting, C ownership, D lease and renewal, E loss, F fencing,
/// G cancellation, H hand-over, I crash, J faults of the machine and of single servers, K names, P databases,
/// Q queues, R secrets, S histories, T shared locks, U permits, V several names, W scopes, X elections, Y the blocking API.
///
/// An id is for good: the numbers between them that have no case are not used again.
pub fn all() -> impl Iterator<Item = Case> {
    table().map(|(case, _)| case)
}

/// The case with this id.
pub fn by_id(id: &str) -> Option<Case> {
    all().find(|case| case.id == id)
}

/// Runs the function of a case.
pub(crate) async fn run(case: Case, context: &Context) -> Verdict {
    let function = table().find_map(|(other, function)| (other.id == case.id).then_some(function));
    match function {
        Some(function) => function(context).await,
        None => Err(Stop::Failed(format!("there is no case {}", case.id))),
    }
}

fn table() -> impl Iterator<Item = (Case, CaseFn)> {
    let families: [CaseTable; 33] = [
        basics::CASES,
        waiting::CASES,
        ownership::CASES,
        identity::CASES,
        lease::CASES,
        values::CASES,
        limits::CASES,
        loss::CASES,
        fencing::CASES,
        cancellation::CASES,
        late::CASES,
        handover::CASES,
        order::CASES,
        crash::CASES,
        replicas::CASES,
        faults::CASES,
        members::CASES,
        network::CASES,
        nodes::CASES,
        programs::CASES,
        names::CASES,
        similar_names::CASES,
        databases::CASES,
        queue::CASES,
        secrets::CASES,
        sharing::CASES,
        shared_records::CASES,
        histories::CASES,
        permits::CASES,
        elections::CASES,
        sets::CASES,
        scopes::CASES,
        blocking::CASES,
    ];
    // A file is of one kind of store, and may have cases of several families.
    let mut all: Vec<(Case, CaseFn)> = families.into_iter().flatten().copied().collect();
    all.sort_by_key(|(case, _)| case.id);
    all.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_and_properties_are_unique() {
        let (mut ids, mut properties) = (HashSet::new(), HashSet::new());
        for case in all() {
            assert!(ids.insert(case.id), "{} twice", case.id);
            assert!(properties.insert(case.property), "{} twice", case.property);
        }
    }
}
