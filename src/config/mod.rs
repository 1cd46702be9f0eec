//! The store and the options of its locks: from code, from the environment, from a file.

mod default_store;
mod embedded;
mod entry;
mod environment;
mod file;
mod layers;
mod schema;
mod sources;

pub use entry::{ConfigEntry, ConfigSource};
pub use sources::ConfigSources;

use environment::Environment;
use layers::{Layer, SETTINGS, SourcedText, check_ends, is_own, own_keys};
use leasehold_core::{AcquireOptions, Error, ErrorKind, Finding, Namespace, Result, Wait, parse_duration};
use leasehold_store_url::{Secret, StoreUrl, did_you_mean, nearest};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The store, and the options of its locks: from a URL ([`Config::new`]); from the environment and a file, as the command
/// `leasehold` reads them ([`Config::load`], [`ConfigSources`]); or by serde, as a part of an application's own
/// configuration: a URL, or a table with the keys of a profile.
///
/// `Display` is the store's URL without its passwords. Configurations are equal if their stores and options are, whatever
/// their sources.
///
/// ```toml
/// default = "prod"                      # the profile that counts if none is named
/// require_store = true                  # never use the built-in default store
///
/// [defaults]
/// ttl = "30s"                           # how long a crashed holder keeps others out
/// wait = "forever"                      # or "0", or "10s"
/// prefix = "shop/"                      # goes in front of every lock name
/// max_hold = "none"                     # or "2h": the longest hold, see AcquireOptions::with_max_hold
/// hold_at_least = "0s"                  # the shortest time for which others are kept out
///
/// [profile.prod]
/// url = "rediss://locker@redis.int:6380/0"
/// password_file = "/run/secrets/redis"  # or password_env = "REDIS_PW"
/// ttl = "10s"                           # any key of [defaults]
/// timeout = "1s"                        # every other key is a parameter of the URL
/// tls = { ca = "/etc/ssl/int-ca.pem" }  # tls_ca
///
/// [profile.laptop]
/// url = "sqlite:${HOME}/locks.db"       # ${VAR} or ${VAR:-default}; $${ is a plain ${
/// ```
///
/// An unknown key is an error, and so are white space, quotes, commas and the like around a URL, a prefix, a path or a name.
/// Relative paths are relative to the working directory. The value of a `${VAR}` is not percent-encoded: name a variable with a
/// password in `password_env`, not in a URL. The password file, or that variable, is read again for every connection ([`Secret`]), so a
/// rotated password needs no restart.
///
/// From the strongest source: code and command line; the environment (`LEASEHOLD_URL`, `_PROFILE`, `_CONFIG`, `_TTL`,
/// `_WAIT`, `_PREFIX`, `_PASSWORD_FILE`, `_REQUIRE_STORE`; an empty value is an error, but for the prefix); the profile;
/// `[defaults]`; the built-in values: 30 s, for ever, and a SQLite file of this user if that feature is on.
///
/// *One source* names the store, the strongest that has a URL or a profile. A URL takes nothing from a profile, above all no
/// password. *One file* counts: the named one, or else the first that exists of `./leasehold.toml`,
/// `$XDG_CONFIG_HOME/leasehold/config.toml` and `/etc/leasehold/config.toml`. A file that cannot be read is an error: to
/// pass over it would silently mean another store. A `./leasehold.toml` that another user than root owns, or that everybody
/// may write to, must be named.
#[derive(Clone, Debug)]
pub struct Config {
    url: StoreUrl,
    prefix: Option<Namespace>,
    options: AcquireOptions,
    password_variable: Option<String>,
    /// The entries that name the store: profile, URL, password, parameters.
    store: Vec<ConfigEntry>,
    /// The sources of the settings that are not built in.
    sources: BTreeMap<&'static str, ConfigSource>,
    file: Option<Arc<Path>>,
    warnings: Vec<Finding>,
}

impl Config {
    /// The store at this URL. Reads no file and no environment.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid), without any secret in it. Mistakes that only the backend can find are reported by
    /// [`connect_with`](crate::connect_with).
    pub fn new(url: &str) -> Result<Self> {
        Self::of_url(&SourcedText::new(url, ConfigSource::Given))
    }

    /// The length of the lease, from 50 ms to 24 h. Default: 30 s.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.options = self.options.with_ttl(ttl);
        self.given("ttl")
    }

    /// How long to wait for a lock that is held. Default: for ever.
    #[must_use]
    pub fn with_wait(mut self, wait: impl Into<Wait>) -> Self {
        self.options = self.options.with_wait(wait);
        self.given("wait")
    }

    /// The prefix of every lock name in the store. Default: that of the store's scheme, `leasehold:` on Redis and none on the
    /// other stores of this crate ([`Registry::set_default_prefix`](crate::Registry::set_default_prefix)).
    ///
    /// # Errors
    ///
    /// As [`Namespace::new`]; also [`Invalid`](ErrorKind::Invalid) if quotes, a comma and the like are around it.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self> {
        self.prefix = Some(namespace(prefix)?);
        Ok(self.given("prefix"))
    }

    /// The password, or the file or the variable that has it, in place of one that another source names. Default: the one
    /// in the URL.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the URL has one too.
    pub fn with_password(mut self, password: impl Into<Secret>) -> Result<Self> {
        self.set_password(password.into(), ConfigEntry::new("password", "***", ConfigSource::Given))?;
        Ok(self)
    }

    /// The store's URL, complete. Its `Debug` and `Display` show no password.
    pub fn url(&self) -> &StoreUrl {
        &self.url
    }

    /// The prefix of every lock name, if it is configured. The prefix that counts is [`Registry::namespace`](crate::Registry::namespace).
    pub fn prefix(&self) -> Option<&Namespace> {
        self.prefix.as_ref()
    }

    /// The options of [`acquire`](crate::DistributedLockExt::acquire).
    pub fn options(&self) -> AcquireOptions {
        self.options.clone()
    }

    /// The environment variable that `password_env` names in the profile of the store, if it is set, even if the password
    /// of another source counts. A program that starts other programs may want to keep it from them.
    pub fn password_variable(&self) -> Option<&str> {
        self.password_variable.as_deref()
    }

    /// The configuration file that was read, if one was.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// True if no source named a store, so that it is the SQLite file of this user on this host. Tell people: its locks
    /// exclude nobody on another host.
    pub fn is_default_store(&self) -> bool {
        self.entry("url").is_some_and(|url| url.source == ConfigSource::Default)
    }

    /// Findings that are no errors, such as a password that everybody may read. For the caller to print.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Every value that counts, and its source, with this prefix of lock names.
    pub(crate) fn entries(&self, prefix: &Namespace) -> Vec<ConfigEntry> {
        let settings = SETTINGS.iter().map(|(key, _)| {
            let source = self.sources.get(key).cloned().unwrap_or(ConfigSource::Default);
            let value = if *key == "prefix" { prefix.prefix().to_owned() } else { self.show_setting(key) };
            ConfigEntry::new(*key, value, source)
        });
        self.store.iter().cloned().chain(settings).collect()
    }

    /// Names the place of the parameter or the URL that the backend has refused.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let said = error.to_string();
        let is_unknown = |key: &str| said == format!("invalid store URL: unknown parameter {key:?}");
        let is_about = |key: &str| is_unknown(key) || said.starts_with(&format!("invalid {key}:"));
        let entry = self.store.iter().find(|entry| is_about(&entry.key));
        let Some(entry) = entry.or_else(|| self.entry("url")) else { return error };
        entry.source.blame(match self.entry("profile") {
            Some(profile) if is_unknown(&entry.key) => unknown_key(&entry.key, &profile.value, &error),
            _ => error,
        })
    }

    fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.store.iter().find(|entry| entry.key == key)
    }

    fn of_url(value: &SourcedText) -> Result<Self> {
        let url = StoreUrl::parse(&value.text).map_err(|error| value.source.blame(error))?;
        Ok(Self {
            prefix: None,
            options: AcquireOptions::new(),
            password_variable: None,
            store: vec![ConfigEntry::new("url", url.to_string(), value.source.clone())],
            url,
            sources: BTreeMap::new(),
            file: None,
            warnings: Vec::new(),
        })
    }

    /// The values of these layers, the strongest first: the environment, the profile or the URL alone, and `[defaults]`.
    fn assemble(
        profile: Option<&SourcedText>,
        layers: [&Layer; 3],
        environment: &Environment,
    ) -> Result<Self> {
        let [variables, of_profile, _] = layers;
        let missing = || Error::invalid("url", "it is missing", "add one: redis://host:6379/0");
        let mut config = Self::of_url(of_profile.get("url").ok_or_else(missing)?)?;
        if let Some(name) = profile {
            config.store.insert(0, name.entry("profile"));
        }
        config.find_password(variables, of_profile, environment)?;
        for (key, value) in of_profile.iter().filter(|(key, _)| !is_own(key)) {
            let added = config.url.with_parameter(key, &value.text);
            config.url = added.map_err(|error| value.source.blame(error))?;
            let shown = StoreUrl::shown_parameter(key, &value.text);
            config.store.push(ConfigEntry::new(key, shown, value.source.clone()));
        }
        for (key, _) in SETTINGS {
            let Some(value) = layers.iter().find_map(|layer| layer.get(key)) else { continue };
            config.read_setting(key, &value.text).map_err(|error| value.source.blame(error))?;
            config.sources.insert(key, value.source.clone());
        }
        Ok(config)
    }

    /// Reads a setting, and checks its range at once: when a lock is acquired, the line of the mistake is not known.
    fn read_setting(&mut self, key: &str, text: &str) -> Result<()> {
        let options = self.options.clone();
        self.options = match key {
            "prefix" => {
                self.prefix = Some(namespace(text)?);
                options
            }
            "ttl" => options.with_ttl(parse_duration(key, text)?),
            "wait" => options.with_wait(text.trim().parse::<Wait>()?),
            "max_hold" if text.trim() == "none" => options.with_max_hold(Duration::MAX),
            "max_hold" => options.with_max_hold(parse_duration(key, text)?),
            _ => options.with_hold_at_least(parse_duration(key, text)?),
        };
        self.options.check()
    }

    /// The value of a setting other than the prefix, as it can be read again.
    fn show_setting(&self, key: &str) -> String {
        let time = |time| humantime::format_duration(time).to_string();
        match (key, self.options.wait(), self.options.max_hold()) {
            ("ttl", ..) => time(self.options.ttl()),
            ("wait", Wait::No, _) => "0".to_owned(),
            ("wait", Wait::UpTo(limit), _) => time(limit),
            ("wait", ..) => "forever".to_owned(),
            ("max_hold", _, Duration::MAX) => "none".to_owned(),
            ("max_hold", _, limit) => time(limit),
            _ => time(self.options.hold_at_least()),
        }
    }

    /// Sets the password that counts: that of `LEASEHOLD_PASSWORD_FILE`, or that of the profile.
    fn find_password(&mut self, variables: &Layer, profile: &Layer, environment: &Environment) -> Result<()> {
        let (file, variable) = (profile.get("password_file"), profile.get("password_env"));
        if let (Some(file), Some(_)) = (file, variable) {
            let problem = "there is a password_env beside it";
            return Err(file.source.blame(Error::invalid("password_file", problem, "leave one of them out")));
        }
        let is_set = |variable: &&SourcedText| !matches!(environment.get(&variable.text), Ok(None));
        self.password_variable = variable.filter(is_set).map(|variable| variable.text.clone());
        let (secret, place, key) = match (variables.get("password_file").or(file), variable) {
            (Some(file), _) => (Secret::file(&file.text), file, "password_file"),
            (None, Some(variable)) => (environment.password(&variable.text), variable, "password_env"),
            (None, None) => return Ok(()),
        };
        self.set_password(secret.map_err(|error| place.source.blame(error))?, place.entry(key))
    }

    fn set_password(&mut self, password: Secret, entry: ConfigEntry) -> Result<()> {
        let with_password = self.url.clone().with_password(password);
        self.url = with_password.map_err(|error| entry.source.blame(error))?;
        self.store.retain(|known| !["password", "password_file", "password_env"].contains(&&*known.key));
        let url = self.store.iter().position(|known| known.key == "url");
        self.store.insert(url.map_or(0, |url| url + 1), entry);
        Ok(())
    }

    fn given(mut self, key: &'static str) -> Self {
        self.sources.insert(key, ConfigSource::Given);
        self
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url && self.prefix == other.prefix && self.options == other.options
    }
}

/// The error of a parameter that no backend knows, or of a mistyped key of ours.
fn unknown_key(key: &str, profile: &str, error: &Error) -> Error {
    let own = || own_keys().map(|(own, _)| own);
    let help = match nearest(key, own()) {
        Some(_) => did_you_mean(key, own()),
        None => error.help().unwrap_or_default().to_owned(),
    };
    let message = format!("unknown key {key:?} in [profile.{profile}]");
    Error::new(ErrorKind::Misconfigured, message).with_help(help)
}

fn namespace(prefix: &str) -> Result<Namespace> {
    check_ends("prefix", prefix)?;
    Namespace::new(prefix)
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
            let entries = config.entries(&config.prefix().cloned().unwrap_or_default());
            let shown = entries.into_iter().find(|entry| entry.key == key).unwrap();
            assert_eq!(shown.value, text, "{key}");
        }
    }
}
