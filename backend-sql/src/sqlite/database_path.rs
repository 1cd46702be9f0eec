//! The path to the file, what is beside it, and the errors of calls for it.

use leasehold_core::{Error, ErrorKind};
use rustix::fs::{Stat, lstat};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The name of our own directory, which is made with the file.
const OUR_DIRECTORY: &str = "leasehold";
/// The part of the default directory that may be missing in the home of a user.
const DEFAULT_DIRECTORY: &str = ".local/state/leasehold";

#[derive(Clone, Debug)]
pub(super) struct DatabasePath {
    pub(super) file: PathBuf,
    pub(super) allow_network_fs: bool,
}

impl fmt::Display for DatabasePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.display().fmt(f)
    }
}

impl DatabasePath {
    pub(super) fn directory(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The files that SQLite keeps beside the file while it is open.
    pub(super) fn side_files(&self) -> [PathBuf; 2] {
        ["-wal", "-shm"].map(|suffix| {
            let mut path = self.file.as_os_str().to_owned();
            path.push(suffix);
            path.into()
        })
    }

    /// The directory, or the one above those that are missing and ours to make: `leasehold`, and on a fresh host those above it in the
    /// default path (XDG Base Directory Specification). Another directory that is missing is more likely mistyped.
    pub(super) fn existing_directory(&self) -> &Path {
        let ours = match self.directory() {
            directory if directory.ends_with(DEFAULT_DIRECTORY) => 3,
            directory => usize::from(directory.ends_with(OUR_DIRECTORY)),
        };
        let mut above = self.directory().ancestors().enumerate();
        above.find(|(at, it)| *at == ours || it.exists()).map_or(Path::new("/"), |(_, it)| it)
    }
}

/// The error of a call to the file system for the file, its directory or a side file.
pub(super) fn cannot(doing: &str, path: &Path, error: impl Into<io::Error>) -> Error {
    let error = error.into();
    let (kind, help) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            "the file and its directory must be writable: SQLite keeps two side files there",
        ),
        io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            (ErrorKind::Misconfigured, "correct the path")
        }
        _ => (
            ErrorKind::Unavailable,
            "look at the file system, and who has a lock there, for instance with fuser",
        ),
    };
    Error::new(kind, format!("cannot {doing} {}", path.display())).with_source(error).with_help(help)
}

/// The device and the inode of a file: no other file has these for as long as this one is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        #[allow(clippy::useless_conversion, reason = "these words have other lengths on other machines")]
        Self(stat.st_dev.into(), stat.st_ino.into())
    }

    /// The file of this path; `None` if there is none.
    pub(super) fn at(path: &Path) -> Option<Self> {
        lstat(path).ok().map(|stat| Self::from_stat(&stat))
    }
}
