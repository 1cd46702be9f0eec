//! Readers hold together, a writer holds alone.

use super::modes::{ALL, NOT_SHARED, ensure_excluded, hold, sharing, waiter};
use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use crate::cases::tasks::{granted_within, release_without_a_reply, spawn_take};
use crate::faults::until_done_unheard;
use leasehold_core::{LockMode, Reach};
use std::time::Instant;

pub(super) const CASES: CaseTable = cases![
    T01 two_readers_hold_together,
    T02 writer_holds_alone_and_lets_readers_in_afterwards,
    T03 exclusive_lock_and_reader_exclude_each_other,
    T04 reader_and_writer_that_ask_at_once_never_hold_together,
    T05 late_or_repeated_release_of_a_reader_frees_no_other,
    T06 reader_recognises_a_grant_whose_reply_was_lost,
    T07 crashed_reader_is_gone_at_its_own_end,
    T15 dropped_attempt_of_a_reader_or_writer_leaves_the_lock_free,
    T20 reader_that_comes_as_the_last_one_leaves_is_kept,
    T21 random_history_of_readers_and_writers_is_that_of_one_lock,
];

async fn two_readers_hold_together(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (one, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let first = hold(cx, &one, &name, LockMode::Shared).await?;
    let second = hold(cx, &other, &name, LockMode::Shared).await?;
    let third = hold(cx, &one, &name, LockMode::Shared).await?;
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure!(first.is_held() && second.is_held() && third.is_held(), "a reader lost its lock to another");
    ensure_excluded(&other, &name, &NOT_SHARED, "under three readers").await?;
    first.release().await?;
    third.release().await?;
    ensure_excluded(&one, &name, &NOT_SHARED, "under the last reader").await?;
    second.release().await?;
    let writer = one.poke_in(&name, LockMode::Write).await?;
    ensure!(writer.is_some(), "the lock is not free after its last reader");
    Ok(())
}

async fn writer_holds_alone_and_lets_readers_in_afterwards(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let writer = hold(cx, &client, &name, LockMode::Write).await?;
    ensure_excluded(&other, &name, &ALL, "under a writer").await?;
    ensure_excluded(&client, &name, &ALL, "under a writer of the same client").await?;
    let reader = waiter(cx, &name, LockMode::Shared).await?;
    ensure!(writer.is_held(), "the writer lost its lock to a reader");
    writer.release().await?;
    let bound = semantics.wake_up.bound() + cx.slack();
    Ok(granted_within(reader, bound, "a reader after the writer").await?.release().await?)
}

async fn exclusive_lock_and_reader_exclude_each_other(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (one, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let exclusive = hold(cx, &one, &name, LockMode::Exclusive).await?;
    ensure_excluded(&other, &name, &ALL, "under an exclusive lock").await?;
    exclusive.release().await?;
    let reader = hold(cx, &other, &name, LockMode::Shared).await?;
    ensure_excluded(&one, &name, &NOT_SHARED, "under a reader").await?;
    Ok(reader.release().await?)
}

/// The first reply to one client is held until the other has asked: a store that looks for holders and enters the new one in
/// two steps lets both in.
async fn reader_and_writer_that_ask_at_once_never_hold_together(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (proxy, slow) = cx.client_behind_proxy(cx.patience()).await?;
    let fast = cx.client().await?;
    cx.warm_up(&slow).await?;
    cx.warm_up(&fast).await?;
    // What comes with the first use of a mode is over by then.
    for mode in ALL {
        drop(hold(cx, &slow, &cx.named(&mode.to_string()), mode).await?);
    }
    for (first, second) in
        NOT_SHARED.into_iter().flat_map(|mode| [(LockMode::Shared, mode), (mode, LockMode::Shared)])
    {
        let (late, name) = (slow.clone(), cx.named(&format!("{first}-{second}")));
        let wanted = name.clone();
        let asking = async move { late.poke_in(&wanted, first).await };
        let asking = until_answer_is_held(cx, &proxy, asking).await?;
        let second_guard = fast.poke_in(&name, second).await?;
        proxy.set(Traffic::Pass);
        let first_guard = asking.await??;
        let together = first_guard.is_some() && second_guard.is_some();
        ensure!(!together, "a {first} and a {second} lock, asked for at once, hold together");
    }
    Ok(())
}

/// A reader whose lease has ended releases, another release is carried out twice because its reply was lost. A store that only
/// counts its readers forgets one that still reads.
async fn late_or_repeated_release_of_a_reader_frees_no_other(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let reader = hold(cx, &other, &name, LockMode::Shared).await?;
    let late = client.take(&name, &cx.fixed().with_mode(LockMode::Shared)).await?;
    tokio::time::sleep(cx.ttl() + cx.slack() / 5).await;
    ensure_kind(late.release().await, ErrorKind::Lost, "a release after the end of the lease")?;
    tokio::time::sleep(cx.slack() / 5).await;
    ensure_excluded(&client, &name, &NOT_SHARED, "after the late release of another reader").await?;
    if let Ok((proxy, behind)) = cx.client_behind_proxy(cx.ttl() / 4).await {
        let repeated = hold(cx, &behind, &name, LockMode::Shared).await?;
        let release = release_without_a_reply(cx, (&proxy, &behind), repeated).await?;
        tokio::time::sleep(cx.ttl() / 2).await;
        proxy.set(Traffic::Pass);
        // Confirmed or not: it is repeated until the store has answered.
        drop(release.await?);
        tokio::time::sleep(cx.slack()).await;
        ensure_excluded(&client, &name, &NOT_SHARED, "after the repeated release of another reader").await?;
    }
    ensure!(reader.is_held(), "the reader lost its lock: {:?}", reader.loss());
    Ok(reader.release().await?)
}

async fn reader_recognises_a_grant_whose_reply_was_lost(cx: &Context) -> Verdict {
    sharing(cx).await?;
    cx.outlives_its_connection().await?;
    let (client, name) = (cx.client().await?, cx.name());
    let other = hold(cx, &client, &name, LockMode::Shared).await?;
    let (proxy, behind) = cx.client_behind_proxy(cx.ttl() / 4).await?;
    cx.warm_up(&behind).await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    let asking = spawn_take(&behind, &name, &cx.options().with_mode(LockMode::Shared));
    if client.admin().is_some() {
        until_done_unheard(&proxy, before, (&*client, &name), |holds| holds.len() == 2).await?;
    }
    tokio::time::sleep(cx.ttl() / 2).await;
    proxy.set(Traffic::Pass);
    let reader = granted_within(asking, cx.patience(), "a reader whose first reply was lost").await?;
    other.release().await?;
    ensure_excluded(&client, &name, &NOT_SHARED, "under a reader whose first reply was lost").await?;
    reader.release().await?;
    let writer = client.poke_in(&name, LockMode::Write).await?;
    ensure!(writer.is_some(), "the grant whose reply was lost still keeps writers out");
    Ok(())
}

/// One reader renews all the time. Beside it one reader does not renew, and another is killed by SIGKILL. A lease that all readers
/// share would keep a writer out for the rest of it after the release.
async fn crashed_reader_is_gone_at_its_own_end(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let long = cx.options().with_ttl(cx.ttl() * 3).with_mode(LockMode::Shared);
    let reader = other.take(&name, &long).await?;
    if semantics.reach != Reach::Process {
        let mut killed = cx.worker().await?;
        killed.read(&name, cx.ttl()).await?;
        killed.kill();
    }
    // Longer than the time to the other's first renewal, and shorter than its lease.
    let fixed = cx.fixed().with_ttl(cx.ttl() * 2).with_mode(LockMode::Shared);
    let crashed = client.take(&name, &fixed).await?;
    let end = Instant::now() + cx.lease(cx.ttl() * 2);
    ensure_excluded(&other, &name, &NOT_SHARED, "under all readers").await?;
    tokio::time::sleep(end.saturating_duration_since(Instant::now()) + cx.slack() / 5).await;
    ensure_excluded(&client, &name, &NOT_SHARED, "under the reader that renews").await?;
    ensure!(!crashed.is_held(), "a reader believes in a lease that has ended");
    let released = Instant::now();
    reader.release().await?;
    let writer = hold(cx, &client, &name, LockMode::Write).await?;
    let (took, bound) = (released.elapsed(), semantics.wake_up.bound() + cx.slack());
    ensure!(took <= bound, "a writer waited for {took:?} after the last reader, bound {bound:?}");
    Ok(writer.release().await?)
}

/// The attempt is dropped after each of its first steps, while it is granted at once and while it waits.
async fn dropped_attempt_of_a_reader_or_writer_leaves_the_lock_free(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    cx.warm_up(&client).await?;
    for mode in [LockMode::Shared, LockMode::Write] {
        for held in [None, Some(LockMode::Shared), Some(LockMode::Write)] {
            let mut holder = None;
            if let Some(held) = held {
                holder = Some(hold(cx, &other, &name, held).await?);
            }
            for steps in 0..6 {
                let options = cx.options().with_mode(mode);
                let asking = client.acquire_with(&name, &options);
                drop(tokio::time::timeout(Duration::from_millis(steps), asking).await);
            }
            release_all(holder).await?;
            let bound = semantics.wake_up.bound() + cx.slack() * 2;
            let options = AcquireOptions::new().with_wait(bound).with_mode(LockMode::Write);
            let when = format!("not free within {bound:?} after dropped {mode} attempts under {held:?}");
            let late = |error| Stop::Failed(format!("{when}: {error}"));
            other.acquire_with(&name, &options).await.map_err(late)?.release().await?;
        }
    }
    Ok(())
}

/// The first reply to the release is held until another reader has come: a store that decides in one step that the reader was the
/// last, and deletes in the next, forgets the other.
async fn reader_that_comes_as_the_last_one_leaves_is_kept(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (proxy, leaving) = cx.client_behind_proxy(cx.patience()).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    // A renewal would be answered in the place of the release.
    let last = leaving.take(&name, &cx.fixed().with_mode(LockMode::Shared)).await?;
    let release = until_answer_is_held(cx, &proxy, last.release()).await?;
    let reader = hold(cx, &other, &name, LockMode::Shared).await?;
    proxy.set(Traffic::Pass);
    release.await??;
    ensure_excluded(&client, &name, &NOT_SHARED, "under a reader that came as the last one left").await?;
    Ok(reader.release().await?)
}

async fn random_history_of_readers_and_writers_is_that_of_one_lock(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let run = RecordedRun::new(cx, cx.ttl() / 4)?.with_readers(60);
    run.run_tasks(5, cx.ttl() * 2).await?;
    run.judge().await
}
