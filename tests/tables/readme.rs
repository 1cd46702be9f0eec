//! The table of stores in the README: what the code declares.

use crate::{agrees, words};
use leasehold::semantics::{CrashBound, Fairness, Fault, Outcome, Reach, Semantics, TokenClass, WakeUp};

const BEGIN: &str = "<!-- stores: begin. Rendered from the code by tests/tables -->\n";
const END: &str = "<!-- stores: end -->";

/// A row, and URLs of all that stands in it. Nothing is opened: connecting is lazy.
const ROWS: [(&str, &[&str]); 10] = [
    ("SQLite", &["sqlite:/tmp/locks.db"]),
    ("Redis, Valkey", &["redis://h", "valkey://h"]),
    ("… with Sentinels, or a cluster", &["redis+sentinel://h/mymaster", "redis+cluster://h"]),
    ("Redlock", &["redlock://a,b,c"]),
    ("ZooKeeper", &["zk://h"]),
    ("PostgreSQL", &["postgres://u@h/d", "postgres://u@h/d?mode=optimistic"]),
    ("… `mode=for-update`", &["postgres://u@h/d?mode=for-update"]),
    (
        "MySQL, MariaDB",
        &[
            "mysql://u@h/d",
            "mysql://u@h/d?mode=optimistic",
            "mariadb://u@h/d",
            "mariadb://u@h/d?mode=optimistic",
        ],
    ),
    ("… `mode=for-update`", &["mysql://u@h/d?mode=for-update", "mariadb://u@h/d?mode=for-update"]),
    ("memory", &["memory:"]),
];

#[tokio::test]
async fn the_table_of_stores_is_what_the_code_declares() {
    agrees("README.md", BEGIN, END, &table().await);
}

async fn table() -> String {
    let mut table = "| | excludes | a waiter learns of a free lock by | waiters are served | a crashed holder's lock is free | \
                     tokens keep growing | two may hold at once after |\n"
        .to_owned();
    table += "|---|---|---|---|---|---|---|\n";
    for (title, urls) in ROWS {
        let mut rows = Vec::new();
        for url in urls {
            rows.push(row(title, leasehold::connect(url).await.unwrap().semantics()));
        }
        rows.dedup();
        assert_eq!(rows.len(), 1, "one row says two things: {rows:?}");
        table += &rows[0];
    }
    table
}

fn row(title: &str, semantics: &Semantics) -> String {
    let reach = match semantics.reach {
        Reach::Process => "tasks of one process",
        Reach::Host => "processes of one host",
        _ => "processes on any host",
    };
    let wake_up = match semantics.wake_up {
        WakeUp::Push { fallback } => format!("a message, or polling every {fallback:?}"),
        WakeUp::Look { at_most, fallback } => {
            format!(
                "polling for all of a process, {at_most:?} apart at most, or by itself every {fallback:?}"
            )
        }
        polling => format!("polling, {:?} apart at most", polling.bound()),
    };
    let fairness = match semantics.fairness {
        Fairness::Fifo => "in their order",
        _ => "in no order",
    };
    let crash_bound = match semantics.crash_bound {
        CrashBound::Ttl => "after its lease".to_owned(),
        other => format!("after its {}", words(other)),
    };
    let token = match semantics.token {
        TokenClass::Process => "while the process lives",
        TokenClass::Stored => "as long as the data survives",
        _ => "even if all data is lost",
    };
    let two = two_may_hold(semantics);
    format!("| {title} | {reach} | {wake_up} | {fairness} | {crash_bound} | {token} | {two} |\n")
}

/// The faults under which the store may grant twice.
fn two_may_hold(semantics: &Semantics) -> String {
    let named = Fault::ALL.into_iter().filter_map(|fault| match semantics.promises.under(fault) {
        Outcome::FencedOnly => Some(words(fault)),
        Outcome::MayBreak => Some(format!("{} (tokens may repeat)", words(fault))),
        Outcome::Holds | Outcome::Unavailable | Outcome::NotApplicable => None,
    });
    named.collect::<Vec<_>>().join(", ")
}
