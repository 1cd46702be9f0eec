//! The outcome of a failed request: certainly not carried out, perhaps carried out, or refused by a member that is well.

use crate::tls::tls_refusal;
use leasehold_core::{Error, ErrorKind};
use std::error::Error as StdError;
use std::time::Duration;
use tonic::{Code, ConnectError, Status};

pub(crate) type EtcdResult<T> = Result<T, EtcdError>;

#[derive(Debug)]
pub(crate) enum EtcdError {
    /// The lease of a write has ended: nothing was written.
    NoLease,
    /// The token of the login has expired: nothing was done.
    TokenExpired,
    /// Certainly not carried out; another member, or the same one later, may do it.
    NotDone(Error),
    /// Carried out or not.
    Unknown(Error),
    /// Refused by a member that is well.
    Refused(Error),
}

const OUTAGE_HELP: &str = "look at the member and at the network; name more members in the URL";
const NO_ETCD_HELP: &str = "look at host and port: clients use 2379, members among themselves 2380; and write etcd+tls:// if it has TLS";

impl EtcdError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::NoLease => Error::new(ErrorKind::Unavailable, "the lease ended before it was used")
                .with_help("lengthen the ttl, or find out why the store is slow"),
            Self::TokenExpired => Error::new(ErrorKind::Denied, "etcd takes no token of this user")
                .with_help("look at the user, and at the member's --auth-token"),
            Self::Unknown(error) => error.with_kind(ErrorKind::Indeterminate),
            Self::NotDone(error) | Self::Refused(error) => error,
        }
    }

    /// The error of a request that changes nothing, or nothing that matters.
    pub(crate) fn of_read(self) -> Self {
        match self {
            Self::Unknown(error) => Self::NotDone(error),
            other => other,
        }
    }

    /// [`into_error`](Self::into_error) for a request that changes nothing.
    pub(crate) fn into_read_error(self) -> Error {
        self.of_read().into_error()
    }

    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::NotDone(_) | Self::Unknown(_))
    }

    /// No answer came in time.
    pub(crate) fn no_answer(address: &str, waited: Duration) -> Self {
        Self::Unknown(outage(format!("{address} did not answer within {waited:?}")))
    }

    /// No connection was made.
    pub(crate) fn not_connected(address: &str, error: impl StdError + Send + Sync + 'static) -> Self {
        let message = format!("cannot connect to {address}");
        if let Some(refusal) = tls_refusal(&error) {
            return Self::Refused(refusal.context(message));
        }
        // A member without TLS closes a connection that begins with it.
        let help = match causes(&error).any(|cause| cause.to_string() == "tls handshake eof") {
            true => "if the port takes connections without TLS, write etcd://",
            false => OUTAGE_HELP,
        };
        Self::NotDone(outage(message).with_help(help).with_source(error))
    }

    /// An answer with a status, or a connection that broke.
    pub(crate) fn of_status(address: &str, status: Status) -> Self {
        if let Some((_, outcome, kind, message, help)) =
            ANSWERS.iter().find(|it| status.message().contains(it.0))
        {
            return outcome(Error::new(*kind, format!("{address} {message}")).with_help(*help));
        }
        if causes(&status).any(|cause| cause.is::<ConnectError>()) || tls_refusal(&status).is_some() {
            // The connection had broken before, and could not be made again: nothing was sent.
            return Self::not_connected(address, status);
        }
        let is_answer = status.message().starts_with("etcdserver:");
        let message = match is_answer {
            true => format!("{address} answers: {}", status.message()),
            false => format!("the connection to {address} broke"),
        };
        let (kind, message, help) = match status.code() {
            code if code == Code::Unimplemented || speaks_no_http2(&status) => (
                ErrorKind::Misconfigured,
                format!("{address} is no etcd with the API of version 3"),
                NO_ETCD_HELP,
            ),
            Code::PermissionDenied | Code::Unauthenticated => {
                (ErrorKind::Denied, message, "look at the user and the rights")
            }
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange if is_answer => {
                (ErrorKind::Misconfigured, message, "look at the settings of the member")
            }
            _ => return Self::Unknown(outage(message).with_source(status)),
        };
        Self::Refused(Error::new(kind, message).with_help(help).with_source(status))
    }
}

/// The answers whose text alone tells them from others of the same code (`rpctypes/error.go` of etcd), with their outcome, kind,
/// message and help.
#[rustfmt::skip]
const ANSWERS: &[(&str, fn(Error) -> EtcdError, ErrorKind, &str, &str)] = &[
    ("requested lease not found", |_| EtcdError::NoLease, ErrorKind::Unavailable, "", ""),
    ("invalid auth token", |_| EtcdError::TokenExpired, ErrorKind::Denied, "", ""),
    ("revision of auth store is old", |_| EtcdError::TokenExpired, ErrorKind::Denied, "", ""),
    ("etcdserver: no leader", EtcdError::NotDone, ErrorKind::Unavailable,
        "has no leader", "wait for an election; more than half of the members must be up"),
    ("too many requests", EtcdError::NotDone, ErrorKind::Unavailable,
        "is overloaded, and refused the request", "look at its load and its disk"),
    ("database space exceeded", EtcdError::NotDone, ErrorKind::Unavailable,
        "has used up its quota of space, and takes no new locks",
        "compact and defragment it, then: etcdctl alarm disarm; turn --auto-compaction-retention on"),
    ("permission denied", EtcdError::Refused, ErrorKind::Denied, "does not permit this user to use the keys of the locks",
        "grant it: etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX"),
    ("user name is empty", EtcdError::Refused, ErrorKind::Denied, "wants a user", "write it as etcd://user:password@host"),
    ("authentication failed", EtcdError::Refused, ErrorKind::Denied,
        "does not accept this user with this password", "look at the user and the password"),
    ("authentication is not enabled", EtcdError::Refused, ErrorKind::Misconfigured, "knows no users, and the URL names one",
        "turn authentication on (etcdctl auth enable), or take the user out of the URL"),
];

/// An error of a cluster that cannot be reached.
pub(crate) fn outage(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, message).with_help(OUTAGE_HELP)
}

/// The other end sent bytes that are no frames of HTTP/2: a server of HTTP/1, of Redis, or one that expects TLS.
fn speaks_no_http2(status: &Status) -> bool {
    let signs = ["frame with invalid size", "FRAME_SIZE_ERROR", "unspecific protocol error"];
    causes(status).any(|cause| signs.iter().any(|sign| cause.to_string().contains(sign)))
}

/// The error itself, and what caused it.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
