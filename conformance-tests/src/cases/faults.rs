//! J: faults of the machine around.

use crate::case::{Case, Verdict, cases, ensure};
use crate::clock::SteppedClock;
use crate::context::{ClientExt, Context, ensure_held, free_within};
use leasehold_core::AcquireOptions;
use std::time::Duration;

pub(super) const CASES: &[Case] = cases![
    J14 wall_clock_of_a_client_decides_nothing,
];

const HOUR: i64 = 3600;

async fn wall_clock_of_a_client_decides_nothing(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let address = cx.store().address();

    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let fast = SteppedClock::ahead(HOUR)?;
    let mut thief = cx.worker_at(&address, &fast.environment()).await?;
    thief.begin_take(&name, cx.ttl()).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    ensure_held(&client, &name, "wanted by a process whose clock is an hour ahead").await?;
    ensure!(guard.is_held(), "a clock that is an hour ahead took the lock of another process");
    thief.kill();
    guard.release().await?;

    let clock = SteppedClock::ahead(0)?;
    let mut holder = cx.worker_at(&address, &clock.environment()).await?;
    holder.take(&name, cx.ttl()).await?;
    for ahead in [HOUR, -HOUR] {
        clock.step_to(ahead)?;
        tokio::time::sleep(cx.ttl() * 3 / 2).await;
        let status = holder.status().await?;
        ensure!(
            status == "held",
            "after its wall clock stepped by {ahead} s, a renewed holder is {status:?}"
        );
        ensure_held(&client, &name, "held by a process whose clock was stepped").await?;
    }
    holder.pause();
    let bound = cx.ttl() + client.semantics().wake_up.bound() + cx.slack();
    free_within(&client, &name, bound, "whose holder has a clock an hour behind, and stopped").await?;
    holder.resume();
    let status = holder.status().await?;
    ensure!(
        status.starts_with("lost"),
        "with its clock an hour behind, a holder whose lease is over is {status:?}"
    );
    Ok(())
}
