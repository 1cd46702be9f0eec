//! The errors whose meaning needs no second look.

use leasehold_core::{Error, ErrorKind};

/// An error, and its meaning.
pub(super) struct Row {
    /// The code of the error, or what its text contains.
    pub(super) sign: &'static str,
    kind: ErrorKind,
    message: &'static str,
    pub(super) help: &'static str,
}

impl Row {
    pub(super) fn to_error(&self) -> Error {
        Error::new(self.kind, self.message).with_help(self.help)
    }
}

macro_rules! rows {
    ($($sign:literal => $kind:ident, $message:literal, $help:literal;)+) => {
        &[$(Row { sign: $sign, kind: ErrorKind::$kind, message: $message, help: $help }),+]
    };
}

/// Errors that their first word tells.
pub(super) static BY_CODE: &[Row] = rows! {
    "BUSY" => Unavailable, "it runs a long script or function, and answers nobody else",
        "wait for it, or end it with SCRIPT KILL or FUNCTION KILL";
    "LOADING" => Unavailable, "it is loading its data", "wait until it is done";
    "OOM" => Unavailable, "its memory is full, and it takes nothing new",
        "raise its maxmemory, or free some; locks that are held can be renewed and released meanwhile";
    "READONLY" => Unavailable, "it is a replica, and takes no writes",
        "connect to the primary, or use the URL of its Sentinels, redis+sentinel://host:26379/name";
    "MASTERDOWN" => Unavailable, "it is a replica that has lost its primary",
        "connect to the primary, or use the URL of its Sentinels, redis+sentinel://host:26379/name";
    "NOREPLICAS" => Unavailable, "too few of its replicas follow it, and it takes no writes",
        "look at its replicas and at its min-replicas-to-write";
    "MISCONF" => Unavailable, "it cannot write to its disk, and takes no writes until it can",
        "look at its log and its disk";
    "CLUSTERDOWN" => Unavailable, "its cluster does not serve these keys now", "look at the cluster";
    "TRYAGAIN" => Unavailable, "its cluster is moving these keys to another node", "try again soon";
    "MOVED" => Misconfigured, "it is a node of a cluster, and these keys lie on another node",
        "use the URL of a cluster, redis+cluster://host:port";
    "ASK" => Misconfigured, "it is a node of a cluster, and these keys lie on another node",
        "use the URL of a cluster, redis+cluster://host:port";
    "CROSSSLOT" => Misconfigured, "it is a node of a cluster, and takes these keys for those of several slots",
        "use the URL of a cluster, redis+cluster://host:port";
    "NOAUTH" => Denied, "it wants a password", "put one into the URL or, better, into a file that is named beside it";
    "WRONGPASS" => Denied, "it does not accept this user with this password", "look at the user and the password";
    "DENIED" => Denied, "it is in protected mode, and talks to its own host only", "set a password on the server";
    "WRONGTYPE" => Misconfigured, "a key of this lock holds data of another program",
        "use another name or prefix";
    "TOKENS" => Misconfigured, "the fencing tokens of this name are used up",
        "use another name; a clock far in the future may have used them up";
};

/// Errors with the general code `ERR`, which their text tells.
pub(super) static BY_TEXT: &[Row] = rows! {
    "DB index is out of range" => Misconfigured, "it has no database of this index",
        "look at the number at the end of the URL, and at the server's setting databases";
    "SELECT is not allowed in cluster mode" => Misconfigured, "it is a node of a cluster, which has database 0 only",
        "use the URL of a cluster, redis+cluster://host:port";
    "max number of clients reached" => Unavailable, "it has as many clients as it takes",
        "raise its maxclients, or find out who holds the connections";
    "without any password configured" => Denied, "it has no password for this user, and was given one",
        "take the password out of the URL, or set it on the server";
    "no password is set" => Denied, "it has no password for this user, and was given one",
        "take the password out of the URL, or set it on the server";
};
