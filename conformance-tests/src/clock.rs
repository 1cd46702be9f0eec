//! Wall clocks for processes that can be stepped while they run. Not the machine's: that is shared.

mod shim;

pub use shim::ShimmedClock;

use crate::stop::Stop;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::NamedTempFile;

/// Where the library keeps something of each process, by names that begin like these and end with its number.
const SHARED: &str = "/dev/shm";
const KEPT: [&str; 2] = ["faketime_shm_", "sem.faketime_sem_"];
const PRELOAD: &str = "LD_PRELOAD";

/// The wall clock of a process, by a preloaded library (Debian package libfaketime). Its monotonic clocks go on
/// as they are, as they do when an administrator sets a clock.
#[derive(Debug)]
pub struct SteppedClock {
    library: PathBuf,
    offset: NamedTempFile,
}

impl SteppedClock {
    /// A clock that is so many seconds ahead.
    ///
    /// # Errors
    ///
    /// If the library is not there.
    pub fn ahead(seconds: i64) -> Result<Self, Stop> {
        let library = find()
            .ok_or_else(|| Stop::missing("libfaketime is not installed (Debian package libfaketime)"))?;
        forget_the_dead();
        let clock = Self { library, offset: NamedTempFile::new()? };
        clock.step_to(seconds)?;
        Ok(clock)
    }

    /// Steps it, also under a process that runs.
    ///
    /// # Errors
    ///
    /// If the file that says what time it is cannot be written.
    pub fn step_to(&self, seconds: i64) -> Result<(), Stop> {
        let (path, next) = (self.offset.path(), self.offset.path().with_extension("next"));
        std::fs::write(&next, format!("{seconds:+}s\n"))?;
        // A server that runs as another user reads it as well.
        std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o644))?;
        // In one step: the library reads the file at each look at the clock, and ends the process if there is nothing in it.
        Ok(std::fs::rename(next, path)?)
    }

    /// What a process must be started with.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            (PRELOAD, self.library.to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.path().to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

impl Drop for SteppedClock {
    fn drop(&mut self) {
        forget_the_dead();
    }
}

/// Finds out whether a process that was to run by a clock of its own does: one that is linked statically, or for
/// another kind of processor than the library, takes no notice, and nothing else would show that its clock never moved.
///
/// # Errors
///
/// If it does not.
pub(crate) fn is_taken(command: &Command, pid: u32) -> Result<(), String> {
    let Some(library) = preloaded(command) else { return Ok(()) };
    let maps = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        // The maps of another user's process may be unreadable, in a container even for root.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(format!("cannot see whether process {pid} runs by its clock: {error}")),
    };
    match maps.contains(&*library) {
        true => Ok(()),
        false => Err(format!("process {pid} took no notice of its clock, {library}")),
    }
}

/// What is given to it, or to a program that executes it.
fn preloaded(command: &Command) -> Option<Cow<'_, str>> {
    let given = command.get_envs().find(|(key, _)| *key == PRELOAD).and_then(|(_, value)| value);
    let handed_on =
        || command.get_args().find_map(|word| word.to_str()?.strip_prefix(PRELOAD)?.strip_prefix('='));
    given.map(OsStr::to_string_lossy).or_else(|| handed_on().map(Cow::from))
}

/// Removes what the library keeps in shared memory of each process; of one that was killed, it keeps it for ever.
fn forget_the_dead() {
    for entry in std::fs::read_dir(SHARED).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = KEPT.iter().find_map(|kept| name.to_str()?.strip_prefix(kept));
        if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn find() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?.flatten();
    directories
        .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// `None` if its library is missing, and somebody has said to do without.
    fn clock() -> Option<SteppedClock> {
        match SteppedClock::ahead(60) {
            Ok(clock) => Some(clock),
            Err(Stop::Skipped(why)) => {
                eprintln!("{why}");
                None
            }
            Err(stop) => panic!("{stop:?}"),
        }
    }

    #[test]
    fn process_that_takes_no_notice_of_its_clock_is_found() {
        let Some(clock) = clock() else { return };
        let by = |clock: &SteppedClock| {
            let mut command = Command::new("env");
            command.args(clock.environment().iter().map(|(key, value)| format!("{key}={value}")));
            command.arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            // It answers when it has been loaded.
            std::io::Write::write_all(process.stdin.as_mut().unwrap(), b"x").unwrap();
            std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            let taken = is_taken(&command, process.id());
            process.kill().unwrap();
            process.wait().unwrap();
            taken
        };
        by(&clock).unwrap();
        let (not_one, mut clock) = (NamedTempFile::new().unwrap(), clock);
        clock.library = not_one.path().to_path_buf();
        assert!(by(&clock).unwrap_err().contains("took no notice of its clock"));
    }

    #[test]
    fn offset_file_opened_before_a_step_keeps_its_content() {
        let Some(clock) = clock() else { return };
        let mut opened = std::fs::File::open(clock.offset.path()).unwrap();
        clock.step_to(-60).unwrap();
        assert_eq!(std::io::read_to_string(&mut opened).unwrap(), "+60s\n");
        assert_eq!(std::fs::read_to_string(clock.offset.path()).unwrap(), "-60s\n");
    }

    #[test]
    fn killed_process_leaves_nothing_in_shared_memory() {
        let Some(clock) = clock() else { return };
        let mut process = Command::new("cat")
            .envs(clock.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = process.id();
        let kept = || KEPT.map(|kept| Path::new(SHARED).join(format!("{kept}{pid}")).exists());
        for _ in 0..1000 {
            if kept() == [true, true] {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(kept(), [true, true]);
        process.kill().unwrap();
        process.wait().unwrap();
        drop(clock);
        assert_eq!(kept(), [false, false]);
    }
}
