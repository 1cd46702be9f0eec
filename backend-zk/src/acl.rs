//! Who may do what with our nodes.

use std::sync::LazyLock;
use zookeeper_client::{Acl, Acls, AuthId, Permission};

/// To whom nodes belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// To whom their maker has proved to be; to nobody else at all.
    Creator,
    /// To anyone who reaches the server, as far as locks need it: no node can be overwritten, and no list of rights.
    Anyone,
}

/// To delete a node is a right to its directory, and so is to make one; the nodes of the queue need be read only.
static ANYONES_DIRECTORY: LazyLock<[Acl; 1]> = LazyLock::new(|| {
    [Acl::new(Permission::READ | Permission::CREATE | Permission::DELETE, AuthId::anyone())]
});

impl Access {
    /// Of the directories: the base, and one for each lock.
    pub(crate) fn of_directories(self) -> Acls<'static> {
        match self {
            Self::Creator => Acls::creator_all(),
            Self::Anyone => Acls::new(&*ANYONES_DIRECTORY),
        }
    }

    /// As `zkCli.sh` is told it.
    pub(crate) fn of_directories_in_words(self) -> &'static str {
        match self {
            Self::Creator => "auth::cdrwa",
            Self::Anyone => "world:anyone:cdr",
        }
    }

    /// Of those who hold a lock or wait for it.
    pub(crate) fn of_contenders(self) -> Acls<'static> {
        match self {
            Self::Creator => Acls::creator_all(),
            Self::Anyone => Acls::anyone_read(),
        }
    }
}

/// True if this lets everybody change something.
pub(crate) fn is_open(acl: &Acl) -> bool {
    let changes = Permission::WRITE | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    acl.scheme() == "world" && acl.permission() & changes != Permission::NONE
}
