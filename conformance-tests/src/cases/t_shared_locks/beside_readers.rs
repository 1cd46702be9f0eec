//! Readers beside each other, and beside writers that are kept out: each has a lease, a least time, a loss and an end of its own.

use super::modes::{ALL, NOT_SHARED, ensure_excluded, hold, sharing, waiter};
use crate::cases::c_ownership::with_a_renewal_on_the_wire;
use crate::cases::prelude::*;
use crate::cases::random_steps::run_histories;
use crate::cases::recorded_run::RecordedRun;
use futures_util::future::try_join_all;
use leasehold_core::{LockMode, Reach};
use std::collections::BTreeSet;

pub(super) const CASES: CaseTable = cases![
    T04 reader_and_writer_that_ask_at_once_never_hold_together if sharing,
    T20 reader_that_comes_as_the_last_one_leaves_is_kept if sharing,
    T21 random_history_of_readers_and_writers_is_that_of_one_lock if sharing,
    T23 random_steps_of_readers_and_writers_are_those_of_a_model if sharing,
    T24 random_steps_of_readers_whose_replies_are_lost_are_those_of_a_model
        if sharing & lease_only & outlives_its_connection,
    T61 each_reader_ends_by_its_own_lease_whatever_came_beside_it if sharing & lease_only,
    T17 end_of_one_reader_leaves_the_others,
    T99 end_of_a_silent_reader_leaves_another_and_then_lets_a_writer_in,
    T98 later_of_two_least_times_of_readers_keeps_writers_out,
    T16 looking_shows_every_reader,
    T65 late_renewal_of_an_ended_reader_revives_nothing_beside_another if sharing & lease_only,
];

/// The first reply to one client is held until the other has asked: a store that looks for holders and enters the new one in
/// two steps lets both in.
async fn reader_and_writer_that_ask_at_once_never_hold_together(cx: &Context) -> Verdict {
    let (proxy, slow) = cx.client_behind_proxy(cx.patience()).await?;
    let fast = cx.client().await?;
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
    let mut run = RecordedRun::new(cx, cx.ttl() / 4)?;
    run.readers = 60;
    run.run_tasks(5, cx.ttl() * 2).await?;
    run.judge().await
}

async fn random_steps_of_readers_and_writers_are_those_of_a_model(cx: &Context) -> Verdict {
    let modes = |rng: &mut fastrand::Rng| vec![vec![LockMode::Shared; 3], vec![NOT_SHARED[rng.usize(..2)]]];
    run_histories(cx, modes, &ALL, false).await
}

async fn random_steps_of_readers_whose_replies_are_lost_are_those_of_a_model(cx: &Context) -> Verdict {
    // The leases are fixed: a renewal would be answered in the place of a lost reply.
    run_histories(cx, |_| vec![vec![LockMode::Shared; 3], vec![LockMode::Write]], &ALL, true).await
}

/// What becomes of a reader of the pairs in T61.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PairEnd {
    EndsFirst,
    EndsLast,
    /// Its short lease is made a long one.
    Extended,
    /// Its lease is long, and it is released before a short one ends.
    Released,
    /// Its lease is renewed until the short ones have ended.
    Renewed,
}

/// Pairs of readers with leases of once and three times a length, in either order of coming. While the long leases go on, and after them, the
/// lock is free exactly where no lease goes on: by the guards and by writers, because a store may not show its holds.
async fn each_reader_ends_by_its_own_lease_whatever_came_beside_it(cx: &Context) -> Verdict {
    use PairEnd::{EndsFirst, EndsLast, Extended, Released, Renewed};
    let (clients, ttl) = ([cx.client().await?, cx.client().await?], cx.ttl() * 3 / 2);
    let ends = [EndsFirst, EndsLast, Extended, Released, Renewed];
    let pairs = ends.into_iter().flat_map(|first| ends.map(|second| [first, second]));
    let pairs = pairs.filter(|[first, second]| first != second).enumerate();
    let play = async |(at, ends): (usize, [PairEnd; 2])| {
        // Not all at once, which would be a load.
        tokio::time::sleep(ttl / 20 * at as u32).await;
        let (name, mut pair) = (cx.named(&format!("{ends:?}")), Vec::new());
        for (client, end) in [0, at % 2].into_iter().zip(ends) {
            let ttls = match end {
                EndsFirst | Extended => 1,
                Renewed => 2,
                EndsLast | Released => 3,
            };
            let options = if end == Renewed { cx.options() } else { cx.fixed() };
            let options = options.with_ttl(ttl * ttls).with_mode(LockMode::Shared);
            pair.push((end, Some(clients[client].take(&name, &options).await?)));
        }
        for (end, guard) in &mut pair {
            match (*end, &guard) {
                (Extended, Some(guard)) => guard.extend(ttl * 3).await?,
                (Released, _) => release_all(guard.take()).await?,
                _ => {}
            }
        }
        let came = Instant::now();
        let short_are_over = cx.lease(ttl) + cx.slack() / 5;
        let observations = [
            (short_are_over, &[EndsLast, Extended, Renewed][..]),
            // A renewed reader is released by then.
            (short_are_over, &[EndsLast, Extended]),
            (cx.lease(ttl * 3) + cx.slack() / 5, &[]),
        ];
        for (moment, kept) in observations {
            tokio::time::sleep_until(came + moment).await;
            for (end, guard) in &pair {
                let is_held = guard.as_ref().is_some_and(|guard| guard.is_held());
                ensure!(
                    is_held == kept.contains(end),
                    "{moment:?} after {ends:?}, {end:?} is held: {is_held}"
                );
            }
            let is_free = is_granted_to_a_writer(&clients[1], &name).await?;
            let is_kept = ends.iter().any(|end| kept.contains(end));
            ensure!(is_free != is_kept, "{moment:?} after {ends:?}, the lock is free: {is_free}");
            for (_, guard) in pair.iter_mut().filter(|(end, _)| *end == Renewed) {
                release_all(guard.take()).await?;
            }
        }
        Ok::<_, Stop>(())
    };
    try_join_all(pairs.map(play)).await.map(drop)
}

/// Whether a writer gets the lock, which it gives back.
async fn is_granted_to_a_writer(client: &Client, name: &LockName) -> Result<bool, Stop> {
    let writer = client.poke_in(name, LockMode::Write).await?;
    let is_granted = writer.is_some();
    release_all(writer).await?;
    Ok(is_granted)
}

/// Pairs of readers of one client, which are renewed together: the first or the second of each is released, also before its least
/// time is over, or ended by force.
async fn end_of_one_reader_leaves_the_others(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other) = (cx.client().await?, cx.client().await?);
    let forced = other.admin().is_some().then_some("forced");
    let ways = ["released", "released early"].into_iter().chain(forced);
    let mut pairs = Vec::new();
    for (way, ended) in ways.flat_map(|way| [(way, 0), (way, 1)]) {
        let name = cx.named(&format!("{}-{ended}", way.replace(' ', "-")));
        let at_least = if way == "released early" { cx.ttl() / 2 } else { Duration::ZERO };
        let mut readers = Vec::new();
        for number in 0..2 {
            let at_least = if number == ended { at_least } else { Duration::ZERO };
            let options = cx.options().with_hold_at_least(at_least).with_mode(LockMode::Shared);
            readers.push(client.take(&name, &options).await?);
        }
        pairs.push((way, readers.swap_remove(ended), readers.remove(0)));
    }
    let (mut left, mut told) = (Vec::new(), Vec::new());
    for (way, ended, kept) in pairs {
        match way {
            "released" | "released early" => ended.release().await?,
            _ => {
                let by_force = other.looking()?.force_release(ended.name(), Some(ended.token()?)).await?;
                ensure!(by_force.len() == 1, "{by_force:?} was ended in the place of one reader");
                told.push(ended);
            }
        }
        left.push(kept);
    }
    for reader in &told {
        loss_within(reader, cx.ttl() + cx.slack()).await?;
    }
    // The kept reader is renewed, and the least time of a released one is over.
    tokio::time::sleep((cx.ttl() * 3 / 2).max(cx.lease(cx.ttl() / 2) + cx.slack() / 5)).await;
    for reader in left {
        let name = reader.name().clone();
        ensure_not_lost(&reader, format_args!("{name}: the other reader was told"))?;
        ensure_excluded(&other, &name, &NOT_SHARED, "under the other reader").await?;
        if let Some(admin) = other.admin() {
            let shown = admin.inspect(&name).await?;
            ensure!(shown.len() == 1 && shown[0].token == reader.token().ok(), "{name}: {shown:?} is shown");
        }
        reader.release().await?;
        free_within(&other, &name, hand_over_bound(cx, &other), "after both readers").await?;
    }
    Ok(())
}

/// The store ends the lease or the session of a reader that is cut off. A writer waits for both readers.
async fn end_of_a_silent_reader_leaves_another_and_then_lets_a_writer_in(cx: &Context) -> Verdict {
    let wake_up = sharing(cx).await?.wake_up.bound();
    let (client, name) = (cx.client().await?, cx.name());
    let (proxy, cut_off) = cx.client_behind_proxy(cx.patience()).await?;
    let kept = hold(cx, &client, &name, LockMode::Shared).await?;
    let silent = hold(cx, &cut_off, &name, LockMode::Shared).await?;
    let last = kept.token()?.max(silent.token()?);
    let writer = waiter(cx, &name, LockMode::Write).await?;
    proxy.set(Traffic::BlackHole);
    loss_within(&silent, cx.ttl() + cx.slack()).await?;
    tokio::time::sleep(silent_bound(cx).await? - wake_up).await;
    ensure_not_lost(&kept, "a reader is lost with the one that was cut off")?;
    ensure!(!writer.is_finished(), "a writer was let in beside a reader");
    kept.release().await?;
    let writer = granted_within(writer, wake_up + cx.slack(), "a writer after both readers").await?;
    ensure!(writer.token()? > last, "the writer has {} after {last}", writer.token()?);
    Ok(writer.release().await?)
}

/// The reader with the longer one is released last, or first.
async fn later_of_two_least_times_of_readers_keeps_writers_out(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other, longest) = (cx.client().await?, cx.client().await?, cx.ttl() * 3 / 2);
    cx.warm_up(&other).await?;
    let bound = cx.lease(longest) + hand_over_bound(cx, &other);
    let play = async |at_least: [Duration; 2]| {
        let (name, start, mut readers) = (cx.named(&format!("{at_least:?}")), Instant::now(), Vec::new());
        for at_least in at_least {
            let options = cx.options().with_ttl(longest * 3).with_hold_at_least(at_least);
            readers.push(client.take(&name, &options.with_mode(LockMode::Shared)).await?);
        }
        release_all(readers).await?;
        free_within(&other, &name, bound, "after the least times of two readers").await?;
        let took = start.elapsed();
        let is_kept = took >= longest.mul_f64(0.95);
        ensure!(is_kept, "readers with the least times {at_least:?} kept others out for {took:?}");
        Ok::<_, Stop>(())
    };
    try_join_all([[longest / 3, longest], [longest, longest / 3]].map(play)).await.map(drop)
}

/// Of two clients, and one in another process; fewer where each needs a connection.
async fn looking_shows_every_reader(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (clients, name) = ([cx.client().await?, cx.client().await?], cx.name());
    let count = if semantics.hold == HoldKind::Lease { 150 } else { 6 };
    // A store that renews each by itself is to keep up.
    let (ttl, reader_options) =
        (cx.ttl() * 3, cx.options().with_ttl(cx.ttl() * 3).with_mode(LockMode::Shared));
    let mut process = None;
    let mut tokens = BTreeSet::new();
    if semantics.reach != Reach::Process {
        let process = process.insert(cx.worker().await?);
        process.mode = LockMode::Shared;
        tokens.insert(process.take(&name, ttl).await?);
    }
    let mut readers = Vec::new();
    for reader in 0..count {
        readers.push(clients[reader % 2].take(&name, &reader_options).await?);
        let token = readers[reader].token()?.get();
        ensure_untimed!(tokens.last() < Some(&token), "reader {reader} has {token} after {tokens:?}");
        tokens.insert(token);
    }
    tokio::time::sleep(ttl * 3 / 2).await;
    readers.iter().try_for_each(|reader| ensure_not_lost(reader, format_args!("one of {count} is lost")))?;
    if let Some(mut process) = process {
        process.ensure_not_lost("the reader of another process").await?;
        process.release().await?;
        tokens.pop_first();
    }
    if let Some(admin) = clients[1].admin() {
        let shown = admin.inspect(&name).await?;
        ensure!(shown.iter().all(|hold| hold.mode.is_shared()), "a reader is shown as exclusive: {shown:?}");
        let shown: BTreeSet<u64> = shown.iter().filter_map(|hold| Some(hold.token?.get())).collect();
        ensure!(shown == tokens, "{shown:?} is shown of {tokens:?}");
    }
    fastrand::Rng::with_seed(cx.seed()).shuffle(&mut readers);
    while let Some(reader) = readers.pop() {
        let left = readers.len() + 1;
        ensure_not_lost(&reader, format_args!("lost with {left} readers"))?;
        let is_granted = is_granted_to_a_writer(&clients[left % 2], &name).await?;
        ensure!(!is_granted, "a writer was let in beside {left} readers");
        reader.release().await?;
    }
    let options = cx.options().with_wait(hand_over_bound(cx, &clients[0])).with_mode(LockMode::Write);
    let writer = take_turn(&clients[0], &name, &options).await?;
    ensure_untimed!(tokens.last() < Some(&writer.get()), "the writer has {writer} after {tokens:?}");
    ensure_larger_token(&clients[1], &name, &reader_options, writer, "of a reader after a writer").await
}

/// The record of the lock is kept by another reader meanwhile.
async fn late_renewal_of_an_ended_reader_revives_nothing_beside_another(cx: &Context) -> Verdict {
    cx.hold_in(LockMode::Shared);
    let (other, name) = (cx.client().await?, cx.name());
    let beside = other.take(&name, &cx.long_lease()).await?;
    let (proxy, stale) = with_a_renewal_on_the_wire(cx, &name).await?;
    tokio::time::sleep(cx.lease(cx.ttl()) - cx.ttl() * 3 / 4 + cx.slack() / 5).await;
    proxy.set(Traffic::Pass);
    tokio::time::sleep(cx.slack() / 3).await;
    ensure!(!stale.is_held(), "a lost reader is held again");
    ensure_alone(&other, beside, "after the late renewal of a reader").await
}

/// Expects that no other holds beside a reader: by a look, and by the writer that gets the lock after its release.
async fn ensure_alone(client: &Client, reader: LockGuard, when: &str) -> Verdict {
    let (name, token) = (reader.name().clone(), reader.token().ok());
    if let Some(admin) = client.admin() {
        let shown = admin.inspect(&name).await?;
        ensure!(shown.len() == 1 && shown[0].token == token, "{when}: {shown:?} is shown of one reader");
    }
    ensure_excluded(client, &name, &NOT_SHARED, when).await?;
    reader.release().await?;
    let is_granted = is_granted_to_a_writer(client, &name).await?;
    ensure!(is_granted, "{when}: a writer is kept out by a reader that is gone");
    Ok(())
}
