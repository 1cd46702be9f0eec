//! Readers hold together, a writer holds alone.

use super::modes::{ALL, NOT_SHARED, ensure_excluded, hold, sharing, waiter};
use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use crate::cases::tasks::granted_within;
use leasehold_core::LockMode;

pub(super) const CASES: CaseTable = cases![
    T01 two_readers_hold_together,
    T02 writer_holds_alone_and_lets_readers_in_afterwards,
    T03 exclusive_lock_and_reader_exclude_each_other,
    T04 reader_and_writer_that_ask_at_once_never_hold_together,
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
