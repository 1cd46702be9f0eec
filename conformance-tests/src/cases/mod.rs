//! The cases, by family. Names are properties; ids are for good.

mod a_basics;
mod b_waiting;
mod c_ownership;
mod d_lease;
mod e_loss;
mod f_fencing;
mod g_cancellation;
mod h_hand_over;
mod hash_collisions;
mod i_crash;
mod j_faults;
mod k_names;
mod late;
mod p_databases;
mod q_queue;
mod r_secrets;
mod s_histories;
mod t_shared_locks;
mod u_semaphore;
mod v_several_names;
mod w_scopes;
mod x_elections;
mod y_blocking;

use crate::case::Case;

/// Every case, in the order of the families: A basics, B waiting, C ownership, D lease and renewal, E loss, F fencing,
/// G cancellation, H hand-over, I crash, J faults of the machine and of single servers, K names, P databases,
/// Q queues, R secrets, S histories, T shared locks, U permits, V several names, W scopes, X elections, Y the blocking API.
///
/// An id is for good: the numbers between them that have no case are not used again.
pub fn all() -> impl Iterator<Item = Case> {
    let families: [&[&[Case]]; 23] = [
        &[a_basics::CASES],
        &[b_waiting::CASES],
        c_ownership::TABLES,
        d_lease::TABLES,
        &[e_loss::CASES],
        &[f_fencing::CASES],
        &[g_cancellation::CASES],
        h_hand_over::TABLES,
        &[hash_collisions::CASES],
        &[i_crash::CASES],
        j_faults::TABLES,
        &[k_names::CASES],
        &[late::CASES],
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
    // A file is of one kind of store, and may have cases of several families.
    let mut all: Vec<Case> = families.into_iter().flatten().copied().flatten().copied().collect();
    all.sort_by_key(|case| case.id);
    all.into_iter()
}

/// The case with this id.
pub fn by_id(id: &str) -> Option<Case> {
    all().find(|case| case.id == id)
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
