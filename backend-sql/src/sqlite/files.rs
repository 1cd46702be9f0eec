use super::place::Place;
use rustix::fs::{Stat, lstat};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long a look at all files is good enough before a statement.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Which file it is, whatever it is called: no other file has this number for as long as this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// The files that a connection has open, as they were when it opened them.
///
/// A file that is deleted or replaced stays open, and a lock granted in it excludes nobody who opens the new one. So the
/// path is looked at after every statement, before its answer is believed. And before a statement, so that a connection
/// to a deleted file writes no more: it may share its `-shm` with those of the new one. While a connection is open
/// SQLite deletes none of the three, so whoever did was somebody else.
#[derive(Debug)]
pub(super) struct OpenFiles {
    file: (PathBuf, Option<FileId>),
    side_files: [(PathBuf, Option<FileId>); 2],
    all_seen: Instant,
}

impl OpenFiles {
    /// The file that was found before it was opened, and the side files that are there since.
    pub(super) fn of(place: &Place, found: FileId) -> Self {
        let side_files = place.side_files();
        Self {
            file: (place.file().to_owned(), Some(found)),
            side_files: side_files.map(|path| {
                let id = FileId::at(&path);
                (path, id)
            }),
            all_seen: Instant::now(),
        }
    }

    /// A side file that is missing although it is in use: somebody deleted it while a connection had it open, and
    /// connections of this process go on sharing it, alone.
    pub(super) fn missing(&self) -> Option<&Path> {
        let missing = self.side_files.iter().find(|(_, id)| id.is_none());
        missing.map(|(path, _)| path.as_path())
    }

    /// True if all were in place a moment ago.
    pub(super) fn were_in_place(&mut self) -> bool {
        self.all_seen.elapsed() < LOOK_EVERY || self.all_are_in_place()
    }

    /// True if all paths still lead to the files that are open.
    pub(super) fn all_are_in_place(&mut self) -> bool {
        self.all_seen = Instant::now();
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
        Self { device: stat.st_dev.into(), inode: stat.st_ino.into() }
    }

    /// The file of this path; `None` if there is none.
    pub(super) fn at(path: &Path) -> Option<Self> {
        lstat(path).ok().map(|stat| Self::of(&stat))
    }
}

fn leads_to((path, id): &(PathBuf, Option<FileId>)) -> bool {
    FileId::at(path) == *id
}
