//! What a failed request means: was it certainly not carried out, perhaps, or refused for good.

use crate::tls::refusal_in;
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
    LoginExpired,
    /// Certainly not carried out; another member, or the same one later, may do it.
    NotDone(Error),
    /// Carried out or not.
    Unknown(Error),
    /// Refused by a server that is well.
    Refused(Error),
}

impl EtcdError {
    /// The error of a request that changes something.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Unknown(error) => error.with_kind(ErrorKind::Indeterminate),
            other => other.into_read_error(),
        }
    }

    /// The error of a request that changes nothing.
    pub(crate) fn into_read_error(self) -> Error {
        match self {
            Self::NoLease => Error::new(ErrorKind::Unavailable, "the lease ended before it was used")
                .with_help("lengthen the ttl, or find out why the store is slow"),
            Self::LoginExpired => Error::new(ErrorKind::Denied, "etcd takes no token of this user")
                .with_help("look at the user, and at the member's --auth-token"),
            Self::NotDone(error) | Self::Unknown(error) => error.with_kind(ErrorKind::Unavailable),
            Self::Refused(error) => error,
        }
    }

    /// The same for a request that changes nothing.
    pub(crate) fn of_read(self) -> Self {
        match self {
            Self::Unknown(error) => Self::NotDone(error),
            other => other,
        }
    }

    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::NotDone(_) | Self::Unknown(_))
    }

    /// No answer came in time.
    pub(crate) fn no_answer(address: &str, waited: Duration) -> Self {
        let message = format!("{address} did not answer within {waited:?}");
        Self::Unknown(Error::new(ErrorKind::Unavailable, message).with_help(OUTAGE_HELP))
    }

    /// No connection was made.
    pub(crate) fn not_connected(address: &str, error: impl StdError + Send + Sync + 'static) -> Self {
        if let Some(refusal) = refusal_in(&error) {
            return Self::Refused(refusal.context(format_args!("cannot connect to {address}")));
        }
        let message = format!("cannot connect to {address}");
        // A member without TLS closes a connection that begins with it.
        let help = match causes(&error).any(|cause| cause.to_string() == "tls handshake eof") {
            true => "if the port takes connections without TLS, write etcd://",
            false => OUTAGE_HELP,
        };
        Self::NotDone(Error::new(ErrorKind::Unavailable, message).with_help(help).with_source(error))
    }

    /// An answer with a status, or a connection that broke.
    pub(crate) fn of_status(address: &str, status: Status) -> Self {
        if let Some(known) = KNOWN.iter().find(|known| status.message().contains(known.text)) {
            return known.to_error(address);
        }
        if let Some(refusal) = refusal_in(&status) {
            return Self::Refused(refusal.context(address));
        }
        if causes(&status).any(|cause| cause.is::<ConnectError>()) {
            // The connection had broken before, and could not be made again: nothing was sent.
            return Self::not_connected(address, status);
        }
        if status.code() == Code::Unimplemented || speaks_no_http2(&status) {
            return Self::Refused(
                Error::new(ErrorKind::Misconfigured, format!("{address} is no etcd with the API of version 3"))
                    .with_help("look at host and port: clients use 2379, members among themselves 2380; and write etcd+tls:// if it has TLS")
                    .with_source(status),
            );
        }
        let is_answer = status.message().starts_with("etcdserver:");
        let error = |kind| {
            let message = match is_answer {
                true => format!("{address} answers: {}", status.message()),
                false => format!("the connection to {address} broke"),
            };
            Error::new(kind, message)
        };
        match status.code() {
            Code::PermissionDenied | Code::Unauthenticated => Self::Refused(
                error(ErrorKind::Denied).with_help("look at the user and the rights").with_source(status),
            ),
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange if is_answer => {
                Self::Refused(
                    error(ErrorKind::Misconfigured)
                        .with_help("look at the settings of the member")
                        .with_source(status),
                )
            }
            _ => Self::Unknown(error(ErrorKind::Unavailable).with_help(OUTAGE_HELP).with_source(status)),
        }
    }
}

const OUTAGE_HELP: &str = "look at the member and at the network; name more members in the URL";

/// An error that its text tells, because its code does not.
struct Known {
    text: &'static str,
    meaning: Meaning,
    message: &'static str,
    help: &'static str,
}

enum Meaning {
    NoLease,
    LoginExpired,
    NotDone,
    Refused(ErrorKind),
}

impl Known {
    fn to_error(&self, address: &str) -> EtcdError {
        let error = |kind| Error::new(kind, format!("{address} {}", self.message)).with_help(self.help);
        match self.meaning {
            Meaning::NoLease => EtcdError::NoLease,
            Meaning::LoginExpired => EtcdError::LoginExpired,
            Meaning::NotDone => EtcdError::NotDone(error(ErrorKind::Unavailable)),
            Meaning::Refused(kind) => EtcdError::Refused(error(kind)),
        }
    }
}

#[rustfmt::skip]
const KNOWN: &[Known] = &[
    Known { text: "requested lease not found", meaning: Meaning::NoLease, message: "", help: "" },
    Known { text: "invalid auth token", meaning: Meaning::LoginExpired, message: "", help: "" },
    Known { text: "revision of auth store is old", meaning: Meaning::LoginExpired, message: "", help: "" },
    Known { text: "etcdserver: no leader", meaning: Meaning::NotDone,
        message: "has no leader", help: "wait for an election; more than half of the members must be up" },
    Known { text: "too many requests", meaning: Meaning::NotDone,
        message: "is overloaded, and refused the request", help: "look at its load and its disk" },
    Known { text: "database space exceeded", meaning: Meaning::NotDone,
        message: "has used up its quota of space, and takes no new locks",
        help: "compact and defragment it, then: etcdctl alarm disarm; turn --auto-compaction-retention on" },
    Known { text: "permission denied", meaning: Meaning::Refused(ErrorKind::Denied),
        message: "does not permit this user to use the keys of the locks",
        help: "grant it: etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX" },
    Known { text: "user name is empty", meaning: Meaning::Refused(ErrorKind::Denied),
        message: "wants a user", help: "write it as etcd://user:password@host" },
    Known { text: "authentication failed", meaning: Meaning::Refused(ErrorKind::Denied),
        message: "does not accept this user with this password", help: "look at the user and the password" },
    Known { text: "authentication is not enabled", meaning: Meaning::Refused(ErrorKind::Misconfigured),
        message: "knows no users, and the URL names one",
        help: "turn authentication on (etcdctl auth enable), or take the user out of the URL" },
];

/// The other end sent bytes that are no frames of HTTP/2: a server of HTTP/1, of Redis, or one that expects TLS.
fn speaks_no_http2(status: &Status) -> bool {
    let signs = ["frame with invalid size", "FRAME_SIZE_ERROR", "unspecific protocol error"];
    causes(status).any(|cause| signs.iter().any(|sign| cause.to_string().contains(sign)))
}

/// The error itself, and what caused it.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
