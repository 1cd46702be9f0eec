use super::ConfigSource;
use super::layer::{Layer, Written};
use leasehold_core::{Error, Finding, Result, Severity, nearest};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variables that say something, and the key that each stands for.
const VARIABLES: [(&str, &str); 7] = [
    ("LEASEHOLD_URL", "url"),
    ("LEASEHOLD_PROFILE", "profile"),
    ("LEASEHOLD_CONFIG", "config"),
    ("LEASEHOLD_TTL", "ttl"),
    ("LEASEHOLD_WAIT", "wait"),
    ("LEASEHOLD_PREFIX", "prefix"),
    ("LEASEHOLD_PASSWORD_FILE", "password_file"),
];
const OURS: &str = "LEASEHOLD_";

/// What somebody may believe to be a variable, and where it is said instead.
const NOT_READ: [(&str, &str); 6] = [
    ("PASSWORD", "name a file with LEASEHOLD_PASSWORD_FILE, or a variable with password_env in a profile"),
    ("MAX_HOLD", "write max_hold into a profile"),
    ("HOLD_AT_LEAST", "write hold_at_least into a profile"),
    ("LOCAL_QUEUE", "write local_queue into a profile, or into the URL"),
    ("TIMEOUT", "write timeout into a profile, or into the URL"),
    ("USER", "write the user into the URL"),
];

/// The environment variables to go by: those of this process, or a test's own.
#[derive(Clone, Default)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub(super) fn of_this_process() -> Self {
        std::env::vars_os().collect()
    }

    /// The value of any variable.
    pub(super) fn get(&self, variable: &str) -> Result<Option<String>> {
        let Some(value) = self.0.get(OsStr::new(variable)) else {
            return Ok(None);
        };
        let not_text = || Error::invalid(variable, "its value is not UTF-8", "set it to text");
        value.to_str().map(|text| Some(text.to_owned())).ok_or_else(not_text)
    }

    /// What the variables that are ours say.
    pub(super) fn layer(&self) -> Result<Layer> {
        let mut layer = Layer::default();
        for (variable, key) in VARIABLES {
            let source = ConfigSource::Env(variable);
            let value = self.get(variable).map_err(|error| source.blame(error))?;
            let Some(value) = value else { continue };
            // `LEASEHOLD_URL=$REDIS_URL` without REDIS_URL: to take it for unset would be to lock in another store than
            // everybody else.
            if value.is_empty() && key != "prefix" {
                let empty =
                    Error::invalid(key, "it is empty", format!("give {variable} a value, or unset it"));
                return Err(source.blame(empty));
            }
            layer.set(key, Written::new(value, source));
        }
        Ok(layer)
    }

    /// The directory that a variable of the XDG base directory specification names, or its place under `HOME`.
    /// Relative ones do not count, as the specification has it.
    pub(super) fn xdg(&self, variable: &str, under_home: &str) -> Option<PathBuf> {
        let absolute = |variable: &str| {
            let path = Path::new(self.0.get(OsStr::new(variable))?);
            path.is_absolute().then(|| path.to_owned())
        };
        absolute(variable).or_else(|| Some(absolute("HOME")?.join(under_home)))
    }

    /// Variables that look like one of ours, and that nobody reads.
    pub(super) fn misspelt(&self) -> Vec<Finding> {
        let known = || VARIABLES.iter().filter_map(|(name, _)| name.strip_prefix(OURS));
        let names = self.0.keys().filter_map(|name| name.to_str()?.strip_prefix(OURS));
        let unknown = names.filter(|name| !known().any(|known| known == *name));
        let help = |name: &str| match NOT_READ.iter().find(|(not_read, _)| *not_read == name) {
            Some((_, instead)) => Some((*instead).to_owned()),
            None => Some(format!("did you mean {OURS}{}?", nearest(name, known())?)),
        };
        let finding = |(name, help)| {
            let message = format!("nobody reads the environment variable {OURS}{name}");
            Finding::new(Severity::Warning, "W_ENV", message, help)
        };
        unknown.filter_map(|name| Some((name, help(name)?))).map(finding).collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(variables.map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Only how many there are: names and values are none of a log's business.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_directories_count() {
        let place = |variables: &[(&str, &str)]| {
            let environment: Environment = variables.iter().copied().collect();
            environment.xdg("XDG_STATE_HOME", ".local/state")
        };
        let home = ("HOME", "/home/ada");
        let fallback = Some(PathBuf::from("/home/ada/.local/state"));
        assert_eq!(place(&[home, ("XDG_STATE_HOME", "/s")]), Some(PathBuf::from("/s")));
        assert_eq!(place(&[home]), fallback);
        assert_eq!(place(&[home, ("XDG_STATE_HOME", "")]), fallback);
        assert_eq!(place(&[home, ("XDG_STATE_HOME", "rel")]), fallback);
        assert_eq!(place(&[("HOME", "")]), None);
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn what_is_said_elsewhere_is_told() {
        let environment: Environment =
            [("LEASEHOLD_PASSWORD", "x"), ("LEASEHOLD_TLL", "1s")].into_iter().collect();
        let [password, ttl] = environment.misspelt().try_into().unwrap();
        assert!(password.help.contains("LEASEHOLD_PASSWORD_FILE"), "{password:?}");
        assert_eq!(ttl.help, "did you mean LEASEHOLD_TTL?");
    }

    #[test]
    fn variables_that_a_child_of_run_has_are_not_taken_for_misspelt() {
        let exported = [
            "HELD",
            "NAME",
            "OWNER",
            "TOKEN",
            "BACKEND",
            "TTL_MS",
            "ACQUIRED_AT",
            "STACK",
            "LOG",
            "TOKEN_FD",
            "URL_REMOVED",
        ];
        let names = exported.map(|name| (format!("{OURS}{name}"), "x"));
        let environment: Environment = names.into_iter().collect();
        assert_eq!(environment.misspelt(), []);
    }
}
