//! The store of those who configured none: a SQLite file of this user on this host.

use super::ConfigSource;
use super::environment::Environment;
use super::layer::Written;
use leasehold_core::{Error, ErrorKind, Result};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::path::Path;

/// What means something else in a store URL.
const RESERVED: &AsciiSet = &CONTROLS.add(b'%').add(b'?').add(b'#');

/// Set by `leasehold run` for a command whose `LEASEHOLD_URL` it keeps back, because that has a password.
const URL_REMOVED: &str = "LEASEHOLD_URL_REMOVED";

/// Refuses to take a store that nobody asked for by name, where one was asked for whose URL was kept back: whoever locks in
/// another store locks alone.
pub(super) fn check_url_not_removed(environment: &Environment) -> Result<()> {
    if environment.get(URL_REMOVED)?.is_none() {
        return Ok(());
    }
    let problem = "no store is configured: LEASEHOLD_URL was removed by leasehold run, for its password";
    Err(no_store(problem).with_help(
        "call that with --pass-env, move the password into a file that LEASEHOLD_PASSWORD_FILE names, or name a store \
         with leasehold -u",
    ))
}

/// `sqlite:$XDG_STATE_HOME/leasehold/locks.db`, or under `~/.local/state`. Creates nothing.
pub(super) fn default_store(environment: &Environment) -> Result<Written> {
    if !cfg!(feature = "sqlite") {
        return Err(no_store("no store is configured").with_help(
            "set LEASEHOLD_URL, or add the local default: cargo add leasehold --features sqlite",
        ));
    }
    let state = environment.xdg("XDG_STATE_HOME", ".local/state").ok_or_else(|| {
        no_store("no store is configured, and the default one has no place: HOME is not set")
            .with_help("set LEASEHOLD_URL, or HOME")
    })?;
    Ok(Written::new(url_of(&state.join("leasehold/locks.db"))?, ConfigSource::Default))
}

fn url_of(path: &Path) -> Result<String> {
    let path = path.to_str().ok_or_else(|| {
        no_store("no store is configured, and the path of the default one is not UTF-8")
            .with_help("set LEASEHOLD_URL")
    })?;
    // Two slashes would begin a host.
    let path = path.trim_start_matches('/');
    Ok(format!("sqlite:/{}", utf8_percent_encode(path, RESERVED)))
}

fn no_store(problem: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::StoreUrl;

    #[test]
    fn an_odd_home_directory_comes_back_as_it_was() {
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
