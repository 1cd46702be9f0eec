//! The path to the file, and which paths are refused. Checked before SQLite opens anything, so that a refused file is left as it
//! was.

use super::failure::Limit;
use super::files::FileId;
use leasehold_core::{Error, ErrorKind, Result};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Stat, StatFs, StatxAttributes, StatxFlags, accessat, lstat, statfs, statx,
};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The name of our own directory, which is made with the file.
const OUR_DIRECTORY: &str = "leasehold";
/// The part of the default directory that may be missing in the home of a user.
const DEFAULT_DIRECTORY: &str = ".local/state/leasehold";
const STICKY: u32 = 0o1000;
const EVERYONE_MAY_WRITE: u32 = 0o002;

/// An absolute path to a database.
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

    /// The file, if it is there and is one to keep locks in; `None` if there is none yet.
    pub(super) fn find(&self) -> Result<Option<FileId>> {
        if !self.check_directory()? {
            return Ok(None);
        }
        match lstat(&self.file) {
            Ok(stat) => {
                self.check_file(&stat)?;
                self.check_side_files()?;
                Ok(Some(FileId::of(&stat)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.cannot("look at", &self.file, error)),
        }
    }

    /// The files that SQLite keeps beside the file while it is open.
    pub(super) fn side_files(&self) -> [PathBuf; 2] {
        ["-wal", "-shm"].map(|suffix| {
            let mut path = self.file.as_os_str().to_owned();
            path.push(suffix);
            path.into()
        })
    }

    /// False if the directory is missing and ours to make; then the directory above it is checked.
    fn check_directory(&self) -> Result<bool> {
        match self.missing_directories().first().and_then(|outermost| outermost.parent()) {
            Some(parent) => self.check_existing(parent).map(|()| false),
            None => self.check_existing(self.directory()).map(|()| true),
        }
    }

    /// The directories that are missing and ours to make, the outermost first: `leasehold`, and on a fresh host those above it in
    /// the default path (XDG Base Directory Specification). Another directory that is missing is more likely mistyped.
    pub(super) fn missing_directories(&self) -> Vec<&Path> {
        let ours = match self.directory() {
            directory if directory.ends_with(DEFAULT_DIRECTORY) => {
                Path::new(DEFAULT_DIRECTORY).iter().count()
            }
            directory => usize::from(directory.ends_with(OUR_DIRECTORY)),
        };
        let mut missing: Vec<&Path> =
            self.directory().ancestors().take(ours).take_while(|it| !it.exists()).collect();
        missing.reverse();
        missing
    }

    fn check_existing(&self, directory: &Path) -> Result<()> {
        let shown = directory.display();
        let stat = match rustix::fs::stat(directory) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                return Err(refused(
                    format!("the directory {shown} does not exist"),
                    format!("make it, for instance with: mkdir -p -m 700 {shown}"),
                ));
            }
            Err(error) => return Err(self.cannot("look at", directory, error)),
        };
        if kind(&stat) != FileType::Directory {
            return Err(refused(format!("{shown} is not a directory"), "name a file in one"));
        }
        if stat.st_mode & EVERYONE_MAY_WRITE != 0 && stat.st_mode & STICKY == 0 {
            return Err(refused(
                format!("everyone may replace files in the directory {shown}"),
                format!("take that right away with: chmod o-w {shown}"),
            ));
        }
        self.check_file_system(directory)?;
        self.check_rights(directory, Access::WRITE_OK | Access::EXEC_OK)
    }

    fn check_file_system(&self, path: &Path) -> Result<()> {
        let at = statfs(path).map_err(|error| self.cannot("look at", path, error))?;
        match network_file_system(&at) {
            Some(name) if !self.allow_network_fs => Err(on_network_file_system(path, name)),
            _ => Ok(()),
        }
    }

    fn check_file(&self, stat: &Stat) -> Result<()> {
        let file = self.file.display();
        match kind(stat) {
            FileType::RegularFile => {}
            FileType::Directory => {
                return Err(refused(format!("{file} is a directory"), "name a file in it"));
            }
            FileType::Symlink => {
                return Err(refused(
                    format!("{file} is a symbolic link"),
                    "name the file itself: whoever turned the link elsewhere would split the locks in two",
                ));
            }
            _ => {
                return Err(refused(format!("{file} is not a regular file"), "name another one"));
            }
        }
        if stat.st_nlink > 1 {
            return Err(refused(
                format!("{file} has {} names (hard links)", stat.st_nlink),
                "keep one: under each name it would have side files of its own, which damages the database",
            ));
        }
        self.check_mount()?;
        self.check_file_system(&self.file)?;
        self.check_owner(&self.file, stat)?;
        self.check_rights(&self.file, Access::READ_OK | Access::WRITE_OK)
    }

    /// A bind mount gives the file a second name, which the count of its links does not tell. Kernels before 5.8 do not
    /// report mount points, and those before 4.11 have no such call.
    fn check_mount(&self) -> Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let is_mounted = match statx(CWD, &self.file, flags, StatxFlags::empty()) {
            Ok(at) => (at.stx_attributes & at.stx_attributes_mask).contains(StatxAttributes::MOUNT_ROOT),
            Err(Errno::NOSYS) => false,
            Err(error) => return Err(self.cannot("look at", &self.file, error)),
        };
        if !is_mounted {
            return Ok(());
        }
        Err(refused(
            format!("{} is a mount point", self.file.display()),
            "mount its directory: mounted alone it would have side files of its own, which damages the database",
        ))
    }

    /// Where everyone may make files, a side file may be another user's as well: SQLite deletes its own when the last
    /// process closes the file, and takes those that it finds next time for its own.
    fn check_side_files(&self) -> Result<()> {
        if !self.is_shared() {
            return Ok(());
        }
        for path in self.side_files() {
            match lstat(&path) {
                Ok(stat) => self.check_side_file(&path, &stat)?,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(self.cannot("look at", &path, error)),
            }
        }
        Ok(())
    }

    fn check_side_file(&self, path: &Path, stat: &Stat) -> Result<()> {
        if kind(stat) != FileType::RegularFile {
            return Err(refused(
                format!("{} is not a regular file", path.display()),
                "name a file in a directory of your own",
            ));
        }
        self.check_owner(path, stat)
    }

    /// Where everyone may make files, another user may have made this one, and can free every lock in it.
    fn check_owner(&self, path: &Path, stat: &Stat) -> Result<()> {
        let ours = [0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid);
        if ours || !self.is_shared() {
            return Ok(());
        }
        Err(refused(
            format!(
                "{} belongs to the user {}, in a directory where everyone may make files",
                path.display(),
                stat.st_uid
            ),
            "name a file in a directory of your own",
        ))
    }

    fn is_shared(&self) -> bool {
        rustix::fs::stat(self.directory()).is_ok_and(|at| at.st_mode & EVERYONE_MAY_WRITE != 0)
    }

    /// SQLite opens a file that it may not write for reading, and fails later, so the rights are checked first.
    fn check_rights(&self, path: &Path, rights: Access) -> Result<()> {
        accessat(CWD, path, rights, AtFlags::EACCESS).map_err(|error| self.cannot("write to", path, error))
    }

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

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn refused(problem: String, fix: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Misconfigured, problem).with_help(fix)
}

fn on_network_file_system(path: &Path, name: &str) -> Error {
    refused(
        format!(
            "{} is on {name}, a network file system, where SQLite cannot exclude processes of other hosts",
            path.display()
        ),
        "name a file on a disk of this host, or use a store with a server; if only this host uses the file, and its locks \
         hold there, add allow_network_fs=yes",
    )
}

/// The file systems that reach over a network or through another kernel, by the number that `statfs(2)` gives them
/// (`linux/magic.h`, and the sources of those that are not in the kernel). On these, the locks that SQLite excludes
/// processes with may hold on one side only, and its shared memory is not shared (<https://sqlite.org/wal.html>).
const NETWORK: [(u32, &str); 19] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1980_0202, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "VirtualBox"),
    (0xbacb_acbc, "VMware"),
];

/// The name of a network file system; `None` for any other.
pub(super) fn network_file_system(at: &StatFs) -> Option<&'static str> {
    // The kernel's word is signed on some machines, and only 32 bits of it are ever used.
    name_of(u32::try_from(i128::from(at.f_type) & 0xffff_ffff).ok()?)
}

fn name_of(number: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_system_is_refused_by_name_and_with_two_ways_out() {
        let error = on_network_file_system(Path::new("/mnt/home"), "NFS");
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert_eq!(
            error.to_string(),
            "/mnt/home is on NFS, a network file system, where SQLite cannot exclude processes of other hosts"
        );
        assert!(error.help().is_some_and(|help| help.contains("allow_network_fs=yes")));
    }

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        for (number, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x6573_5546, "FUSE")] {
            assert_eq!(name_of(number), Some(name));
        }
        // ext4, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS.
        for number in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xf2f5_2010] {
            assert_eq!(name_of(number), None, "{number:x}");
        }
    }

    #[test]
    fn temporary_directory_is_on_a_local_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let at = statfs(directory.path()).unwrap();
        assert_eq!(network_file_system(&at), None);
    }
}
