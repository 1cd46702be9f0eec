//! Environment variables: those of Leasehold, and `${VAR}` in the values of a file.

use super::entry::ConfigSource;
use super::layers::{Layer, SourcedText, is_own};
use leasehold_core::{Error, Finding, Result, Severity};
use leasehold_store_url::{Secret, nearest};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "LEASEHOLD_";
/// The variables that are read, and the key of each.
const VARIABLES: [(&str, &str); 8] = [
    ("LEASEHOLD_URL", "url"),
    ("LEASEHOLD_PROFILE", "profile"),
    ("LEASEHOLD_CONFIG", "config"),
    ("LEASEHOLD_TTL", "ttl"),
    ("LEASEHOLD_WAIT", "wait"),
    ("LEASEHOLD_PREFIX", "prefix"),
    ("LEASEHOLD_PASSWORD_FILE", "password_file"),
    ("LEASEHOLD_REQUIRE_STORE", "require_store"),
];
/// The environment variables of this process, or of a test.
#[derive(Clone, Default)]
pub(super) struct Environment {
    variables: BTreeMap<OsString, OsString>,
    is_of_this_process: bool,
}

impl Environment {
    pub(super) fn of_this_process() -> Self {
        Self { is_of_this_process: true, ..std::env::vars_os().collect() }
    }

    pub(super) fn get(&self, variable: &str) -> Result<Option<String>> {
        let Some(value) = self.variables.get(OsStr::new(variable)) else {
            return Ok(None);
        };
        let not_text = || Error::invalid(variable, "its value is not UTF-8", "set it to text");
        value.to_str().map(|text| Some(text.to_owned())).ok_or_else(not_text)
    }

    /// The password in this variable. Errors do not show its name, which may be the password itself, written in the wrong
    /// place.
    pub(super) fn password(&self, variable: &str) -> Result<Secret> {
        let (problem, fix) = match (self.get(variable), self.get("LEASEHOLD_HELD")) {
            (Ok(Some(value)), _) if !value.is_empty() => {
                return Ok(if self.is_of_this_process { Secret::variable(variable) } else { value.into() });
            }
            _ if variable.trim() != variable => ("there is white space around the name", "remove it"),
            // A command under a lock has the file that names the variable, and not the variable itself.
            (Ok(None), Ok(Some(_))) => (
                "the variable that it names is not set",
                "give --pass-env to the leasehold run that this runs under, which has removed it, or use password_file",
            ),
            (Ok(None), _) => ("the variable that it names is not set", "set that variable to the password"),
            (Ok(_), _) => ("the variable that it names is empty", "set that variable to the password"),
            (Err(_), _) => ("the value of the variable that it names is not UTF-8", "set it to text"),
        };
        Err(Error::invalid("password_env", problem, fix))
    }

    pub(super) fn layer(&self) -> Result<Layer> {
        let mut layer = Layer::new();
        for (variable, key) in VARIABLES {
            let source = ConfigSource::Env(variable);
            let value = self.get(variable).map_err(|error| source.blame(error))?;
            let Some(value) = value else { continue };
            // `LEASEHOLD_URL=$REDIS_URL` without REDIS_URL must not mean the default store.
            if value.is_empty() && key != "prefix" {
                let empty =
                    Error::invalid(key, "it is empty", format!("give {variable} a value, or unset it"));
                return Err(source.blame(empty));
            }
            layer.insert(key.to_owned(), SourcedText::new(value, source));
        }
        Ok(layer)
    }

    pub(super) fn is_set(&self, variable: &str) -> bool {
        self.variables.get(OsStr::new(variable)).is_some_and(|value| !value.is_empty())
    }

    /// The directory that a variable of the XDG base directory specification names, or its place under `HOME`. The
    /// specification says that relative paths are ignored.
    pub(super) fn xdg(&self, variable: &str, under_home: &str) -> Option<PathBuf> {
        let absolute = |variable: &str| {
            let path = Path::new(self.variables.get(OsStr::new(variable))?);
            path.is_absolute().then(|| path.to_owned())
        };
        absolute(variable).or_else(|| Some(absolute("HOME")?.join(under_home)))
    }

    /// The value with its variables replaced. `key` names it in an error.
    pub(super) fn expanded(&self, key: &str, value: &SourcedText) -> Result<SourcedText> {
        let text = expand(key, &value.text, |variable| self.get(variable));
        let text = text.map_err(|error| value.source.blame(error))?;
        Ok(SourcedText::new(text, value.source.clone()))
    }

    pub(super) fn expand_all(&self, layer: &Layer) -> Result<Layer> {
        layer.iter().map(|(key, value)| Ok((key.clone(), self.expanded(key, value)?))).collect()
    }

    /// Warnings of variables that look like those of Leasehold and are not read.
    pub(super) fn misspelt(&self) -> Vec<Finding> {
        let known = || VARIABLES.iter().filter_map(|(name, _)| name.strip_prefix(PREFIX));
        let names = self.variables.keys().filter_map(|name| name.to_str()?.strip_prefix(PREFIX));
        let unknown = names.filter(|name| !known().any(|known| known == *name));
        let help = |name: &str| {
            let key = name.to_lowercase();
            Some(match name {
                "PASSWORD" => {
                    "name a file with LEASEHOLD_PASSWORD_FILE, or a variable with password_env in a profile"
                        .to_owned()
                }
                _ if is_own(&key) || key == "timeout" => format!("write {key} into a profile"),
                _ => format!("did you mean {PREFIX}{}?", nearest(name, known())?),
            })
        };
        let finding = |name| {
            let message = format!("the environment variable {PREFIX}{name} is not read");
            Some(Finding::new(Severity::Warning, "W_ENV", message, help(name)?))
        };
        unknown.filter_map(finding).collect()
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.collect(), is_of_this_process: false }
    }
}

/// Shows the number of variables alone: names and values do not belong into a log.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}

/// Replaces variables: `${VAR}` is its value, `${VAR:-x}` is `x` if it is unset or empty, `$${` is a plain `${`. A `$`
/// without braces is plain, unlike in a shell, because passwords contain it.
///
/// A replaced text is not looked at again. Errors show no value, and no name that cannot be one.
pub(super) fn expand(
    field: &str,
    text: &str,
    lookup: impl Fn(&str) -> Result<Option<String>>,
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        let Some((reference, after)) = after.split_once('}') else {
            let fix = "close it, or write $${ for a plain ${";
            return Err(Error::invalid(field, "it has a ${ that no } closes", fix));
        };
        out.push_str(before);
        out.push_str(&value_of(field, reference, &lookup)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value_of(field: &str, reference: &str, lookup: impl Fn(&str) -> Result<Option<String>>) -> Result<String> {
    let (variable, default) = match reference.split_once(":-") {
        Some((variable, default)) => (variable, Some(default)),
        None => (reference, None),
    };
    if default.is_some_and(|default| default.contains("${")) {
        let fix = "write a plain text behind the :-";
        return Err(Error::invalid(field, "there is a ${ within the default of another", fix));
    }
    let is_name = variable.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        let fix = "write ${VAR} or ${VAR:-default}, and $${ for a plain ${";
        return Err(Error::invalid(field, "there is no variable name after a ${", fix));
    }
    match (lookup(variable)?, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Error::invalid(
            field,
            format_args!("the environment has no variable {variable}"),
            format!("set it, or write ${{{variable}:-default}}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_xdg_directory_is_ignored() {
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
    fn variable_that_is_not_read_is_warned_of() {
        let environment: Environment =
            [("LEASEHOLD_PASSWORD", "x"), ("LEASEHOLD_TLL", "1s")].into_iter().collect();
        let [password, ttl] = environment.misspelt().try_into().unwrap();
        assert!(password.help.contains("LEASEHOLD_PASSWORD_FILE"), "{password:?}");
        assert_eq!(ttl.help, "did you mean LEASEHOLD_TTL?");
    }

    #[test]
    fn variables_of_a_command_under_a_lock_are_not_warned_of() {
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
        let names = exported.map(|name| (format!("{PREFIX}{name}"), "x"));
        let environment: Environment = names.into_iter().collect();
        assert_eq!(environment.misspelt(), []);
    }

    fn expanded(text: &str) -> Result<String> {
        let environment: Environment =
            [("HOST", "h:1"), ("ODD", "${HOST}"), ("EMPTY", "")].into_iter().collect();
        expand("url", text, |variable| environment.get(variable))
    }

    #[test]
    fn reference_is_replaced_by_its_variable() {
        let cases = [
            ("redis://${HOST}/0", "redis://h:1/0"),
            ("${HOST}${HOST}", "h:1h:1"),
            ("${NO:-x}${HOST:-x}", "xh:1"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NO:-}", ""),
            ("${NO:-a:-b}", "a:-b"),
            ("${ODD}", "${HOST}"),
            ("pa$$word $HOST $ 1$", "pa$$word $HOST $ 1$"),
            ("$${HOST}", "${HOST}"),
            ("$$${HOST}", "$${HOST}"),
            ("é${HOST}é", "éh:1é"),
        ];
        for (text, expected) in cases {
            assert_eq!(expanded(text).unwrap(), expected, "{text}");
        }
        for nested in ["${NO:-${HOST}}", "${HOST:-${NO}}/"] {
            let error = expanded(nested).unwrap_err();
            assert!(error.to_string().contains("within the default of another"), "{nested}: {error}");
        }
    }

    #[test]
    fn bad_reference_is_refused_and_not_shown() {
        let no_name =
            "there is no variable name after a ${; write ${VAR} or ${VAR:-default}, and $${ for a plain ${";
        let cases = [
            ("s3cret${NO}", "the environment has no variable NO; set it, or write ${NO:-default}"),
            ("s3cret${HOST", "it has a ${ that no } closes; close it, or write $${ for a plain ${"),
            ("${s3-cret}", no_name),
            ("${}", no_name),
        ];
        for (text, expected) in cases {
            let error = expanded(text).unwrap_err();
            let said = format!("{error}; {}", error.help().unwrap());
            assert_eq!(said, format!("invalid url: {expected}"), "{text}");
        }
    }
}
