//! The backend of each scheme of a URL.

mod builtin;

use crate::{Config, ConfigEntry};
use leasehold_core::{
    DistributedLock, Error, ErrorKind, LockBackend, LockClient, LockClientBuilder, Namespace, Result,
};
use leasehold_store_url::{StoreUrl, nearest};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The backends that URLs can name, by scheme. It is a value and not a global, so that two parts of a program can have
/// different ones.
///
/// [`Registry::default`] has the backends that are compiled in. To add one of your own:
///
/// ```
/// # use leasehold::{Config, Registry};
/// # use leasehold::backend::{LockBackend, MemoryBackend};
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// let mut registry = Registry::default();
/// registry.register("consul", |url, namespace| async move {
///     let endpoints = url.authority()?.endpoints;
///     let backend = MemoryBackend::new(); // ConsulBackend::new(endpoints, namespace)
///     Ok(Arc::new(backend) as Arc<dyn LockBackend>)
/// })?;
/// registry.set_default_prefix("consul", "leasehold/")?;
/// let locks = registry.connect(&Config::new("consul://h1:8500,h2:8500")?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Registry {
    schemes: BTreeMap<String, Scheme>,
}

#[derive(Clone)]
struct Scheme {
    factory: Factory,
    /// The prefix of lock names if none is configured.
    default_prefix: Namespace,
}

type Factory = Arc<dyn Fn(StoreUrl, Namespace) -> Opening + Send + Sync>;
type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn LockBackend>>> + Send>>;

impl Registry {
    /// A registry with no scheme at all.
    pub fn empty() -> Self {
        Self { schemes: BTreeMap::new() }
    }

    /// Serves a scheme by the backends that this factory makes. It replaces a scheme that is there already, with its default
    /// prefix, so that a test can put its own backend behind `redis`. The scheme has no default prefix until
    /// [`set_default_prefix`](Self::set_default_prefix) gives it one.
    ///
    /// The factory should open nothing, take every [parameter](StoreUrl::query) it knows, and
    /// [finish](crate::backend::Query::finish) the query, so that a mistyped one is found. The backend reads the
    /// [password](StoreUrl::password) for every connection, and puts the namespace in front of every lock name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the scheme cannot be that of a URL: it begins with a lower-case letter, and
    /// goes on with such letters, figures, `+`, `-` and `.`.
    pub fn register<F, Fut>(&mut self, scheme: impl Into<String>, factory: F) -> Result<()>
    where
        F: Fn(StoreUrl, Namespace) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Arc<dyn LockBackend>>> + Send + 'static,
    {
        let scheme = scheme.into();
        let is_good = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
        if !is_good {
            let fix = "begin it with a lower-case letter, and go on with such letters, figures, +, - and .";
            return Err(Error::invalid("scheme", format_args!("{scheme:?}"), fix));
        }
        let factory: Factory = Arc::new(move |url, namespace| Box::pin(factory(url, namespace)));
        self.schemes.insert(scheme, Scheme { factory, default_prefix: Namespace::default() });
        Ok(())
    }

    /// Sets the prefix that lock names have in a store with this scheme if the configuration has none. A store that keeps other
    /// data beside locks, such as Redis, needs one.
    ///
    /// All programs that share a store must agree on the prefix: with another one they take other locks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the prefix is longer than 128 bytes, has a control character, or has white space
    /// around it; [`Misconfigured`](ErrorKind::Misconfigured) if no backend has the scheme. Nothing is changed then.
    pub fn set_default_prefix(&mut self, scheme: &str, prefix: &str) -> Result<()> {
        let default_prefix = Namespace::new(prefix)?;
        match self.schemes.get_mut(scheme) {
            Some(known) => known.default_prefix = default_prefix,
            None => return Err(self.unknown(scheme)),
        }
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
    /// the feature to add; the backend's own error for a bad URL. A value in a file or in the environment is named with
    /// its place. No error shows a password.
    pub async fn connect(&self, config: &Config) -> Result<Arc<dyn DistributedLock>> {
        self.connect_with(config, |builder| builder).await
    }

    /// Like [`connect`](Self::connect), with an observer, a clock or other options of the client. The builder already has
    /// the [options](Config::options) of the configuration.
    ///
    /// ```
    /// # use leasehold::{Config, DistributedLockExt, Registry};
    /// # use leasehold::client::TracingObserver;
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let config = Config::new("memory:")?;
    /// let observer = Arc::new(TracingObserver::default()); // or one of your own
    /// let locks = Registry::default().connect_with(&config, |client| client.with_observer(observer)).await?;
    /// # locks.acquire("a").await?.release().await }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with<F>(&self, config: &Config, build: F) -> Result<Arc<dyn DistributedLock>>
    where
        F: FnOnce(LockClientBuilder) -> LockClientBuilder,
    {
        let backend = self.open(config).await?;
        Ok(Arc::new(build(LockClient::builder(backend).with_defaults(config.options())).build()))
    }

    /// The backend of the configured store. Opens nothing: its first use does.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn open(&self, config: &Config) -> Result<Arc<dyn LockBackend>> {
        let open = async {
            let url = config.url();
            let scheme = self.schemes.get(url.scheme()).ok_or_else(|| self.unknown(url.scheme()))?;
            (scheme.factory)(url.clone(), self.namespace(config)).await
        };
        open.await.map_err(|error| config.blame(error))
    }

    /// The prefix of lock names in the configured store: the configured one, or else the default of the scheme.
    pub fn namespace(&self, config: &Config) -> Namespace {
        let of_scheme =
            || self.schemes.get(config.url().scheme()).map(|scheme| scheme.default_prefix.clone());
        config.prefix().cloned().or_else(of_scheme).unwrap_or_default()
    }

    /// Every value of a configuration that counts, and its source; the prefix as [`namespace`](Self::namespace) has it. Shows no
    /// password.
    pub fn show(&self, config: &Config) -> Vec<ConfigEntry> {
        config.entries(&self.namespace(config))
    }

    fn unknown(&self, scheme: &str) -> Error {
        if let Some(features) = builtin::missing_features(scheme) {
            let problem = format!("the backend of \"{scheme}://\" is not compiled in");
            return Error::new(ErrorKind::Misconfigured, problem)
                .with_help(format!("cargo add leasehold --features {features}"));
        }
        let compiled_in = self.schemes().collect::<Vec<_>>().join(", ");
        let known = self.schemes.keys().map(String::as_str).chain(builtin::SCHEMES.map(|(known, _)| known));
        let meant = nearest(scheme, known).map_or(String::new(), |meant| format!("did you mean {meant:?}? "));
        let help = format!("{meant}compiled in: {compiled_in}");
        Error::new(ErrorKind::Misconfigured, format!("no backend for \"{scheme}://\"")).with_help(help)
    }
}

impl Config {
    /// As [`Registry::show`] of the schemes that are compiled in.
    pub fn show(&self) -> Vec<ConfigEntry> {
        Registry::default().show(self)
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
