//! A store of the user's, as the suite sees it, and what its cases have left in it.

use crate::stores::{each_store, private_stores};
use async_trait::async_trait;
use leasehold::admin::LockAdmin;
use leasehold::backend::OwnerId;
use leasehold::{DistributedLock, DistributedLockExt, Error, ErrorKind, LockName, Registry, Result};
use leasehold_conformance::{Stop, Store, Subject};
use leasehold_console::{Console, Failure, Invocation, StoreOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Timeout for locks that the cases have dropped to be gone.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(20);

/// A store of the user's, as the suite sees it: a place to connect to, and nothing that could be done to it.
#[derive(Clone, Debug)]
pub(crate) struct UserStore {
    pub(crate) name: String,
    /// The call, with the options of this store.
    pub(crate) invocation: Invocation,
}

/// What stands in front of the names of a run's locks.
pub(crate) fn root() -> Result<String> {
    let random = OwnerId::random()?.to_hex();
    Ok(format!("leasehold-conformance-{}/", random.get(..12).unwrap_or_default()))
}

/// The lock that [`UserStore::probe`] takes.
fn probed(root: &str) -> Result<LockName> {
    LockName::new(format!("{root}probe"))
}

impl UserStore {
    /// The stores that the call names, or the configured one.
    pub(crate) fn each(urls: &[String], invocation: &Invocation) -> Result<Vec<Self>> {
        let mut user_stores: Vec<Self> = Vec::new();
        for options in each_store(urls, &invocation.store)? {
            let scheme = options.url.as_deref().and_then(|url| Some(url.split_once(':')?.0.to_owned()));
            let scheme = scheme.unwrap_or_else(|| "store".to_owned());
            let is_new = |name: &String| user_stores.iter().all(|other| other.name != *name);
            let numbered = (2..).map(|number| format!("{scheme}-{number}"));
            let name = std::iter::once(scheme.clone()).chain(numbered).find(is_new).unwrap_or_default();
            user_stores.push(Self { name, invocation: invocation.with_store(options) });
        }
        if user_stores.iter().filter(|store| store.is_memory()).count() > 1 {
            let (problem, help) = ("two of the stores are memory", "name memory once: a process has one");
            return Err(Error::invalid("URL", problem, help));
        }
        Ok(user_stores)
    }

    /// The store that a worker process is told of, if it is not one of the suite's own.
    pub(super) fn of_worker(name: &str, address: &str, registry: &Registry) -> Option<Self> {
        let options = serde_json::from_str(address).ok()?;
        let invocation = Invocation::new(options, registry.clone(), Console::before_options());
        Some(Self { name: name.to_owned(), invocation })
    }

    /// What the suite sees of it. In place of memory, which each process has for itself, stands one that all clients of a case share.
    pub(crate) fn subject(&self) -> Arc<dyn Subject> {
        let memory = || private_stores().into_iter().find(|subject| subject.name() == "memory");
        self.is_memory().then(memory).flatten().unwrap_or_else(|| Arc::new(self.clone()))
    }

    pub(crate) fn is_memory(&self) -> bool {
        self.has_scheme("memory")
    }

    /// Whether it has, wherever its URL comes from. What is wrong with the configuration is said when it is opened.
    fn has_scheme(&self, scheme: &str) -> bool {
        let config = self.invocation.store.sources().load();
        config.is_ok_and(|config| config.url().scheme() == scheme)
    }

    /// How many cases run at once in it: they measure times, and a SQLite file serves one at a time.
    pub(crate) fn cases_at_once(&self) -> usize {
        if self.has_scheme("sqlite") { 1 } else { 4 }
    }

    /// Takes a lock and gives it back: what cannot be reached, or lets nobody in, is said once and not by every case.
    pub(super) async fn probe(&self, root: &str) -> std::result::Result<(), Failure> {
        let store = self.invocation.open().await?;
        store.introduce(false, self.invocation.console);
        let name = probed(root)?;
        let options = store.config.options().with_wait(leasehold::Wait::No);
        store.locks.acquire_with(&name, &options).await?.release().await?;
        Ok(store.locks.close().await?)
    }

    /// Ends what the cases have left in the store, and looks whether nothing is left: locks of processes that were killed, and last
    /// tokens. Only below `root`, of which nobody else has a name.
    pub(crate) async fn clean_up(&self, root: &str, names: &[LockName]) -> std::result::Result<(), Failure> {
        let (store, console) = (self.invocation.open().await?, self.invocation.console);
        match store.locks.admin() {
            Some(admin) => {
                end_all(admin, root, &self.invocation.store.shell_words()).await?;
                admin.forget(names).await?;
                admin.forget(&[probed(root)?]).await?;
            }
            None => console.note("the store cannot list its locks: what is left of them ends with its lease"),
        }
        Ok(store.locks.close().await?)
    }
}

/// `store` has the options by which another call reaches it.
async fn end_all(admin: &dyn LockAdmin, root: &str, store: &str) -> Result<()> {
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

#[async_trait]
impl Subject for UserStore {
    fn name(&self) -> &str {
        &self.name
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        let address = serde_json::to_string(&self.invocation.store).map_err(Stop::failed)?;
        Ok(Box::new(UserStoreAddress(address)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        let options: StoreOptions = serde_json::from_str(address)
            .map_err(|error| Error::invalid("address", error, "use one that the suite has made"))?;
        self.invocation.registry.connect(&options.sources().load()?).await
    }
}

/// Every hook of a store is missing here, and skips the cases that need it.
#[derive(Debug)]
struct UserStoreAddress(String);

impl Store for UserStoreAddress {
    fn address(&self) -> String {
        self.0.clone()
    }
}
