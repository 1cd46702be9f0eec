//! Which store was asked for, where several places may name one.

use super::default_store::{check_url_not_removed, default_store};
use super::environment::Environment;
use super::file::ConfigFile;
use super::layer::{Layer, Written};
use super::schema::Profile;
use super::store::Store;
use super::{ConfigSource, ConfigSources};
use leasehold_core::{Error, ErrorKind, Result, StoreUrl, did_you_mean};

/// The one place that says which store.
pub(super) enum Choice<'a> {
    Url(&'a Written),
    Profile { name: Written, profile: &'a Profile },
    BuiltIn,
}

impl<'a> Choice<'a> {
    /// A URL or a profile, whichever is named by the stronger word; two by the same word are one too many.
    pub(super) fn of(
        sources: &'a ConfigSources,
        environment: &'a Layer,
        file: Option<&'a ConfigFile>,
    ) -> Result<Self> {
        for layer in [&sources.given, environment] {
            match (layer.get("url"), layer.get("profile")) {
                (Some(url), Some(_)) => return Err(two_stores(&url.source)),
                (Some(url), None) => return Ok(Self::Url(url)),
                (None, Some(name)) => return Self::of_profile(name.clone(), file),
                (None, None) => {}
            }
        }
        check_url_not_removed(&sources.environment)?;
        file.map_or(Ok(Self::BuiltIn), |file| Self::of_file(file, &sources.environment))
    }

    fn of_profile(name: Written, file: Option<&'a ConfigFile>) -> Result<Self> {
        let Some(file) = file else {
            let fix = "write a leasehold.toml, or name a file with LEASEHOLD_CONFIG";
            let error = Error::invalid("profile", "there is no configuration file", fix);
            return Err(name.source.blame(error));
        };
        match file.contents.profiles.get(&name.text) {
            Some(profile) => Ok(Self::Profile { name, profile }),
            None => {
                let help = did_you_mean(&name.text, file.names());
                let path = file.path.display();
                let error = match may_be_a_url(&name.text) {
                    // It may have a password.
                    true => Error::invalid("profile", "a profile is a name, not a URL", help),
                    false => {
                        let problem = format_args!("there is no {:?} in {path}", name.text);
                        Error::invalid("profile", problem, help)
                    }
                };
                Err(name.source.blame(error))
            }
        }
    }

    fn of_file(file: &'a ConfigFile, environment: &Environment) -> Result<Self> {
        match &file.contents.default {
            Some(name) => Self::of_profile(name.expanded("default", environment)?, Some(file)),
            None if file.contents.profiles.is_empty() => Ok(Self::BuiltIn),
            // The built-in store is none of those that the file has.
            None => Err(none_chosen(file)),
        }
    }

    /// The store, and what else its profile says, with its variables put in.
    pub(super) fn store(&self, environment: &Environment) -> Result<(Store, Layer)> {
        match self {
            Self::Url(url) => Ok((Store::of_url(url)?, Layer::default())),
            Self::BuiltIn => Ok((Store::of_url(&default_store(environment)?)?, Layer::default())),
            Self::Profile { name, profile } => {
                let layer = profile.layer.expanded(environment)?;
                let missing = || profile.source.blame(no_url(&name.text));
                let store = Store::of_url(layer.get("url").ok_or_else(missing)?)?;
                Ok((store.of_profile(name), layer))
            }
        }
    }

    /// Refuses a secret in a URL that was given where others can read it.
    pub(super) fn check_public(&self) -> Result<()> {
        let Self::Url(url) = self else { return Ok(()) };
        if url.source != ConfigSource::Given || !StoreUrl::parse(&url.text)?.has_secret() {
            return Ok(());
        }
        let problem = "it has a password, and others can read it where it stands";
        let fix =
            "put the URL into LEASEHOLD_URL, or the password into a file that LEASEHOLD_PASSWORD_FILE names";
        Err(Error::invalid("store URL", problem, fix))
    }
}

/// True for what is a URL, or has become one by mistake.
pub(super) fn may_be_a_url(text: &str) -> bool {
    text.contains("://") || text.contains('@')
}

fn none_chosen(file: &ConfigFile) -> Error {
    let message = format!("{}: no profile is chosen", file.path.display());
    let names = file.names().collect::<Vec<_>>().join(", ");
    let help = format!("write default = \"NAME\" into it, or set LEASEHOLD_PROFILE; known: {names}");
    Error::new(ErrorKind::Misconfigured, message).with_help(help)
}

fn two_stores(source: &ConfigSource) -> Error {
    let (kind, problem) = match source {
        ConfigSource::Env(_) => {
            (ErrorKind::Misconfigured, "LEASEHOLD_URL and LEASEHOLD_PROFILE are both set")
        }
        _ => (ErrorKind::Invalid, "a URL and a profile are both given"),
    };
    Error::new(kind, problem).with_help("leave one of them out: a profile has a URL of its own")
}

fn no_url(profile: &str) -> Error {
    let message = format!("[profile.{profile}] has no url");
    Error::new(ErrorKind::Misconfigured, message).with_help("give it one: url = \"redis://host:6379/0\"")
}
