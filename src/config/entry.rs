//! One value of a configuration, and its source.

use leasehold_core::{Error, ErrorKind};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The source of a value of a [`Config`](crate::Config). `Display` is what `leasehold config show` prints: `env LEASEHOLD_URL`,
/// `/etc/leasehold/config.toml:3`, `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSource {
    /// Given in code, or on a command line.
    Given,
    /// This environment variable.
    Env(&'static str),
    /// A file.
    File {
        /// Its path, as it was looked for.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// No source has the value: it is built in.
    Default,
}

impl ConfigSource {
    /// Names the place of a bad value in its error. A bad value in a file or in the environment is not an invalid argument
    /// but a wrong configuration.
    pub(super) fn blame(&self, error: Error) -> Error {
        match self {
            Self::Given | Self::Default => error,
            _ if error.kind() == ErrorKind::Invalid => {
                error.with_kind(ErrorKind::Misconfigured).context(self)
            }
            _ => error.context(self),
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("given"),
            Self::Env(variable) => write!(f, "env {variable}"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Serialize for ConfigSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One value of a [`Config`](crate::Config) and its source, for people. Passwords are shown as `***`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The key, as it may be written in the file: `url`, `ttl`, `tls_ca`.
    pub key: String,
    /// The value.
    pub value: String,
    /// Its source.
    pub source: ConfigSource,
}

impl ConfigEntry {
    pub(super) fn new(key: impl Into<String>, value: impl Into<String>, source: ConfigSource) -> Self {
        Self { key: key.into(), value: value.into(), source }
    }
}
