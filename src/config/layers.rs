//! The values of one source, by key; and the keys that there are.

use super::entry::{ConfigEntry, ConfigSource};
use leasehold_core::{Error, Result};
use leasehold_store_url::slip_at_ends;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone)]
pub(super) struct SourcedText {
    pub(super) text: String,
    pub(super) source: ConfigSource,
}

/// The values of one source: the environment, a profile, or `[defaults]`.
pub(super) type Layer = BTreeMap<String, SourcedText>;

impl SourcedText {
    pub(super) fn new(text: impl Into<String>, source: ConfigSource) -> Self {
        Self { text: text.into(), source }
    }

    pub(super) fn entry(&self, key: &str) -> ConfigEntry {
        ConfigEntry::new(key, &self.text, self.source.clone())
    }
}

/// Shows the source alone: the text may have a password in it.
impl fmt::Debug for SourcedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourcedText({})", self.source)
    }
}

/// The keys that `[defaults]` and every profile may have, each with an example. `max_hold` stands in front of
/// `hold_at_least`, which must not be longer: the error is then about the second.
pub(super) const SETTINGS: [(&str, &str); 5] =
    [("prefix", "shop/"), ("ttl", "30s"), ("wait", "10s"), ("max_hold", "2h"), ("hold_at_least", "1m")];

/// The keys of a profile that name its store, each with an example.
const STORE_KEYS: [(&str, &str); 3] =
    [("url", "redis://host:6379/0"), ("password_file", "/run/secrets/redis"), ("password_env", "REDIS_PW")];

/// The keys of a profile that are not parameters of its store, each with an example.
pub(super) fn own_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.into_iter().chain(STORE_KEYS)
}

pub(super) fn is_own(key: &str) -> bool {
    own_keys().any(|(own, _)| own == key)
}

/// The entry of a flag, which may also have the words of a shell and of a URL.
pub(super) fn read_flag(key: &str, value: &SourcedText) -> Result<ConfigEntry> {
    let flag = match value.text.as_str() {
        "1" | "true" | "yes" => "true",
        "0" | "false" | "no" => "false",
        other => {
            let error = Error::invalid(key, format_args!("{other:?}"), "write true or false");
            return Err(value.source.blame(error));
        }
    };
    Ok(ConfigEntry::new(key, flag, value.source.clone()))
}

/// Refuses a [slip at the ends](slip_at_ends) of a name, a prefix or a path. A URL is not shown: it may have a password.
pub(super) fn check_ends(field: &str, text: &str) -> Result<()> {
    let Some(slip) = slip_at_ends("it", text) else { return Ok(()) };
    let shown = if may_be_a_url(text) { String::new() } else { format!(": {text:?}") };
    Err(Error::invalid(field, format_args!("{slip}{shown}"), "remove it"))
}

/// True for a URL, and for a URL with a mistake in it.
pub(super) fn may_be_a_url(text: &str) -> bool {
    text.contains("://") || text.contains('@')
}
