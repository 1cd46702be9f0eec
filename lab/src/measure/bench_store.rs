//! A store that is measured, and how a process of its own is told which one.

use leasehold::Config;
use leasehold_console::{Failure, Invocation, OpenStore};
use std::ffi::OsString;
use tokio::process::Command;

/// A store, and the way to it.
#[derive(Debug)]
pub(crate) struct BenchStore {
    pub(crate) store: OpenStore,
    /// The options of our own call. A URL given as a word has no password, and everything else comes from where we have it.
    arguments: Vec<OsString>,
    /// The URL of a private store, told in the environment, which only we and the worker can read: it may have a password.
    url: Option<String>,
}

impl BenchStore {
    /// The store that these options name, as every verb finds it.
    pub(crate) async fn configured(invocation: &Invocation) -> Result<Self, Failure> {
        let arguments = invocation.store.arguments();
        let arguments = arguments.flat_map(|(option, value)| [option.into(), value.to_owned()]).collect();
        Ok(Self { store: invocation.open().await?, arguments, url: None })
    }

    /// A store that nobody has configured: nothing but its URL counts.
    pub(crate) async fn private(url: &str, invocation: &Invocation) -> Result<Self, Failure> {
        let store = invocation.open_configured(Config::new(url)?).await?;
        Ok(Self { store, arguments: Vec::new(), url: Some(url.to_owned()) })
    }

    /// True if the store ends with this run, and all that is in it.
    pub(super) fn ends_with_us(&self) -> bool {
        self.url.is_some()
    }

    pub(super) fn tell(&self, command: &mut Command) {
        command.args(&self.arguments);
        if let Some(url) = &self.url {
            let ours = std::env::vars_os().map(|(name, _)| name);
            for name in ours.filter(|name| name.to_string_lossy().starts_with("LEASEHOLD_")) {
                command.env_remove(name);
            }
            // A file that says nothing keeps those out that would be looked for.
            command.env("LEASEHOLD_URL", url).env("LEASEHOLD_CONFIG", "/dev/null");
        }
    }
}
