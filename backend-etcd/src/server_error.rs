//! The errors of requests. The kind says what has become of one: `Unavailable` that it was certainly not carried out, and another
//! member, or the same one later, may do it; `Indeterminate` that it was carried out or not; `Lost` that the lease of a write has
//! ended, so nothing was written; any other that a member that is well has refused it.

use crate::tls::tls_refusal;
use leasehold_core::ErrorKind::{self, Denied, Indeterminate, Lost, Misconfigured, Unavailable};
use leasehold_core::{Error, Result};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::time::Duration;
use tonic::{Code, ConnectError, Status};

const OUTAGE_HELP: &str = "look at the member and at the network; name more members in the URL";
pub(crate) const SLOW_HELP: &str = "lengthen the ttl, or find out why the store is slow";
const NO_ETCD_HELP: &str = "look at host and port: clients use 2379, members among themselves 2380; and write etcd+tls:// if it has TLS";

/// The answers whose text alone tells them from others of the same code (`rpctypes/error.go` of etcd), with kind, message and help.
#[rustfmt::skip]
const ANSWERS: &[(&str, ErrorKind, &str, &str)] = &[
    ("requested lease not found", Lost, "has ended the lease before it was used", SLOW_HELP),
    // The next connection logs in again.
    ("invalid auth token", Unavailable, "takes no token of this user", "look at the user, and at the member's --auth-token"),
    ("revision of auth store is old", Unavailable, "takes no token of this user", "look at the user, and at the member's --auth-token"),
    ("etcdserver: no leader", Unavailable, "has no leader", "wait for an election; more than half of the members must be up"),
    ("too many requests", Unavailable, "is overloaded, and refused the request", "look at its load and its disk"),
    ("database space exceeded", Indeterminate, "has used up its quota of space, and takes no new locks", "compact and defragment it, then: etcdctl alarm disarm; turn --auto-compaction-retention on"),
    ("permission denied", Denied, "does not permit this user to use the keys of the locks", "grant it: etcdctl role grant-permission ROLE --prefix=true readwrite PREFIX"),
    ("user name is empty", Denied, "wants a user", "write it as etcd://user:password@host"),
    ("authentication failed", Denied, "does not accept this user with this password", "look at the user and the password"),
    ("authentication is not enabled", Misconfigured, "knows no users, and the URL names one", "turn authentication on (etcdctl auth enable), or take the user out of the URL"),
];

/// A cluster that cannot be reached.
pub(crate) fn outage(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Unavailable, message).with_help(OUTAGE_HELP)
}

/// No answer came in time.
pub(crate) fn no_answer(address: &str, waited: Duration) -> Error {
    outage(format!("{address} did not answer within {waited:?}")).with_kind(Indeterminate)
}

/// The error of a request that changes nothing, or nothing that matters.
pub(crate) fn of_read(error: Error) -> Error {
    if error.is_indeterminate() { error.with_kind(Unavailable) } else { error }
}

/// True if the cluster has no space. etcd carries out the write that uses it up, and answers like this (`quotaApplierV3`).
pub(crate) fn is_out_of_space(error: &Error) -> bool {
    shows(error, &["database space exceeded"])
}

/// True if the lease of a write has ended.
pub(crate) fn is_ended_lease<T>(answer: &Result<T>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == Lost)
}

pub(crate) fn not_connected(address: &str, error: impl StdError + Send + Sync + 'static) -> Error {
    let message = format!("cannot connect to {address}");
    if let Some(refusal) = tls_refusal(&error) {
        return refusal.context(message);
    }
    // A member without TLS closes or resets a connection that begins with it; without TLS, none is reset before it is made.
    let is_plain = shows(&error, &["tls handshake eof", "Connection reset by peer"]);
    let help =
        if is_plain { "if the port takes connections without TLS, write etcd://" } else { OUTAGE_HELP };
    outage(message).with_help(help).with_source(error)
}

/// An answer with a status, or a connection that broke.
pub(crate) fn of_status(address: &str, status: Status) -> Error {
    if let Some((_, kind, message, help)) = ANSWERS.iter().find(|it| status.message().contains(it.0)) {
        return Error::new(*kind, format!("{address} {message}")).with_help(*help).with_source(status);
    }
    if causes(&status).any(|cause| cause.is::<ConnectError>()) || tls_refusal(&status).is_some() {
        // The connection had broken before, and could not be made again: nothing was sent.
        return not_connected(address, status);
    }
    let is_answer = status.message().starts_with("etcdserver:");
    let message = match is_answer {
        true => format!("{address} answers: {}", status.message()),
        false => format!("the connection to {address} broke"),
    };
    let (kind, message, help) = match status.code() {
        code if code == Code::Unimplemented || shows(&status, &NO_HTTP2) => {
            (Misconfigured, format!("{address} is no etcd with the API of version 3"), NO_ETCD_HELP)
        }
        Code::PermissionDenied | Code::Unauthenticated => (Denied, message, "look at the user's rights"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange if is_answer => {
            (Misconfigured, message, "look at the settings of the member")
        }
        _ => (Indeterminate, message, OUTAGE_HELP),
    };
    Error::new(kind, message).with_help(help).with_source(status)
}

/// Signs that the other end sent bytes that are no frames of HTTP/2: a server of HTTP/1, of Redis, or one that expects TLS.
const NO_HTTP2: [&str; 3] = ["frame with invalid size", "FRAME_SIZE_ERROR", "unspecific protocol error"];

fn shows(error: &(dyn StdError + 'static), signs: &[&str]) -> bool {
    causes(error).any(|cause| signs.iter().any(|sign| cause.to_string().contains(sign)))
}

/// The error itself, and what caused it.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}
