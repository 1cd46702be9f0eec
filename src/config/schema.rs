//! Which keys there are, and under which table. Strict: a mistyped key that was passed over in silence would be found
//! in an outage, or not at all.

use super::layer::{Layer, Written};
use super::settings::SETTINGS;
use super::tree::{Node, Table, Value};
use leasehold_core::{Error, Result, did_you_mean};
use std::collections::BTreeMap;

const TOP_KEYS: [&str; 3] = ["default", "defaults", "profile"];
/// The keys of a profile that say which store, and what each looks like.
const STORE_KEYS: [(&str, &str); 3] =
    [("url", "redis://host:6379/0"), ("password_file", "/run/secrets/redis"), ("password_env", "REDIS_PW")];

/// What a whole file says.
#[derive(Default)]
pub(super) struct Contents {
    /// The profile that counts if none is named.
    pub(super) default: Option<Written>,
    pub(super) defaults: Layer,
    pub(super) profiles: BTreeMap<String, Profile>,
}

/// A `[profile.NAME]`.
pub(super) struct Profile {
    pub(super) layer: Layer,
    /// The place of its name.
    pub(super) source: super::ConfigSource,
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        self.default.is_none() && self.defaults.iter().next().is_none() && self.profiles.is_empty()
    }

    pub(super) fn read(root: Table) -> Result<Self> {
        let mut contents = Self::default();
        for (key, node) in root {
            match key.as_str() {
                "default" if matches!(node.value, Value::Table(_)) => {
                    return Err(node.wrong_kind(&key, "call the table [defaults]"));
                }
                "default" => contents.default = Some(written(&key, "prod", node)?),
                "defaults" => contents.defaults = defaults(node.table(&key)?)?,
                "profile" => contents.profiles = profiles(node.table(&key)?)?,
                _ => return Err(unknown_at_top(&key, &node)),
            }
        }
        Ok(contents)
    }
}

/// A profile's own keys are strings. What else it has are parameters of its store, which only the store knows.
pub(super) fn profile(table: Table) -> Result<Layer> {
    let mut layer = Layer::default();
    for (key, node) in table {
        if let Some((own, example)) = own_keys().find(|(own, _)| *own == key) {
            layer.set(own, written(own, example, node)?);
        } else if key == "password" {
            let fix = "name its file with password_file, or its variable with password_env";
            return Err(node.wrong("a password does not stand here".to_owned(), fix));
        } else {
            parameter(&mut layer, key, node)?;
        }
    }
    Ok(layer)
}

/// The keys of a profile that are not parameters of its store, and what each looks like.
pub(super) fn own_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = SETTINGS.iter().map(|setting| (setting.key, setting.example));
    settings.chain(STORE_KEYS)
}

pub(super) fn is_own(key: &str) -> bool {
    own_keys().any(|(own, _)| own == key)
}

fn defaults(table: Table) -> Result<Layer> {
    let mut layer = Layer::default();
    for (key, node) in table {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            let known = SETTINGS.iter().map(|setting| setting.key);
            let help = did_you_mean(&key, known);
            return Err(node.wrong(format!("unknown key {key:?} in [defaults]"), help));
        };
        layer.set(setting.key, written(setting.key, setting.example, node)?);
    }
    Ok(layer)
}

fn profiles(table: Table) -> Result<BTreeMap<String, Profile>> {
    let profiles = table.into_iter().map(|(name, node)| {
        let source = node.source.clone();
        let layer = profile(node.table(&format!("profile.{name}"))?)?;
        Ok((name, Profile { layer, source }))
    });
    profiles.collect()
}

/// A table of parameters is one name in front of several.
fn parameter(layer: &mut Layer, key: String, node: Node) -> Result<()> {
    match node.value {
        // A quoted "tls.ca" beside a table `tls`.
        Value::Text(_) | Value::Scalar(..) if layer.get(&key).is_some() => {
            return Err(node.wrong(format!("{key} is there twice"), "leave one of them out"));
        }
        Value::Text(text) | Value::Scalar(text, _) => layer.set(key, Written::new(text, node.source)),
        Value::Table(table) => {
            for (inner, node) in table {
                parameter(layer, format!("{key}.{inner}"), node)?;
            }
        }
        Value::Other(_) => return Err(node.wrong_kind(&key, "make it a string, a number or a table")),
    }
    Ok(())
}

fn written(key: &str, example: &str, node: Node) -> Result<Written> {
    let source = node.source.clone();
    Ok(Written::new(node.text(key, example)?, source))
}

fn unknown_at_top(key: &str, node: &Node) -> Error {
    let help = if SETTINGS.iter().any(|setting| setting.key == key) {
        "put it under [defaults], or under a [profile.NAME]".to_owned()
    } else if is_own(key) {
        "put it under a [profile.NAME]".to_owned()
    } else {
        did_you_mean(key, TOP_KEYS)
    };
    node.wrong(format!("unknown key {key:?}"), help)
}
