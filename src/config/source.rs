use leasehold_core::{Error, ErrorKind};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value of a [`Config`](crate::Config) comes from. `Display` is what `leasehold config show` prints:
/// `env LEASEHOLD_URL`, `/etc/leasehold/config.toml:3`, `default`.
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
    /// Nobody said anything: it is built in.
    Default,
}

impl ConfigSource {
    /// Says in an error where the bad value stands. What is wrong in a file or in the environment is no longer a
    /// wrong argument, but a wrong set-up.
    pub(crate) fn blame(&self, error: Error) -> Error {
        match self {
            Self::Given | Self::Default => error,
            Self::Env(_) | Self::File { .. } if error.kind() == ErrorKind::Invalid => {
                error.with_kind(ErrorKind::Misconfigured).context(self)
            }
            Self::Env(_) | Self::File { .. } => error.context(self),
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
