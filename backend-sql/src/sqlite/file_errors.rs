//! The errors of calls to the file system, and the limits of the file system and the process, which SQLite reports as a failure of the
//! disk or as missing rights, or not at all.

use super::database_path::DatabasePath;
use leasehold_core::{Error, ErrorKind};
use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::path::Path;

impl DatabasePath {
    /// The error of a call for `path`: the file, its directory or a side file.
    pub(super) fn cannot(&self, doing: &str, path: &Path, error: impl Into<io::Error>) -> Error {
        let error = error.into();
        if let Some(Errno::NOSPC | Errno::FBIG) = Errno::from_io_error(&error)
            && let Some(limit) = Limit::behind(self)
        {
            return limit.error(self, ErrorKind::Unavailable).with_source(error);
        }
        let (kind, help) = match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) => (
                ErrorKind::Denied,
                "the file and its directory must be writable: SQLite keeps two side files there",
            ),
            Some(Errno::ROFS) => (ErrorKind::Unavailable, "mount the file system for writing"),
            Some(Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => {
                (ErrorKind::Misconfigured, "correct the path")
            }
            Some(Errno::AGAIN) => (
                ErrorKind::Unavailable,
                "another program keeps it locked: find it with fuser, or name a file elsewhere",
            ),
            _ => (ErrorKind::Unavailable, "look at the file system"),
        };
        Error::new(kind, format!("cannot {doing} {}", path.display())).with_source(error).with_help(help)
    }
}

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
