//! Readers hold together, a writer holds alone.

use super::modes::{ALL, NOT_SHARED, ensure_excluded, hold, sharing};
use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use leasehold_core::LockMode;

pub(super) const CASES: CaseTable = cases![
    T04 reader_and_writer_that_ask_at_once_never_hold_together,
    T20 reader_that_comes_as_the_last_one_leaves_is_kept,
    T21 random_history_of_readers_and_writers_is_that_of_one_lock,
];

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
