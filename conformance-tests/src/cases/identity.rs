//! C: owners that have a process id in common, and other clocks.

use crate::cases::prelude::*;
use leasehold_core::{ExpiryClock, Reach};

pub(super) const CASES: CaseTable = cases![
    C17 processes_of_one_pid_are_different_owners_whatever_their_boot_clocks,
];

/// As in containers: each process is process 1 in its own namespace. The boot clock of the last is a day ahead of the others', as
/// that of another host is; where a lease ends by the clock that the processes of a host share, there is no such process.
async fn processes_of_one_pid_are_different_owners_whatever_their_boot_clocks(cx: &Context) -> Verdict {
    const DAY: Duration = Duration::from_secs(86_400);
    let semantics = cx.semantics().await?;
    if semantics.reach == Reach::Process {
        return Err(Stop::Skipped("the lock excludes within one process only".to_owned()));
    }
    let (name, address) = (cx.name(), cx.store().address());
    let start = |ahead| Worker::start_as_process_one(cx.subject().name(), &address, ahead);
    let mut holder = start(Duration::ZERO).await?;
    holder.take(&name, cx.ttl()).await?;
    for ahead in [Duration::ZERO, DAY] {
        if ahead == DAY && semantics.expiry_clock == ExpiryClock::Host {
            continue;
        }
        let is_granted = start(ahead).await?.try_take(&name, cx.ttl()).await?;
        let other = format!("another process 1, whose boot clock is {ahead:?} ahead");
        ensure!(!is_granted, "{other}, got a held lock");
        let status = holder.status().await?;
        ensure!(status == "held", "after an attempt of {other}, the holder is {status:?}");
    }
    let released = holder.release().await?;
    ensure!(released == "released", "the holder's release is {released:?}");
    Ok(())
}
