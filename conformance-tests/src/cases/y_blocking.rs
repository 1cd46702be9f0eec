//! Y: the API for programs without an async runtime.

use crate::cases::prelude::*;
use crate::kinds::{BlockingGuard, BlockingLocks};

pub(super) const CASES: CaseTable = cases![
    Y01 blocking_guard_is_dropped_at_once_while_the_store_is_silent,
    Y03 blocking_call_inside_a_runtime_is_refused,
    Y04 caller_that_computes_for_three_leases_keeps_its_lock,
];

/// Runs this on a thread outside of the runtime, and waits for it.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Stop> + Send + 'static,
) -> Result<T, Stop> {
    let thread = std::thread::spawn(work);
    let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
    joined.map_err(|_| Stop::Failed("a thread panicked".to_owned()))?
}

/// A blocking client of the store behind this address.
async fn locks(cx: &Context, address: String) -> Result<Arc<dyn BlockingLocks>, Stop> {
    let subject = Arc::clone(cx.subject());
    on_a_thread(move || {
        let connecting = Arc::clone(&subject);
        let client = subject.kinds().blocking(Box::pin(async move { connecting.connect(&address).await }));
        Ok(client.ok_or_else(|| Stop::skipped("the subject's kinds have no `blocking`"))??)
    })
    .await
}

async fn taken(
    locks: &Arc<dyn BlockingLocks>,
    name: &LockName,
    options: AcquireOptions,
) -> Result<Box<dyn BlockingGuard>, Stop> {
    let (locks, name) = (Arc::clone(locks), name.clone());
    on_a_thread(move || Ok(locks.acquire(&name, &options)?)).await
}

async fn blocking_guard_is_dropped_at_once_while_the_store_is_silent(cx: &Context) -> Verdict {
    let (proxy, address) = cx.store().proxied(cx.patience()).await?;
    let (locks, name) = (locks(cx, address).await?, cx.name());
    let guard = taken(&locks, &name, cx.options()).await?;
    proxy.set(Traffic::BlackHole);
    let dropping = on_a_thread(move || {
        drop(guard);
        Ok(())
    });
    let (dropped, took) = timed(dropping).await;
    dropped?;
    proxy.set(Traffic::Pass);
    ensure_within!(took, cx.slack(), "a drop blocked its thread for {took:?}");
    let other = cx.client().await?;
    let bound =
        if other.semantics().hold == HoldKind::Lease { cx.lease(cx.ttl()) } else { cx.patience() / 2 };
    free_within(&other, &name, bound + cx.slack(), "after the drop").await
}

async fn blocking_call_inside_a_runtime_is_refused(cx: &Context) -> Verdict {
    let (locks, name) = (locks(cx, cx.store().address()).await?, cx.name());
    let guard = taken(&locks, &name, cx.options()).await?;
    let refused = [
        locks.acquire(&name, &cx.options()).err(),
        locks.try_acquire(&name).err(),
        guard.extend(cx.ttl()).err(),
        guard.release().err(),
        cx.kinds().blocking(Box::pin(async { unreachable!("nothing connects") })).and_then(Result::err),
    ];
    for error in refused {
        let kind = error.as_ref().map(leasehold_core::Error::kind);
        ensure!(kind == Some(ErrorKind::Misconfigured), "{error:?} instead of Misconfigured");
    }
    // The guard that was not released was dropped.
    let other = cx.client().await?;
    free_within(&other, &name, cx.ttl() + cx.slack(), "after a refused release").await?;
    on_a_thread(move || Ok(locks.close()?)).await
}

async fn caller_that_computes_for_three_leases_keeps_its_lock(cx: &Context) -> Verdict {
    let (locks, name, time) = (locks(cx, cx.store().address()).await?, cx.name(), cx.ttl() * 3);
    let (other, options) = (cx.client().await?, cx.options());
    let (holder, held) = (Arc::clone(&locks), name.clone());
    let computing = on_a_thread(move || {
        let guard = holder.acquire(&held, &options)?;
        // As a computation does, this keeps the thread from everything else.
        std::thread::sleep(time);
        ensure!(guard.is_held(), "lost while its caller computed: {:?}", guard.loss());
        Ok(guard.release()?)
    });
    let looking = async {
        tokio::time::sleep(time / 2).await;
        ensure_held(&other, &name, "while its holder computes").await
    };
    let (computed, looked) = tokio::join!(computing, looking);
    computed?;
    looked?;
    ensure_free(&other, &name, "after the release").await?;
    on_a_thread(move || Ok(locks.close()?)).await
}
