use super::ConfigSource;
use super::environment::Environment;
use super::expand::expand;
use leasehold_core::Result;
use std::collections::BTreeMap;
use std::fmt;

/// A value as it was written, and where.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) source: ConfigSource,
}

/// What one place says: values by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer(BTreeMap<String, Written>);

/// The places that may say something, the strongest first.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    pub(super) given: &'a Layer,
    pub(super) environment: &'a Layer,
    pub(super) profile: &'a Layer,
    pub(super) defaults: &'a Layer,
}

impl Written {
    pub(super) fn new(text: impl Into<String>, source: ConfigSource) -> Self {
        Self { text: text.into(), source }
    }

    /// The value with the variables in it put in. `key` names it in an error.
    pub(super) fn expanded(&self, key: &str, environment: &Environment) -> Result<Self> {
        let text = expand(key, &self.text, |variable| environment.get(variable));
        let text = text.map_err(|error| self.source.blame(error))?;
        Ok(Self::new(text, self.source.clone()))
    }
}

impl Layer {
    pub(super) fn get(&self, key: &str) -> Option<&Written> {
        self.0.get(key)
    }

    pub(super) fn set(&mut self, key: impl Into<String>, written: Written) {
        self.0.insert(key.into(), written);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Written)> {
        self.0.iter().map(|(key, written)| (key.as_str(), written))
    }

    /// The layer with the variables in its values put in.
    pub(super) fn expanded(&self, environment: &Environment) -> Result<Self> {
        let expanded =
            self.0.iter().map(|(key, written)| Ok((key.clone(), written.expanded(key, environment)?)));
        expanded.collect::<Result<_>>().map(Self)
    }
}

impl<'a> Layers<'a> {
    /// The word that counts for this key.
    pub(super) fn find(&self, key: &str) -> Option<&'a Written> {
        [self.given, self.environment, self.profile, self.defaults]
            .into_iter()
            .find_map(|layer| layer.get(key))
    }
}

/// Only where it stands: the value may have a password in it.
impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Written({})", self.source)
    }
}
