//! The files of a store: which are open, and how one is made.

use super::database_path::{DatabasePath, FileId, cannot};
use leasehold_core::{Error, ErrorKind, Result};
use rustix::fs::{CWD, FileType, Mode, chmod, mkdir, mknodat, unlink};
use rustix::io::Errno;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long a look at all files is good enough before a statement.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Creating a file takes microseconds; a program that locks the directory for longer is none of ours.
const DIRECTORY_LOCKED_AT_MOST: Duration = Duration::from_secs(2);
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

    pub(super) fn is_in_place(&self) -> bool {
        leads_to(&self.file)
    }
}

fn leads_to((path, id): &(PathBuf, Option<FileId>)) -> bool {
    FileId::at(path) == *id
}

impl DatabasePath {
    /// Makes an empty file, which is an empty database, if there is none; and its directory, if that is our own. A mistyped path to any
    /// other would begin a second store beside the first, and exclude no user of that.
    ///
    /// `mknod` makes it, because it follows no link, leaves no moment in which others have rights, and opens nothing: closing a file
    /// of its own would let go of all locks that other connections of this process have on it (`fcntl(2)`).
    pub(super) fn create(&self) -> Result<()> {
        let (directory, existing) = (self.directory(), self.existing_directory());
        let missing: Vec<&Path> = directory.ancestors().take_while(|it| *it != existing).collect();
        // A umask may keep rights back, from their owner too: so they are given once more.
        for directory in missing.into_iter().rev() {
            match mkdir(directory, Mode::RWXU).and_then(|()| chmod(directory, Mode::RWXU)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(cannot("make", directory, error)),
            }
        }
        let _alone = lock(directory).map_err(|error| cannot("lock", directory, error))?;
        if FileId::at(&self.file).is_some() {
            return Ok(());
        }
        // A file that is gone has left them. SQLite would share the `-shm` with processes that still have that file open.
        for side_file in self.side_files() {
            match unlink(&side_file) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(cannot("remove", &side_file, error)),
            }
        }
        let mode = Mode::RUSR | Mode::WUSR;
        let made = mknodat(CWD, &self.file, FileType::RegularFile, mode, 0);
        made.and_then(|()| chmod(&self.file, mode)).map_err(|error| cannot("make", &self.file, error))
    }
}

/// One process at a time creates files: a later one finds them. The lock ends with the value, and with the process.
fn lock(directory: &Path) -> io::Result<File> {
    let (file, give_up) = (File::open(directory)?, Instant::now() + DIRECTORY_LOCKED_AT_MOST);
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                std::thread::sleep(DIRECTORY_LOCK_AGAIN_AFTER);
            }
            tried => return tried.map(|()| file).map_err(io::Error::from),
        }
    }
}
