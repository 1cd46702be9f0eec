//! Finding the command before the lock is acquired: others should not be kept out for one that cannot run.

use crate::watchdog::Program;
use leasehold::{Error, ErrorKind, HolderInfo};
use leasehold_console::Failure;
use leasehold_console::exit::Code;
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where a shell looks if there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Finds a command as a shell does: a name with a slash is a path, any other is looked for in `PATH`.
pub(super) fn find(words: Vec<OsString>) -> Result<Program, Failure> {
    let name = words.first().cloned().unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let file = locate(&name, &path).map_err(|problem| problem.into_failure(&name))?;
    let arguments = words.into_iter().skip(1).collect();
    Ok(Program { file, name, arguments })
}

/// What others are told of it: the program and its first word, unless that may be a secret.
pub(super) fn description(words: &[OsString]) -> String {
    /// Of each word, in characters.
    const LONGEST: usize = 60;
    /// Of each word, in bytes as they are stored: what is not ASCII takes up to twelve for each character.
    const MOST: usize = 280;
    let text = |word: &OsStr| {
        let mut text = word.to_string_lossy().chars().take(LONGEST).collect::<String>();
        while HolderInfo::default().with_doing(&*text).to_json().len() > MOST {
            text.pop();
        }
        text
    };
    let name = words.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let first = words.get(1).map(|word| text(word));
    // Passwords stand behind options, in assignments and in URLs.
    let told =
        first.filter(|word| !word.starts_with('-') && !word.contains(['=', '@']) && !word.contains("://"));
    let rest = if words.len() > 1 + usize::from(told.is_some()) { " …" } else { "" };
    format!("{}{}{rest}", text(name), told.map(|word| format!(" {word}")).unwrap_or_default())
}

#[derive(Debug, PartialEq, Eq)]
enum Problem {
    NotFound,
    CannotExecute(&'static str),
}

fn locate(name: &OsStr, path: &OsStr) -> Result<OsString, Problem> {
    if name.as_bytes().contains(&b'/') {
        return check(Path::new(name)).map(|()| name.to_owned());
    }
    let mut problem = Problem::NotFound;
    for directory in std::env::split_paths(path) {
        // An empty entry is the working directory.
        let file = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory }.join(name);
        match check(&file) {
            Ok(()) => return Ok(file.into_os_string()),
            // A file that may not be executed is reported if no other file is found.
            Err(found @ Problem::CannotExecute(_)) if problem == Problem::NotFound => problem = found,
            Err(_) => {}
        }
    }
    Err(problem)
}

fn check(file: &Path) -> Result<(), Problem> {
    let metadata = std::fs::metadata(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Problem::NotFound,
        _ => Problem::CannotExecute("it cannot be reached"),
    })?;
    if metadata.is_dir() {
        return Err(Problem::CannotExecute("it is a directory"));
    }
    access(file, Access::EXEC_OK).map_err(|_| Problem::CannotExecute("it is not executable"))
}

impl Problem {
    fn into_failure(self, name: &OsStr) -> Failure {
        let (problem, fix, code) = match self {
            Self::NotFound if name.as_bytes().contains(&b' ') => {
                let fix = "it has a blank in it: a line of shell stands behind -c: leasehold run NAME -c 'COMMAND …'";
                ("it was not found", fix, Code::NOT_FOUND)
            }
            Self::NotFound => ("it was not found", "check its spelling, and PATH", Code::NOT_FOUND),
            Self::CannotExecute(problem) => (problem, "name a program", Code::CANNOT_EXECUTE),
        };
        let message = format!("cannot execute {name:?}: {problem}");
        Failure::new(Error::new(ErrorKind::Invalid, message).with_help(fix)).with_code("E_COMMAND", code)
    }
}

/// The kernel refused what had looked well: a script whose interpreter is missing, a binary of another machine.
pub(super) fn not_started(name: &OsStr, errno: i32) -> Failure {
    let error = std::io::Error::from_raw_os_error(errno);
    // There was no process to execute it in, whatever it is.
    if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::NOMEM)) {
        return Failure::internal("cannot start a process for the command", error);
    }
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => Code::NOT_FOUND,
        _ => Code::CANNOT_EXECUTE,
    };
    let message = format!("cannot execute {name:?}: {error}");
    let help = match Errno::from_io_error(&error) {
        Some(Errno::TOOBIG) => {
            "its arguments and its environment are larger than the system allows (getconf ARG_MAX): shorten them"
        }
        _ => "if it is a script, look at the interpreter in its first line",
    };
    Failure::new(Error::new(ErrorKind::Invalid, message).with_help(help)).with_code("E_COMMAND", code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::AcquireOptions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn command_is_found_as_a_shell_finds_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("a/tool")).unwrap();
        std::fs::create_dir_all(at("b")).unwrap();
        std::fs::write(at("a/plain"), "").unwrap();
        std::fs::write(at("b/tool"), "").unwrap();
        std::fs::set_permissions(at("b/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([at("a"), at("nowhere"), at("b")]).unwrap();
        let find = |name: &str| locate(OsStr::new(name), &path);

        assert_eq!(find("tool"), Ok(at("b/tool").into_os_string()));
        assert_eq!(find("plain"), Err(Problem::CannotExecute("it is not executable")));
        assert_eq!(find("missing"), Err(Problem::NotFound));
        assert_eq!(find("./missing"), Err(Problem::NotFound));
        assert_eq!(find(at("b/tool/x").to_str().unwrap()), Err(Problem::NotFound));
        assert_eq!(find(at("a").to_str().unwrap()), Err(Problem::CannotExecute("it is a directory")));
    }

    #[test]
    fn lack_of_process_room_is_an_internal_error() {
        let code = |errno: Errno| not_started(OsStr::new("x"), errno.raw_os_error()).code();
        for errno in [Errno::AGAIN, Errno::NOMEM] {
            assert_eq!(code(errno), Code::INTERNAL, "{errno}");
        }
        assert_eq!(code(Errno::NOEXEC), Code::CANNOT_EXECUTE);
        assert_eq!(code(Errno::NOENT), Code::NOT_FOUND);
    }

    #[test]
    fn secret_in_a_command_is_left_out_of_its_description() {
        let told = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            description(&words)
        };
        assert_eq!(told("/usr/bin/sleep 30"), "sleep 30");
        assert_eq!(told("python3 job.py --all"), "python3 job.py …");
        assert_eq!(told("mysql -pS3CR3T"), "mysql …");
        assert_eq!(told("env PASSWORD=S3CR3T x"), "env …");
        assert_eq!(told("psql postgres://u:S3CR3T@h/"), "psql …");
        assert_eq!(told("true"), "true");
        assert_eq!(told(&format!("echo {}", "x".repeat(99))).len(), 65);
    }

    #[test]
    fn command_of_long_words_in_any_language_fits_the_holder_record() {
        for letter in ["é", "日", "🔒", "\u{1}"] {
            let told = description(&[letter.repeat(99), letter.repeat(99), "x".into()].map(OsString::from));
            assert!(told.ends_with(&format!("{letter} …")));
            let options = AcquireOptions::new().with_holder(&HolderInfo::this_process().with_doing(&told));
            assert!(options.check().is_ok(), "{told}");
        }
    }
}
