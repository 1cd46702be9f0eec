//! The default store: a SQLite file of this user on this host.

use super::entry::ConfigSource;
use super::environment::Environment;
use super::layers::SourcedText;
use leasehold_core::{Error, ErrorKind, Result};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::borrow::Cow;
use std::path::Path;

/// The characters that mean something else in a store URL, or are refused at an end of it.
const RESERVED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

/// `leasehold run` sets this variable for its command if it removed a `LEASEHOLD_URL` with a password.
const URL_REMOVED: &str = "LEASEHOLD_URL_REMOVED";

/// Refuses the default of a file and the default store if `LEASEHOLD_URL` named a store and was removed: a lock in another
/// store excludes nobody.
pub(super) fn check_url_not_removed(environment: &Environment) -> Result<()> {
    match environment.get(URL_REMOVED)? {
        None => Ok(()),
        Some(_) => Err(no_store(
            ": LEASEHOLD_URL was removed by leasehold run, for its password",
            "call that with --pass-env, move the password into a file that LEASEHOLD_PASSWORD_FILE names, or name a store \
             with leasehold -u",
        )),
    }
}

/// `sqlite:$XDG_STATE_HOME/leasehold/locks.db`, or under `~/.local/state`. Creates nothing.
pub(super) fn default_store(environment: &Environment) -> Result<SourcedText> {
    if !cfg!(feature = "sqlite") {
        let fix = "set LEASEHOLD_URL, or add the local default: cargo add leasehold --features sqlite";
        return Err(no_store("", fix));
    }
    let state = environment.xdg("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        let home = match environment.is_set("HOME") {
            true => "HOME is no absolute path",
            false => "HOME is not set",
        };
        no_store(&format!(", and the default one has no place: {home}"), "set LEASEHOLD_URL, or HOME")
    })?;
    Ok(SourcedText::new(url_of(&state.join("leasehold/locks.db"))?, ConfigSource::Default))
}

fn url_of(path: &Path) -> Result<String> {
    let not_text = || no_store(", and the path of the default one is not UTF-8", "set LEASEHOLD_URL");
    // Two slashes would begin a host.
    let path = path.to_str().ok_or_else(not_text)?.trim_start_matches('/');
    Ok(format!("sqlite:/{}", utf8_percent_encode(path, RESERVED)))
}

pub(super) fn no_store(problem: &str, fix: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("no store is configured{problem}")).with_help(fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_store_url::StoreUrl;

    #[test]
    fn path_with_odd_characters_survives_the_url() {
        for path in ["/home/ada/l.db", "/a b/100%/?#/é@x:y/l.db", "/tab\there/l.db"] {
            let url = url_of(Path::new(path)).unwrap();
            assert_eq!(StoreUrl::parse(&url).unwrap().path().unwrap(), path);
        }
        for path in ["//state/l.db", "///state/l.db"] {
            let url = url_of(Path::new(path)).unwrap();
            assert_eq!(StoreUrl::parse(&url).unwrap().path().unwrap(), "/state/l.db");
        }
    }
}
