//! Passwords that stand beside the URL: in a file, or in a variable. Nothing here echoes what it reads, and a name that
//! may be a password written in the wrong place is not echoed either.

use super::ConfigSource;
use super::environment::Environment;
use super::layer::{Layers, Written};
use leasehold_core::{Error, ErrorKind, Result};
use secrecy::SecretString;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// No password is longer; a file that is was named by mistake. In bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// A password, and the words that named its place.
pub(super) struct Password {
    pub(super) secret: SecretString,
    pub(super) key: &'static str,
    pub(super) place: String,
    pub(super) source: ConfigSource,
}

/// The password that counts, if one is named.
pub(super) fn find(layers: &Layers<'_>, environment: &Environment) -> Result<Option<Password>> {
    // Also where neither counts: the same file would be wrong as soon as they do.
    if let (Some(file), Some(_)) = (layers.profile.get("password_file"), layers.profile.get("password_env")) {
        let problem = "there is a password_env beside it";
        return Err(file.source.blame(Error::invalid("password_file", problem, "leave one of them out")));
    }
    let stronger = [layers.given, layers.environment];
    if let Some(file) = stronger.into_iter().find_map(|layer| layer.get("password_file")) {
        return from_file(file).map(Some);
    }
    match (layers.profile.get("password_file"), layers.profile.get("password_env")) {
        (Some(file), _) => from_file(file).map(Some),
        (None, Some(variable)) => from_environment(variable, environment).map(Some),
        (None, None) => Ok(None),
    }
}

const NOT_SET: &str = "the variable that it names is not set";

/// Reads a password file: UTF-8, one line, whose end is not part of the password.
pub(super) fn read(path: &Path) -> Result<SecretString> {
    let mut text = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text)).map_err(
        |error| unusable(path, "it cannot be read", "fix its path or its permissions").with_source(error),
    )?;
    if text.len() as u64 > MAX_BYTES {
        let problem = format_args!("it is longer than {MAX_BYTES} bytes");
        return Err(unusable(path, problem, "name the file of the password"));
    }
    let text = String::from_utf8(text)
        .map_err(|_| unusable(path, "it is not UTF-8", "write the password as UTF-8"))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        return Err(unusable(path, "it is empty", "write the password into it"));
    }
    if password.contains('\n') {
        return Err(unusable(path, "it has several lines", "leave only the password in it"));
    }
    Ok(SecretString::from(password))
}

fn from_file(file: &Written) -> Result<Password> {
    let secret = read(Path::new(&file.text)).map_err(|error| file.source.blame(error))?;
    Ok(Password { secret, key: "password_file", place: file.text.clone(), source: file.source.clone() })
}

fn from_environment(variable: &Written, environment: &Environment) -> Result<Password> {
    let value = environment.get(&variable.text);
    let problem = match value {
        Ok(Some(value)) if !value.is_empty() => {
            return Ok(Password {
                secret: SecretString::from(value),
                key: "password_env",
                place: variable.text.clone(),
                source: variable.source.clone(),
            });
        }
        Ok(Some(_)) => "the variable that it names is empty",
        Ok(None) => NOT_SET,
        Err(_) => "the value of the variable that it names is not UTF-8",
    };
    // A command has the file that names the variable, and not the variable itself.
    let is_under_lock = problem == NOT_SET && matches!(environment.get("LEASEHOLD_HELD"), Ok(Some(_)));
    let fix = match is_under_lock {
        true => {
            "give --pass-env to the leasehold run that this runs under, which has removed it, or use password_file"
        }
        false => "set that variable to the password",
    };
    let error = Error::invalid("password_env", problem, fix);
    Err(variable.source.blame(error))
}

/// Only a whole path is echoed: what has no slash in front may be the password itself.
fn unusable(path: &Path, problem: impl fmt::Display, fix: &'static str) -> Error {
    let shown = if path.is_absolute() { format!(" {}", path.display()) } else { String::new() };
    let message = format!("invalid password_file{shown}: {problem}");
    Error::new(ErrorKind::Misconfigured, message).with_help(fix)
}
