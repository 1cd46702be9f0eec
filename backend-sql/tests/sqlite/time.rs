//! Boots and clocks: what ends a lease, and what does not.

use super::store::{Store, TTL, busy_for, claim, granted, is_about};
use super::worker::Worker;
use leasehold_core::{LossCause, Renewal};

const BOOT: &str = "SELECT boot FROM leasehold";

#[tokio::test]
async fn lease_of_another_boot_is_over_however_long_it_would_last() {
    let store = Store::new();
    let backend = store.open();
    let before_the_reboot = claim("a");
    let first = granted(&backend, &before_the_reboot).await;
    store
        .sql("UPDATE leasehold SET boot = '00000000-0000-4000-8000-000000000000', linger_until = ends_at")
        .await;
    let admin = backend.admin().unwrap();
    assert!(admin.inspect(before_the_reboot.name()).await.unwrap().is_empty());
    assert!(admin.list("").await.unwrap().is_empty());
    let second = granted(&backend, &claim("a")).await;
    assert!(second > first);
    let lost = backend.renew(&[before_the_reboot]).await.remove(0).unwrap();
    assert_eq!(lost, Renewal::Lost(LossCause::Taken));
}

#[tokio::test]
async fn lease_of_this_boot_outlasts_leases_of_another_boot() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    granted(&backend, &claim("b")).await;
    store.sql("UPDATE leasehold SET boot = 'another' WHERE name = x'61'").await;
    granted(&backend, &claim("a")).await;
    assert!(is_about(busy_for(&backend, &claim("b")).await, TTL));
}

#[tokio::test]
async fn grant_and_renewal_store_the_present_boot() {
    let store = Store::new();
    let backend = store.open();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let stored = async || -> Option<String> { sqlx::Row::get(&store.sql(BOOT).await[0], 0) };
    let mine = claim("a");
    granted(&backend, &mine).await;
    // A container may hide it; then nobody pretends to know it.
    let expected = stored().await;
    assert!(expected.is_none() || expected.as_deref() == Some(kernel.trim_end()));
    store.sql("UPDATE leasehold SET boot = 'another'").await;
    backend.renew(&[mine]).await.remove(0).unwrap();
    assert_eq!(stored().await, expected);
}

#[tokio::test]
async fn lease_of_an_unknown_boot_that_began_in_the_future_is_over() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    let minute = 60_000_000;
    store
        .sql(&format!(
            "UPDATE leasehold SET boot = NULL, written_at = written_at + {minute}, ends_at = ends_at + {minute}"
        ))
        .await;
    granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn lease_of_an_unknown_boot_that_began_in_the_past_is_busy() {
    let store = Store::new();
    let backend = store.open();
    granted(&backend, &claim("a")).await;
    store.sql("UPDATE leasehold SET boot = NULL").await;
    assert!(is_about(busy_for(&backend, &claim("a")).await, TTL));
}

/// `unshare --time` gives a process a `CLOCK_BOOTTIME` that is years ahead of the host's.
#[tokio::test]
async fn process_in_another_time_namespace_counts_by_the_clock_of_the_host() {
    let store = Store::new();
    let backend = store.open();
    let ahead = ["unshare", "-U", "-r", "-T", "--boottime", "300000000", "--fork"];
    let mut worker = Worker::start_under(&ahead, &store.url());

    granted(&backend, &claim("mine")).await;
    let answer = worker.ask("try mine").await;
    assert!(answer.starts_with("busy"), "{answer}");
    let left: u128 = answer[5..].parse().unwrap();
    assert!(left <= TTL.as_millis(), "{left} ms are left of {TTL:?}");

    let answer = worker.ask("try theirs").await;
    assert!(answer.starts_with("granted"), "{answer}");
    assert!(is_about(busy_for(&backend, &claim("theirs")).await, TTL));
}
