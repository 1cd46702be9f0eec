use super::part::slip_at_ends;
use leasehold_core::{Error, ErrorKind, Result};
use secrecy::{ExposeSecret, SecretString};
use std::env::VarError;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The longest password file. A longer file was named by mistake.
const MAX_BYTES: u64 = 64 * 1024;

/// A password, or the file or the environment variable that has it.
///
/// A backend [reads](Self::read) it for every connection that it opens, so a password that was rotated in the store and in
/// its file is used from the next connection on. `Debug` shows neither the password nor its place.
#[derive(Clone)]
pub struct Secret(Source);

#[derive(Clone)]
enum Source {
    Fixed(SecretString),
    File(Arc<Path>),
    Variable(Arc<str>),
}

impl Secret {
    /// The password in this file: one line of UTF-8, without its line end.
    ///
    /// The file is read at once, to find mistakes early, and again by every [`read`](Self::read). The password of a pipe, or
    /// another file that can be read only once, is kept.
    ///
    /// [`Misconfigured`](ErrorKind::Misconfigured) if the file has no password now. A relative path is not shown: it may
    /// be the password itself, written in the wrong place.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if let Some(slip) = slip_at_ends("its path", &path.to_string_lossy()) {
            return Err(unusable(path, slip, "remove it"));
        }
        let is_regular = path.metadata().is_ok_and(|found| found.is_file());
        let password = read_file(path).map_err(|error| error.with_kind(ErrorKind::Misconfigured))?;
        if !is_regular {
            return Ok(Self(Source::Fixed(password)));
        }
        // The working directory may be another one when the next connection is opened.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self(Source::File(path.into())))
    }

    /// The value of this environment variable of the process.
    pub fn variable(name: impl Into<String>) -> Self {
        Self(Source::Variable(name.into().into()))
    }

    /// The password as it is now. Blocks for as long as it takes to read a small file.
    ///
    /// # Errors
    ///
    /// Each names the file or the variable. [`Unavailable`](ErrorKind::Unavailable) if the file is missing, empty or
    /// unreadable, because it may be replaced at this moment; [`Denied`](ErrorKind::Denied) if this process may not read it;
    /// [`Misconfigured`](ErrorKind::Misconfigured) for other contents, and for a variable that is not set.
    pub fn read(&self) -> Result<SecretString> {
        match &self.0 {
            Source::Fixed(password) => Ok(password.clone()),
            Source::File(path) => match path.metadata() {
                // To open a pipe is to wait for its writer.
                Ok(found) if !found.is_file() => {
                    Err(unusable(path, "it is not a regular file", "name the file of the password"))
                }
                _ => read_file(path),
            },
            Source::Variable(name) => {
                let problem = match std::env::var(&**name) {
                    Ok(value) if !value.is_empty() => return Ok(value.into()),
                    Ok(_) => "is empty",
                    Err(VarError::NotPresent) => "is not set",
                    Err(VarError::NotUnicode(_)) => "is not UTF-8",
                };
                let message = format!("the environment variable {name}, which has the password, {problem}");
                Err(Error::new(ErrorKind::Misconfigured, message).with_help("set it to the password"))
            }
        }
    }
}

/// A password in any form of text.
impl<P: Into<SecretString>> From<P> for Secret {
    fn from(password: P) -> Self {
        Self(Source::Fixed(password.into()))
    }
}

/// Equal if both are the same password, the same file or the same variable.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Fixed(one), Source::Fixed(other)) => one.expose_secret() == other.expose_secret(),
            (Source::File(one), Source::File(other)) => one == other,
            (Source::Variable(one), Source::Variable(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Fixed(_) => "Secret(fixed)",
            Source::File(_) => "Secret(file)",
            Source::Variable(_) => "Secret(variable)",
        })
    }
}

fn read_file(path: &Path) -> Result<SecretString> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| {
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        unusable(path, "it cannot be read", "fix its path or its permissions")
            .with_kind(if is_denied { ErrorKind::Denied } else { ErrorKind::Unavailable })
            .with_source(error)
    })?;
    if text.len() as u64 > MAX_BYTES {
        let problem = format_args!("it is longer than {MAX_BYTES} bytes");
        return Err(unusable(path, problem, "name the file of the password"));
    }
    let text = String::from_utf8(text)
        .map_err(|_| unusable(path, "it is not UTF-8", "write the password as UTF-8"))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        let empty = unusable(path, "it is empty", "write the password into it");
        return Err(empty.with_kind(ErrorKind::Unavailable));
    }
    if password.contains('\n') {
        return Err(unusable(path, "it has several lines", "leave only the password in it"));
    }
    Ok(password.into())
}

fn unusable(path: &Path, problem: impl fmt::Display, fix: &'static str) -> Error {
    let shown = if path.is_absolute() { format!(" {path:?}") } else { String::new() };
    Error::new(ErrorKind::Misconfigured, format!("invalid password_file{shown}: {problem}")).with_help(fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A file in a directory of its own, which is deleted with it.
    struct PasswordFile(PathBuf);

    impl std::ops::Deref for PasswordFile {
        type Target = Path;

        fn deref(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for PasswordFile {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(self.parent().unwrap());
        }
    }

    fn password_file(name: &str, text: &str) -> PasswordFile {
        let directory = std::env::temp_dir().join(format!("leasehold-secret-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("password");
        fs::write(&path, text).unwrap();
        PasswordFile(path)
    }

    fn read(secret: &Secret) -> String {
        secret.read().unwrap().expose_secret().to_owned()
    }

    #[test]
    fn file_is_read_again_without_its_line_end() {
        let path = password_file("rotated", "one\n");
        let secret = Secret::file(&*path).unwrap();
        for (text, password) in [("two", "two"), ("two\n", "two"), ("two\r\n", "two"), (" t o ", " t o ")] {
            fs::write(&*path, text).unwrap();
            assert_eq!(read(&secret), password, "{text:?}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(file)");
    }

    #[test]
    fn file_without_a_password_now_is_an_error_that_names_it() {
        let path = password_file("unusable", "one");
        let secret = Secret::file(&*path).unwrap();
        let said = |kind, problem: &str| {
            let error = secret.read().unwrap_err();
            let expected = format!("invalid password_file {:?}: {problem}", &*path);
            assert_eq!((error.kind(), error.to_string()), (kind, expected));
        };
        fs::write(&*path, "one\ntwo").unwrap();
        said(ErrorKind::Misconfigured, "it has several lines");
        fs::write(&*path, [0xff]).unwrap();
        said(ErrorKind::Misconfigured, "it is not UTF-8");
        // Between these two states, a file that is replaced may be seen.
        fs::write(&*path, "\n").unwrap();
        said(ErrorKind::Unavailable, "it is empty");
        fs::remove_file(&*path).unwrap();
        said(ErrorKind::Unavailable, "it cannot be read");
        fs::create_dir(&*path).unwrap();
        said(ErrorKind::Misconfigured, "it is not a regular file");
    }

    #[test]
    fn file_with_a_mistake_is_misconfigured_at_once() {
        let path = password_file("mistake", "");
        assert_eq!(Secret::file(&*path).unwrap_err().kind(), ErrorKind::Misconfigured);
        let error = Secret::file("S3CR3T-CANARY").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert_eq!(error.to_string(), "invalid password_file: it cannot be read");
    }

    #[test]
    fn path_with_white_space_around_it_is_refused() {
        let said = |path: &str| Secret::file(path).unwrap_err().to_string();
        assert_eq!(
            said("/run/pw\n"),
            "invalid password_file \"/run/pw\\n\": there is white space around its path"
        );
        assert_eq!(said("S3CR3T "), "invalid password_file: there is white space around its path");
        assert_eq!(said("/run/pw'"), "invalid password_file \"/run/pw'\": its path ends with '\\''");
    }

    #[test]
    fn variable_is_looked_up_at_every_read() {
        assert_eq!(read(&Secret::variable("PATH")), std::env::var("PATH").unwrap());
        let error = Secret::variable("LEASEHOLD_NO_SUCH_VARIABLE").read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert_eq!(
            error.to_string(),
            "the environment variable LEASEHOLD_NO_SUCH_VARIABLE, which has the password, is not set"
        );
    }

    #[test]
    fn secrets_are_equal_by_password_or_by_place() {
        let path = password_file("equal", "one");
        let (fixed, file) = (Secret::from("one"), Secret::file(&*path).unwrap());
        assert_eq!(fixed, Secret::from("one".to_owned()));
        assert_eq!(file, Secret::file(&*path).unwrap());
        assert_ne!(fixed, Secret::from("two"));
        assert_ne!(fixed, file);
        assert_ne!(Secret::variable("A"), Secret::variable("B"));
    }
}
