use super::database_path::DatabasePath;
use leasehold_core::{Error, ErrorKind, Result};
use rustix::fs::{Stat, lstat};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long a look at all files is good enough before a statement.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// The device and the inode of a file: no other file has these for as long as this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

/// The files that a connection has open, as they were when it opened them.
///
/// A file that is deleted or replaced stays open, and a lock granted in it excludes nobody who opens the new one. So the
/// path is checked after every statement, before its answer is believed; and before a statement, so that a connection
/// to a deleted file writes no more: it may share its `-shm` with those of the new one. While a connection is open
/// SQLite deletes none of the three, so another program did.
#[derive(Debug)]
pub(super) struct OpenFiles {
    file: (PathBuf, Option<FileId>),
    side_files: [(PathBuf, Option<FileId>); 2],
    all_checked: Instant,
}

impl OpenFiles {
    /// The file that was found before it was opened, and the side files that are there since.
    pub(super) fn of(path: &DatabasePath, found: FileId) -> Self {
        Self {
            file: (path.file.clone(), Some(found)),
            side_files: path.side_files().map(|path| {
                let id = FileId::at(&path);
                (path, id)
            }),
            all_checked: Instant::now(),
        }
    }

    /// Fails if a side file is missing although it is in use: another program deleted it while a connection had it open, and
    /// connections of this process go on sharing it, alone.
    pub(super) fn check_complete(&self) -> Result<()> {
        let Some((path, _)) = self.side_files.iter().find(|(_, id)| id.is_none()) else { return Ok(()) };
        let message = format!("{} was deleted while it was in use", path.display());
        Err(Error::new(ErrorKind::Unavailable, message).with_help(
            "end the programs that still have it open, for instance those that fuser finds; a new one is made then",
        ))
    }

    /// True if all were in place a moment ago.
    pub(super) fn were_in_place(&mut self) -> bool {
        self.all_checked.elapsed() < CHECK_EVERY || self.all_are_in_place()
    }

    /// True if all paths still lead to the files that are open.
    pub(super) fn all_are_in_place(&mut self) -> bool {
        self.all_checked = Instant::now();
        self.is_in_place() && self.side_files.iter().all(leads_to)
    }

    /// True if the path still leads to the file itself.
    pub(super) fn is_in_place(&self) -> bool {
        leads_to(&self.file)
    }
}

impl FileId {
    pub(super) fn of(stat: &Stat) -> Self {
        #[allow(clippy::useless_conversion, reason = "these words have other lengths on other machines")]
        Self(stat.st_dev.into(), stat.st_ino.into())
    }

    /// The file of this path; `None` if there is none.
    pub(super) fn at(path: &Path) -> Option<Self> {
        lstat(path).ok().map(|stat| Self::of(&stat))
    }
}

fn leads_to((path, id): &(PathBuf, Option<FileId>)) -> bool {
    FileId::at(path) == *id
}
