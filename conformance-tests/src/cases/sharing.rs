//! T: shared locks. Readers hold together, a writer holds alone.

use crate::cases::prelude::*;
use leasehold_core::{LockMode, Reach, Semantics, Sharing};
use std::time::Instant;
use tokio::task::{JoinHandle, JoinSet};

pub(super) const CASES: CaseTable = cases![
    T01 two_readers_hold_together,
    T02 writer_holds_alone_and_lets_readers_in_afterwards,
    T03 exclusive_lock_and_reader_exclude_each_other,
    T04 reader_and_writer_that_ask_at_once_never_hold_together,
    T05 late_or_repeated_release_of_a_reader_frees_no_other,
    T06 reader_recognises_a_grant_whose_reply_was_lost,
    T07 crashed_reader_is_gone_at_its_own_end,
    T08 new_reader_does_not_pass_a_waiting_writer,
    T09 stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader,
    T10 release_of_a_writer_admits_all_readers_before_the_next_writer,
];

/// The semantics of a store that serves readers; skips the case on any other.
pub(super) async fn sharing(cx: &Context) -> Result<Semantics, Stop> {
    let semantics = cx.semantics().await?;
    match semantics.sharing {
        Sharing::Unsupported => Err(Stop::Skipped("the store does not declare shared locks".to_owned())),
        _ => Ok(semantics),
    }
}

pub(super) async fn hold(
    cx: &Context,
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<LockGuard, Stop> {
    client.take(name, &cx.options().with_mode(mode)).await
}

/// One attempt: the guard, or `None` if the lock is held in a mode that conflicts.
pub(super) async fn attempt(
    client: &Client,
    name: &LockName,
    mode: LockMode,
) -> Result<Option<LockGuard>, Stop> {
    let options = AcquireOptions::new().with_wait(Wait::No).with_mode(mode);
    match client.acquire_with(name, &options).await {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn ensure_excluded(
    client: &Client,
    name: &LockName,
    modes: &[LockMode],
    when: &str,
) -> Verdict {
    for mode in modes {
        ensure!(attempt(client, name, *mode).await?.is_none(), "{when}: another owner got a {mode} lock");
    }
    Ok(())
}

/// A waiter that sends its guard back. The store has refused it once when this returns.
async fn waiter(
    cx: &Context,
    name: &LockName,
    mode: LockMode,
) -> Result<JoinHandle<Result<LockGuard, Stop>>, Stop> {
    let (client, mut waits) = cx.observed_client().await?;
    let (options, name) = (cx.options().with_mode(mode), name.clone());
    let mut waiter = tokio::spawn(async move { client.take(&name, &options).await });
    tokio::select! {
        refused = waits.reach(cx, 1) => refused.map(|()| waiter),
        granted = &mut waiter => {
            drop(granted??);
            Err(Stop::Failed(format!("a {mode} lock was not waited for")))
        }
    }
}

async fn granted_within(
    waiter: JoinHandle<Result<LockGuard, Stop>>,
    bound: Duration,
    when: &str,
) -> Result<LockGuard, Stop> {
    match tokio::time::timeout(bound, waiter).await {
        Ok(outcome) => outcome?,
        Err(_) => Err(Stop::Failed(format!("{when}: a waiter was not let in within {bound:?}"))),
    }
}

pub(super) const NOT_SHARED: [LockMode; 2] = [LockMode::Write, LockMode::Exclusive];
const ALL: [LockMode; 3] = [LockMode::Shared, LockMode::Write, LockMode::Exclusive];

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
    let writer = attempt(&one, &name, LockMode::Write).await?;
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
    Ok(granted_within(reader, bound, "after the writer").await?.release().await?)
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
    for (first, second) in
        NOT_SHARED.into_iter().flat_map(|mode| [(LockMode::Shared, mode), (mode, LockMode::Shared)])
    {
        let (late, name) = (slow.clone(), cx.named(&format!("{first}-{second}")));
        let wanted = name.clone();
        let asking = async move { attempt(&late, &wanted, first).await };
        let asking = until_answer_is_held(cx, &proxy, asking).await?;
        let second_guard = attempt(&fast, &name, second).await?;
        proxy.set(Traffic::Pass);
        let first_guard = asking.await??;
        ensure!(
            first_guard.is_none() || second_guard.is_none(),
            "a {first} and a {second} lock, asked for at once, hold together"
        );
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
        proxy.set(Traffic::HoldReplies);
        let release = tokio::spawn(async move { repeated.release().await });
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
    let (options, wanted) = (cx.options().with_mode(LockMode::Shared), name.clone());
    let asking = tokio::spawn(async move { behind.take(&wanted, &options).await });
    tokio::time::sleep(cx.ttl() / 2).await;
    proxy.set(Traffic::Pass);
    let reader = granted_within(asking, cx.patience(), "after the lost reply").await?;
    other.release().await?;
    ensure_excluded(&client, &name, &NOT_SHARED, "under a reader whose first reply was lost").await?;
    reader.release().await?;
    let writer = attempt(&client, &name, LockMode::Write).await?;
    ensure!(writer.is_some(), "the grant whose reply was lost still keeps writers out");
    Ok(())
}

/// One reader renews all the time. Beside it one reader does not renew, and another is killed by SIGKILL. A lease that all readers
/// share would keep a writer out for what is left of it after the release.
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
    let end = Instant::now() + cx.ttl() * 2;
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
    let reader = waiter_for_reader(cx, &name).await?;
    let second = granted_within(reader, bound + cx.slack(), "a reader after a writer that gave up").await?;
    second.release().await?;
    Ok(first.release().await?)
}

/// A reader that may be granted at once.
async fn waiter_for_reader(
    cx: &Context,
    name: &LockName,
) -> Result<JoinHandle<Result<LockGuard, Stop>>, Stop> {
    let (client, options, name) =
        (cx.client().await?, cx.options().with_mode(LockMode::Shared), name.clone());
    Ok(tokio::spawn(async move { client.take(&name, &options).await }))
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
        match outcome {
            Ok(guard) => guard.release().await?,
            Err(error) => {
                return Err(Stop::Failed(format!(
                    "a stream of {stream} locks starves a {wanted} lock: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// In the order of one client: three readers, a writer, and a reader behind it.
async fn release_of_a_writer_admits_all_readers_before_the_next_writer(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let ((client, mut waits), name) = (cx.observed_client().await?, cx.name());
    let (wake_up, slack) = (semantics.wake_up.bound(), cx.slack());
    let holder = hold(cx, &client, &name, LockMode::Write).await?;
    let mut waiters = Vec::new();
    for mode in [LockMode::Shared, LockMode::Shared, LockMode::Shared, LockMode::Write, LockMode::Shared] {
        let (client, options, name) = (client.clone(), cx.options().with_mode(mode), name.clone());
        waiters.push(tokio::spawn(async move { client.take(&name, &options).await }));
        waits.reach(cx, waiters.len()).await?;
    }
    holder.release().await?;
    let (last, writer) = (waiters.pop(), waiters.pop());
    let mut readers = Vec::new();
    for reader in waiters {
        readers.push(granted_within(reader, wake_up + slack, "a reader after the writer").await?);
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
    let writer = granted_within(writer, wake_up + slack, "the writer after the readers").await?;
    ensure_excluded(&client, &name, &ALL, "under the writer after the readers").await?;
    ensure!(!last.is_finished(), "a reader was let in beside a writer");
    writer.release().await?;
    Ok(granted_within(last, wake_up + slack, "the reader after the writer").await?.release().await?)
}
