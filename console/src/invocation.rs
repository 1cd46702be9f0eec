//! One call of the command.

use crate::observer::ConsoleObserver;
use crate::{Console, Failure, OpenStore, StoreOptions};
use leasehold::backend::LockBackend;
use leasehold::client::LockClient;
use leasehold::{Config, Error, Registry, Result, parse_duration};
use std::sync::Arc;

/// One call of the command: the store that its options name, the schemes of stores that the command knows, and its console.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Invocation {
    /// The options that name the store.
    pub store: StoreOptions,
    /// The backends that a URL can name.
    pub registry: Registry,
    /// Where the call says what it does.
    pub console: Console,
}

impl Invocation {
    /// A call with these options.
    pub fn new(store: StoreOptions, registry: Registry, console: Console) -> Self {
        Self { store, registry, console }
    }

    /// The same call for another store.
    #[must_use]
    pub fn with_store(&self, store: StoreOptions) -> Self {
        Self { store, ..self.clone() }
    }

    /// Reads the configuration, and passes its warnings on.
    ///
    /// # Errors
    ///
    /// As those of [`ConfigSources::load`](leasehold::ConfigSources::load).
    pub fn load(&self) -> Result<Config> {
        let config = self.store.sources().load().map_err(for_the_command)?;
        for warning in config.warnings() {
            self.console.warn(&warning.message, Some(&warning.help));
        }
        Ok(config)
    }

    /// The backend of a store. Opens nothing yet: the first request does.
    ///
    /// # Errors
    ///
    /// As those of [`Registry::open`].
    pub async fn open_backend(&self, config: &Config) -> Result<Arc<dyn LockBackend>> {
        self.registry.open(config).await.map_err(for_the_command)
    }

    /// The configured store. Opens nothing yet: the first lock does.
    ///
    /// # Errors
    ///
    /// If the configuration is wrong.
    pub async fn open(&self) -> Result<OpenStore, Failure> {
        self.open_configured(self.load()?).await
    }

    /// The same, with leases of the length that the command line states.
    ///
    /// # Errors
    ///
    /// Also if that length is none.
    pub async fn open_with_ttl(&self, ttl: Option<&str>) -> Result<OpenStore, Failure> {
        let mut config = self.load()?;
        if let Some(ttl) = ttl {
            config = config.with_ttl(parse_duration("ttl", ttl)?);
            config.options().check()?;
        }
        self.open_configured(config).await
    }

    /// The same with a configuration that was read already.
    ///
    /// # Errors
    ///
    /// As those of [`open`](Self::open).
    pub async fn open_configured(&self, config: Config) -> Result<OpenStore, Failure> {
        let client = LockClient::builder(self.open_backend(&config).await?)
            .with_defaults(config.options())
            .with_observer(Arc::new(ConsoleObserver::new(self.console)));
        let prefix = self.registry.namespace(&config);
        Ok(OpenStore::new(config, client.build(), prefix))
    }
}

/// The library asks an application to add a missing feature; the command is built with it.
fn for_the_command(error: Error) -> Error {
    let help =
        error.help().map(|help| help.replace("cargo add leasehold --features", "cargo build --features"));
    match help {
        Some(help) => error.with_help(help),
        None => error,
    }
}
