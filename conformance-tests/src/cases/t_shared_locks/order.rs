//! In which order readers and writers are served.

use super::modes::{ALL, attempt, ensure_excluded, hold, sharing, waiter};
use crate::cases::prelude::*;
use crate::cases::tasks::{granted_within, spawn_take};
use leasehold_core::LockMode;
use tokio::task::JoinSet;

pub(super) const CASES: CaseTable = cases![
    T08 new_reader_does_not_pass_a_waiting_writer,
    T09 stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader,
    T10 release_of_a_writer_admits_all_readers_before_the_next_writer,
];

async fn new_reader_does_not_pass_a_waiting_writer(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, name) = (cx.client().await?, cx.name());
    let bound = semantics.wake_up.bound() + cx.slack();
    let first = hold(cx, &client, &name, LockMode::Shared).await?;
    let writer = waiter(cx, &name, LockMode::Write).await?;
    let passed = attempt(&client, &name, LockMode::Shared).await?;
    ensure!(passed.is_none(), "a reader was let in before a writer that waits");
    let second = waiter(cx, &name, LockMode::Shared).await?;
    first.release().await?;
    let writer = granted_within(writer, bound, "a writer after the last reader").await?;
    ensure_excluded(&client, &name, &ALL, "under a writer that readers wait for").await?;
    ensure!(!second.is_finished(), "a reader was let in beside a writer");
    writer.release().await?;
    let second = granted_within(second, bound, "a reader after the writer").await?;
    second.release().await?;
    // A writer that gives up keeps no reader out.
    let first = hold(cx, &client, &name, LockMode::Shared).await?;
    let writer = waiter(cx, &name, LockMode::Write).await?;
    writer.abort();
    // It may be granted at once.
    let reader = spawn_take(&cx.client().await?, &name, &cx.options().with_mode(LockMode::Shared));
    let second = granted_within(reader, bound + cx.slack(), "a reader after a writer that gave up").await?;
    second.release().await?;
    Ok(first.release().await?)
}

/// Three tasks of one client hold the lock in turns that overlap, and a waiter of another client wants it in the other mode.
async fn stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other) = (cx.client().await?, cx.client().await?);
    cx.warm_up(&other).await?;
    for (stream, wanted) in [(LockMode::Shared, LockMode::Write), (LockMode::Write, LockMode::Shared)] {
        let name = cx.named(&stream.to_string());
        let mut tasks = JoinSet::new();
        for task in 0..3 {
            let (client, options, name) = (client.clone(), cx.options().with_mode(stream), name.clone());
            let held = Duration::from_millis(20 + 7 * task);
            tasks.spawn(async move {
                loop {
                    let guard = client.take(&name, &options).await?;
                    tokio::time::sleep(held).await;
                    guard.release().await?;
                }
                #[expect(unreachable_code, reason = "names the type of the errors")]
                Ok::<(), Stop>(())
            });
        }
        tokio::time::sleep(cx.slack() / 2).await;
        let options = cx.options().with_wait(cx.patience() / 4).with_mode(wanted);
        let outcome = other.acquire_with(&name, &options).await;
        tasks.abort_all();
        let starves =
            |error| Stop::Failed(format!("a stream of {stream} locks starves a {wanted} lock: {error}"));
        outcome.map_err(starves)?.release().await?;
    }
    Ok(())
}

/// In the order of one client: three readers, a writer, and a reader behind it.
async fn release_of_a_writer_admits_all_readers_before_the_next_writer(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let ((client, mut waits), name) = (cx.observed_client().await?, cx.name());
    let (wake_up, bound) = (semantics.wake_up.bound(), semantics.wake_up.bound() + cx.slack());
    let holder = hold(cx, &client, &name, LockMode::Write).await?;
    let mut waiters = Vec::new();
    for mode in [LockMode::Shared, LockMode::Shared, LockMode::Shared, LockMode::Write, LockMode::Shared] {
        waiters.push(spawn_take(&client, &name, &cx.options().with_mode(mode)));
        waits.reach(cx, waiters.len()).await?;
    }
    holder.release().await?;
    let (last, writer) = (waiters.pop(), waiters.pop());
    let mut readers = Vec::new();
    for reader in waiters {
        readers.push(granted_within(reader, bound, "a reader after the writer").await?);
    }
    // A waiter asks again within the bound of its wake-up, which the store declares: by then a wrong one is let in.
    tokio::time::sleep(wake_up).await;
    ensure!(readers.iter().all(|reader| reader.is_held()), "the readers do not hold together");
    let (Some(writer), Some(last)) = (writer, last) else { return Ok(()) };
    ensure!(!writer.is_finished(), "a writer was let in beside readers");
    ensure!(!last.is_finished(), "a reader passed a writer that waited before it");
    for reader in readers {
        reader.release().await?;
    }
    let writer = granted_within(writer, bound, "the writer after the readers").await?;
    ensure_excluded(&client, &name, &ALL, "under the writer after the readers").await?;
    ensure!(!last.is_finished(), "a reader was let in beside a writer");
    writer.release().await?;
    Ok(granted_within(last, bound, "the reader after the writer").await?.release().await?)
}
