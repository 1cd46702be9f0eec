//! What the driver takes from the environment, and offers no way to take back.

use crate::server::{SslMode, Target};
use leasehold_core::{Error, ErrorKind, Result};

/// Refuses the variables that would decide in the place of the URL: which table is meant, by a `search_path`, or who is
/// shown to the server. Two processes with one URL must mean one lock.
///
/// # Errors
///
/// If one of them is set that would be used.
pub(super) fn check(target: &Target) -> Result<()> {
    // As the driver reads them: what is no text is to it as if it were not there.
    let variable = |name| std::env::var(name).ok();
    if variable("PGOPTIONS").is_some_and(|options| !options.is_empty()) {
        return Err(is_set(
            "PGOPTIONS",
            "it would change each session, even which table is meant",
            "set what it says for the role: ALTER ROLE … SET …",
        ));
    }
    let encryption = &target.encryption;
    let shows_nobody = encryption.mode != SslMode::Disable && encryption.identity.is_none();
    let shown = ["PGSSLCERT", "PGSSLKEY"].into_iter().find(|name| shows_nobody && variable(name).is_some());
    shown.map_or(Ok(()), |name| {
        let instead = "write sslmode=verify-full, sslcert and sslkey into the URL";
        Err(is_set(name, "it would show the server a certificate that the URL does not name", instead))
    })
}

fn is_set(name: &str, harm: &str, instead: &str) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("{name} is set in the environment: {harm}"))
        .with_help(format!("unset it for this program; or {instead}"))
}
