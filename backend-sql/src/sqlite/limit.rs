//! Limits of the file system and the process that SQLite reports as a failure of the disk or as missing rights, or not at all.

use super::database_path::DatabasePath;
use leasehold_core::{Error, ErrorKind};
use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

/// The most that SQLite adds to a file at once, with some to spare: a part of the shared memory of WAL mode.
const ROOM: u64 = 64 * 1024;

/// A limit that a file has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Room,
    Inodes,
    FileSize(u64),
}

impl Limit {
    /// The limit that a failed write to the file has met, as far as it shows now; `None` if none does.
    pub(super) fn behind(path: &DatabasePath) -> Option<Self> {
        if let Ok(disk) = statvfs(path.directory()) {
            if disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM {
                return Some(Self::Room);
            }
            // Some file systems have no fixed number of them, and say that they have none at all.
            if disk.f_files > 0 && disk.f_favail == 0 {
                return Some(Self::Inodes);
            }
        }
        let limit = getrlimit(Resource::Fsize).current?;
        let [wal, shm] = path.side_files();
        let lengths = [&path.file, &wal, &shm].map(|file| file.metadata().map_or(0, |found| found.len()));
        (lengths.into_iter().max()? + ROOM > limit).then_some(Self::FileSize(limit))
    }

    pub(super) fn error(self, file: &DatabasePath, kind: ErrorKind) -> Error {
        let (message, help) = match self {
            Self::Room => (format!("the disk under {file} is full"), "make room on it"),
            Self::Inodes => (
                format!("the file system under {file} has no inode left"),
                "delete files there: it has room, but takes no new file",
            ),
            Self::FileSize(limit) => (
                format!("{file} may not grow: this process may write files of {limit} bytes at most"),
                "raise the limit: ulimit -f unlimited, or LimitFSIZE=infinity of systemd",
            ),
        };
        Error::new(kind, message).with_help(help)
    }
}
