//! What a failure of TLS means for the user who configured it.

use leasehold_core::error_within::error_within;
use leasehold_core::{Error, ErrorKind};
use rustls::CertificateError;
use std::error::Error as StdError;
use std::io;

pub(super) fn agreement_error(error: io::Error) -> Error {
    let explained = error_within(&error).and_then(explain);
    let unexplained = || {
        Error::new(ErrorKind::Unavailable, "the connection broke while TLS was being agreed on")
            .with_help("if the port takes connections without TLS, write redis://")
    };
    explained.unwrap_or_else(unexplained).with_source(error)
}

/// The peer's refusal, if that is why a connection broke later. With TLS 1.3 a server looks at the client's certificate
/// only after the client has begun to talk.
pub(crate) fn refusal_by_peer(error: &(dyn StdError + 'static)) -> Option<Error> {
    let why = error_within::<rustls::Error>(error);
    why.filter(|why| matches!(why, rustls::Error::AlertReceived(_))).and_then(explain)
}

fn explain(error: &rustls::Error) -> Option<Error> {
    let (kind, message, help) = match error {
        rustls::Error::InvalidCertificate(why) => (
            ErrorKind::Misconfigured,
            format!("the server's certificate is not trusted: {why}"),
            help_for(why),
        ),
        rustls::Error::InvalidMessage(_) => (
            ErrorKind::Misconfigured,
            "what answers there does not speak TLS".to_owned(),
            "for a port without TLS, write redis://",
        ),
        rustls::Error::AlertReceived(alert) => (
            ErrorKind::Denied,
            format!("the server refused the TLS connection: {alert:?}"),
            "if it wants a client certificate, name one: tls_cert=/path/to/cert.pem, tls_key=/path/to/key.pem",
        ),
        rustls::Error::PeerIncompatible(why) => (
            ErrorKind::Misconfigured,
            format!("the server and this client have no TLS in common: {why:?}"),
            "let the server speak TLS 1.2 or 1.3",
        ),
        _ => return None,
    };
    Some(Error::new(kind, message).with_help(help))
}

fn help_for(why: &CertificateError) -> &'static str {
    match why {
        // The second is what another authority with the name of the right one leads to.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "name the authority that signed it: tls_ca=/path/to/ca.pem"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that stands in the certificate"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "have it renewed, or look at the clock of this host"
        }
        _ => "have a certificate made that is fit for a server",
    }
}
