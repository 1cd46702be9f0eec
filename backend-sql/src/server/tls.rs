//! The meaning of a failure of TLS for the user who configured it.

use super::Target;
use leasehold_core::error_within::error_within;
use leasehold_core::{Error, ErrorKind};

/// Explains an error that comes from TLS; `None` if this one does not.
///
/// The driver passes the errors of rustls on as those of the connection. What they say is certain all the same: nothing
/// was asked of a server that was not believed, or that did not believe us.
pub(super) fn explain(error: &sqlx::Error, target: &Target) -> Option<Error> {
    let (address, mode) = (target.address(), target.encryption.mode.as_str());
    let (kind, message, help) = match error_within::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(why)) => (
            ErrorKind::Misconfigured,
            format!("the certificate of {address} is not trusted: {why}"),
            "name the authority that signed it: sslrootcert=/path/to/ca.pem; or connect by a name that stands in it, \
             or write sslmode=verify-ca, which takes any name",
        ),
        // With TLS 1.3 a server looks at the client's certificate only after the client has begun to talk.
        Some(rustls::Error::AlertReceived(alert)) => (
            ErrorKind::Denied,
            format!("{address} refused the TLS connection: {alert:?}"),
            "if it wants a client certificate, name one: sslcert=/path/to/cert.pem, sslkey=/path/to/key.pem",
        ),
        // The driver has an error of its own for a server that was asked for TLS and has none.
        said @ (Some(rustls::Error::InvalidMessage(_)) | None)
            if said.is_some() || matches!(error, sqlx::Error::Tls(_)) =>
        {
            (
                ErrorKind::Misconfigured,
                format!("{address} does not speak TLS, and sslmode={mode} wants it"),
                "switch TLS on in the server; or, on a network that you trust, write sslmode=disable",
            )
        }
        _ => return None,
    };
    Some(Error::new(kind, message).with_help(help))
}
