//! What the store and its administrator see of readers and writers, and the tokens of both.

use super::modes::{hold, sharing};
use crate::cases::c_ownership::administration::forced_release;
use crate::cases::j_faults::replicas::{OUTLASTS, long, replicas};
use crate::cases::prelude::*;
use leasehold_core::{Fault, LockMode, Outcome, Sharing};

pub(super) const CASES: CaseTable = cases![
    T13 record_deleted_under_readers_is_told_to_all,
    T14 readers_leave_nothing_behind if sharing,
    T91 forced_release_of_readers_answers_those_that_it_ended
        if sharing = forced_release(LockMode::Shared, 4),
    T19 store_without_readers_refuses_them_before_any_trace,
    T22 fail_over_keeps_readers_that_the_replica_knew_and_repeats_no_token(Quarter)
        if outlives_its_connection,
];

async fn record_deleted_under_readers_is_told_to_all(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (one, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let first = hold(cx, &one, &name, LockMode::Shared).await?;
    let second = hold(cx, &other, &name, LockMode::Shared).await?;
    let before = first.token()?.max(second.token()?);
    cx.store().delete(&name).await?;
    for reader in [&first, &second] {
        loss_within(reader, cx.ttl() / 3 + cx.slack()).await?;
    }
    let next = hold(cx, &one, &name, LockMode::Write).await?;
    if semantics.promises.under(Fault::RecordDeleted) == Outcome::FencedOnly {
        ensure!(next.token()? > before, "token {} after the deleted {before}", next.token()?);
    }
    Ok(next.release().await?)
}

async fn readers_leave_nothing_behind(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    hold(cx, &client, &name, LockMode::Shared).await?.release().await?;
    hold(cx, &client, &name, LockMode::Write).await?.release().await?;
    let mut before = None;
    for round in 0..50 {
        if round == 1 {
            // A first reader and a first waiter have left by now.
            before = optional(cx.store().records().await)?;
        }
        let reader = hold(cx, &client, &name, LockMode::Shared).await?;
        let refused = client.poke_in(&name, LockMode::Write).await?;
        ensure!(refused.is_none(), "round {round}: a writer was let in beside a reader");
        let short = cx.options().with_wait(Duration::from_millis(1)).with_mode(LockMode::Write);
        ensure!(client.acquire_with(&name, &short).await.is_err(), "a writer was let in beside a reader");
        if round % 2 == 0 { reader.release().await? } else { drop(reader) }
    }
    let crashed = client.take(&name, &cx.fixed().with_mode(LockMode::Shared)).await?;
    tokio::time::sleep(cx.ttl() + cx.slack() / 5).await;
    let ended = Context::let_go_unless_lease(&client, crashed);
    let writer = hold(cx, &client, &name, LockMode::Write).await?;
    writer.release().await?;
    drop(ended);
    if let Some(before) = before {
        until_records_gone(cx, before, cx.slack(), "fifty readers").await?;
    }
    if let Some(admin) = client.admin() {
        let left = admin.inspect(&name).await?;
        ensure!(left.is_empty(), "still shown as held: {left:?}");
    }
    Ok(())
}

/// The replica has the first reader, and was cut off before the second: the next primary knows one of them.
async fn fail_over_keeps_readers_that_the_replica_knew_and_repeats_no_token(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let replicas = replicas(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let long = long(cx).with_mode(LockMode::Shared);
    cx.warm_up(&other).await?;
    let known = client.take(&name, &long).await?;
    replicas.catch_up(&name).await?;
    replicas.cut_off(&name).await?;
    let lost = other.take(&name, &long).await?;
    let before = known.token()?.max(lost.token()?);
    replicas.fail_over(&name).await?;
    // Renewed on the next primary.
    while known.extend(OUTLASTS).await.is_err() {
        ensure_not_lost(&known, "a reader of which the replica knew is lost")?;
    }
    ensure_larger_token(&client, &name, &long, before, "over a fail-over").await?;
    let options = cx.options().with_wait(cx.ttl()).with_mode(LockMode::Write);
    let wanted = client.acquire_with(&name, &options).await;
    ensure_kind(wanted, ErrorKind::TimedOut, "a writer beside a reader of which the replica knew")?;
    let believes = lost.is_held();
    known.release().await?;
    let writer = client.take(&name, &long.with_mode(LockMode::Write)).await?;
    ensure_untimed!(writer.token()? > before, "token {} after {before}, over a fail-over", writer.token()?);
    let declared = semantics.promises.under(Fault::FailOver);
    ensure!(!believes || declared != Outcome::Holds, "two holders after a fail-over, {declared:?} declared");
    while lost.is_held() {
        let _ = lost.extend(OUTLASTS).await;
    }
    ensure_not_lost(&writer, "a writer lost its lock to the reader of another primary")?;
    Ok(writer.release().await?)
}

async fn store_without_readers_refuses_them_before_any_trace(cx: &Context) -> Verdict {
    let is_shared = cx.semantics().await?.sharing != Sharing::Unsupported;
    require!(!is_shared, "the store declares shared locks");
    let (client, name) = (cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    let before = optional(cx.store().records().await)?;
    ensure_kind(client.read(&name).await, ErrorKind::Unsupported, "a reader")?;
    ensure_kind(client.write(&name).await, ErrorKind::Unsupported, "a writer")?;
    let after = optional(cx.store().records().await)?;
    ensure!(before == after, "{before:?} records before, {after:?} after refused modes");
    Ok(())
}
