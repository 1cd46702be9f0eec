use super::ConfigSource;
use super::environment::Environment;
use super::file::Found;
use super::layer::{Layer, Written};
use std::ffi::OsString;
use std::path::PathBuf;

/// Where a [`Config`](crate::Config) is to be loaded from: what was given, the environment, and one file. It says there
/// which word counts.
///
/// ```
/// # use leasehold::ConfigSources;
/// let config = ConfigSources::new()
///     .with_environment([("LEASEHOLD_URL", "memory:jobs"), ("LEASEHOLD_TTL", "10s")])
///     .with_wait("0")
///     .load()?;
/// assert_eq!(config.url().to_string(), "memory:jobs");
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "it reads nothing until it is loaded"]
pub struct ConfigSources {
    pub(super) given: Layer,
    pub(super) url_is_public: bool,
    pub(super) file: Option<PathBuf>,
    pub(super) environment: Environment,
    directory: Option<PathBuf>,
    system_file: Option<PathBuf>,
}

impl ConfigSources {
    /// No source at all: no environment, no file.
    pub fn new() -> Self {
        Self::default()
    }

    /// The environment of this process, and the files where they are looked for.
    pub fn of_this_process() -> Self {
        Self {
            environment: Environment::of_this_process(),
            directory: Some(PathBuf::from(".")),
            system_file: Some(PathBuf::from("/etc/leasehold/config.toml")),
            ..Self::default()
        }
    }

    /// The store's URL.
    pub fn with_url(self, url: impl Into<String>) -> Self {
        self.given("url", url)
    }

    /// The store's URL, from a place that others can read, such as a command line: one with a secret in it is refused.
    pub fn with_public_url(mut self, url: impl Into<String>) -> Self {
        self.url_is_public = true;
        self.with_url(url)
    }

    /// The profile that counts, by its name in the file.
    pub fn with_profile(self, name: impl Into<String>) -> Self {
        self.given("profile", name)
    }

    /// The length of the lease, as it is written in a file: `30s`.
    pub fn with_ttl(self, ttl: impl Into<String>) -> Self {
        self.given("ttl", ttl)
    }

    /// How long to wait, as it is written in a file: `forever`, `0`, `10s`.
    pub fn with_wait(self, wait: impl Into<String>) -> Self {
        self.given("wait", wait)
    }

    /// What stands in front of every lock name.
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        self.given("prefix", prefix)
    }

    /// The file that has the password.
    pub fn with_password_file(self, path: impl Into<String>) -> Self {
        self.given("password_file", path)
    }

    /// The configuration file. It must exist, and no other is looked for.
    pub fn with_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// These variables in place of the process's own.
    pub fn with_environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.environment = variables.into_iter().collect();
        self
    }

    /// The directory in which a `leasehold.toml` is looked for, in place of the working directory.
    pub fn with_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The file of the whole system, in place of `/etc/leasehold/config.toml`.
    pub fn with_system_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.system_file = Some(path.into());
        self
    }

    /// Where a file is looked for if none is named, in this order.
    pub fn search_path(&self) -> Vec<PathBuf> {
        self.search().map(|(path, _)| path).collect()
    }

    fn given(mut self, key: &str, text: impl Into<String>) -> Self {
        self.given.set(key, Written::new(text, ConfigSource::Given));
        self
    }

    pub(super) fn search(&self) -> impl Iterator<Item = (PathBuf, Found)> {
        let here = self.directory.as_ref().map(|directory| directory.join("leasehold.toml"));
        let home = self.environment.xdg("XDG_CONFIG_HOME", ".config");
        let users = home.map(|home| home.join("leasehold/config.toml"));
        let system = self.system_file.clone();
        let here = here.map(|path| (path, Found::InWorkingDirectory));
        here.into_iter().chain(users.into_iter().chain(system).map(|path| (path, Found::InPlace)))
    }
}
