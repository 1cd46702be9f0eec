//! The steps of a trial lock, by which the `check` of a backend finds out whether locks work.

use crate::{Attempt, Claim, Error, ErrorKind, Finding, LockBackend, Release, Renewal, Result, Severity};
use std::error::Error as _;
use std::time::Duration;

/// A step that failed, as in "could not be *acquired*", and why.
pub type Failure = (&'static str, Error);

/// Acquires it; an error if it is held.
pub async fn acquire(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.try_acquire(claim).await? {
        Attempt::Granted(_) => Ok(()),
        Attempt::Busy(_) => Err(failed("the store has it as held by another")),
    }
}

/// Renews it; an error if it is not held.
pub async fn renew(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.renew(std::slice::from_ref(claim)).await.pop() {
        Some(Ok(Renewal::Renewed)) => Ok(()),
        Some(Err(why)) => Err(why),
        _ => Err(failed("the store does not have it as held")),
    }
}

/// Releases it; an error if it was not held.
pub async fn release(backend: &dyn LockBackend, claim: &Claim) -> Result<()> {
    match backend.release(claim, Duration::ZERO).await? {
        Release::Released => Ok(()),
        _ => Err(failed("the store does not have it as held")),
    }
}

/// What `check` says of a step that failed: with all causes, since there is one line.
pub fn finding((step, why): Failure) -> Finding {
    let mut message = format!("a trial lock could not be {step}: {why}");
    let mut source = why.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    Finding::new(Severity::Error, "E_TRIAL", message, why.help().unwrap_or_default().to_owned())
}

/// The store answers, and not as a store of ours does.
pub fn failed(what: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, what)
        .with_help("look at what else writes there, and at what stands between here and the store")
}
