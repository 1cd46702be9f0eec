//! From the sources to a configuration: which file, which store, which word counts.

use super::choice::Choice;
use super::environment::Environment;
use super::file::{ConfigFile, Found};
use super::layer::{Layer, Layers};
use super::settings::SETTINGS;
use super::store::Store;
use super::{Config, ConfigSource, ConfigSources};
use leasehold_core::Result;
use std::path::Path;

impl ConfigSources {
    /// Reads the sources: the environment, one configuration file, one password file. Blocks as long as that takes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for what was given, [`Misconfigured`](crate::ErrorKind::Misconfigured) for
    /// what stands in a file or in the environment, with the place. None shows a password.
    pub fn load(&self) -> Result<Config> {
        let environment = self.environment.layer()?;
        let file = self.read_file(&environment)?;
        let choice = Choice::of(self, &environment, file.as_ref())?;
        if let (Choice::BuiltIn, Some(file)) = (&choice, &file) {
            file.check_meant()?;
        }
        if self.url_is_public {
            choice.check_public()?;
        }
        let (store, profile) = choice.store(&self.environment)?;
        let defaults = file.as_ref().map(|file| file.contents.defaults.expanded(&self.environment));
        let layers = Layers {
            given: &self.given,
            environment: &environment,
            profile: &profile,
            defaults: &defaults.transpose()?.unwrap_or_default(),
        };
        let mut config = Config::assemble(store, &layers, &self.environment)?;
        config.warnings = self.environment.misspelt();
        if let Some(file) = file {
            config.file = Some(file.path);
            config.warnings.extend(file.warnings);
        }
        Ok(config)
    }

    fn read_file(&self, environment: &Layer) -> Result<Option<ConfigFile>> {
        if let Some(path) = &self.file {
            return ConfigFile::read(path, Found::Named).map(Some);
        }
        if let Some(named) = environment.get("config") {
            let read = ConfigFile::read(Path::new(&named.text), Found::Named);
            return read.map(Some).map_err(|error| named.source.blame(error));
        }
        let found = self.search().find(|(path, _)| ConfigFile::exists(path));
        found.map(|(path, found)| ConfigFile::read(&path, found)).transpose()
    }
}

impl Config {
    /// Puts together what the layers say of a store.
    pub(super) fn assemble(store: Store, layers: &Layers<'_>, environment: &Environment) -> Result<Self> {
        let mut config = Self::of_store(store.completed(layers, environment)?);
        for setting in SETTINGS {
            let Some(written) = layers.find(setting.key) else {
                continue;
            };
            let read = (setting.read)(&mut config.settings, &written.text);
            read.map_err(|error| written.source.blame(error))?;
            config.sources.insert(setting.key, written.source.clone());
        }
        config.check_holds()?;
        Ok(config)
    }

    /// Each of the two may be right, and both together wrong.
    fn check_holds(&self) -> Result<()> {
        let source = self.sources.get("hold_at_least").unwrap_or(&ConfigSource::Default);
        self.settings.options().checked().map(drop).map_err(|error| source.blame(error))
    }
}
