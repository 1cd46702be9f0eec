//! The configuration file: how it is read, and the rights that it must have.
//!
//! Files are not merged: the store of a process should stand in one place, and a file in the working directory must not
//! send the password that another file names to a server of its own choice.

use super::environment::expand;
use super::layers::{check_ends, is_own, may_be_a_url};
use super::schema::Contents;
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use leasehold_store_url::StoreUrl;
use rustix::fs::OFlags;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// The longest configuration file, in bytes. A longer file was named by mistake.
const MAX_BYTES: u64 = 1024 * 1024;
const WRITABLE_BY_ALL: u32 = 0o002;
const READABLE_BY_ALL: u32 = 0o004;
const IF_TRUSTED: &str = "if you trust it, name it with LEASEHOLD_CONFIG";

/// A configuration file. The variables in its values are not yet replaced.
pub(super) struct ConfigFile {
    pub(super) path: Arc<Path>,
    pub(super) contents: Contents,
    pub(super) warnings: Vec<Finding>,
    /// True if the file was named by the user and has no value in it.
    is_blank: bool,
}

/// How a file was found: the user named it, it is where a system keeps such files, or it is in the working directory, which
/// may be one of another user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileOrigin {
    Named,
    InPlace,
    InWorkingDirectory,
}

impl ConfigFile {
    pub(super) fn read(path: &Path, origin: FileOrigin) -> Result<Self> {
        if origin == FileOrigin::Named {
            check_ends("configuration file", &path.to_string_lossy())?;
        }
        let file = open(path, origin).map_err(|error| unreadable(path, error))?;
        let metadata = file.metadata().map_err(|error| unreadable(path, error))?;
        if metadata.is_dir() {
            return Err(wrong(path, "it is a directory", "name a file in it"));
        }
        if origin == FileOrigin::InWorkingDirectory {
            check_author(path, &metadata)?;
        }
        let text = read_text(path, file)?;
        let path = Arc::from(path);
        let contents = Contents::read(&path, &text)?;
        let warnings = exposed_password(&path, &contents, &metadata).into_iter().collect();
        // `/dev/null` is named to say that no file counts.
        let may_be_blank = origin != FileOrigin::Named || metadata.file_type().is_char_device();
        let is_blank = contents.is_empty() && !may_be_blank;
        Ok(Self { path, contents, warnings, is_blank })
    }

    /// Refuses the default store for a named file without a value: the file may be a template that came out empty, or a
    /// pipe that was read before, and other processes lock elsewhere.
    pub(super) fn check_not_blank(&self) -> Result<()> {
        match self.is_blank {
            true => Err(wrong(&self.path, "it is empty, and no store is named", "write a profile into it")),
            false => Ok(()),
        }
    }

    /// True if there is a file at this path, even one that cannot be read: to pass over a file because of its rights
    /// would silently mean another store.
    pub(super) fn exists(path: &Path) -> bool {
        match path.symlink_metadata() {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }
}

/// A named file may be a pipe, as in `--config <(...)`. A pipe in the working directory may be a trap: to open it is to wait
/// for its writer.
fn open(path: &Path, origin: FileOrigin) -> io::Result<File> {
    let mut options = File::options();
    if origin == FileOrigin::InWorkingDirectory {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    options.read(true).open(path)
}

/// Refuses a file that another user may have put into the working directory, as Git does since CVE-2022-24765: it would
/// choose the store, and could send variables of this environment there. Its group may write to it, because with a umask
/// of 002 every file is so, and the group has one member.
///
/// A link of another user is refused too, wherever it leads. `opened` is the file that is read; the path must still name
/// it, or a link to it.
fn check_author(path: &Path, opened: &Metadata) -> Result<()> {
    let is_foreign =
        |metadata: &Metadata| metadata.uid() != rustix::process::geteuid().as_raw() && metadata.uid() != 0;
    let refused = |problem: &dyn fmt::Display| Err(wrong(path, problem, IF_TRUSTED));
    if !opened.is_file() {
        return refused(&"it is not a regular file");
    }
    if is_foreign(opened) {
        return refused(&format_args!("it belongs to another user, {}", opened.uid()));
    }
    if opened.mode() & WRITABLE_BY_ALL != 0 {
        return refused(&"everybody may write to it");
    }
    let named = path.symlink_metadata().map_err(|error| unreadable(path, error))?;
    if !named.is_symlink() && (named.dev(), named.ino()) != (opened.dev(), opened.ino()) {
        return refused(&"it was replaced while it was read");
    }
    if is_foreign(&named) {
        return refused(&format_args!("the link to it belongs to another user, {}", named.uid()));
    }
    Ok(())
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

/// The warning of a file with a password in it that everybody may read.
fn exposed_password(path: &Path, contents: &Contents, metadata: &Metadata) -> Option<Finding> {
    let mut values = contents.profiles.values().flatten();
    if metadata.mode() & READABLE_BY_ALL == 0 || !values.any(|(key, value)| has_secret(key, &value.text)) {
        return None;
    }
    let path = path.display();
    Some(Finding::new(
        Severity::Warning,
        "W_READABLE",
        format!("everybody may read {path}, and there is a password in it"),
        format!("chmod o-r {path}, or move the password into a file of its own: password_file"),
    ))
}

/// True if a password stands in this value. That of a variable does not stand there; a default behind `:-` does.
fn has_secret(key: &str, text: &str) -> bool {
    let text = expand("", text, |_| Ok(Some(String::new()))).unwrap_or_default();
    match key {
        "url" => StoreUrl::parse(&text).is_ok_and(|url| url.has_secret()),
        _ => !is_own(key) && StoreUrl::shown_parameter(key, &text) != text,
    }
}

fn unreadable(path: &Path, error: io::Error) -> Error {
    let is_hidden = |looked: io::Result<Metadata>| {
        looked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    let (problem, fix) = match error.kind() {
        io::ErrorKind::NotFound if may_be_a_url(&path.to_string_lossy()) => {
            // The name is not shown: it may have a password.
            let problem = "invalid configuration file: there is none by this name, which looks like a URL";
            let error = Error::new(ErrorKind::Misconfigured, problem).with_source(error);
            return error.with_help("name a file, or put the URL into LEASEHOLD_URL");
        }
        io::ErrorKind::NotFound => ("it cannot be read", "create it, or name another"),
        _ if is_hidden(path.symlink_metadata()) => (
            "it cannot be told whether it is there: its directory may not be searched",
            "go to another directory, or name a file with LEASEHOLD_CONFIG, /dev/null for none",
        ),
        _ => ("it cannot be read", "fix its permissions, or name another file with LEASEHOLD_CONFIG"),
    };
    wrong(path, problem, fix).with_source(error)
}

fn wrong(path: &Path, problem: impl fmt::Display, fix: &'static str) -> Error {
    let message = format!("invalid configuration file {}: {problem}", path.display());
    Error::new(ErrorKind::Misconfigured, message).with_help(fix)
}
