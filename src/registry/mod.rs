//! Which scheme of a URL is served by which backend.

mod builtin;
mod memory;

use crate::Config;
use leasehold_core::{
    DistributedLock, Error, ErrorKind, LocalQueue, LockBackend, LockClient, Namespace, Result, StoreUrl,
    nearest,
};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The backends that URLs can name, by scheme: a value, not a global, so that two parts of a program can have different
/// ones.
///
/// [`Registry::default`] has those that are compiled in. A backend of your own is one call more:
///
/// ```
/// # use leasehold::{Config, Registry};
/// # use leasehold::backend::{LockBackend, MemoryBackend};
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// let mut registry = Registry::default();
/// registry.register("etcd", |url, namespace| async move {
///     let endpoints = url.authority()?.endpoints;
///     let backend = MemoryBackend::new(); // EtcdBackend::new(endpoints, namespace)
///     Ok(Arc::new(backend) as Arc<dyn LockBackend>)
/// })?;
/// let locks = registry.connect(&Config::new("etcd://h1:2379,h2:2379")?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Registry {
    schemes: BTreeMap<String, Registered>,
}

#[derive(Clone)]
struct Registered {
    factory: Factory,
    /// What stands in front of lock names if nothing is configured.
    default_prefix: &'static str,
}

type Factory = Arc<dyn Fn(StoreUrl, Namespace) -> Opening + Send + Sync>;
type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn LockBackend>>> + Send>>;

impl Registry {
    /// A registry with no scheme at all.
    pub fn empty() -> Self {
        Self { schemes: BTreeMap::new() }
    }

    /// Serves a scheme by what this factory makes. A scheme that is there already is replaced, so that a test can put
    /// its own backend behind `redis`.
    ///
    /// The factory should open nothing, take every [parameter](StoreUrl::query) it knows, and
    /// [finish](crate::backend::Query::finish) the query, so that a mistyped one is found. The namespace goes in front
    /// of every lock name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the scheme could not stand in front of a URL: it begins with a lower-case
    /// letter, and goes on with such letters, figures, `+`, `-` and `.`.
    pub fn register<F, Fut>(&mut self, scheme: impl Into<String>, factory: F) -> Result<()>
    where
        F: Fn(StoreUrl, Namespace) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Arc<dyn LockBackend>>> + Send + 'static,
    {
        let scheme = scheme.into();
        check_scheme(&scheme)?;
        let registered = Registered {
            factory: Arc::new(move |url, namespace| Box::pin(factory(url, namespace))),
            default_prefix: "",
        };
        self.schemes.insert(scheme, registered);
        Ok(())
    }

    /// The schemes, in alphabetical order.
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.schemes.keys().map(String::as_str)
    }

    /// The locks of the configured store. Opens nothing: the first lock does.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](ErrorKind::Misconfigured) if no backend has the scheme, with the nearest that is compiled in or
    /// the feature to add; what the backend finds wrong with the URL. What stands in a file or in the environment is
    /// named with its place. No error shows a password.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: nothing is open yet.
    pub async fn connect(&self, config: &Config) -> Result<Arc<dyn DistributedLock>> {
        let backend = self.open(config).await?;
        let client = LockClient::builder(backend).with_defaults(config.options());
        let client = match config.local_queue()? {
            Some(local_queue) => client.with_local_queue(local_queue),
            None => client,
        };
        Ok(Arc::new(client.build()))
    }

    /// The backend of the configured store, for a [`LockClient`] made to measure, with a clock or an observer of its
    /// own. Opens nothing: its first use does. Of the [local queue](Config::local_queue) it only checks the number: that
    /// is the client's.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: nothing is open yet.
    pub async fn open(&self, config: &Config) -> Result<Arc<dyn LockBackend>> {
        config.local_queue()?;
        let backend = self.open_unblamed(config).await;
        backend.map_err(|error| config.blame(error))
    }

    async fn open_unblamed(&self, config: &Config) -> Result<Arc<dyn LockBackend>> {
        let url = config.url();
        let registered = self.schemes.get(url.scheme()).ok_or_else(|| self.unknown(url.scheme()))?;
        let namespace = match config.prefix() {
            Some(configured) => configured.clone(),
            None => Namespace::new(registered.default_prefix)?,
        };
        let (url, _) = url.clone().split_parameter(LocalQueue::PARAMETER);
        (registered.factory)(url, namespace).await
    }

    /// What stands in front of lock names under this scheme if nothing is configured.
    pub(crate) fn default_prefix(&self, scheme: &str) -> &'static str {
        self.schemes.get(scheme).map_or("", |registered| registered.default_prefix)
    }

    fn unknown(&self, scheme: &str) -> Error {
        if let Some(features) = builtin::missing_features(scheme) {
            let problem = format!("the backend of \"{scheme}://\" is not compiled in");
            return Error::new(ErrorKind::Misconfigured, problem)
                .with_help(format!("cargo add leasehold --features {features}"));
        }
        let compiled_in = self.schemes().collect::<Vec<_>>().join(", ");
        let known = self.schemes.keys().map(String::as_str).chain(builtin::all());
        let help = match nearest(scheme, known) {
            Some(meant) => format!("did you mean {meant:?}? compiled in: {compiled_in}"),
            None => format!("compiled in: {compiled_in}"),
        };
        Error::new(ErrorKind::Misconfigured, format!("no backend for \"{scheme}://\"")).with_help(help)
    }
}

/// The backends that are compiled in: `memory`, and those of the features.
impl Default for Registry {
    fn default() -> Self {
        builtin::compiled_in()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.schemes.keys()).finish()
    }
}

fn check_scheme(scheme: &str) -> Result<()> {
    let good = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    if good {
        return Ok(());
    }
    let fix = "begin it with a lower-case letter, and go on with such letters, figures, +, - and .";
    Err(Error::invalid("scheme", format_args!("{scheme:?}"), fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::memory::MemoryBackend;
    use std::sync::Mutex;

    #[tokio::test]
    async fn a_configured_prefix_replaces_that_of_the_scheme() {
        let seen = Arc::new(Mutex::new(String::new()));
        let note = Arc::clone(&seen);
        let factory: Factory = Arc::new(move |_, namespace| {
            *note.lock().unwrap() = namespace.prefix().to_owned();
            Box::pin(async { Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>) })
        });
        let registered = Registered { factory, default_prefix: "theirs:" };
        let mut registry = Registry::empty();
        registry.schemes.insert("store".to_owned(), registered);

        let config = Config::new("store:").unwrap();
        registry.open(&config).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), "theirs:");
        for prefix in ["mine:", ""] {
            let config = config.clone().with_prefix(prefix).unwrap();
            registry.open(&config).await.unwrap();
            assert_eq!(*seen.lock().unwrap(), prefix);
        }
    }
}
