//! The table of stores in the README: what the code declares.

use crate::stores::kinds;
use crate::{agrees, words};
use leasehold::semantics::{CrashBound, Fairness, Fault, Outcome, Reach, Semantics, TokenClass, WakeUp};

const BEGIN: &str = "<!-- stores: begin. Rendered from the code by tests/tables -->\n";
const END: &str = "<!-- stores: end -->";

#[tokio::test]
async fn table_of_stores_agrees_with_semantics() {
    let mut table = "| | excludes | a waiter learns of a free lock | waiters are served | a crashed holder's lock is free | \
                     tokens keep growing |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for (name, semantics) in kinds().await {
        table += &row(name, &semantics);
    }
    agrees("README.md", BEGIN, END, &table);
}

fn row(name: &str, semantics: &Semantics) -> String {
    let reach = match semantics.reach {
        Reach::Process => "tasks of one process",
        Reach::Host => "processes of one host",
        _ => "processes on any host",
    };
    let wake_up = match semantics.wake_up {
        WakeUp::Push { fallback } => format!("by a message, or within {fallback:?}"),
        WakeUp::Look { at_most, fallback } => format!("within {at_most:?}, or {fallback:?} if a query fails"),
        polling => format!("within {:?}", polling.bound()),
    };
    let fairness = match semantics.fairness {
        Fairness::Fifo => "first come, first served",
        _ => "in no order",
    };
    let crash_bound = match semantics.crash_bound {
        CrashBound::Ttl => "after its lease".to_owned(),
        other => format!("after its {}", words(other)),
    };
    let token = match semantics.token {
        TokenClass::Process => "while the process lives",
        TokenClass::Stored => "as long as the data survive",
        _ => "even if all data are lost",
    };
    format!("| {name} | {reach} | {wake_up} | {fairness} | {crash_bound} | {token} |\n")
}

/// What the section "Which store" says beyond the table.
#[tokio::test]
async fn only_zookeeper_keeps_one_owner_through_fail_over_and_split_brain() {
    for (name, semantics) in kinds().await.iter().filter(|(_, semantics)| semantics.reach == Reach::Network) {
        let keeps = [Fault::FailOver, Fault::SplitBrain]
            .map(|fault| semantics.promises.under(fault) == Outcome::Holds);
        assert_eq!(keeps, [*name == "ZooKeeper"; 2], "{name}");
    }
}
