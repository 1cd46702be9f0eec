//! U: semaphores.

use crate::cases::b_waiting::{outlasts_a_refusal, waiting};
use crate::cases::prelude::*;
use crate::cases::recorded_run::RecordedRun;
use crate::history::{RecordedPermits, Recorder};
use crate::kinds::Permits;
use crate::worker::{Request, occupy};
use leasehold_core::{Reach, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::mpsc::channel;

pub(super) const CASES: CaseTable = cases![
    U01 crowd_never_holds_more_permits_than_there_are(Quarter, Load) = crowd(ready(Ok(()))),
    U04 release_of_any_permit_wakes_the_first_waiter,
    U05 waiters_for_a_permit_are_served_in_their_order if fifo_only,
    U07 failing_nodes_grant_no_permit_beyond_the_number(Quarter, Load),
    U08 first_waiter_that_dies_stops_or_leaves_holds_up_the_others_for_a_lease,
    U10 waiter_for_a_permit_outlasts_a_refusal_that_passes,
];

/// The number of permits in most cases.
const LIMIT: u32 = 2;

/// How often each of those in U01 and U07 holds a permit.
const GRANTS: u64 = 10;

impl Context {
    fn permits(&self, client: &Client, limit: u32) -> Result<Box<dyn Permits>> {
        let permits = self.kinds().semaphore(&**client, &self.name(), limit)?;
        self.note_semaphore(&self.name(), limit);
        Ok(permits)
    }

    /// A permit, by a client of its own.
    fn permit(&self, client: &Client, limit: u32) -> Result<TakeTask> {
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

/// All permits, which are free. A first request may take long on a busy machine.
async fn take_all(permits: &dyn Permits, limit: u32) -> Result<Vec<LockGuard>> {
    let mut all = Vec::new();
    for _ in 0..limit {
        all.push(permits.acquire(&AcquireOptions::new().with_wait(Duration::from_secs(20))).await?);
    }
    Ok(all)
}

/// There is one task more than there are permits, and so many processes. Meanwhile, something else happens. The history is
/// recorded and judged; holds are short, so where waiters poll, few meet a holder.
async fn crowd(cx: &Context, meanwhile: impl Future<Output = Verdict>) -> Verdict {
    let mut run = RecordedRun::new(cx, AcquireOptions::DEFAULT_TTL)?;
    run.least.contended = 0;
    let directory = run.directory.path();
    let players = u64::from(LIMIT + 1);
    let mut workers = Vec::new();
    if cx.semantics().await?.reach != Reach::Process {
        for _ in 0..players {
            let mut worker = cx.worker().await?;
            worker.send(&Request::Occupy(cx.name(), LIMIT, GRANTS, directory.to_owned())).await?;
            workers.push(worker);
        }
    }
    let mut tasks = JoinSet::new();
    for _ in 0..players {
        let (permits, directory) = (cx.permits(&cx.client().await?, LIMIT)?, directory.to_owned());
        let recorder = Recorder::create(&directory)?;
        let permits = RecordedPermits { permits, name: cx.name(), limit: LIMIT, recorder };
        tasks.spawn(async move { occupy(&permits, GRANTS, &directory, &AcquireOptions::new()).await });
    }
    meanwhile.await?;
    joined(tasks).await?;
    for worker in &mut workers {
        worker.done().await?;
    }
    run.judge().await
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
        let who = format!("slot {wanted} was released: its waiter");
        let permit = granted_within(waiter, hand_over_bound(cx, &client), &who).await?;
        ensure!(slot(&permit)? == wanted, "slot {wanted} was released, and {permit:?} was granted");
        held.insert(wanted, permit);
    }
    if let Some(admin) = other.admin() {
        let shown = match admin.list(&format!("{}::slot:", cx.name())).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            shown => shown?,
        };
        let slots: BTreeSet<_> = shown.iter().map(|hold| hold.name.slot()).collect();
        ensure!(slots == (0..=LIMIT).map(Some).collect(), "of all slots, {slots:?} are listed as held");
    }
    Ok(())
}

/// One permit goes from waiter to waiter, and the other ones are held for all that time: so the order is that of the grants.
async fn waiters_for_a_permit_are_served_in_their_order(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let mut held = take_all(&*cx.permits(&client, LIMIT)?, LIMIT).await?;
    // Each tells its place while it holds.
    let (tell, served) = channel();
    let mut waiters = JoinSet::new();
    for place in 0..8 {
        let (permits, options) = (cx.permits(&cx.client().await?, LIMIT)?, cx.options());
        let tell = tell.clone();
        waiters.spawn(async move {
            let permit = permits.acquire(&options).await?;
            let _ = tell.send(place);
            permit.release().await
        });
        match place {
            0 => cx.until_first_waits(&client).await?,
            behind => until_waiting(&client, cx, &cx.part("gate"), behind).await?,
        }
    }
    drop(held.pop());
    joined(waiters).await?;
    let served: Vec<usize> = served.try_iter().collect();
    ensure!(served.is_sorted(), "served in the order {served:?}");
    Ok(())
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
            members.restart(node, true).await?;
        }
        Ok(())
    };
    crowd(cx, failures).await
}

async fn first_waiter_that_dies_stops_or_leaves_holds_up_the_others_for_a_lease(cx: &Context) -> Verdict {
    let client = cx.client().await?;
    let leaver = cx.client().await?;
    let held = cx.permits(&client, 1)?.acquire(&AcquireOptions::new().with_wait(Wait::No)).await?;
    let first = cx.permit(&leaver, 1)?;
    cx.until_first_waits(&client).await?;
    let behind = cx.permit(&cx.client().await?, 1)?;
    until_waiting(&client, cx, &cx.part("gate"), 1).await?;
    first.abort();
    let bound = client.semantics().wake_up.bound() + hand_over_bound(cx, &client);
    held.release().await?;
    let mut held = granted_within(behind, bound, "behind a first waiter that left, the next").await?;
    if client.semantics().reach == Reach::Process {
        return Ok(held.release().await?);
    }
    for kill in [true, false] {
        let mut first = cx.worker().await?;
        first.send(&Request::Permit(cx.name(), cx.ttl(), 1)).await?;
        cx.until_first_waits(&client).await?;
        let behind = cx.permit(&cx.client().await?, 1)?;
        until_waiting(&client, cx, &cx.part("gate"), 1).await?;
        let how = if kill { "killed" } else { "stopped" };
        let who = format!("behind a first waiter that was {how}, the next");
        let bound = if kill {
            first.kill();
            crash_bound(cx).await?
        } else {
            first.pause();
            silent_bound(cx).await?
        };
        // Twice: once for its gate, and once for its place in front of the slot.
        held.release().await?;
        held = granted_within(behind, of_a_waiter(bound, cx, &client) * 2, &who).await?;
    }
    Ok(held.release().await?)
}

async fn waiter_for_a_permit_outlasts_a_refusal_that_passes(cx: &Context) -> Verdict {
    let (client, name, options) = (cx.client().await?, cx.name(), waiting(cx));
    cx.note_semaphore(&name, 1);
    let slot = LockName::from_store(format!("{name}::slot:0"))?;
    let take = async { client.semaphore(&name, 1)?.acquire_with(&options).await?.release().await };
    outlasts_a_refusal(cx, &client, &slot, take).await
}
