//! The sources of a configuration, and which of them counts for the store.

use super::default_store::{check_url_not_removed, default_store, no_store};
use super::environment::Environment;
use super::file::{ConfigFile, FileOrigin};
use super::layers::{Layer, SourcedText, check_ends, may_be_a_url, read_flag};
use super::{Config, ConfigEntry, ConfigSource};
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::{StoreUrl, did_you_mean};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The sources from which a [`Config`] is loaded: values that are given, the environment, and one file. [`Config`] says
/// which source counts.
#[derive(Clone, Debug, Default)]
#[must_use = "it reads nothing until it is loaded"]
pub struct ConfigSources {
    given: Layer,
    url_is_public: bool,
    file: Option<PathBuf>,
    environment: Environment,
    local_file: Option<PathBuf>,
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
            local_file: Some(PathBuf::from("./leasehold.toml")),
            system_file: Some(PathBuf::from("/etc/leasehold/config.toml")),
            ..Self::default()
        }
    }

    /// The store's URL.
    pub fn with_url(self, url: impl Into<String>) -> Self {
        self.given("url", url.into())
    }

    /// The store's URL, from a place that others can read, such as a command line: a URL with a secret is refused.
    pub fn with_public_url(mut self, url: impl Into<String>) -> Self {
        self.url_is_public = true;
        self.with_url(url)
    }

    /// The profile that counts, by its name in the file.
    pub fn with_profile(self, name: impl Into<String>) -> Self {
        self.given("profile", name.into())
    }

    /// The length of the lease, as it is written in a file: `30s`.
    pub fn with_ttl(self, ttl: impl Into<String>) -> Self {
        self.given("ttl", ttl.into())
    }

    fn given(mut self, key: &str, text: String) -> Self {
        self.given.insert(key.to_owned(), SourcedText::new(text, ConfigSource::Given));
        self
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

    /// The directory in which a `leasehold.toml` is looked for, in place of the working directory, and the file of the whole
    /// system, in place of `/etc/leasehold/config.toml`.
    pub fn with_places(mut self, directory: impl Into<PathBuf>, system_file: impl Into<PathBuf>) -> Self {
        self.local_file = Some(directory.into().join("leasehold.toml"));
        self.system_file = Some(system_file.into());
        self
    }

    /// The places of a file that is not named, in the order in which they are looked at.
    pub fn search_path(&self) -> Vec<PathBuf> {
        let home = self.environment.xdg("XDG_CONFIG_HOME", ".config");
        let users = home.map(|home| home.join("leasehold/config.toml"));
        [self.local_file.clone(), users, self.system_file.clone()].into_iter().flatten().collect()
    }

    /// Reads the sources: the environment, one configuration file, one password file. Blocks as long as that takes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) for a given value, [`Misconfigured`](ErrorKind::Misconfigured) for one in a file or
    /// in the environment, with its place. No error shows a password.
    pub fn load(&self) -> Result<Config> {
        let mut environment = self.environment.layer()?;
        let file = self.read_file(&environment)?;
        let required = environment.get("require_store");
        let required = required.or_else(|| file.as_ref()?.contents.require_store.as_ref());
        let required = required.map(|value| read_flag("require_store", value)).transpose()?;
        let (profile, store) = self.store(&environment, file.as_ref(), required.as_ref())?;
        let defaults = file.as_ref().map(|file| self.environment.expand_all(&file.contents.defaults));
        environment.extend(self.given.clone());
        let layers = [&environment, &store, &defaults.transpose()?.unwrap_or_default()];

        let mut config = Config::assemble(profile.as_ref(), layers, &self.environment)?;
        config.store.extend(required);
        config.warnings = self.environment.misspelt();
        if let Some(file) = file {
            config.file = Some(file.path);
            config.warnings.extend(file.warnings);
        }
        Ok(config)
    }

    fn read_file(&self, environment: &Layer) -> Result<Option<ConfigFile>> {
        if let Some(path) = &self.file {
            return ConfigFile::read(path, FileOrigin::Named).map(Some);
        }
        if let Some(named) = environment.get("config") {
            let read = ConfigFile::read(Path::new(&named.text), FileOrigin::Named);
            return read.map(Some).map_err(|error| named.source.blame(error));
        }
        let Some(path) = self.search_path().into_iter().find(|path| ConfigFile::exists(path)) else {
            return Ok(None);
        };
        let is_local = self.local_file.as_ref() == Some(&path);
        let found = if is_local { FileOrigin::InWorkingDirectory } else { FileOrigin::InPlace };
        ConfigFile::read(&path, found).map(Some)
    }

    /// The store that the strongest source names: its profile, and the values of the profile, or the URL alone.
    fn store(
        &self,
        environment: &Layer,
        file: Option<&ConfigFile>,
        required: Option<&ConfigEntry>,
    ) -> Result<(Option<SourcedText>, Layer)> {
        let of_url = |url: SourcedText| Ok((None, Layer::from([("url".to_owned(), url)])));
        for layer in [&self.given, environment] {
            match (layer.get("url"), layer.get("profile")) {
                (Some(url), Some(_)) => {
                    let both = Error::new(ErrorKind::Invalid, "a URL and a profile are both given");
                    let fix = "leave one of them out: a profile has a URL of its own";
                    return Err(url.source.blame(both.with_help(fix)));
                }
                (Some(url), None) => {
                    let is_public = self.url_is_public && url.source == ConfigSource::Given;
                    if is_public && StoreUrl::parse(&url.text)?.has_secret() {
                        return Err(public_secret());
                    }
                    return of_url(url.clone());
                }
                (None, Some(name)) => return self.profile(name.clone(), file),
                (None, None) => {}
            }
        }
        check_url_not_removed(&self.environment)?;
        if let Some(name) = file.and_then(|file| file.contents.default.as_ref()) {
            return self.profile(self.environment.expanded("default", name)?, file);
        }
        if let Some(file) = file.filter(|file| !file.contents.profiles.is_empty()) {
            let message = format!("{}: no profile is chosen", file.path.display());
            let names = file.contents.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
            let help = format!("write default = \"NAME\" into it, or set LEASEHOLD_PROFILE; known: {names}");
            return Err(Error::new(ErrorKind::Misconfigured, message).with_help(help));
        }
        if let Some(required) = required.filter(|required| required.value == "true") {
            return Err(self.no_default_store(required, file));
        }
        file.map_or(Ok(()), ConfigFile::check_not_blank)?;
        of_url(default_store(&self.environment)?)
    }

    fn profile(&self, name: SourcedText, file: Option<&ConfigFile>) -> Result<(Option<SourcedText>, Layer)> {
        let blame = |error| name.source.blame(error);
        check_ends("profile", &name.text).map_err(blame)?;
        let Some(file) = file else {
            let fix = "write a leasehold.toml, or name a file with LEASEHOLD_CONFIG";
            return Err(blame(Error::invalid("profile", "there is no configuration file", fix)));
        };
        let Some(profile) = file.contents.profiles.get(&name.text) else {
            let problem = match may_be_a_url(&name.text) {
                // The name is not shown: it may have a password.
                true => "a profile is a name, not a URL".to_owned(),
                false => format!("there is no {:?} in {}", name.text, file.path.display()),
            };
            let known = file.contents.profiles.keys().map(String::as_str);
            return Err(blame(Error::invalid("profile", problem, did_you_mean(&name.text, known))));
        };
        Ok((Some(name), self.environment.expand_all(profile)?))
    }

    /// Says where a store can be named.
    fn no_default_store(&self, required: &ConfigEntry, file: Option<&ConfigFile>) -> Error {
        let places = file.map_or_else(|| self.search_path(), |file| vec![file.path.to_path_buf()]);
        let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        let fix = format!(
            "name a store with LEASEHOLD_URL, LEASEHOLD_PROFILE or leasehold -u, or by default = \"NAME\" in {}",
            places.join(" or ")
        );
        required.source.blame(no_store(", and require_store forbids the default one", fix))
    }
}

impl Config {
    /// The configuration in the environment and the file of this process. Blocks as long as it takes to read them.
    ///
    /// # Errors
    ///
    /// As [`ConfigSources::load`].
    pub fn load() -> Result<Self> {
        ConfigSources::of_this_process().load()
    }
}

fn public_secret() -> Error {
    let problem = "it has a password, and others can read it where it stands";
    let fix =
        "put the URL into LEASEHOLD_URL, or the password into a file that LEASEHOLD_PASSWORD_FILE names";
    Error::invalid("store URL", problem, fix)
}
