//! The store that was asked for.

use crate::args::Common;
use crate::report::{CliObserver, Console, Failure};
use leasehold::admin::LockAdmin;
use leasehold::backend::LockBackend;
use leasehold::client::LockClient;
use leasehold::{Config, ConfigSources, DistributedLock, Error, ErrorKind, Registry, Result, parse_duration};
use std::path::Path;
use std::sync::Arc;

/// A configured store, and its locks.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) locks: LockClient,
    default_file: Option<DefaultFile>,
}

/// The file of the default store, for a call that names no store.
#[derive(Debug)]
struct DefaultFile {
    path: String,
    /// True if it was missing before this call.
    is_new: bool,
}

impl Store {
    /// Reads the configuration. Opens nothing yet: the first lock does.
    pub(crate) async fn open(sources: ConfigSources, console: Console) -> Result<Self, Failure> {
        Self::configured(load(&sources, console)?, console).await
    }

    /// The same, with leases of the length that the command line states.
    pub(crate) async fn open_with_ttl(
        sources: ConfigSources,
        ttl: Option<&str>,
        console: Console,
    ) -> Result<Self, Failure> {
        let mut config = load(&sources, console)?;
        if let Some(ttl) = ttl {
            config = config.with_ttl(parse_duration("ttl", ttl)?);
            config.options().check()?;
        }
        Self::configured(config, console).await
    }

    /// The same with a configuration that was read already.
    pub(crate) async fn configured(config: Config, console: Console) -> Result<Self, Failure> {
        let client = LockClient::builder(open_backend(&config).await?)
            .with_defaults(config.options())
            .with_observer(Arc::new(CliObserver::new(console)));
        let path = config.url().path().ok().filter(|_| config.is_default_store());
        let default_file = path.map(|path| DefaultFile { is_new: !Path::new(&path).exists(), path });
        Ok(Self { default_file, config, locks: client.build() })
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

    /// Says how far a lock in this store reaches, where the caller may expect more.
    ///
    /// The default store is named at its first use, at each use from a terminal, and if the caller holds a lock in another
    /// store: then `LEASEHOLD_URL` was probably lost on the way, as in `sudo`.
    pub(crate) fn introduce(&self, caller_has_another_store: bool, console: Console) {
        if self.config.url().scheme() == "memory" {
            let help = "use sqlite:FILE between processes, redis://HOST between hosts";
            console.warn("locks in memory exclude nobody outside this process", Some(help));
        }
        let Some(DefaultFile { path, is_new }) = &self.default_file else { return };
        if caller_has_another_store {
            let problem = format_args!(
                "no store is configured: using {path}, but the caller holds a lock in another store"
            );
            console
                .warn(problem, Some("name the caller's store with -u or LEASEHOLD_URL, which sudo removes"));
        } else if *is_new || console.is_at_terminal() {
            console.note(format_args!(
                "no store is configured: using {path}, for this user on this host only; set LEASEHOLD_URL to lock between others"
            ));
        }
    }
}

/// Opens the backend of the configured store.
pub(crate) async fn open_backend(config: &Config) -> Result<Arc<dyn LockBackend>> {
    Registry::default().open(config).await.map_err(for_the_command)
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
    let config = sources.load().map_err(for_the_command)?;
    for warning in config.warnings() {
        console.warn(&warning.message, Some(&warning.help));
    }
    Ok(config)
}
