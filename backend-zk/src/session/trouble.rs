//! What a request's failure means. All of it is here.
//!
//! An answer in this list is the server's word that nothing was done. Everything else leaves the outcome open: a lost
//! connection, silence (which the client library reports in words of its own), a session that it has given up while the
//! server may not have, an answer that it could not read.

use leasehold_core::{Error, ErrorKind};
use std::time::Duration;
use zookeeper_client::Error as Answer;

/// What a server says to who wants an ephemeral node with a session of which only that server knows. The library has no
/// name for it.
const EPHEMERAL_ON_LOCAL_SESSION: i32 = -120;

/// A request without the result that was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// There is no such node, or no node to create it in.
    NoNode,
    /// There is such a node already.
    NodeExists,
    /// The node has children.
    NotEmpty,
    /// The server does not know this kind of request.
    Unimplemented,
    /// The server will not do it, and has not.
    Refused(Error),
    /// It may have been done or not.
    Unknown(Error),
}

pub(crate) type Outcome<T> = Result<T, Trouble>;

impl Trouble {
    /// No answer came in the time of the call.
    pub(super) fn silence(limit: Duration) -> Self {
        let message = format!("ZooKeeper did not answer within {limit:?}");
        Self::Unknown(
            Error::new(ErrorKind::Indeterminate, message)
                .with_help("look at the ensemble: has it a leader, and how slow are its disks?"),
        )
    }

    /// The directory of a lock has no number left for a node.
    pub(crate) fn spent(directory: &str, number: i32) -> Self {
        let message = format!(
            "the numbers of {directory} are nearly used up: ZooKeeper gave {number}, and repeats itself after {}",
            i32::MAX
        );
        Self::Refused(Error::new(ErrorKind::Unavailable, message).with_help(
            "let it be empty for a minute: then the server deletes it, and begins at 0; if another program made it to \
             stay, delete it while nobody uses the lock",
        ))
    }

    /// As an error of a request that changes nothing, and had no reason to find what it found.
    pub(crate) fn of_read(self) -> Error {
        match self.into_error() {
            error if error.kind() == ErrorKind::Indeterminate => error.with_kind(ErrorKind::Unavailable),
            error => error,
        }
    }

    /// As an error, where no kind of trouble is a part of the plan.
    pub(crate) fn into_error(self) -> Error {
        let unexpected = |what| {
            Error::new(ErrorKind::Unavailable, format!("ZooKeeper says that {what}"))
                .with_help("somebody else is changing the directory of the locks: try again")
        };
        match self {
            Self::NoNode => unexpected("a node is not there"),
            Self::NodeExists => unexpected("a node is there already"),
            Self::NotEmpty => unexpected("a node has children"),
            Self::Unimplemented => {
                Error::new(ErrorKind::Misconfigured, "the server does not know a request that locks need")
                    .with_help("use ZooKeeper 3.5.3 or later")
            }
            Self::Refused(error) | Self::Unknown(error) => error,
        }
    }
}

impl From<Answer> for Trouble {
    fn from(answer: Answer) -> Self {
        let refused = |kind, message: &'static str, help: &'static str| {
            Self::Refused(Error::new(kind, message).with_help(help))
        };
        match answer {
            Answer::NoNode => Self::NoNode,
            Answer::NodeExists => Self::NodeExists,
            Answer::NotEmpty => Self::NotEmpty,
            Answer::Unimplemented => Self::Unimplemented,
            Answer::NoAuth => refused(
                ErrorKind::Denied,
                "this user may not do that in the directory of the locks",
                "use the user that made it, or have its access list changed: setAcl -R",
            ),
            Answer::AuthFailed => Self::Refused(auth_failed()),
            Answer::InvalidAcl => refused(
                ErrorKind::Denied,
                "the server does not accept who we are as the owner of a node",
                "use a user that it knows, or acl=anyone",
            ),
            Answer::NoChildrenForEphemerals => refused(
                ErrorKind::Misconfigured,
                "a directory of the locks is an ephemeral node of somebody else",
                "use another directory, or another name",
            ),
            Answer::NotReadOnly => refused(
                ErrorKind::Unavailable,
                "the server has lost its leader and takes no writes",
                "wait until the ensemble has a quorum again",
            ),
            Answer::QuotaExceeded => refused(
                ErrorKind::Unavailable,
                "the quota of the directory of the locks is used up",
                "raise it, or find out who does not release",
            ),
            Answer::Throttled => {
                refused(ErrorKind::Unavailable, "the server has too much to do", "try again later")
            }
            Answer::UnexpectedErrorCode(EPHEMERAL_ON_LOCAL_SESSION) => refused(
                ErrorKind::Misconfigured,
                "the servers keep sessions local to one of them, and those have no ephemeral nodes",
                "set localSessionsUpgradingEnabled=true on the servers, or localSessionsEnabled=false",
            ),
            not_understood @ (Answer::UnexpectedErrorCode(_)
            | Answer::UnmarshalError { .. }
            | Answer::MarshallingError
            | Answer::RuntimeInconsistent) => Self::Unknown(
                Error::new(ErrorKind::Indeterminate, "ZooKeeper's answer is not understood")
                    .with_help("look at the logs of the servers, and at their version")
                    .with_source(not_understood),
            ),
            open => Self::Unknown(
                Error::new(
                    ErrorKind::Indeterminate,
                    "the connection to ZooKeeper was lost before the answer",
                )
                .with_source(open),
            ),
        }
    }
}

/// The server does not believe who we say we are.
pub(super) fn auth_failed() -> Error {
    Error::new(ErrorKind::Denied, "ZooKeeper refuses these credentials")
        .with_help("look at user and password, and at what schemes the servers ask for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_no_lost_connection() {
        let error = Trouble::from(Answer::UnexpectedErrorCode(-120)).into_error();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.help().unwrap().contains("localSessionsUpgradingEnabled=true"));
        let error = Trouble::from(Answer::UnexpectedErrorCode(-999)).into_error();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "it may have been done");
        assert!(error.to_string().contains("not understood"), "{error}");
        let error = Trouble::from(Answer::ConnectionLoss).into_error();
        assert!(error.to_string().contains("connection"), "{error}");
    }
}
