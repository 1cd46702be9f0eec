//! Creation of the file: empty, for its owner alone, by one process.

use super::database_path::DatabasePath;
use super::files::FileId;
use leasehold_core::Result;
use rustix::fs::{CWD, FileType, Mode, mkdir, mknodat, unlink};
use rustix::io::Errno;
use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Creating a file takes microseconds; a program that locks the directory for longer is none of ours.
const LOCKED_AT_MOST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

impl DatabasePath {
    /// Makes an empty file, which is an empty database, if there is none; and its directory, if that is our own.
    ///
    /// By `mknod`, which follows no link, leaves no moment in which others have rights, and opens nothing: closing a file
    /// of its own would let go of all locks that other connections of this process have on it (`fcntl(2)`).
    pub(super) fn create(&self) -> Result<()> {
        self.make_our_directories()?;
        let _alone = self.lock_directory()?;
        if FileId::at(&self.file).is_some() {
            return Ok(());
        }
        // Left by a file that is gone. SQLite would share the `-shm` with processes that still have that file open.
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
        let give_up = Instant::now() + LOCKED_AT_MOST;
        loop {
            match directory.try_lock() {
                Ok(()) => return Ok(directory),
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => std::thread::sleep(PAUSE),
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
