//! What the command finds in its environment.

use crate::nesting::Stack;
use leasehold::{FencingToken, LockName};
use std::time::{Duration, SystemTime};

const URL: &str = "LEASEHOLD_URL";
/// What the library looks for before it goes to its default store.
const URL_REMOVED: &str = "LEASEHOLD_URL_REMOVED";

/// What the command is told of the lock. The innermost lock wins, and [`Stack`] has them all. Also, of the variables that
/// it does not get, that there was a URL: who takes another lock would go to the default store, and lock for itself.
pub(super) fn variables(held: &HeldLock<'_>, stack: &Stack, secrets: &[String]) -> Vec<(String, String)> {
    let removed = secrets.iter().any(|name| name == URL).then_some((URL_REMOVED, "1".to_owned()));
    let pairs = [
        ("LEASEHOLD_HELD", "1".to_owned()),
        ("LEASEHOLD_NAME", held.name.to_string()),
        ("LEASEHOLD_TOKEN", held.token.to_string()),
        ("LEASEHOLD_BACKEND", held.backend.to_owned()),
        ("LEASEHOLD_TTL_MS", held.ttl.as_millis().to_string()),
        ("LEASEHOLD_ACQUIRED_AT", humantime::format_rfc3339_millis(held.acquired_at).to_string()),
        ("LEASEHOLD_STACK", stack.to_string()),
    ];
    pairs.into_iter().chain(removed).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A lock that the command runs under.
#[derive(Debug)]
pub(super) struct HeldLock<'a> {
    pub(super) name: &'a LockName,
    pub(super) token: FencingToken,
    pub(super) backend: &'static str,
    pub(super) ttl: Duration,
    pub(super) acquired_at: SystemTime,
}

/// The variables that the command is not to have: those that are a secret themselves. What only says where one is, like
/// `LEASEHOLD_PASSWORD_FILE` or a URL without a password, stays: a command may use locks too.
pub(super) fn secrets(config: &leasehold::Config) -> Vec<String> {
    let mut names = vec!["LEASEHOLD_PASSWORD".to_owned()];
    let url = std::env::var_os(URL);
    if url.is_some_and(|url| url.to_str().is_none_or(has_secret)) {
        names.push(URL.to_owned());
    }
    names.extend(config.password_variable().map(str::to_owned));
    names
}

/// True if a URL has a secret in it, or cannot be read, so that it may.
fn has_secret(url: &str) -> bool {
    leasehold::backend::StoreUrl::parse(url).map_or(true, |parsed| parsed.to_string().contains("***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_with_a_secret_is_kept_from_the_command() {
        for secret in ["redis://u:pw@h", "redis://h?password=x", "redis://:a#b@h", "nonsense"] {
            assert!(has_secret(secret), "{secret}");
        }
        for open in ["redis://u@h:1/0", "sqlite:/x y/z.db", "memory:"] {
            assert!(!has_secret(open), "{open}");
        }
    }
}
