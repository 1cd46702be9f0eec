//! The table of stores in the README is what the code declares. `LEASEHOLD_WRITE_README=1` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]
#![cfg(feature = "full")]

use leasehold::semantics::{CrashBound, Fairness, Fault, Outcome, Reach, Semantics, TokenClass, WakeUp};
use std::fmt::Debug;

const BEGIN: &str = "<!-- stores: begin. Rendered from the code by tests/readme.rs -->\n";
const END: &str = "<!-- stores: end -->";

#[tokio::test]
async fn the_table_of_stores_is_what_the_code_declares() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let declared = table().await;
    if std::env::var_os("LEASEHOLD_WRITE_README").is_some() {
        std::fs::write(path, [before, BEGIN, &declared, END, after].concat()).unwrap();
        return;
    }
    assert_eq!(written, declared, "run this test with LEASEHOLD_WRITE_README=1");
}

async fn table() -> String {
    let mut stores = Vec::new();
    let urls = [
        ("SQLite", "sqlite:/tmp/locks.db"),
        ("Redis", "redis://h"),
        ("Redis Sentinel, Cluster", "redis+sentinel://h/mymaster"),
        ("Redlock", "redlock://a,b,c"),
        ("ZooKeeper", "zk://h"),
        ("PostgreSQL", "postgres://u@h/d"),
        ("MariaDB", "mariadb://u@h/d"),
        ("MariaDB, for update", "mariadb://u@h/d?mode=for-update"),
        ("memory", "memory:"),
    ];
    for (title, url) in urls {
        stores.push((title, leasehold::connect(url).await.unwrap().semantics().clone()));
    }
    let row = |head: &str, cell: &dyn Fn(&Semantics) -> String| {
        let cells: Vec<String> = stores.iter().map(|(_, semantics)| cell(semantics)).collect();
        format!("| {head} | {} |\n", cells.join(" | "))
    };
    let titles: Vec<&str> = stores.iter().map(|(title, _)| *title).collect();
    let mut table = format!("| | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    table += &row("excludes", &|s| match s.reach {
        Reach::Process => "tasks of one process".to_owned(),
        Reach::Host => "processes of one host".to_owned(),
        _ => "processes on any host".to_owned(),
    });
    table += &row("lets a waiter know by", &|s| match s.wake_up {
        WakeUp::Push { fallback } => format!("push, or asking within {fallback:?}"),
        polling => format!("asking within {:?}", polling.bound()),
    });
    table += &row("serves waiters", &|s| match s.fairness {
        Fairness::Fifo => "in their order".to_owned(),
        _ => "in no order".to_owned(),
    });
    table += &row("frees a crashed holder's lock", &|s| match s.crash_bound {
        CrashBound::Ttl => "after its lease".to_owned(),
        other => format!("after its {}", words(other)),
    });
    table += &row("keeps tokens growing", &|s| match s.token {
        TokenClass::Process => "while the process lives".to_owned(),
        TokenClass::Stored => "while the data lives".to_owned(),
        _ => "also over lost data".to_owned(),
    });
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::None) {
        if stores.iter().any(|(_, s)| s.promises.under(fault) != Outcome::NotApplicable) {
            table += &row(&format!("{}:", words(fault)), &|s| words(s.promises.under(fault)));
        }
    }
    table
}

/// `StorePaused` as `store paused`.
fn words(value: impl Debug) -> String {
    let mut words = String::new();
    for c in format!("{value:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words.replace("not applicable", "–")
}
