//! A reader beside others: each has a lease, a least time, a loss and an end of its own.

use super::modes::{ALL, NOT_SHARED, ensure_excluded, hold, sharing};
use crate::cases::c_ownership::with_a_renewal_on_the_wire;
use crate::cases::declared::{hand_over_bound, lease_only};
use crate::cases::prelude::*;
use crate::cases::random_steps::run_histories;
use crate::cases::tasks::{granted_within, spawn_take};
use futures_util::future::try_join_all;
use leasehold_core::{LockMode, Reach};
use std::collections::BTreeSet;
use tokio::time::Instant;

pub(super) const CASES: CaseTable = cases![
    T23 random_steps_of_readers_and_writers_are_those_of_a_model,
    T24 random_steps_of_readers_whose_replies_are_lost_are_those_of_a_model,
    T61 each_reader_ends_by_its_own_lease_whatever_came_beside_it,
    T17 forced_release_of_one_reader_leaves_the_others,
    T16 looking_shows_every_reader,
    T73 readers_are_renewed_while_a_writer_waits,
    T65 late_renewal_of_an_ended_reader_revives_nothing_beside_another,
];

async fn random_steps_of_readers_and_writers_are_those_of_a_model(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let modes = |rng: &mut fastrand::Rng| {
        vec![vec![LockMode::Shared; rng.usize(2..=3)], vec![NOT_SHARED[rng.usize(..2)]]]
    };
    run_histories(cx, modes, &ALL, false).await
}

async fn random_steps_of_readers_whose_replies_are_lost_are_those_of_a_model(cx: &Context) -> Verdict {
    sharing(cx).await?;
    cx.outlives_its_connection().await?;
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
    sharing(cx).await?;
    lease_only(cx).await?;
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

/// Pairs of readers of one client, which are renewed together: the first or the second of each is released, or ended by force.
async fn forced_release_of_one_reader_leaves_the_others(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other) = (cx.client().await?, cx.client().await?);
    let ways = if other.admin().is_some() { &["released", "forced"][..] } else { &["released"] };
    let mut pairs = Vec::new();
    for (way, ended) in ways.iter().flat_map(|way| [(*way, 0), (way, 1)]) {
        let name = cx.named(&format!("{way}-{ended}"));
        let readers = [
            hold(cx, &client, &name, LockMode::Shared).await?,
            hold(cx, &client, &name, LockMode::Shared).await?,
        ];
        pairs.push((way, ended, readers));
    }
    let (mut left, mut told) = (Vec::new(), Vec::new());
    for (way, ended, [first, second]) in pairs {
        let (ended, kept) = if ended == 0 { (first, second) } else { (second, first) };
        match way {
            "released" => ended.release().await?,
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
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    for reader in left {
        let name = reader.name().clone();
        ensure!(reader.is_held(), "{name}: the other reader was told: {:?}", reader.loss());
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

/// Of two clients, and one in another process; fewer where each needs a connection.
async fn looking_shows_every_reader(cx: &Context) -> Verdict {
    let semantics = sharing(cx).await?;
    let (clients, name) = ([cx.client().await?, cx.client().await?], cx.name());
    let count = if semantics.hold == HoldKind::Lease { 40 } else { 6 };
    let mut process = None;
    let mut tokens = BTreeSet::new();
    if semantics.reach != Reach::Process {
        let process = process.insert(cx.worker().await?);
        process.mode = LockMode::Shared;
        tokens.insert(process.take(&name, cx.ttl()).await?);
    }
    let mut readers = Vec::new();
    for reader in 0..count {
        readers.push(hold(cx, &clients[reader % 2], &name, LockMode::Shared).await?);
        let token = readers[reader].token()?.get();
        ensure!(tokens.last() < Some(&token), "reader {reader} has {token} after {tokens:?}");
        tokens.insert(token);
    }
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    let lost: Vec<_> = readers.iter().map(|reader| reader.is_held()).collect();
    ensure!(!lost.contains(&false), "of {count} readers, these are held: {lost:?}");
    if let Some(mut process) = process {
        ensure!(process.status().await? == "held", "the reader of another process is lost");
        ensure!(process.release().await? == "released", "the reader of another process is not released");
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
        ensure!(reader.is_held(), "lost with {left} readers: {:?}", reader.loss());
        ensure!(
            !is_granted_to_a_writer(&clients[left % 2], &name).await?,
            "a writer was let in beside {left} readers"
        );
        reader.release().await?;
    }
    let options = cx.options().with_wait(hand_over_bound(cx, &clients[0])).with_mode(LockMode::Write);
    let writer = clients[0].take(&name, &options).await?;
    ensure!(
        tokens.last() < Some(&writer.token()?.get()),
        "the writer has {} after {tokens:?}",
        writer.token()?
    );
    Ok(writer.release().await?)
}

async fn readers_are_renewed_while_a_writer_waits(cx: &Context) -> Verdict {
    sharing(cx).await?;
    let (client, other, name) = (cx.client().await?, cx.client().await?, cx.name());
    let readers =
        [hold(cx, &client, &name, LockMode::Shared).await?, hold(cx, &other, &name, LockMode::Shared).await?];
    let writer = spawn_take(&other, &name, &cx.options().with_mode(LockMode::Write));
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    for reader in &readers {
        ensure!(reader.is_held(), "a reader is lost while a writer waits: {:?}", reader.loss());
    }
    ensure!(!writer.is_finished(), "a writer was let in beside readers");
    release_all(readers).await?;
    let writer = granted_within(writer, hand_over_bound(cx, &other), "a writer after the readers").await?;
    Ok(writer.release().await?)
}

/// The record of the lock is kept by another reader meanwhile.
async fn late_renewal_of_an_ended_reader_revives_nothing_beside_another(cx: &Context) -> Verdict {
    sharing(cx).await?;
    lease_only(cx).await?;
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
    ensure!(
        is_granted_to_a_writer(client, &name).await?,
        "{when}: a writer is kept out by a reader that is gone"
    );
    Ok(())
}
