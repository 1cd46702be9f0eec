//! The meaning of a failure of TLS for the user who configured it.

use super::Target;
use leasehold_core::{Error, ErrorKind};
use rustls::CertificateError;
use std::error::Error as StdError;
use std::io;

/// Explains an error that comes from TLS; `None` if this one does not.
///
/// The driver passes the errors of rustls on as those of the connection. What they say is certain all the same: nothing
/// was asked of a server that was not believed, or that did not believe us.
pub(super) fn explain(error: &sqlx::Error, target: &Target) -> Option<Error> {
    match cause(error) {
        Some(error) => of_rustls(error, target),
        // The driver's own words, for a server that was asked for TLS and has none.
        None if matches!(error, sqlx::Error::Tls(_)) => Some(not_encrypted(target)),
        None => None,
    }
}

fn of_rustls(error: &rustls::Error, target: &Target) -> Option<Error> {
    let address = target.address();
    let (kind, message, help) = match error {
        rustls::Error::InvalidCertificate(why) => (
            ErrorKind::Misconfigured,
            format!("the certificate of {address} is not trusted: {why}"),
            help_with(why),
        ),
        // With TLS 1.3 a server looks at the client's certificate only after the client has begun to talk.
        rustls::Error::AlertReceived(alert) => (
            ErrorKind::Denied,
            format!("{address} refused the TLS connection: {alert:?}"),
            "if it wants a client certificate, name one: sslcert=/path/to/cert.pem, sslkey=/path/to/key.pem",
        ),
        rustls::Error::PeerIncompatible(why) => (
            ErrorKind::Misconfigured,
            format!("{address} and this client have no TLS in common: {why:?}"),
            "let the server speak TLS 1.2 or 1.3",
        ),
        rustls::Error::InvalidMessage(_) => return Some(not_encrypted(target)),
        _ => return None,
    };
    Some(Error::new(kind, message).with_help(help))
}

fn not_encrypted(target: &Target) -> Error {
    let asked = target.encryption.mode.as_str();
    let message = format!("{} does not speak TLS, and sslmode={asked} wants it", target.address());
    Error::new(ErrorKind::Misconfigured, message)
        .with_help("switch TLS on in the server; or, on a network that you trust, write sslmode=disable")
}

fn help_with(why: &CertificateError) -> &'static str {
    match why {
        // The second is what another authority with the name of the right one leads to.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "name the authority that signed it: sslrootcert=/path/to/ca.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that stands in the certificate; or write sslmode=verify-ca, which takes any name"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "have it renewed, or look at the clock of this host"
        }
        _ => "have a certificate made that is fit for a server",
    }
}

/// The error of rustls within, wherever it was wrapped.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(found) = this.downcast_ref() {
            return Some(found);
        }
        // An `io::Error` gives, as its source, the source of what it holds: the one within would be passed over.
        let within = this.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = within.map(|within| within as &(dyn StdError + 'static)).or_else(|| this.source());
    }
    None
}
