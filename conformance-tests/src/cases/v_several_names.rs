//! V: several names at once.

use crate::cases::b_waiting::{outlasts_a_refusal, waiting};
use crate::cases::prelude::*;
use crate::kinds::LockSet;
use leasehold_core::Result;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const CASES: CaseTable = cases![
    V01 set_is_acquired_whole_or_not_at_all,
    V02 sets_in_crossed_orders_all_end(Quarter),
    V04 failed_and_dropped_sets_leave_nothing,
    V05 loss_of_one_name_is_the_loss_of_the_set_at_once,
    V07 waiting_set_outlasts_a_refusal_that_passes,
];

const CROSSED_FOR: Duration = Duration::from_secs(2);
const TASKS: usize = 20;
const NAMES: usize = 6;

async fn acquire_all<const N: usize>(
    cx: &Context,
    client: &Client,
    names: [&LockName; N],
    options: &AcquireOptions,
) -> Result<Box<dyn LockSet>> {
    let names = names.map(Clone::clone);
    cx.kinds().acquire_all(client, &names, options).await
}

/// Expects that locks are free which a set gives back in the background.
async fn free_soon(cx: &Context, client: &Client, names: [&LockName; 2], when: &str) -> Verdict {
    for name in names {
        free_within(client, name, hand_over_bound(cx, client), when).await?;
    }
    Ok(())
}

/// A name that stands in it twice counts once.
async fn set_is_acquired_whole_or_not_at_all(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let [a, b, c] = ["a", "b", "c"].map(|name| cx.named(name));
    let once = AcquireOptions::new().with_wait(Wait::No);

    let held = other.take(&b, &AcquireOptions::new()).await?;
    let refused = acquire_all(cx, &client, [&c, &a, &b], &once).await;
    let words = refused.as_ref().err().map(ToString::to_string).unwrap_or_default();
    ensure_kind(refused, ErrorKind::Busy, "a set of which one name is held")?;
    ensure!(words.contains(b.as_str()), "the error does not name the lock that is held: {words}");
    free_soon(cx, &other, [&a, &c], "after the refusal of the set").await?;
    held.release().await?;

    let set = acquire_all(cx, &client, [&c, &a, &b, &a], &cx.options().with_ttl(cx.patience())).await?;
    for name in [&a, &b, &c] {
        ensure_held(&other, name, "while the set is held").await?;
        set.token(name)?;
    }
    ensure!(set.is_held(), "a set that was just acquired is not held");
    set.release().await?;
    ensure_all_free(&other, [&a, &b, &c], "after the release of the set").await
}

/// First the smallest circle, by a forced order: the names between keep each set waiting with its first name, if it takes them in
/// the order of its caller, until the other set has the name that it wants last. Then many tasks with random sets.
async fn sets_in_crossed_orders_all_end(cx: &Context) -> Verdict {
    let (outside, one, two) = (cx.client().await?, cx.client().await?, cx.client().await?);
    let [a, b, between_one, between_two] = ["a", "b", "between-1", "between-2"].map(|name| cx.named(name));
    let mut gates = Vec::new();
    for name in [&between_one, &between_two] {
        gates.push(outside.take(name, &AcquireOptions::new()).await?);
    }
    let options = cx.options().with_ttl(cx.patience()).with_wait(cx.patience() / 4);
    let opened = async {
        // Both wait by then.
        tokio::time::sleep(cx.slack()).await;
        release_all(gates).await
    };
    let end = async |client: &Client, names: [&LockName; 3]| {
        acquire_all(cx, client, names, &options).await?.release().await
    };
    let (opened, first, second) =
        tokio::join!(opened, end(&one, [&a, &between_one, &b]), end(&two, [&b, &between_two, &a]));
    opened?;
    ensure!(first.is_ok() && second.is_ok(), "two sets wait for each other: {first:?}, {second:?}");
    let clients = [outside, one, two, cx.client().await?];
    let sets = random_sets_of_many_tasks(cx, &clients).await?;
    let least = sets.iter().min().copied().unwrap_or_default();
    ensure_came!(least > 0, "a task acquired no set, of tasks with {sets:?}");
    Ok(())
}

/// How many sets each task acquired. While one holds a set, no other holds any of its names.
async fn random_sets_of_many_tasks(cx: &Context, clients: &[Client]) -> Result<Vec<u32>, Stop> {
    let end = Instant::now() + CROSSED_FOR;
    let names: Vec<LockName> = (0..NAMES).map(|at| cx.named(&format!("name-{at}"))).collect();
    let held: HashMap<_, _> = names.iter().map(|name| (name.clone(), AtomicBool::new(false))).collect();
    let held = Arc::new(held);
    let options = cx.options().with_ttl(cx.patience()).with_wait(cx.patience() * 3);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, names, held, options) =
            (clients[task % clients.len()].clone(), names.clone(), Arc::clone(&held), options.clone());
        let subject = Arc::clone(cx.subject());
        let mut random = fastrand::Rng::with_seed(cx.seed() ^ task as u64);
        tasks.spawn(async move {
            let mut acquired = 0;
            while acquired == 0 || Instant::now() < end {
                let mut wanted = names.clone();
                random.shuffle(&mut wanted);
                wanted.truncate(random.usize(2..=NAMES / 2));
                let set = subject.kinds().acquire_all(&client, &wanted, &options).await?;
                for name in &wanted {
                    ensure!(!held[name].swap(true, Ordering::SeqCst), "two sets hold {name}");
                }
                tokio::task::yield_now().await;
                for name in &wanted {
                    held[name].store(false, Ordering::SeqCst);
                }
                set.release().await?;
                acquired += 1;
            }
            Ok::<_, Stop>(acquired)
        });
    }
    joined(tasks).await
}

/// The leases outlast the case.
async fn failed_and_dropped_sets_leave_nothing(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let [a, b, c] = ["a", "b", "c"].map(|name| cx.named(name));
    cx.warm_up(&client).await?;
    let _held = other.take(&c, &AcquireOptions::new()).await?;

    let failed = acquire_all(cx, &client, [&b, &c, &a], &AcquireOptions::new().with_wait(cx.ttl())).await;
    ensure!(failed.is_err(), "a set was acquired of which one name stays held");
    free_soon(cx, &other, [&a, &b], "after the set has failed").await?;
    // Before, between and after the grants of the free names.
    for step in 0..8_u32 {
        let options = AcquireOptions::new();
        let waiting = acquire_all(cx, &client, [&a, &b, &c], &options);
        let _ = tokio::time::timeout(cx.slack() * step.pow(2) / 200, waiting).await;
    }
    free_soon(cx, &other, [&a, &b], "after the waiting set was dropped").await
}

async fn loss_of_one_name_is_the_loss_of_the_set_at_once(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let [a, b, c] = ["a", "b", "c"].map(|name| cx.named(name));
    let ttl = cx.ttl() * 4;
    let set = acquire_all(cx, &client, [&a, &b, &c], &cx.options().with_ttl(ttl)).await?;
    if optional(cx.store().delete(&b).await)?.is_none() {
        ensure!(!other.looking()?.force_release(&b, None).await?.is_empty(), "nothing was released by force");
    }
    let untold = |_| Stop::Late("the holder was not told of the loss of one name".to_owned(), None);
    let lost = tokio::time::timeout(ttl / 3 + cx.slack(), set.lost()).await.map_err(untold)?;
    ensure!(lost.as_ref() == Some(&b), "{lost:?} is said to be lost, and not {b}");
    ensure!(!set.is_held(), "the set is held after the loss of one name");
    let of_a_lost_set =
        |name| ensure_kind(set.token(name), ErrorKind::Lost, "a token of a set that was lost");
    [&a, &b, &c].into_iter().try_for_each(of_a_lost_set)?;
    for name in [&a, &c] {
        ensure_held(&other, name, "while the holder of a set that was lost cleans up").await?;
    }
    ensure_kind(set.release().await, ErrorKind::Lost, "the release of a set that was lost")?;
    // The leases go on for longer than that.
    let bound = hand_over_bound(cx, &other).min(ttl / 2);
    for name in [&a, &c] {
        free_within(&other, name, bound, "after the release of a set that was lost").await?;
    }
    Ok(())
}

async fn waiting_set_outlasts_a_refusal_that_passes(cx: &Context) -> Verdict {
    let (client, options) = (cx.client().await?, waiting(cx));
    let names = [cx.named("a"), cx.named("b")];
    for held in &names {
        let take = async { client.acquire_all_with(&names, &options).await?.release().await };
        outlasts_a_refusal(cx, &client, held, take).await?;
    }
    Ok(())
}
