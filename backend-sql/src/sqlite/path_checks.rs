//! The paths that are refused. Checked before SQLite opens anything, so that a refused file is left as it was.

use super::database_path::{DatabasePath, FileId, cannot};
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
        let directory = self.existing_directory();
        let is_shared = self.check_directory(directory)?.st_mode & EVERYONE_MAY_WRITE != 0;
        if directory != self.directory() {
            return Ok(None);
        }
        // SQLite deletes its side files when the last process closes the file, and takes those that it finds next time for its own.
        for side_file in self.side_files() {
            regular_file(&side_file, is_shared)?;
        }
        let Some(stat) = regular_file(&self.file, is_shared)? else { return Ok(None) };
        let file = self.file.display();
        if stat.st_nlink > 1 {
            return Err(refused(
                format!("{file} has {} names (hard links)", stat.st_nlink),
                "keep one: under each name it would have side files of its own, which damages the database",
            ));
        }
        if is_mount_point(&self.file) {
            return Err(refused(
                format!("{file} is a mount point"),
                "mount its directory: mounted alone it would have side files of its own, which damages the database",
            ));
        }
        self.check_file_system(&self.file)?;
        check_rights(&self.file, Access::READ_OK | Access::WRITE_OK)?;
        Ok(Some(FileId::from_stat(&stat)))
    }

    fn check_directory(&self, directory: &Path) -> Result<Stat> {
        let shown = directory.display();
        let stat = match rustix::fs::stat(directory) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                return Err(refused(
                    format!("the directory {shown} does not exist"),
                    format!("make it, for instance with: mkdir -p -m 700 {shown}"),
                ));
            }
            Err(error) => return Err(cannot("look at", directory, error)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(refused(format!("{shown} is not a directory"), "name a file in one"));
        }
        if stat.st_mode & EVERYONE_MAY_WRITE != 0 && stat.st_mode & STICKY == 0 {
            return Err(refused(
                format!("everyone may replace files in the directory {shown}"),
                format!("take that right away with: chmod o-w {shown}"),
            ));
        }
        self.check_file_system(directory)?;
        check_rights(directory, Access::WRITE_OK | Access::EXEC_OK)?;
        Ok(stat)
    }

    fn check_file_system(&self, path: &Path) -> Result<()> {
        let at = statfs(path).map_err(|error| cannot("look at", path, error))?;
        match network_file_system(&at) {
            Some(name) if !self.allow_network_fs => Err(on_network_file_system(path, name)),
            _ => Ok(()),
        }
    }
}

/// A file, if it is there. Where everyone may make files, it must be ours: its owner can free every lock in it.
fn regular_file(path: &Path, is_shared: bool) -> Result<Option<Stat>> {
    let shown = path.display();
    let stat = match lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(cannot("look at", path, error)),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => {
            return Err(refused(
                format!("{shown} is a symbolic link"),
                "name the file itself: a link that is turned elsewhere splits the locks in two",
            ));
        }
        _ => return Err(refused(format!("{shown} is not a regular file"), "name another one")),
    }
    let owner = stat.st_uid;
    if is_shared && ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
        return Err(refused(
            format!("{shown} belongs to the user {owner}, in a directory where everyone may make files"),
            "name a file in a directory of your own",
        ));
    }
    Ok(Some(stat))
}

/// True if the file is mounted by itself: a bind mount gives it a second name, which the count of its links does not tell. Kernels
/// before 5.8 do not report mount points.
fn is_mount_point(file: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(CWD, file, flags, StatxFlags::empty())
        .is_ok_and(|at| (at.stx_attributes & at.stx_attributes_mask).contains(StatxAttributes::MOUNT_ROOT))
}

/// SQLite opens a file that it may not write for reading, and fails later, so the rights are checked first.
fn check_rights(path: &Path, rights: Access) -> Result<()> {
    accessat(CWD, path, rights, AtFlags::EACCESS).map_err(|error| cannot("write to", path, error))
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
