//! U: semaphores.

use crate::cases::declared::{crash_bound, fifo_only, hand_over_bound, silent_bound};
use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use crate::cases::tasks::{HoldLog, joined, until_waiting};
use crate::checker::Least;
use crate::history::{RecordedPermits, Recorder};
use crate::kinds::Permits;
use crate::worker::{Request, occupy};
use leasehold_core::{FencingToken, Reach, Result, Semaphore};
use std::collections::BTreeMap;
use std::future::Future;
use tokio::task::{JoinHandle, JoinSet};

pub(super) const CASES: CaseTable = cases![
    U01 crowd_never_holds_more_permits_than_there_are(quarter, load),
    U02 holders_have_distinct_slots_below_the_number,
    U03 token_of_a_slot_grows_with_each_grant,
    U04 release_of_any_permit_wakes_the_first_waiter,
    U05 waiters_for_a_permit_are_served_in_their_order,
    U06 callers_with_different_numbers_share_the_slots_that_both_know,
    U07 failing_nodes_grant_no_permit_beyond_the_number(quarter, load),
    U08 first_waiter_that_dies_stops_or_leaves_holds_up_the_others_for_a_lease,
    U09 late_grant_of_an_abandoned_permit_is_released,
    U10 semaphore_of_one_excludes_and_other_numbers_are_checked,
];

/// The number of permits in most cases.
const LIMIT: u32 = 2;

impl Context {
    fn permits(&self, client: &Client, limit: u32) -> Result<Box<dyn Permits>> {
        let permits = self.kinds().semaphore(&**client, &self.name(), limit)?;
        self.note_semaphore(&self.name(), limit);
        Ok(permits)
    }

    /// A permit, by a client of its own.
    fn permit(&self, client: &Client, limit: u32) -> Result<JoinHandle<Result<LockGuard>>> {
        let (permits, options) = (self.permits(client, limit)?, self.options());
        Ok(tokio::spawn(async move { permits.acquire(&options).await }))
    }

    /// The name of a part of the semaphore.
    fn part(&self, part: &str) -> LockName {
        LockName::from_store(format!("{}::{part}", self.name()))
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Waits until a waiter has asked for the slots.
    async fn until_first_waits(&self, client: &Client) -> Verdict {
        until_waiting(client, self, &self.part("slot:0"), 1).await
    }
}

fn slot(permit: &LockGuard) -> std::result::Result<u32, Stop> {
    permit.slot().ok_or_else(|| Stop::Failed(format!("{permit:?} has no slot")))
}

/// A long hold, without waiting.
fn at_once() -> AcquireOptions {
    AcquireOptions::new().with_wait(Wait::No)
}

/// All permits, which are free. A first request may take long on a busy machine.
async fn take_all(permits: &dyn Permits, limit: u32) -> Result<Vec<LockGuard>> {
    let mut all = Vec::new();
    for _ in 0..limit {
        all.push(permits.acquire(&AcquireOptions::new().with_wait(Duration::from_secs(20))).await?);
    }
    Ok(all)
}

async fn crowd_never_holds_more_permits_than_there_are(cx: &Context) -> Verdict {
    crowd(cx, std::future::ready(Ok(()))).await
}

/// There is one task more than there are permits, and so many processes. Meanwhile, something else happens. The history is
/// recorded and judged; holds are short, so where waiters poll, few meet a holder.
async fn crowd(cx: &Context, meanwhile: impl Future<Output = Verdict>) -> Verdict {
    let run = RecordedRun::new(cx, AcquireOptions::DEFAULT_TTL)?;
    let run = run.with_least(Least { contended: 0, ..Least::USUAL });
    let directory = run.directory.path();
    let players = u64::from(LIMIT + 1);
    let each = u64::div_ceil(cx.config().permit_grants.unwrap_or(60), 2 * players);
    let mut workers = Vec::new();
    if cx.semantics().await?.reach != Reach::Process {
        for _ in 0..players {
            let mut worker = cx.worker().await?;
            worker.send(&Request::Occupy(cx.name(), LIMIT, each, directory.to_owned())).await?;
            workers.push(worker);
        }
    }
    let mut tasks = JoinSet::new();
    for _ in 0..players {
        let (permits, directory) = (cx.permits(&cx.client().await?, LIMIT)?, directory.to_owned());
        let recorder = Recorder::create(&directory)?;
        let permits = RecordedPermits { permits, name: cx.name(), limit: LIMIT, recorder };
        tasks.spawn(async move { occupy(&permits, each, &directory, &AcquireOptions::new()).await });
    }
    meanwhile.await?;
    joined(tasks).await?;
    for worker in &mut workers {
        worker.done().await?;
    }
    run.judge().await
}

async fn holders_have_distinct_slots_below_the_number(cx: &Context) -> Verdict {
    let mut held = BTreeMap::new();
    for _ in 0..LIMIT {
        let permit = cx.permits(&cx.client().await?, LIMIT)?.acquire(&at_once()).await?;
        let slot = slot(&permit)?;
        ensure!(slot < LIMIT, "slot {slot} of {LIMIT}");
        ensure!(held.insert(slot, permit).is_none(), "two hold slot {slot}");
    }
    let other = cx.permits(&cx.client().await?, LIMIT)?;
    ensure_kind(other.acquire(&at_once()).await, ErrorKind::Busy, "an attempt when all permits are held")?;
    release_all(held.into_values()).await
}

async fn token_of_a_slot_grows_with_each_grant(cx: &Context) -> Verdict {
    let mut last: BTreeMap<u32, FencingToken> = BTreeMap::new();
    let clients = [cx.client().await?, cx.client().await?];
    for round in 0..4 {
        let permits = cx.permits(&clients[round % 2], LIMIT)?;
        let mut all = take_all(&*permits, LIMIT).await?;
        // The last one is released first, and granted again while the others are held.
        while let Some(permit) = all.pop() {
            let (slot, token) = (slot(&permit)?, permit.token()?);
            let before = last.insert(slot, token);
            ensure!(before < Some(token), "slot {slot}: token {token} after {before:?}");
            permit.release().await?;
            let again = permits.acquire(&at_once()).await?;
            let (slot, token) = (self::slot(&again)?, again.token()?);
            let before = last.insert(slot, token);
            ensure!(before < Some(token), "slot {slot}, granted again: token {token} after {before:?}");
            again.release().await?;
        }
    }
    Ok(())
}

async fn release_of_any_permit_wakes_the_first_waiter(cx: &Context) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    cx.warm_up(&other).await?;
    let mut held = BTreeMap::new();
    for permit in take_all(&*cx.permits(&client, LIMIT + 1)?, LIMIT + 1).await? {
        held.insert(slot(&permit)?, permit);
    }
    for wanted in 0..=LIMIT {
        let waiter = cx.permit(&other, LIMIT + 1)?;
        cx.until_first_waits(&client).await?;
        let permit = held.remove(&wanted);
        permit.ok_or_else(|| Stop::Failed(format!("nobody holds slot {wanted}")))?.release().await?;
        let (permit, took) = timed(waiter).await;
        let (permit, bound) = (permit??, hand_over_bound(cx, &client));
        ensure_within!(took, bound, "slot {wanted} was released, and the waiter got it after {took:?}");
        ensure!(slot(&permit)? == wanted, "slot {wanted} was released, and {permit:?} was granted");
        held.insert(wanted, permit);
    }
    Ok(())
}

/// One permit goes from waiter to waiter, and the other ones are held for all that time: so the order is that of the grants.
async fn waiters_for_a_permit_are_served_in_their_order(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    fifo_only(&client)?;
    let mut held = take_all(&*cx.permits(&client, LIMIT)?, LIMIT).await?;
    let served = HoldLog::new();
    let mut waiters = JoinSet::new();
    for place in 0..8 {
        let (permits, options) = (cx.permits(&cx.client().await?, LIMIT)?, cx.options());
        let served = served.clone();
        waiters.spawn(async move {
            let permit = permits.acquire(&options).await?;
            served.add(place);
            permit.release().await
        });
        match place {
            0 => cx.until_first_waits(&client).await?,
            behind => until_waiting(&client, cx, &cx.part("gate"), behind).await?,
        }
    }
    drop(held.pop());
    joined(waiters).await?;
    let served = served.entries();
    ensure!(served.is_sorted(), "served in the order {served:?}");
    Ok(())
}

async fn callers_with_different_numbers_share_the_slots_that_both_know(cx: &Context) -> Verdict {
    let (three, five) = (cx.permits(&cx.client().await?, 3)?, cx.permits(&cx.client().await?, 5)?);
    let of_three = take_all(&*three, 3).await?;
    for permit in &of_three {
        ensure!(slot(permit)? < 3, "a caller that sees three slots got {permit:?}");
    }
    let mut of_five = take_all(&*five, 2).await?;
    for (kind, permits) in [("three", &three), ("five", &five)] {
        let when = format!("an attempt of one that sees {kind}, when five are held");
        ensure_kind(permits.acquire(&at_once()).await, ErrorKind::Busy, &when)?;
    }
    release_all(of_five.pop()).await?;
    let when = "an attempt of one that sees three, when one of the others is free";
    ensure_kind(three.acquire(&at_once()).await, ErrorKind::Busy, when)?;
    five.acquire(&at_once()).await?.release().await?;
    release_all(of_three).await
}

/// A minority is killed in the middle of the crowd, and then comes back with what it had.
async fn failing_nodes_grant_no_permit_beyond_the_number(cx: &Context) -> Verdict {
    let members = cx.store().members()?;
    require!(!members.has_leader(), "one of its servers leads, and decides alone");
    let failing = 0..(members.count() - 1) / 2;
    let failures = async {
        for node in failing.clone() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            members.kill(node).await?;
        }
        tokio::time::sleep(cx.slack()).await;
        for node in failing {
            members.restart(node).await?;
        }
        Ok(())
    };
    crowd(cx, failures).await
}

async fn first_waiter_that_dies_stops_or_leaves_holds_up_the_others_for_a_lease(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let leaver = cx.client().await?;
    let held = cx.permits(&client, 1)?.acquire(&at_once()).await?;
    let first = cx.permit(&leaver, 1)?;
    cx.until_first_waits(&client).await?;
    let behind = cx.permit(&cx.client().await?, 1)?;
    until_waiting(&client, cx, &cx.part("gate"), 1).await?;
    first.abort();
    let bound = client.semantics().wake_up.bound() + hand_over_bound(cx, &client);
    let mut held = next_within(held, behind, bound, "left").await?;
    if client.semantics().reach == Reach::Process {
        return Ok(held.release().await?);
    }
    for kill in [true, false] {
        let mut first = cx.worker().await?;
        first.send(&Request::Permit(cx.name(), cx.ttl(), 1)).await?;
        cx.until_first_waits(&client).await?;
        let behind = cx.permit(&cx.client().await?, 1)?;
        until_waiting(&client, cx, &cx.part("gate"), 1).await?;
        let (bound, what) = if kill {
            first.kill();
            (crash_bound(cx).await?, "was killed")
        } else {
            first.pause();
            (silent_bound(cx).await?, "was stopped")
        };
        // Twice: once for its gate, and once for its place in front of the slot.
        held = next_within(held, behind, bound * 2, what).await?;
    }
    Ok(held.release().await?)
}

/// Releases the permit, and expects that the waiter gets it. The waiter's permit.
async fn next_within(
    held: LockGuard,
    waiter: JoinHandle<Result<LockGuard>>,
    bound: Duration,
    what: &str,
) -> std::result::Result<LockGuard, Stop> {
    held.release().await?;
    let (next, took) = timed(waiter).await;
    let next = next??;
    ensure_within!(took, bound, "behind a first waiter that {what}, the next got a permit after {took:?}");
    Ok(next)
}

/// All slots are granted, or about to be, to a waiter that does not hear of it, and leaves.
async fn late_grant_of_an_abandoned_permit_is_released(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let permits = cx.permits(&client, LIMIT)?;
    let (proxy, deaf) = cx.client_behind_proxy(cx.patience()).await?;
    cx.warm_up(&deaf).await?;
    let held = take_all(&*permits, LIMIT).await?;
    let waiter = cx.permit(&deaf, LIMIT)?;
    cx.until_first_waits(&client).await?;
    proxy.set(Traffic::HoldReplies);
    release_all(held).await?;
    tokio::time::sleep(cx.slack()).await;
    ensure!(!waiter.is_finished(), "a waiter was granted a permit through a network that holds replies");
    waiter.abort();
    proxy.set(Traffic::Pass);
    let bound = hand_over_bound(cx, &client) * 2;
    let options = AcquireOptions::new().with_wait(bound);
    let mut all = Vec::new();
    for number in 1..=LIMIT {
        let permit = permits.acquire(&options).await;
        let late = |error| Stop::Failed(format!("permit {number} after the waiter had left: {error}"));
        all.push(permit.map_err(late)?);
    }
    Ok(())
}

async fn semaphore_of_one_excludes_and_other_numbers_are_checked(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    for limit in [0, Semaphore::MAX_PERMITS + 1, u32::MAX] {
        let outcome = cx.permits(&client, limit).map(drop);
        ensure_kind(outcome, ErrorKind::Invalid, &format!("a semaphore of {limit}"))?;
    }
    let lock = client.poke(&cx.name()).await?;
    ensure!(lock.is_some(), "the lock of that name is not free");
    let permit = cx.permits(&client, 1)?.acquire(&at_once()).await?;
    for other in [client.clone(), cx.client().await?] {
        let when = "a second permit of a semaphore of one";
        ensure_kind(cx.permits(&other, 1)?.acquire(&at_once()).await, ErrorKind::Busy, when)?;
    }
    permit.release().await?;
    Ok(cx.permits(&cx.client().await?, 1)?.acquire(&at_once()).await?.release().await?)
}
