//! The values of one source, by key; and the keys that there are.

use super::environment::{Environment, expand};
use super::{Config, ConfigEntry, ConfigSource};
use crate::Registry;
use leasehold_core::parse_duration;
use leasehold_core::{Error, Namespace, Result, Wait};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The text of a value, and its source.
#[derive(Clone)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) source: ConfigSource,
}

/// The values of one source: the environment, a profile, or `[defaults]`.
pub(super) type Layer = BTreeMap<String, Value>;

impl Value {
    pub(super) fn new(text: impl Into<String>, source: ConfigSource) -> Self {
        Self { text: text.into(), source }
    }

    pub(super) fn entry(&self, key: &str) -> ConfigEntry {
        ConfigEntry::new(key, &self.text, self.source.clone())
    }

    /// The value with its variables replaced. `key` names it in an error.
    pub(super) fn expanded(&self, key: &str, environment: &Environment) -> Result<Self> {
        let text = expand(key, &self.text, |variable| environment.get(variable));
        let text = text.map_err(|error| self.source.blame(error))?;
        Ok(Self::new(text, self.source.clone()))
    }
}

/// Shows the source alone: the text may have a password in it.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({})", self.source)
    }
}

/// The layer with the variables of its values replaced.
pub(super) fn expand_all(layer: &Layer, environment: &Environment) -> Result<Layer> {
    layer.iter().map(|(key, value)| Ok((key.clone(), value.expanded(key, environment)?))).collect()
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

impl Config {
    /// Reads a setting, and checks its range at once: when a lock is acquired, the line of the mistake is not known.
    pub(super) fn read_setting(&mut self, key: &str, text: &str) -> Result<()> {
        let options = self.options.clone();
        self.options = match key {
            "prefix" => {
                self.prefix = Some(Namespace::new(text)?);
                options
            }
            "ttl" => options.with_ttl(parse_duration(key, text)?),
            "wait" if text.trim() == "0" => options.with_wait(Wait::No),
            "wait" => options.with_wait(text.trim().parse::<Wait>()?),
            "max_hold" if text.trim() == "none" => options.with_max_hold(Duration::MAX),
            "max_hold" => options.with_max_hold(parse_duration(key, text)?),
            _ => options.with_hold_at_least(parse_duration(key, text)?),
        };
        self.options.check()
    }

    /// The value of a setting, as it can be read again.
    pub(super) fn show_setting(&self, key: &str) -> String {
        let time = |time| humantime::format_duration(time).to_string();
        match (key, self.options.wait(), self.options.max_hold()) {
            ("prefix", ..) => {
                let namespace = Registry::default().namespace(self);
                namespace.map_or(String::new(), |namespace| namespace.prefix().to_owned())
            }
            ("ttl", ..) => time(self.options.ttl()),
            ("wait", Wait::No, _) => "0".to_owned(),
            ("wait", Wait::UpTo(limit), _) => time(limit),
            ("wait", ..) => "forever".to_owned(),
            ("max_hold", _, Duration::MAX) => "none".to_owned(),
            ("max_hold", _, limit) => time(limit),
            _ => time(self.options.hold_at_least()),
        }
    }
}

/// The entry of a flag, which may also have the words of a shell and of a URL.
pub(super) fn read_flag(key: &str, value: &Value) -> Result<ConfigEntry> {
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

/// Refuses white space around a name or a path, which would silently mean another store. A URL is not shown: it may have
/// a password.
pub(super) fn check_blanks(field: &str, text: &str) -> Result<()> {
    if text.trim() == text {
        return Ok(());
    }
    let shown = if may_be_a_url(text) { String::new() } else { format!(": {text:?}") };
    Err(Error::invalid(field, format_args!("there is white space around it{shown}"), "remove it"))
}

/// True for a URL, and for a URL with a mistake in it.
pub(super) fn may_be_a_url(text: &str) -> bool {
    text.contains("://") || text.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_value_can_be_read_again() {
        let texts = [
            ("prefix", "shop/"),
            ("ttl", "1m 30s"),
            ("wait", "forever"),
            ("wait", "0"),
            ("wait", "1m 30s"),
            ("max_hold", "none"),
            ("max_hold", "2h"),
            ("hold_at_least", "0s"),
            ("hold_at_least", "1day"),
        ];
        for (key, text) in texts {
            let mut config = Config::new("memory:").unwrap();
            config.read_setting(key, text).unwrap();
            assert_eq!(config.show_setting(key), text, "{key}");
        }
    }
}
