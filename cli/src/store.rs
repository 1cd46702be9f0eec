//! The store that was asked for.

use crate::args::Common;
use crate::report::{CliObserver, Console, Failure};
use leasehold::admin::LockAdmin;
use leasehold::client::LockClient;
use leasehold::{Config, ConfigSources, DistributedLock, Error, ErrorKind, Registry, Result};
use std::path::Path;
use std::sync::Arc;

/// A configured store, and its locks.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) locks: LockClient,
    /// The file of the default store, if nobody has used it yet.
    new_file: Option<String>,
}

impl Store {
    /// Reads the configuration. Opens nothing yet: the first lock does.
    pub(crate) async fn open(sources: ConfigSources, console: Console) -> Result<Self, Failure> {
        Self::configured(load(&sources, console)?, console).await
    }

    /// The same with a configuration that was read already.
    pub(crate) async fn configured(config: Config, console: Console) -> Result<Self, Failure> {
        let backend = Registry::default().open(&config).await?;
        let client = LockClient::builder(backend)
            .with_defaults(config.options())
            .with_observer(Arc::new(CliObserver::new(console)));
        let locks = match config.local_queue()? {
            Some(local_queue) => client.with_local_queue(local_queue).build(),
            None => client.build(),
        };
        let path = config.url().path().ok().filter(|_| config.is_default_store());
        Ok(Self { new_file: path.filter(|path| !Path::new(path).exists()), config, locks })
    }

    /// The operator's side of the store.
    pub(crate) fn admin(&self) -> Result<&dyn LockAdmin> {
        self.locks.admin().ok_or_else(|| {
            let kind = self.locks.semantics().backend;
            Error::new(ErrorKind::Unsupported, format!("{kind} cannot tell who holds its locks"))
        })
    }

    /// What tells this store from others, as far as names of stores can.
    pub(crate) fn identity(&self) -> String {
        let prefix = self.config.prefix().map_or("", |namespace| namespace.prefix());
        format!("{} {prefix}", self.config.url())
    }

    /// Says what a lock in this store is worth, where somebody may expect more. When it is held: what was never used
    /// needs no introduction.
    pub(crate) fn introduce(&self, console: Console) {
        if self.config.url().scheme() == "memory" {
            let help = "use sqlite:FILE between processes, redis://HOST between hosts";
            console.warn("locks in memory exclude nobody outside this process", Some(help));
        }
        if let Some(path) = &self.new_file {
            console.note(format_args!(
                "no store is configured: using {path}, for this host only; set LEASEHOLD_URL to lock between hosts"
            ));
        }
    }
}

/// Where the configuration comes from, as the command line has it.
pub(crate) fn sources(common: &Common) -> ConfigSources {
    let mut sources = ConfigSources::of_this_process();
    if let Some(url) = &common.url {
        sources = sources.with_public_url(url);
    }
    if let Some(profile) = &common.profile {
        sources = sources.with_profile(profile);
    }
    if let Some(file) = &common.config {
        sources = sources.with_file(file);
    }
    sources
}

/// Reads the configuration, and passes its warnings on.
pub(crate) fn load(sources: &ConfigSources, console: Console) -> Result<Config> {
    let config = sources.load()?;
    for warning in config.warnings() {
        console.warn(&warning.message, Some(&warning.help));
    }
    Ok(config)
}
