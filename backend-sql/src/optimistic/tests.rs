#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use super::*;
use crate::server::double::{Reply, at_once, server};
use crate::server::of_leases;
use leasehold_core::{ErrorKind, OwnerId};

/// Free, and 5 is its version.
fn free() -> Reply {
    let row = vec![
        Value::bytes("a"),
        Value::Bytes(None),
        Value::int(1),
        Value::int(-1),
        Value::int(0),
        Value::int(5),
        Value::text(""),
        Value::int(1_000),
    ];
    Reply::Rows(vec![row])
}

/// That nothing was changed by the second is what it looks like when the first was carried out.
#[tokio::test(start_paused = true)]
async fn what_was_sent_twice_and_found_nothing_may_have_been_granted() {
    let applied_and_unheard_of = |number, text: &str| match text {
        text if text.starts_with("SELECT") => free(),
        _ if number == 0 => Reply::Breaks,
        _ => Reply::Rows(Vec::new()),
    };
    let (server, said) = server("mode=optimistic", at_once, applied_and_unheard_of);
    let semantics = of_leases("postgres", "optimistic", true);
    let table = OptimisticTable::new(server, &Namespace::default(), semantics);
    let (name, owner) = (LockName::new("a").unwrap(), OwnerId::from_u128(1));
    let claim = Claim::new(name, owner, Duration::from_secs(9), "{}".into());
    let error = table.grant(&claim).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error:?}");
    assert_eq!(said.times("UPDATE"), 2);
}
