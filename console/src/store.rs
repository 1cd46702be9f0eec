//! An open store.

use crate::Console;
use leasehold::admin::LockAdmin;
use leasehold::backend::Namespace;
use leasehold::client::LockClient;
use leasehold::{Config, DistributedLock, Error, ErrorKind, Result};
use std::path::Path;

/// A configured store, and its locks.
#[derive(Debug)]
pub struct OpenStore {
    /// Its configuration.
    pub config: Config,
    /// Its locks.
    pub locks: LockClient,
    /// In front of every lock name.
    prefix: Namespace,
    default_file: Option<DefaultFile>,
}

/// The file of the default store, for a call that names no store.
#[derive(Debug)]
struct DefaultFile {
    path: String,
    /// True if it was missing before this call.
    is_new: bool,
}

impl OpenStore {
    pub(crate) fn new(config: Config, locks: LockClient, prefix: Namespace) -> Self {
        let path = config.url().path().ok().filter(|_| config.is_default_store());
        let default_file = path.map(|path| DefaultFile { is_new: !Path::new(&path).exists(), path });
        Self { config, locks, prefix, default_file }
    }

    /// The operator's side of the store.
    pub fn admin(&self) -> Result<&dyn LockAdmin> {
        self.locks.admin().ok_or_else(|| {
            let kind = self.locks.semantics().backend;
            Error::new(ErrorKind::Unsupported, format!("{kind} cannot tell who holds its locks"))
        })
    }

    /// What tells this store from others, as far as names of stores can.
    pub fn identity(&self) -> String {
        format!("{} {}", self.config.url(), self.prefix.prefix())
    }

    /// Says how far a lock in this store reaches, where the caller may expect more.
    ///
    /// The default store is named at its first use, at each use from a terminal, and if the caller holds a lock in another
    /// store: then `LEASEHOLD_URL` was probably lost on the way, as in `sudo`.
    pub fn introduce(&self, caller_has_another_store: bool, console: Console) {
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
