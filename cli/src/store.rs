//! The store that was asked for.

use crate::args::Common;
use crate::report::{CliObserver, Console, Failure};
use leasehold::admin::LockAdmin;
use leasehold::client::LockClient;
use leasehold::{Config, ConfigSources, DistributedLock, Error, ErrorKind, Registry, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
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
        let path = config.url().path().ok().filter(|_| config.is_default_store());
        Ok(Self { new_file: path.filter(|path| !Path::new(path).exists()), config, locks: client.build() })
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
                "no store is configured: using {path}, for this user on this host only; set LEASEHOLD_URL to lock between others"
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

/// Refuses a configuration file that says something once only, such as a pipe, for verbs that read it again in processes of
/// their own: the second time it would be empty, and every one of those would use the default store.
pub(crate) fn check_rereadable(common: &Common) -> Result<()> {
    let named = std::env::var_os("LEASEHOLD_CONFIG").map(PathBuf::from);
    let Some(path) = common.config.clone().or(named) else { return Ok(()) };
    // What cannot be found is told when it is read.
    let kind = std::fs::metadata(&path).map(|metadata| metadata.file_type());
    if !kind
        .is_ok_and(|kind| kind.is_fifo() || kind.is_socket() || (kind.is_char_device() && !is_null(&path)))
    {
        return Ok(());
    }
    let message = format!("invalid configuration file {}: it can be read only once", path.display());
    Err(Error::new(ErrorKind::Misconfigured, message)
        .with_help("write it into a file: this verb has processes of its own, and each of them reads it"))
}

/// Refuses a `-u` where the call names its stores in another way, and would pass over that one.
pub(crate) fn check_unnamed(common: &Common, others: &str) -> Result<()> {
    if common.url.is_none() {
        return Ok(());
    }
    let problem = format_args!("it names a store beside {others}, and would not count");
    Err(Error::invalid("--url", problem, "leave -u out"))
}

/// True for `/dev/null`, which always says the same.
fn is_null(path: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|metadata| metadata.rdev());
    device(path).is_ok_and(|this| device(Path::new("/dev/null")).is_ok_and(|null| this == null))
}

/// Reads the configuration, and passes its warnings on.
pub(crate) fn load(sources: &ConfigSources, console: Console) -> Result<Config> {
    let config = sources.load()?;
    for warning in config.warnings() {
        console.warn(&warning.message, Some(&warning.help));
    }
    Ok(config)
}
