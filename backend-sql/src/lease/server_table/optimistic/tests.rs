#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::lease::LeaseTable as _;
use crate::server::double::{Reply, at_once, server};
use crate::server::lease_semantics;
use leasehold_core::{ErrorKind, LockName, Namespace, OwnerId};
use std::time::Duration;

/// The row: of this owner, for so many microseconds more; 5 is its version.
fn row(owner: Option<u128>, ends_in: i64) -> Vec<Value> {
    let owner = Value::Bytes(owner.map(|owner| owner.to_be_bytes().into()));
    let (token, acquired_at, version) = (Value::int(900), Value::int(0), Value::int(5));
    vec![Value::bytes("a"), owner, token, Value::int(ends_in), acquired_at, version, Value::text("")]
}

fn free() -> Reply {
    Reply::Rows(vec![[row(None, -1), vec![Value::int(1_000)]].concat()])
}

/// Sends `take.sql` twice: the first answer is lost, and the second finds that the row has changed.
async fn taken_twice(replies: fn(usize, &str) -> Reply) -> Result<Granting> {
    let (server, said) = server("mode=optimistic", at_once, replies);
    let semantics = lease_semantics("postgres", "optimistic", true);
    let table = ServerTable::new(server, &Namespace::default(), semantics);
    let (name, owner) = (LockName::new("a").unwrap(), OwnerId::from_u128(1));
    let claim = Claim::new(name, owner, Duration::from_secs(9), "{}".into());
    let granting = table.grant(&claim).await;
    assert_eq!(said.times("UPDATE \"leasehold\""), 2);
    granting
}

/// The token is that of the row, which an earlier attempt of the claim may have written.
#[tokio::test(start_paused = true)]
async fn row_taken_by_the_lost_statement_belongs_to_the_claim() {
    let by_ourselves = |number, text: &str| match text {
        text if number == 0 && text.starts_with("SELECT") => free(),
        text if text.starts_with("SELECT") => Reply::Rows(vec![row(Some(1), 9_000_000)]),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    let Granting::Refused(Some(row)) = taken_twice(by_ourselves).await.unwrap() else {
        panic!("the token that was asked for is not the row's")
    };
    assert_eq!((row.owner, row.token.get()), (OwnerId::from_u128(1), 900));
}

#[tokio::test(start_paused = true)]
async fn row_taken_by_another_owner_is_refused() {
    let by_another = |number, text: &str| match text {
        text if number == 0 && text.starts_with("SELECT") => free(),
        text if text.starts_with("SELECT") => Reply::Rows(vec![row(Some(2), 9_000_000)]),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    assert!(matches!(taken_twice(by_another).await.unwrap(), Granting::Refused(None)));
}

#[tokio::test(start_paused = true)]
async fn row_that_cannot_be_read_after_a_lost_answer_is_indeterminate() {
    let silent = |number, text: &str| match text {
        text if number == 0 && text.starts_with("SELECT") => free(),
        text if text.starts_with("SELECT") => Reply::Never,
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    let error = taken_twice(silent).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
}
