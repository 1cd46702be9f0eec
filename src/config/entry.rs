use super::ConfigSource;
use serde::Serialize;

/// One value of a [`Config`](crate::Config), for people: what counts, and who said so. Passwords are shown as `***`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The key, as it is written in the file: `url`, `ttl`, `tls.ca`.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where it comes from.
    pub source: ConfigSource,
}

impl ConfigEntry {
    pub(super) fn new(key: impl Into<String>, value: impl Into<String>, source: ConfigSource) -> Self {
        Self { key: key.into(), value: value.into(), source }
    }
}
