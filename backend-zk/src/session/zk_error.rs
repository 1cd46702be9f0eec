//! The meaning of failed requests.
//!
//! An answer of a server means that nothing was done. Anything else leaves the outcome unknown: a lost connection, a timeout,
//! a session that the library has given up while the servers may not have, an answer that it could not read.

use leasehold_core::{Error, ErrorKind};
use std::time::Duration;
use zookeeper_client::Error as Answer;

/// The answer to an ephemeral node in a session that is local to one server. The library has no name for it.
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

#[derive(Clone, Debug)]
pub(crate) enum ZkError {
    /// The node does not exist, or its parent does not.
    NoNode,
    NodeExists,
    NotEmpty,
    BadVersion,
    Unimplemented,
    Refused(Error),
    /// It may have been carried out.
    Unknown(Error),
}

pub(crate) type ZkResult<T> = Result<T, ZkError>;

impl ZkError {
    pub(super) fn no_answer(limit: Duration) -> Self {
        let message = format!("ZooKeeper did not answer within {limit:?}");
        let help = "look at the ensemble: has it a leader, and how slow are its disks?";
        Self::Unknown(Error::new(ErrorKind::Indeterminate, message).with_help(help))
    }

    /// The directory of a lock has given a number that another node may get too.
    pub(crate) fn numbers_used_up(directory: &str, number: i32) -> Self {
        let message = format!(
            "the numbers of {directory} are nearly used up: ZooKeeper gave {number}, and repeats itself after {}",
            i32::MAX
        );
        Self::Refused(Error::new(ErrorKind::Unavailable, message).with_help(
            "leave it empty for a minute: then the server deletes it, and begins at 0; if another program made it to \
             stay, delete it while the lock is not in use",
        ))
    }

    /// As an error of a request that changes nothing: its outcome is never unknown.
    pub(crate) fn into_read_error(self) -> Error {
        match self.into_error() {
            error if error.kind() == ErrorKind::Indeterminate => error.with_kind(ErrorKind::Unavailable),
            error => error,
        }
    }

    /// As an error, where the caller expects none of the states of a node.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Unimplemented => {
                Error::new(ErrorKind::Misconfigured, "the server does not know a request that locks need")
                    .with_help("use ZooKeeper 3.5.3 or later")
            }
            Self::Refused(error) | Self::Unknown(error) => error,
            state => Error::new(ErrorKind::Unavailable, format!("unexpected answer of ZooKeeper: {state:?}"))
                .with_help("another program is changing the directory of the locks: try again"),
        }
    }
}

impl From<Answer> for ZkError {
    fn from(answer: Answer) -> Self {
        if let Some((kind, message, help)) = refusal(&answer) {
            return Self::Refused(Error::new(kind, message).with_help(help));
        }
        match answer {
            Answer::NoNode => Self::NoNode,
            Answer::NodeExists => Self::NodeExists,
            Answer::NotEmpty => Self::NotEmpty,
            Answer::BadVersion => Self::BadVersion,
            Answer::Unimplemented => Self::Unimplemented,
            Answer::AuthFailed => Self::Refused(auth_failed()),
            not_understood @ (Answer::UnexpectedErrorCode(_)
            | Answer::UnmarshalError { .. }
            | Answer::MarshallingError
            | Answer::RuntimeInconsistent) => Self::Unknown(
                Error::new(ErrorKind::Indeterminate, "ZooKeeper's answer is not understood")
                    .with_help("look at the logs of the servers, and at their version")
                    .with_source(not_understood),
            ),
            open => {
                let message = "the connection to ZooKeeper was lost before the answer";
                Self::Unknown(Error::new(ErrorKind::Indeterminate, message).with_source(open))
            }
        }
    }
}

/// The kind, message and help of an answer by which the server refuses a request.
fn refusal(answer: &Answer) -> Option<(ErrorKind, &'static str, &'static str)> {
    Some(match answer {
        Answer::NoAuth => (
            ErrorKind::Denied,
            "this user may not do that in the directory of the locks",
            "use the user that made it, or have its access list changed: setAcl -R",
        ),
        Answer::InvalidAcl => (
            ErrorKind::Denied,
            "the server does not accept this user as the owner of a node",
            "use a user that it knows, or acl=anyone",
        ),
        Answer::NoChildrenForEphemerals => (
            ErrorKind::Misconfigured,
            "a directory of the locks is an ephemeral node of another program",
            "use another directory, or another name",
        ),
        Answer::NotReadOnly => (
            ErrorKind::Unavailable,
            "the server has lost its leader and takes no writes",
            "wait until the ensemble has a quorum again",
        ),
        Answer::QuotaExceeded => (
            ErrorKind::Unavailable,
            "the quota of the directory of the locks is used up",
            "raise it, or look for locks that are not released",
        ),
        Answer::Throttled => (ErrorKind::Unavailable, "the server has too much to do", "try again later"),
        Answer::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) => (
            ErrorKind::Misconfigured,
            "the servers keep sessions local to one of them, and a local session has no ephemeral nodes",
            "set localSessionsUpgradingEnabled=true on the servers, or localSessionsEnabled=false",
        ),
        _ => return None,
    })
}

pub(super) fn auth_failed() -> Error {
    Error::new(ErrorKind::Denied, "ZooKeeper refuses these credentials")
        .with_help("look at user and password, and at what schemes the servers ask for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_answer_is_told_apart_from_a_lost_connection() {
        let error = ZkError::from(Answer::UnexpectedErrorCode(-120)).into_error();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().unwrap().contains("localSessionsUpgradingEnabled=true"));
        let error = ZkError::from(Answer::UnexpectedErrorCode(-999)).into_error();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "it may have been done");
        assert!(error.to_string().contains("not understood"), "{error}");
        let error = ZkError::from(Answer::ConnectionLoss).into_error();
        assert!(error.to_string().contains("connection"), "{error}");
    }
}
