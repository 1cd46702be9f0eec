//! The part of a configuration that says which store: its URL, its password, and the parameters of a profile.

use super::environment::Environment;
use super::layer::{Layer, Layers, Written};
use super::schema::{is_own, own_keys};
use super::{ConfigEntry, password};
use leasehold_core::{Error, ErrorKind, Result, StoreUrl, did_you_mean, nearest};
use secrecy::SecretString;

/// The keys that an entry about the password can have.
const PASSWORD_KEYS: [&str; 3] = ["password", "password_file", "password_env"];

/// A store URL, complete, and who said which part of it.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) url: StoreUrl,
    /// What it was put together from, as it is shown: the URL first.
    entries: Vec<ConfigEntry>,
    /// The profile that it is from.
    profile: Option<String>,
    /// The variable that it names for its password, if there is one, whether or not that is the password that counts.
    password_variable: Option<String>,
}

impl Store {
    /// The store of a URL that has everything in it.
    pub(super) fn of_url(written: &Written) -> Result<Self> {
        let url = StoreUrl::parse(&written.text).map_err(|error| written.source.blame(error))?;
        Ok(Self {
            entries: vec![ConfigEntry::new("url", url.to_string(), written.source.clone())],
            url,
            profile: None,
            password_variable: None,
        })
    }

    /// Adds the password that counts, and the parameters of the profile.
    pub(super) fn completed(mut self, layers: &Layers<'_>, environment: &Environment) -> Result<Self> {
        // Only a variable that there is: what is none may be the password itself, written in the wrong place.
        let is_set = |variable: &String| !matches!(environment.get(variable), Ok(None));
        let named = layers.profile.get("password_env").map(|variable| variable.text.clone());
        self.password_variable = named.filter(is_set);
        if let Some(found) = password::find(layers, environment)? {
            let entry = ConfigEntry::new(found.key, found.place, found.source);
            self = self.with_password(found.secret, entry)?;
        }
        for (key, written) in parameters(layers.profile) {
            let value = StoreUrl::shown_parameter(key, &written.text);
            let added = self.url.with_parameter(parameter_name(key), &written.text);
            self.url = added.map_err(|error| written.source.blame(error))?;
            self.entries.push(ConfigEntry::new(key, value, written.source.clone()));
        }
        Ok(self)
    }

    /// Sets the password. `entry` says where it is from, and is shown.
    pub(super) fn with_password(mut self, password: SecretString, entry: ConfigEntry) -> Result<Self> {
        let with_password = self.url.with_password(password);
        self.url = with_password.map_err(|error| entry.source.blame(error))?;
        self.entries.retain(|known| !PASSWORD_KEYS.contains(&known.key.as_str()));
        let url = self.entries.iter().position(|known| known.key == "url");
        self.entries.insert(url.map_or(0, |url| url + 1), entry);
        Ok(self)
    }

    /// Says which profile it is from.
    pub(super) fn of_profile(mut self, name: &Written) -> Self {
        self.entries.insert(0, ConfigEntry::new("profile", &name.text, name.source.clone()));
        self.profile = Some(name.text.clone());
        self
    }

    pub(super) fn entries(&self) -> &[ConfigEntry] {
        &self.entries
    }

    pub(super) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    pub(super) fn password_variable(&self) -> Option<&str> {
        self.password_variable.as_deref()
    }

    /// What the backend found wrong with the URL, said of the place where that part was written.
    pub(super) fn blame(&self, error: Error) -> Error {
        if let Some(entry) = self.entries.iter().find(|entry| is_about(&error, entry)) {
            return entry.source.blame(self.unknown_key(entry, &error).unwrap_or(error));
        }
        match self.entries.iter().find(|entry| entry.key == "url") {
            Some(url) => url.source.blame(error),
            None => error,
        }
    }

    /// An unknown parameter that was written as a key of a profile is an unknown key.
    fn unknown_key(&self, entry: &ConfigEntry, error: &Error) -> Option<Error> {
        let profile = self.profile().filter(|_| is_unknown(error, entry))?;
        let own = || own_keys().map(|(key, _)| key);
        let help = match nearest(&entry.key, own()) {
            Some(_) => did_you_mean(&entry.key, own()),
            None => error.help().unwrap_or_default().to_owned(),
        };
        let message = format!("unknown key {:?} in [profile.{profile}]", entry.key);
        Some(Error::new(ErrorKind::Misconfigured, message).with_help(help))
    }
}

/// The keys of a profile that are not ours: parameters of its store.
fn parameters(profile: &Layer) -> impl Iterator<Item = (&str, &Written)> {
    profile.iter().filter(|(key, _)| !is_own(key))
}

/// `tls.ca` in a file is `tls_ca` in a URL.
fn parameter_name(key: &str) -> String {
    key.replace('.', "_")
}

/// True if the error is about the parameter of this entry: it begins with `invalid NAME:`, or does not know it.
fn is_about(error: &Error, entry: &ConfigEntry) -> bool {
    let name = parameter_name(&entry.key);
    is_unknown(error, entry) || error.to_string().starts_with(&format!("invalid {name}:"))
}

/// True if the error is that of [`Query::finish`](leasehold_core::Query::finish) about this entry.
fn is_unknown(error: &Error, entry: &ConfigEntry) -> bool {
    let name = parameter_name(&entry.key);
    error.to_string() == format!("invalid store URL: unknown parameter {name:?}")
}
