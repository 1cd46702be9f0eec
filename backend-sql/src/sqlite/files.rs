//! The files of a store: which are open, and how one is made.

use super::database_path::{DatabasePath, FileId};
use leasehold_core::{Error, ErrorKind, Result};
use rustix::fs::{CWD, FileType, Mode, mkdir, mknodat, unlink};
use rustix::io::Errno;
use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long a look at all files is good enough before a statement.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Creating a file takes microseconds; a program that locks the directory for longer is none of ours.
const DIRECTORY_LOCKED_AT_MOST: Duration = Duration::from_secs(2);
/// The pause before the lock of the directory is asked for again.
const DIRECTORY_LOCK_AGAIN_AFTER: Duration = Duration::from_millis(1);

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
    pub(super) fn new(path: &DatabasePath, found: FileId) -> Self {
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

fn leads_to((path, id): &(PathBuf, Option<FileId>)) -> bool {
    FileId::at(path) == *id
}

impl DatabasePath {
    /// Makes an empty file, which is an empty database, if there is none; and its directory, if that is our own.
    ///
    /// `mknod` makes it, because it follows no link, leaves no moment in which others have rights, and opens nothing: closing a file
    /// of its own would let go of all locks that other connections of this process have on it (`fcntl(2)`).
    pub(super) fn create(&self) -> Result<()> {
        self.make_our_directories()?;
        let _alone = self.lock_directory()?;
        if FileId::at(&self.file).is_some() {
            return Ok(());
        }
        // A file that is gone has left them. SQLite would share the `-shm` with processes that still have that file open.
        for side_file in self.side_files() {
            match unlink(&side_file) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(self.cannot("remove", &side_file, error)),
            }
        }
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &self.file, FileType::RegularFile, mode, 0)
            .map_err(|error| self.cannot("make", &self.file, error))?;
        allow_owner(&self.file, mode).map_err(|error| self.cannot("make", &self.file, error))
    }

    /// Makes the directories that are ours to make. A mistyped path to any other would begin a second store beside the first, and
    /// exclude no user of that.
    fn make_our_directories(&self) -> Result<()> {
        let mode = Mode::RWXU;
        for directory in self.missing_directories() {
            let made = match mkdir(directory, mode) {
                // Another process has made it meanwhile.
                Err(Errno::EXIST) => Ok(()),
                made => made.map_err(io::Error::from).and_then(|()| allow_owner(directory, mode)),
            };
            made.map_err(|error| self.cannot("make", directory, error))?;
        }
        Ok(())
    }

    /// One process at a time creates files: a later one finds them. The lock ends with the value, and with the process.
    fn lock_directory(&self) -> Result<File> {
        let cannot = |error: io::Error| self.cannot("lock", self.directory(), error);
        let directory = File::open(self.directory()).map_err(cannot)?;
        let give_up = Instant::now() + DIRECTORY_LOCKED_AT_MOST;
        loop {
            match directory.try_lock() {
                Ok(()) => return Ok(directory),
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                    std::thread::sleep(DIRECTORY_LOCK_AGAIN_AFTER);
                }
                Err(TryLockError::WouldBlock) => return Err(cannot(Errno::AGAIN.into())),
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
        }
    }
}

/// Gives the owner of a new file or directory the rights that a umask has kept back: with one of 0777, it would have none.
fn allow_owner(made: &Path, mode: Mode) -> io::Result<()> {
    let mode = mode.as_raw_mode();
    let found = made.symlink_metadata()?;
    if found.is_symlink() || found.mode() & 0o777 == mode {
        return Ok(());
    }
    std::fs::set_permissions(made, Permissions::from_mode(mode))
}
