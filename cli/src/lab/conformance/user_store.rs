use crate::args::Common;
use crate::report::{Console, Failure};
use crate::store::{Store, sources};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{DistributedLock, DistributedLockExt, Error, LockName};
use leasehold_conformance::{Cannot, Store as Running, Subject};
use leasehold_test_stores::stores;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// A store of the user's, as the suite sees it: a place to connect to, and nothing that could be done to it.
#[derive(Clone, Debug)]
pub(crate) struct UserStore {
    name: String,
    options: StoreOptions,
}

/// The options of the call that say which store it is. No secret: a URL given as a word has none, and everything else
/// comes from where we have it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct StoreOptions {
    url: Option<String>,
    profile: Option<String>,
    config: Option<PathBuf>,
}

/// What stands in front of the names of a run's locks.
pub(crate) fn root() -> String {
    let random = OwnerId::random().map_or_else(|_| String::new(), |id| id.to_hex());
    format!("leasehold-conformance-{}/", random.get(..12).unwrap_or_default())
}

/// The lock that [`UserStore::probe`] takes.
pub(super) fn probed(root: &str) -> leasehold::Result<LockName> {
    LockName::new(format!("{root}probe"))
}

impl UserStore {
    /// The stores that the call names, or the configured one.
    pub(crate) fn each(urls: &[String], common: &Common) -> Vec<Self> {
        let options = |url: Option<&String>| StoreOptions {
            url: url.or(common.url.as_ref()).cloned(),
            profile: common.profile.clone(),
            config: common.config.clone(),
        };
        let all_options = match urls.is_empty() {
            true => vec![options(None)],
            false => urls.iter().map(|url| options(Some(url))).collect(),
        };
        let mut user_stores: Vec<Self> = Vec::new();
        for options in all_options {
            let scheme = options.url.as_deref().and_then(|url| Some(url.split_once(':')?.0.to_owned()));
            let scheme = scheme.unwrap_or_else(|| "store".to_owned());
            let same = user_stores.iter().filter(|other| other.name.starts_with(&scheme)).count();
            let name = if same == 0 { scheme } else { format!("{scheme}-{}", same + 1) };
            user_stores.push(Self { name, options });
        }
        user_stores
    }

    /// The store that a worker process is told of, if it is not one of the suite's own.
    pub(super) fn of_worker(name: &str, address: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), options: serde_json::from_str(address).ok()? })
    }

    /// It as the suite is to see it. Memory is nobody's but this process's: in its place stands a private one, which all
    /// clients of a case share.
    pub(crate) fn subject(&self) -> Arc<dyn Subject> {
        let memory = || stores::all().into_iter().find(|subject| subject.name() == "memory");
        self.is_memory().then(memory).flatten().map_or_else(|| Arc::new(self.clone()) as _, Arc::from)
    }

    /// Whether it is, wherever its URL comes from. What is wrong with the configuration is said when it is opened.
    pub(crate) fn is_memory(&self) -> bool {
        let config = sources(&self.options()).load();
        config.is_ok_and(|config| config.url().scheme() == "memory")
    }

    /// The options that name it.
    pub(crate) fn options(&self) -> Common {
        self.options.common()
    }

    /// Opens it for this process.
    pub(super) async fn open(&self, console: Console) -> Result<Store, Failure> {
        Store::open(sources(&self.options()), console).await
    }

    /// Takes a lock and gives it back: what cannot be reached, or lets nobody in, is said once and not by every case. How
    /// many cases the store can serve at once without making them wait for each other.
    pub(super) async fn probe(&self, root: &str, console: Console) -> Result<usize, Failure> {
        let store = self.open(console).await?;
        store.introduce(false, console);
        let name = probed(root)?;
        let options = store.config.options().with_wait(leasehold::Wait::No);
        store.locks.acquire_with(&name, &options).await?.release().await?;
        store.locks.close().await?;
        Ok(if store.config.url().scheme() == "sqlite" { 1 } else { usize::MAX })
    }
}

impl StoreOptions {
    fn common(&self) -> Common {
        Common {
            url: self.url.clone(),
            profile: self.profile.clone(),
            config: self.config.clone(),
            quiet: 0,
            verbose: false,
            color: clap::ColorChoice::Auto,
        }
    }
}

#[async_trait]
impl Subject for UserStore {
    fn name(&self) -> &str {
        &self.name
    }

    async fn start(&self) -> Result<Box<dyn Running>, Cannot> {
        let address = serde_json::to_string(&self.options).map_err(Cannot::failed)?;
        Ok(Box::new(Address(address)))
    }

    async fn connect(&self, address: &str) -> leasehold::Result<Arc<dyn DistributedLock>> {
        let options: StoreOptions = serde_json::from_str(address)
            .map_err(|error| Error::invalid("address", error, "use one that the suite has made"))?;
        leasehold::connect_with(&sources(&options.common()).load()?).await
    }
}

/// Every hook of a store is missing here, and skips the cases that need it.
#[derive(Debug)]
struct Address(String);

impl Running for Address {
    fn address(&self) -> String {
        self.0.clone()
    }
}
