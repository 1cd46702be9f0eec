//! What the command finds in its environment.

use crate::lock_request::{HeldLocks, LockRequest};
use crate::nesting::Stack;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const URL: &str = "LEASEHOLD_URL";
/// What the library looks for before it goes to its default store.
const URL_REMOVED: &str = "LEASEHOLD_URL_REMOVED";

/// The variables that describe the innermost lock. A command has those of its kind of lock, and none of a lock further out.
pub(crate) const LOCK_VARIABLES: [&str; 10] = [
    "LEASEHOLD_HELD",
    "LEASEHOLD_NAME",
    "LEASEHOLD_TOKEN",
    "LEASEHOLD_SLOT",
    "LEASEHOLD_TERM",
    "LEASEHOLD_NAMES",
    TOKENS,
    "LEASEHOLD_BACKEND",
    "LEASEHOLD_TTL_MS",
    "LEASEHOLD_ACQUIRED_AT",
];
const TOKENS: &str = "LEASEHOLD_TOKENS";

/// What the command is told of its lock.
#[derive(Debug)]
pub(super) struct LockFacts<'a> {
    pub(super) request: &'a LockRequest,
    pub(super) held: &'a HeldLocks,
    pub(super) is_term: bool,
    pub(super) backend: &'static str,
    pub(super) ttl: Duration,
    pub(super) acquired_at: SystemTime,
}

impl LockFacts<'_> {
    /// The variables of a command. [`Stack`] has all locks, from the outermost on.
    pub(super) fn variables(&self, stack: &Stack, secrets: &[String]) -> Vec<(String, String)> {
        let common = [
            ("LEASEHOLD_HELD", "1".to_owned()),
            ("LEASEHOLD_BACKEND", self.backend.to_owned()),
            ("LEASEHOLD_TTL_MS", self.ttl.as_millis().to_string()),
            ("LEASEHOLD_ACQUIRED_AT", humantime::format_rfc3339_millis(self.acquired_at).to_string()),
            ("LEASEHOLD_STACK", stack.to_string()),
        ];
        let all = self.of_its_kind().into_iter().chain(common).chain(url_removed(secrets));
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn of_its_kind(&self) -> Vec<(&'static str, String)> {
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        if let LockRequest::Set(names) = self.request {
            let tokens: BTreeMap<_, _> = self.held.tokens.iter().map(|(name, token)| (name, token)).collect();
            return vec![
                ("LEASEHOLD_NAMES", json(serde_json::to_string(names))),
                (TOKENS, json(serde_json::to_string(&tokens))),
            ];
        }
        let names = self.request.names().iter().map(|name| ("LEASEHOLD_NAME", name.to_string()));
        let tokens = self.held.tokens.iter().map(|(_, token)| token.to_string());
        let slot = self.held.guard.slot().map(|slot| ("LEASEHOLD_SLOT", slot.to_string()));
        let term = tokens.clone().filter(|_| self.is_term).map(|term| ("LEASEHOLD_TERM", term));
        names.chain(tokens.map(|token| ("LEASEHOLD_TOKEN", token))).chain(slot).chain(term).collect()
    }
}

/// The mark that a URL was removed from the command's variables: without the mark, a command that takes another lock would go to the
/// default store, and lock for itself.
pub(super) fn url_removed(secrets: &[String]) -> Option<(&'static str, String)> {
    secrets.iter().any(|name| name == URL).then(|| (URL_REMOVED, "1".to_owned()))
}

/// Refuses tokens of several names that no `leasehold` has set: somebody expects the command to get them, and it does not.
pub(super) fn check_own() -> leasehold::Result<()> {
    if std::env::var_os(TOKENS).is_none() || std::env::var_os("LEASEHOLD_HELD").is_some() {
        return Ok(());
    }
    let problem = "it is set, and by no leasehold that this one runs under";
    Err(leasehold::Error::invalid(TOKENS, problem, "unset it: leasehold run sets it for its command"))
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
