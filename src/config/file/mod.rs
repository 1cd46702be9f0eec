//! The configuration file: where it is, and what it says.
//!
//! One file counts, the first that exists. They are not merged: two processes exclude each other only if they mean the
//! same store, and what a process means should stand in one place. Nor could a file in the working directory then
//! send the password that another file names to a server of its own choice.

mod permissions;
mod syntax;

use super::choice::may_be_a_url;
use super::schema::Contents;
use leasehold_core::{Error, ErrorKind, Finding, Result};
use rustix::fs::OFlags;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// No configuration is longer; a file that is was named by mistake. In bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// A configuration file, read and split up. Its values are as they were written.
pub(super) struct ConfigFile {
    pub(super) path: Arc<Path>,
    pub(super) contents: Contents,
    pub(super) warnings: Vec<Finding>,
    /// True if somebody named a file, and that says nothing at all.
    is_blank: bool,
}

/// How a file came to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Somebody named it.
    Named,
    /// It lay where a system keeps such files.
    InPlace,
    /// It lay in the working directory, which may be anybody's.
    InWorkingDirectory,
}

impl ConfigFile {
    pub(super) fn read(path: &Path, found: Found) -> Result<Self> {
        let file = open(path, found).map_err(|error| unreadable(path, error))?;
        let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return Err(wrong(path, "it is a directory", "name a file in it"));
        }
        if found == Found::InWorkingDirectory {
            if !metadata.is_file() {
                return Err(wrong(path, "it is not a regular file", permissions::IF_TRUSTED));
            }
            permissions::check_author(path, &metadata)?;
            let named = path.symlink_metadata().map_err(|error| unreadable(path, error))?;
            permissions::check_link(path, &named, &metadata)?;
        }
        let text = read_text(path, file)?;
        let path = Arc::from(path);
        let contents = Contents::read(syntax::parse(&path, &text)?)?;
        let warnings = permissions::exposed_password(&path, &contents, &metadata);
        // `/dev/null` is named to say that no file counts.
        let may_be_blank = found != Found::Named || metadata.file_type().is_char_device();
        let is_blank = contents.is_empty() && !may_be_blank;
        Ok(Self { warnings: warnings.into_iter().collect(), path, contents, is_blank })
    }

    /// Refuses to take its silence for the built-in store: a template came out empty, or a pipe was read before, and others
    /// lock elsewhere.
    pub(super) fn check_meant(&self) -> Result<()> {
        if self.is_blank {
            return Err(wrong(
                &self.path,
                "it is empty, and nobody names a store",
                "write a profile into it",
            ));
        }
        Ok(())
    }

    /// The names of its profiles.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.contents.profiles.keys().map(String::as_str)
    }

    /// True if there is something at this path, even if it cannot be read: a file that is passed over because of its
    /// permissions would mean another store.
    pub(super) fn exists(path: &Path) -> bool {
        match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// A file that somebody names may be a pipe, as in `--config <(...)`. One in the working directory may be a stranger's,
/// and to open a pipe is to wait for who writes to it.
fn open(path: &Path, found: Found) -> io::Result<File> {
    let mut options = File::options();
    if found == Found::InWorkingDirectory {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    options.read(true).open(path)
}

fn read_text(path: &Path, file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let problem = format_args!("it is longer than {MAX_BYTES} bytes");
        return Err(wrong(path, problem, "name a configuration file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        Error::new(ErrorKind::Misconfigured, format!("{}:{line}: it is not UTF-8", path.display()))
            .with_help("save the file as UTF-8")
    })
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound && may_be_a_url(&path.to_string_lossy()) {
        // It may have a password, so it is not shown.
        let problem = "invalid configuration file: there is none by this name, which looks like a URL";
        return Error::new(ErrorKind::Misconfigured, problem)
            .with_help("name a file, or put the URL into LEASEHOLD_URL")
            .with_source(error);
    }
    if path.symlink_metadata().is_err_and(|looked| looked.kind() == io::ErrorKind::PermissionDenied) {
        let problem = "it cannot be told whether it is there: its directory may not be searched";
        let fix = "go to another directory, or name a file with LEASEHOLD_CONFIG, /dev/null for none";
        return wrong(path, problem, fix).with_source(error);
    }
    let fix = match error.kind() {
        io::ErrorKind::NotFound => "create it, or name another",
        _ => "fix its permissions, or name another file with LEASEHOLD_CONFIG",
    };
    wrong(path, "it cannot be read", fix).with_source(error)
}

fn wrong(path: &Path, problem: impl fmt::Display, fix: &'static str) -> Error {
    let message = format!("invalid configuration file {}: {problem}", path.display());
    Error::new(ErrorKind::Misconfigured, message).with_help(fix)
}
