//! In which order readers and writers are served.

use super::modes::{ALL, NOT_SHARED, Waiters, ensure_excluded, hold, sharing, waiter};
use super::waiting::waiting_process;
use crate::cases::prelude::*;
use futures_util::future::try_join_all;
use leasehold_core::LockMode::{self, Exclusive, Shared, Write};
use leasehold_core::Sharing;
use tokio::time::sleep;

pub(super) const CASES: CaseTable = cases![
    T08 new_reader_does_not_pass_a_waiting_writer,
    T09 stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader if sharing,
    T10 release_of_a_writer_admits_all_readers_before_the_next_writer,
    T89 readers_and_writers_are_served_in_their_order_also_when_some_leave,
];

/// Readers that ask once, and one that waits: it asks again within the bound of its wake-up, which the store declares. The reader
/// that holds is renewed meanwhile, and so is whatever the writer keeps others out by.
async fn new_reader_does_not_pass_a_waiting_writer(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (client, wake_up) = (cx.client().await?, semantics.wake_up.bound());
    for mode in NOT_SHARED {
        let name = cx.named(&mode.to_string());
        let first = hold(cx, &client, &name, Shared).await?;
        let writer = waiter(cx, &name, mode).await?;
        let passed = client.poke_in(&name, Shared).await?;
        ensure!(passed.is_none(), "a reader was let in before a {mode} lock that waits");
        let second = spawn_take(&cx.client().await?, &name, &cx.options().with_mode(Shared));
        let end = Instant::now() + (wake_up + cx.slack() / 5).max(cx.ttl() * 7 / 2);
        while Instant::now() < end {
            ensure_excluded(&client, &name, &[Shared], &format!("while a {mode} lock waits")).await?;
            sleep(cx.slack() / 50).await;
        }
        ensure_not_lost(&first, "a reader is lost while a writer waits")?;
        ensure!(!writer.is_finished(), "a writer was let in beside a reader");
        ensure!(!second.is_finished(), "a reader that waits was let in before a {mode} lock that waits");
        first.release().await?;
        let bound = wake_up + cx.slack();
        let writer = granted_within(writer, bound, "a writer after the last reader").await?;
        ensure_excluded(&client, &name, &ALL, "under a writer that readers wait for").await?;
        ensure!(!second.is_finished(), "a reader was let in beside a writer");
        writer.release().await?;
        granted_within(second, bound, "a reader after the writer").await?.release().await?;
    }
    Ok(())
}

/// Locks of one client, or of a client each, follow each other without a gap: one is released when the next has been granted or refused.
/// A waiter of another client wants another mode. No client asks again at once after its release.
async fn stream_of_readers_starves_no_writer_nor_one_of_writers_a_reader(cx: &Context) -> Verdict {
    let (first, other) = (cx.client().await?, cx.client().await?);
    cx.warm_up(&other).await?;
    let mut clients = try_join_all([(); 3].map(|()| Waiters::of_a_client(cx))).await?;
    let streams = [
        (1, [Shared; 3], Write),
        (1, [Write; 3], Shared),
        (3, [Shared; 3], Exclusive),
        (3, [Exclusive; 3], Shared),
        (3, [Shared, Shared, Exclusive], Write),
        (3, [Shared, Write, Exclusive], Shared),
    ];
    for (number, (client_count, stream, wanted)) in streams.into_iter().enumerate() {
        let (name, options) = (cx.named(&number.to_string()), cx.options());
        let mut guard = hold(cx, &first, &name, stream[0]).await?;
        let holding = async {
            for turn in 1.. {
                let options = options.clone().with_mode(stream[turn % stream.len()]);
                let next = clients[turn % client_count].ask(cx, &name, &options).await?;
                sleep(Duration::from_millis(30)).await;
                guard.release().await?;
                guard = match next {
                    Ok(guard) => guard,
                    Err(waiter) => waiter.await??,
                };
            }
            Ok::<_, Stop>(())
        };
        let waiting = async {
            sleep(cx.slack() / 2).await;
            other.acquire_with(&name, &options.clone().with_wait(cx.patience() / 4).with_mode(wanted)).await
        };
        let outcome = tokio::select! { outcome = waiting => outcome, ended = holding => return ended };
        let starves = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut);
        ensure_came!(!starves, "{stream:?} of {client_count} clients starve a {wanted} lock");
        outcome?.release().await?;
    }
    Ok(())
}

async fn fifo_only(cx: &Context) -> Verdict {
    let is_fifo = sharing(cx).await?.sharing == Sharing::Fifo;
    require!(is_fifo, "readers and writers are not declared to be served in their order");
    Ok(())
}

/// Each waiter is a client of its own, and two of them are processes. Three leave.
async fn readers_and_writers_are_served_in_their_order_also_when_some_leave(cx: &Context) -> Verdict {
    const LINE: [LockMode; 10] =
        [Write, Shared, Shared, Write, Shared, Shared, Exclusive, Write, Shared, Exclusive];
    const PROCESSES: [usize; 2] = [2, 7];
    const LEAVE: [usize; 3] = [0, 3, 5];
    fifo_only(cx).await?;
    let (client, name) = (cx.client().await?, cx.name());
    let holder = hold(cx, &client, &name, Exclusive).await?;
    let (mut tokens, mut leavers) = (JoinSet::new(), Vec::new());
    for (place, mode) in LINE.into_iter().enumerate() {
        if PROCESSES.contains(&place) {
            let (mut process, network) = waiting_process(cx, &name, cx.ttl(), mode).await?;
            until_waiting(&client, cx, &name, place + 1).await?;
            tokens.spawn(async move {
                let (token, _network) = (process.granted().await?, network);
                process.release().await?;
                Ok::<_, Stop>((token, place))
            });
            continue;
        }
        let waiter = waiter(cx, &name, mode).await?;
        if LEAVE.contains(&place) {
            leavers.push(waiter);
            continue;
        }
        // While the first reader holds, the others are told or ask again: a reader behind a writer is let in then, if the order is wrong.
        let holds =
            if place == 1 { client.semantics().wake_up.bound().min(cx.ttl()) } else { Duration::ZERO };
        tokens.spawn(async move {
            let guard = waiter.await??;
            let token = guard.token()?.get();
            sleep(holds).await;
            guard.release().await?;
            Ok((token, place))
        });
    }
    leavers.iter().for_each(TakeTask::abort);
    holder.release().await?;
    let mut served = joined(tokens).await?;
    served.sort_unstable();
    // Readers between two others are let in together.
    let overtakes = |place: usize, other: usize| place > other && LINE[place].conflicts_with(LINE[other]);
    let is_overtaken = |at: usize| served[..at].iter().any(|(_, place)| overtakes(*place, served[at].1));
    ensure!(!(0..served.len()).any(is_overtaken), "{LINE:?} were served in the order {served:?}");
    Ok(())
}

/// In the order of one client: three readers, a writer, and a reader behind it.
async fn release_of_a_writer_admits_all_readers_before_the_next_writer(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let name = cx.name();
    // A queue shows who stands in it; in a line of the client's own, only the client knows.
    let (client, mut waits) = match semantics.sharing {
        Sharing::Fifo => (cx.client().await?, None),
        _ => cx.observed_client().await.map(|(client, waits)| (client, Some(waits)))?,
    };
    let (wake_up, bound) = (semantics.wake_up.bound(), semantics.wake_up.bound() + cx.slack());
    let holder = hold(cx, &client, &name, Write).await?;
    let mut waiters = Vec::new();
    for mode in [Shared, Shared, Shared, Write, Shared] {
        waiters.push(spawn_take(&client, &name, &cx.options().with_mode(mode)));
        match &mut waits {
            Some(waits) => waits.reach(cx, waiters.len()).await?,
            None => until_queued(cx, &client, &name, waiters.len()).await?,
        }
    }
    holder.release().await?;
    let (last, writer) = (waiters.pop(), waiters.pop());
    let mut readers = Vec::new();
    for reader in waiters {
        readers.push(granted_within(reader, bound, "a reader after the writer").await?);
    }
    // A waiter asks again within the bound of its wake-up, which the store declares: by then a wrong one is let in.
    sleep(wake_up).await;
    readers.iter().try_for_each(|reader| ensure_not_lost(reader, "the readers do not hold together"))?;
    let (Some(writer), Some(last)) = (writer, last) else { return Ok(()) };
    ensure!(!writer.is_finished(), "a writer was let in beside readers");
    ensure!(!last.is_finished(), "a reader passed a writer that waited before it");
    release_all(readers).await?;
    let writer = granted_within(writer, bound, "the writer after the readers").await?;
    ensure_excluded(&client, &name, &ALL, "under the writer after the readers").await?;
    ensure!(!last.is_finished(), "a reader was let in beside a writer");
    writer.release().await?;
    Ok(granted_within(last, bound, "the reader after the writer").await?.release().await?)
}
