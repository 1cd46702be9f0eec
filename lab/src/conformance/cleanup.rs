use super::user_store::{UserStore, probed};
use leasehold::admin::LockAdmin;
use leasehold::{DistributedLock, Error, ErrorKind, LockName};
use leasehold_console::Failure;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Timeout for locks that the cases have dropped to be gone.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Ends what the cases have left in the store, and looks whether nothing is left: locks of processes that were killed, and
/// last tokens. Only below `root`, of which nobody else has a name.
pub(crate) async fn clean_up(user_store: &UserStore, root: &str, names: &[LockName]) -> Result<(), Failure> {
    let store = user_store.invocation.open().await?;
    match store.locks.admin() {
        Some(admin) => {
            end_all(admin, root, &user_store.invocation.store.shell_words()).await?;
            admin.forget(names).await?;
            admin.forget(&[probed(root)?]).await?;
        }
        None => user_store
            .invocation
            .console
            .note("the store cannot list its locks: what is left of them ends with its lease"),
    }
    Ok(store.locks.close().await?)
}

/// `store` has the options by which another call reaches it.
async fn end_all(admin: &dyn LockAdmin, root: &str, store: &str) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let held = admin.list(root).await?;
        if held.is_empty() {
            return Ok(());
        }
        if start.elapsed() > CLEANUP_TIMEOUT {
            let names: Vec<&str> = held.iter().take(3).map(|lock| lock.name.as_str()).collect();
            let message = format!("{} locks are left in the store: {}", held.len(), names.join(", "));
            return Err(Error::new(ErrorKind::Indeterminate, message)
                .with_help(format!("they end with their leases; or: leasehold ls{store} {root}")));
        }
        for lock in held {
            admin.force_release(&lock.name, lock.token).await?;
        }
        sleep(Duration::from_millis(50)).await;
    }
}
