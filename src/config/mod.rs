//! Which store, and how its locks are held: from code, from the environment, from a file.

mod choice;
mod default_store;
mod embedded;
mod entry;
mod environment;
mod expand;
mod file;
mod layer;
mod load;
mod password;
mod schema;
mod settings;
mod source;
mod sources;
mod store;
mod tree;

pub use entry::ConfigEntry;
pub use source::ConfigSource;
pub use sources::ConfigSources;

use crate::Registry;
use layer::Written;
use leasehold_core::{AcquireOptions, Error, Finding, LocalQueue, Namespace, Result, StoreUrl, Wait};
use secrecy::SecretString;
use settings::{SETTINGS, Settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// Which store, and how its locks are held.
///
/// * [`Config::new`]: a URL, in code.
/// * [`Config::load`]: the environment and a file, as the command `leasehold` reads them.
/// * [`ConfigSources`]: the same, with some of it given: a URL from a command line, a file by name.
/// * Deserialized by serde, as a part of an application's own configuration: a URL, or a table with the keys of a
///   profile, whose passwords and variables are looked up at once.
///
/// # The file
///
/// ```toml
/// default = "prod"                      # the profile that counts if none is named
///
/// [defaults]
/// ttl = "30s"                           # how long a crashed holder keeps others out
/// wait = "forever"                      # or "0", or "10s"
/// prefix = "shop/"                      # goes in front of every lock name
/// max_hold = "none"                     # or "2h": the longest hold, see AcquireOptions::with_max_hold
/// hold_at_least = "0s"                  # nobody else gets it earlier
///
/// [profile.prod]
/// url = "rediss://locker@redis.int:6380/0"
/// password_file = "/run/secrets/redis"  # or password_env = "REDIS_PW"
/// ttl = "10s"                           # whatever [defaults] may have
/// local_queue = 64                      # tasks of one process take turns, as a parameter of the URL too
/// timeout = "1s"                        # anything else is a parameter of the URL
/// tls = { ca = "/etc/ssl/int-ca.pem" }  # tls_ca
///
/// [profile.laptop]
/// url = "sqlite:${HOME}/locks.db"       # ${VAR} or ${VAR:-default}; $${ is a plain ${
/// ```
///
/// Unknown keys are errors. Relative paths are relative to the working directory. What is put in for `${VAR}` is not
/// encoded: write a password into the environment for `password_env`, not for a URL.
///
/// # Which word counts
///
/// From the strongest: what is given in code or on a command line; the environment (`LEASEHOLD_URL`, `_PROFILE`,
/// `_CONFIG`, `_TTL`, `_WAIT`, `_PREFIX`, `_PASSWORD_FILE`; set and empty is an error, but for the prefix); the profile;
/// `[defaults]`; what is built in: 30 s, for ever, and a SQLite file of this user where that feature is compiled in.
///
/// Where `leasehold run` has removed a `LEASEHOLD_URL` (`LEASEHOLD_URL_REMOVED` is set), a store must be given or named in
/// the environment: neither the default of a file nor what is built in is taken for the one that was meant.
///
/// *One file* counts: the one that is named; or else the first that exists of `./leasehold.toml`,
/// `$XDG_CONFIG_HOME/leasehold/config.toml` and `/etc/leasehold/config.toml`. Files are not merged, and one that cannot
/// be read is an error: to pass it over would be to lock in another store than everybody else. A `./leasehold.toml` that
/// belongs to another user than root, or that everybody may write to, must be named; one that its group may write to is
/// believed.
///
/// *One place* says which store: a URL or a profile, whichever is named by the stronger word. A URL takes nothing from a
/// profile, above all no password; the `[defaults]` of the file hold for it too.
#[derive(Clone, Debug)]
pub struct Config {
    store: Store,
    settings: Settings,
    /// Who said which of the settings.
    sources: BTreeMap<&'static str, ConfigSource>,
    file: Option<Arc<Path>>,
    warnings: Vec<Finding>,
}

impl Config {
    /// The store at this URL. No file and no environment is looked at.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid), without any secret in it. What only the backend can tell is found when
    /// the configuration is [connected](crate::connect_with).
    pub fn new(url: &str) -> Result<Self> {
        Store::of_url(&Written::new(url, ConfigSource::Given)).map(Self::of_store)
    }

    /// What the environment and the configuration file of this process say. Reads files, and blocks as long as that
    /// takes.
    ///
    /// # Errors
    ///
    /// As [`ConfigSources::load`].
    pub fn load() -> Result<Self> {
        ConfigSources::of_this_process().load()
    }

    /// The length of the lease, from 50 ms to 24 h. Default: 30 s.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self.given("ttl")
    }

    /// How long to wait for a lock that is held. Default: for ever.
    #[must_use]
    pub fn with_wait(mut self, wait: impl Into<Wait>) -> Self {
        self.settings.wait = wait.into();
        self.given("wait")
    }

    /// The longest hold, however healthy its renewals are. Default: no limit.
    #[must_use]
    pub fn with_max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = max_hold;
        self.given("max_hold")
    }

    /// The shortest time for which others are kept out, at most 24 h. Default: zero.
    #[must_use]
    pub fn with_hold_at_least(mut self, hold_at_least: Duration) -> Self {
        self.settings.hold_at_least = hold_at_least;
        self.given("hold_at_least")
    }

    /// What stands in front of every lock name in the store. Default: what the store's scheme has, `leasehold:` on
    /// Redis and nothing elsewhere.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is longer than 128 bytes or has a control character.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self> {
        self.settings.prefix = Some(Namespace::new(prefix)?);
        Ok(self.given("prefix"))
    }

    /// The password, in place of one that a file or a variable named. Default: what the URL has.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the URL has one too.
    pub fn with_password(mut self, password: impl Into<String>) -> Result<Self> {
        let entry = ConfigEntry::new("password", "***", ConfigSource::Given);
        self.store = self.store.with_password(SecretString::from(password.into()), entry)?;
        Ok(self)
    }

    /// The store's URL with everything in it. Its `Debug` and `Display` show no password.
    pub fn url(&self) -> &StoreUrl {
        &self.store.url
    }

    /// The profile that the store is from, if it is from one.
    pub fn profile(&self) -> Option<&str> {
        self.store.profile()
    }

    /// What stands in front of every lock name, if anything was said about it.
    pub fn prefix(&self) -> Option<&Namespace> {
        self.settings.prefix.as_ref()
    }

    /// How the tasks of this process take turns with other processes: the parameter `local_queue` of the URL, or of the
    /// profile. Default: not at all.
    ///
    /// For any store; [`LockClientBuilder::with_local_queue`](crate::client::LockClientBuilder::with_local_queue) says what
    /// it does.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for what is no number from 1 to [`LocalQueue::MAX_GRANTS`].
    pub fn local_queue(&self) -> Result<Option<LocalQueue>> {
        let (_, grants) = self.url().clone().split_parameter(LocalQueue::PARAMETER);
        grants.map(|grants| grants.parse()).transpose().map_err(|error| self.blame(error))
    }

    /// The options of [`acquire`](crate::DistributedLockExt::acquire).
    pub fn options(&self) -> AcquireOptions {
        self.settings.options()
    }

    /// The environment variable that `password_env` names in the profile of the store, if it is set, also where the password
    /// of another place counts. Whoever starts other programs may want to keep it from them.
    pub fn password_variable(&self) -> Option<&str> {
        self.store.password_variable()
    }

    /// The configuration file that was read, if one was.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// True if nobody named a store, so that it is the SQLite file of this user on this host. Tell people: it excludes
    /// nobody on any other host.
    pub fn is_default_store(&self) -> bool {
        self.store.entries().iter().any(|entry| entry.source == ConfigSource::Default)
    }

    /// What is no error and should not stay as it is, such as a password that everybody may read. For the caller to
    /// print: a library does not.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Every value that counts, and where it comes from. Shows no password.
    pub fn show(&self) -> Vec<ConfigEntry> {
        let settings = SETTINGS.iter().map(|setting| {
            let source = self.sources.get(setting.key).cloned().unwrap_or(ConfigSource::Default);
            let value = (setting.show)(&self.settings);
            ConfigEntry::new(setting.key, value.unwrap_or_else(|| self.default_prefix()), source)
        });
        self.store.entries().iter().cloned().chain(settings).collect()
    }

    /// Says of an error of the backend where the mistake was written.
    pub(crate) fn blame(&self, error: Error) -> Error {
        self.store.blame(error)
    }

    fn of_store(store: Store) -> Self {
        Self {
            store,
            settings: Settings::default(),
            sources: BTreeMap::new(),
            file: None,
            warnings: Vec::new(),
        }
    }

    fn given(mut self, key: &'static str) -> Self {
        self.sources.insert(key, ConfigSource::Given);
        self
    }

    fn default_prefix(&self) -> String {
        Registry::default().default_prefix(self.url().scheme()).to_owned()
    }
}
