//! The metrics of a client, as Prometheus reads them.

use leasehold::{AcquireOptions, Config, DistributedLock, DistributedLockExt, Registry};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The page of metrics after this work, which runs on one thread.
fn page_after<W: Future<Output = ()>>(work: impl FnOnce(Arc<dyn DistributedLock>) -> W) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let config = Config::new("memory:").unwrap();
            let client = Registry::default().connect_with(&config, leasehold::metrics::observed).await;
            work(client.unwrap()).await;
        });
    });
    recorder.handle().render()
}

fn metric(name: &str, more: &str) -> String {
    format!("leasehold_{name}{{backend=\"memory\",mode=\"process\",{more}}}")
}

#[test]
fn hold_and_its_waiters_are_counted_until_they_end() {
    let page = page_after(|locks| async move {
        let guard = locks.acquire("job").await.unwrap();
        assert!(locks.acquire_timeout("job", Duration::from_millis(20)).await.is_err());
        assert!(locks.try_acquire("job").await.unwrap().is_none());
        let waiting = locks.acquire("job");
        assert!(tokio::time::timeout(Duration::from_millis(20), waiting).await.is_err());
        guard.release().await.unwrap();
        let _held = locks.read("job").await.unwrap();
        assert!(locks.semaphore("pool", 2).unwrap().acquire().await.is_ok());
    });
    for (outcome, count) in [("granted", 1), ("timed_out", 1), ("busy", 1), ("cancelled", 1)] {
        let labels = format!("kind=\"exclusive\",outcome=\"{outcome}\"");
        let line = format!("{} {count}\n", metric("acquire_seconds_count", &labels));
        assert!(page.contains(&line), "no {line} in {page}");
    }
    for line in [
        metric("held", "kind=\"exclusive\"") + " 0\n",
        metric("held", "kind=\"permit\"") + " 0\n",
        metric("waiting", "kind=\"exclusive\"") + " 0\n",
        metric("hold_seconds_count", "kind=\"exclusive\"") + " 1\n",
        metric("hold_seconds_count", "kind=\"shared\"") + " 1\n",
    ] {
        assert!(page.contains(&line), "no {line} in {page}");
    }
    assert!(!page.contains("job") && !page.contains("pool"), "the name of a lock is a label: {page}");
}

#[test]
fn renewal_and_loss_are_counted_with_margin_and_cause() {
    let page = page_after(|locks| async move {
        let ttl = Duration::from_millis(300);
        let guard = locks.acquire_with("job", &AcquireOptions::new().with_ttl(ttl)).await.unwrap();
        tokio::time::sleep(ttl / 2).await;
        locks.admin().unwrap().force_release(guard.name(), None).await.unwrap();
        guard.lost().await;
    });
    assert!(page.contains(&(metric("lost_total", "kind=\"exclusive\",cause=\"gone\"") + " 1\n")), "{page}");
    assert!(page.contains(&(metric("held", "kind=\"exclusive\"") + " 0\n")), "{page}");
    let margins = metric("renewal_margin_seconds_count", "kind=\"exclusive\"");
    let renewals = page.lines().find_map(|line| line.strip_prefix(&margins)).map(str::trim);
    assert!(renewals.is_some_and(|count| count.parse::<u32>().unwrap() >= 1), "{page}");
}
