//! The cases, by family: the first letter of an id is that of its file or folder. Names are properties; ids are for good.
//!
//! The files without a letter help several families.

mod a_basics;
mod b_waiting;
mod c_ownership;
mod d_lease;
mod declared;
mod e_loss;
mod f_fencing;
mod g_cancellation;
mod h_hand_over;
mod hash_collisions;
mod i_crash;
mod independent_nodes;
mod j_faults;
mod k_names;
mod p_databases;
pub(crate) mod prelude;
mod q_queue;
mod r_secrets;
mod random_steps;
mod recorded_run;
mod s_histories;
mod t_shared_locks;
mod table;
mod tasks;
mod u_semaphore;
mod v_several_names;
mod w_scopes;
mod x_elections;
mod y_blocking;

use crate::case::Case;
use crate::context::Context;
use crate::stop::{Stop, Verdict};
use table::{CaseFn, CaseTable};

/// The families in their order, each with the tables of its files.
const FAMILIES: &[&[CaseTable]] = &[
    &[a_basics::CASES],
    &[b_waiting::CASES],
    c_ownership::TABLES,
    d_lease::TABLES,
    &[e_loss::CASES],
    &[f_fencing::CASES],
    &[g_cancellation::CASES],
    h_hand_over::TABLES,
    &[i_crash::CASES],
    j_faults::TABLES,
    &[k_names::CASES],
    &[p_databases::CASES],
    &[q_queue::CASES],
    &[r_secrets::CASES],
    &[s_histories::CASES],
    t_shared_locks::TABLES,
    &[u_semaphore::CASES],
    &[v_several_names::CASES],
    &[w_scopes::CASES],
    &[x_elections::CASES],
    &[y_blocking::CASES],
];

/// Every case, in the order of the ids.
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
    let mut table = FAMILIES.concat().concat();
    let cases = table.clone();
    for (case, _) in &mut table {
        if let Some((of, _)) = cases.iter().find(|(of, _)| case.in_a_mode == Some(of.id)) {
            (case.share, case.harm) = (of.share, of.harm);
        }
    }
    table.sort_by_key(|(case, _)| case.id);
    table.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashSet};

    #[test]
    fn family_has_one_letter_and_stands_in_the_order_of_letters() {
        let letters: Vec<BTreeSet<&str>> = FAMILIES
            .iter()
            .map(|tables| tables.concat().iter().map(|(case, _)| &case.id[..1]).collect())
            .collect();
        assert!(letters.iter().all(|letters| letters.len() == 1), "{letters:?}");
        assert!(letters.is_sorted_by(|one, next| one < next), "{letters:?}");
    }

    #[test]
    fn case_in_a_mode_needs_as_much_of_the_host_as_the_case_of_owners() {
        for case in all() {
            let Some(of) = case.in_a_mode else { continue };
            let of = by_id(of).unwrap_or_else(|| panic!("{} is of no case: {of}", case.id));
            assert_eq!((case.share, case.harm), (of.share, of.harm), "{}", case.id);
        }
    }

    #[test]
    fn ids_and_properties_are_unique() {
        let (mut ids, mut properties) = (HashSet::new(), HashSet::new());
        for case in all() {
            assert!(ids.insert(case.id), "{} twice", case.id);
            assert!(properties.insert(case.property), "{} twice", case.property);
        }
    }
}
