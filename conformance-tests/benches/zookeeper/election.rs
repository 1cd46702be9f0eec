use leasehold::{AcquireOptions, DistributedLock, DistributedLockExt, LockName};
use leasehold_test_stores::servers::ZooKeeperEnsemble;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

/// A leader is killed while a lock is held and wanted: whether the holder loses it, how long until the next hand-over,
/// and what that one costs by itself.
pub(crate) fn kill_leaders() {
    let mut ensemble = ZooKeeperEnsemble::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("\nleader killed    lost   released and handed over, since the kill   a hand-over before");
    for _ in 0..ROUNDS {
        let leader = ensemble.wait_until_served(3).unwrap();
        let name = LockName::new(format!("round-{:08x}", fastrand::u32(..))).unwrap();
        let (holder, waiter) = runtime.block_on(async {
            let url = format!("{}/bench?session_timeout=10s", ensemble.url());
            (leasehold::connect(&url).await.unwrap(), leasehold::connect(&url).await.unwrap())
        });
        let before = runtime.block_on(hand_over(&holder, &waiter, &name, || {}));
        let mut killed = Instant::now();
        let since = runtime.block_on(hand_over(&holder, &waiter, &name, || {
            killed = Instant::now();
            ensemble.kill(leader);
        }));
        println!(
            "server {leader}         {:<5}  {:>38.0} ms {:>17.1} ms",
            since.lost,
            (since.handed_over - killed).as_secs_f64() * 1e3,
            (before.handed_over - before.released).as_secs_f64() * 1e3,
        );
        ensemble.restart(leader, true).unwrap();
    }
}

struct HandOver {
    lost: bool,
    released: Instant,
    handed_over: Instant,
}

/// One client holds and the other waits; then something happens, and the lock is handed over.
async fn hand_over(
    holder: &Arc<dyn DistributedLock>,
    waiter: &Arc<dyn DistributedLock>,
    name: &LockName,
    meanwhile: impl FnOnce(),
) -> HandOver {
    let options = AcquireOptions::new().with_wait(Duration::from_secs(60));
    let guard = holder.acquire_with(name, &options).await.unwrap();
    let (other, wanted) = (Arc::clone(waiter), name.clone());
    let waiting = tokio::spawn(async move {
        let guard = other.acquire_with(&wanted, &options).await.unwrap();
        let handed_over = Instant::now();
        guard.release().await.unwrap();
        handed_over
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    meanwhile();
    let (lost, released) = (!guard.is_held(), Instant::now());
    let released_well = guard.release().await;
    let handed_over = waiting.await.unwrap();
    HandOver {
        lost: lost || released_well.is_err_and(|error| error.kind() == leasehold::ErrorKind::Lost),
        released,
        handed_over,
    }
}
