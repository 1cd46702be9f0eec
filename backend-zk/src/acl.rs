//! The access lists of our nodes.

use std::sync::LazyLock;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

/// The owner of our nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The identity that made them. No other client can even read them.
    Creator,
    /// Every client, as far as locks need it: no node can be overwritten, and no access list changed.
    Anyone,
}

/// The rights to make and to delete a node are rights to its directory. The nodes of the queue are only read.
static ANYONES_DIRECTORY: LazyLock<[Acl; 1]> = LazyLock::new(|| {
    [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())]
});

impl Access {
    /// The access list of the directories: the base, and one for each lock.
    pub(crate) fn of_directories(self) -> Acls<'static> {
        match self {
            Self::Creator => Acls::creator_all(),
            Self::Anyone => Acls::new(&*ANYONES_DIRECTORY),
        }
    }

    /// The same in the notation of `zkCli.sh`.
    pub(crate) fn zkcli_of_directories(self) -> &'static str {
        match self {
            Self::Creator => "auth::cdrwa",
            Self::Anyone => "world:anyone:cdr",
        }
    }

    /// The access list of a node that holds a lock or waits for it.
    pub(crate) fn of_contenders(self) -> Acls<'static> {
        match self {
            Self::Creator => Acls::creator_all(),
            Self::Anyone => Acls::anyone_read(),
        }
    }
}

/// True if this lets every client change something.
pub(crate) fn is_open(acl: &Acl) -> bool {
    let changes = Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    acl.scheme() == "world" && acl.permission() & changes != Permission::NONE
}
