#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

mod changes;

use super::*;
use crate::server::double::{Reply, at_once, server};
use leasehold_core::LossCause;
use std::sync::atomic::AtomicUsize;

const TTL: Duration = Duration::from_secs(9);

/// One more than go into the statement for eight.
const CLAIMS: u128 = 9;

fn claims() -> Vec<Claim> {
    let claim = |number: u128| {
        let name = LockName::new(format!("n{number}")).unwrap();
        Claim::new(name, OwnerId::from_u128(number), TTL, "{}".into())
    };
    (0..CLAIMS).map(claim).collect()
}

/// The rows of all claims but the last, which end so much later.
fn rows(ends_in: Duration) -> Reply {
    let row = |number: u128| {
        vec![
            Value::bytes(format!("n{number}").into_bytes()),
            Value::bytes(OwnerId::from_u128(number).to_bytes()),
            Value::int(1),
            micros(ends_in),
            Value::int(0),
            Value::text("{}"),
            Value::int(1),
            Value::text(""),
            Value::int(0),
        ]
    };
    Reply::Rows((0..CLAIMS - 1).map(row).collect())
}

/// All but one are renewed together; then these rows are read, where writes go.
async fn renewed(replies: fn(usize, &str) -> Reply) -> (Vec<Result<Renewal>>, usize) {
    let (server, said) = server("timeout=500ms", at_once, replies);
    let table = ServerTable::new(server, &Namespace::default());
    let answers = table.renew(&claims()).await;
    assert_eq!((said.times("SELECT"), said.times("FOR UPDATE")), (1, 1));
    (answers, said.times("UPDATE \"leasehold\"") + said.times("SELECT"))
}

fn all_but_one() -> Vec<Renewal> {
    [[Renewal::Renewed; 8].as_slice(), &[Renewal::Lost(LossCause::Gone)]].concat()
}

fn changed(rows: usize) -> Reply {
    Reply::Rows(vec![Vec::new(); rows])
}

fn is_of_many(text: &str) -> bool {
    text.contains("$4")
}

#[tokio::test(start_paused = true)]
async fn claim_whose_row_shows_a_whole_lease_is_not_renewed_again() {
    let (answers, said) = renewed(|_, text| match text {
        text if text.starts_with("SELECT") => rows(TTL),
        text if is_of_many(text) => changed(8),
        _ => changed(0),
    })
    .await;
    assert_eq!(all_but_one(), answers.into_iter().map(|answer| answer.unwrap()).collect::<Vec<_>>());
    assert_eq!(said, 2);
}

/// The clock of the server was set, or another server has answered: only a renewal shows that the lease goes on.
#[tokio::test(start_paused = true)]
async fn claim_whose_row_shows_a_part_of_a_lease_is_renewed_by_itself() {
    let (answers, said) = renewed(|_, text| match text {
        text if text.starts_with("SELECT") => rows(TTL / 2),
        text if is_of_many(text) => changed(8),
        _ => changed(1),
    })
    .await;
    assert_eq!(all_but_one(), answers.into_iter().map(|answer| answer.unwrap()).collect::<Vec<_>>());
    assert_eq!(said, 2 + 8);
}

#[tokio::test(start_paused = true)]
async fn silent_server_is_not_asked_for_each_claim() {
    let (answers, said) = renewed(|_, text| match text {
        text if is_of_many(text) && text.starts_with("UPDATE") => changed(8),
        _ => Reply::Never,
    })
    .await;
    let is_unknown =
        |answer: &Result<Renewal>| matches!(answer, Err(error) if error.kind() == ErrorKind::Indeterminate);
    assert!(answers.iter().all(is_unknown), "{answers:?}");
    assert_eq!(said, 2 + 4);
}

/// Another transaction has the row of the lost claim locked: of its read, the client may hear the server's error, or nothing in time.
#[tokio::test(start_paused = true)]
async fn locked_row_of_a_lost_claim_costs_no_other_claim() {
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    static UNANSWERED: AtomicUsize = AtomicUsize::new(0);
    fn all_but_the_last(renewals: &AtomicUsize) -> Reply {
        changed(usize::from(renewals.fetch_add(1, Ordering::Relaxed) < 8))
    }
    let replies: [fn(usize, &str) -> Reply; 2] = [
        |_, text| match text {
            text if text.starts_with("SELECT") => Reply::Refused("55P03"),
            text if is_of_many(text) => changed(8),
            _ => all_but_the_last(&ANSWERED),
        },
        |_, text| match text {
            text if text.starts_with("SELECT") => Reply::Never,
            text if is_of_many(text) => changed(8),
            _ => all_but_the_last(&UNANSWERED),
        },
    ];
    for replies in replies {
        let (server, said) = server("timeout=2s", at_once, replies);
        let table = ServerTable::new(server, &Namespace::default());
        let start = tokio::time::Instant::now();
        let answers = table.renew(&claims()).await;
        assert_eq!(all_but_one(), answers.into_iter().map(|answer| answer.unwrap()).collect::<Vec<_>>());
        assert_eq!((said.times("UPDATE \"leasehold\""), said.times("FOR UPDATE")), (1 + 9, 2));
        assert!(start.elapsed() < Duration::from_millis(2_400), "{:?}", start.elapsed());
    }
}

/// Sent over a connection that breaks, and refused over the next one.
async fn refused_twice(replies: fn(usize, &str) -> Reply) -> ErrorKind {
    let (server, said) = server("timeout=500ms", at_once, replies);
    server.connection(PoolClass::Attempt).await.unwrap().give_back();
    let table = ServerTable::new(server, &Namespace::default());
    let error = table.grant(&claims()[0]).await.err().unwrap();
    assert_eq!(said.times("INSERT"), 2);
    error.kind()
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_grant_that_was_sent_twice_is_settled_by_its_row() {
    let not_granted = |number, text: &str| match text {
        text if text.starts_with("SELECT") => changed(0),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Refused("25006"),
    };
    assert_eq!(refused_twice(not_granted).await, ErrorKind::Unavailable, "the server takes no writes");
    let granted = |number, text: &str| match text {
        text if text.starts_with("SELECT") => rows(TTL),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Refused("25006"),
    };
    assert_eq!(refused_twice(granted).await, ErrorKind::Indeterminate, "and did when it was asked first");
    let silent = |number, text: &str| match text {
        text if text.starts_with("SELECT") => Reply::Never,
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Refused("25006"),
    };
    assert_eq!(refused_twice(silent).await, ErrorKind::Indeterminate);
}
