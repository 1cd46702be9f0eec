//! The paths that are refused. Checked before SQLite opens anything, so that a refused file is left as it was.

use super::database_path::{DatabasePath, FileId};
use super::network_fs::network_file_system;
use leasehold_core::{Error, ErrorKind, Result};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Stat, StatxAttributes, StatxFlags, accessat, lstat, statfs, statx,
};
use rustix::io::Errno;
use std::path::Path;

const STICKY: u32 = 0o1000;
const EVERYONE_MAY_WRITE: u32 = 0o002;

impl DatabasePath {
    /// The file, if it is there and is one to keep locks in; `None` if there is none yet.
    pub(super) fn find(&self) -> Result<Option<FileId>> {
        if !self.check_directory()? {
            return Ok(None);
        }
        match lstat(&self.file) {
            Ok(stat) => {
                self.check_file(&stat)?;
                self.check_side_files()?;
                Ok(Some(FileId::from_stat(&stat)))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.cannot("look at", &self.file, error)),
        }
    }

    /// False if the directory is missing and ours to make; then the directory above it is checked.
    fn check_directory(&self) -> Result<bool> {
        match self.missing_directories().first().and_then(|outermost| outermost.parent()) {
            Some(parent) => self.check_existing(parent).map(|()| false),
            None => self.check_existing(self.directory()).map(|()| true),
        }
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
}
