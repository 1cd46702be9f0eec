//! Clocks for processes that can be stepped while they run. Not the machine's: that is shared.

use crate::stop::Stop;
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const SOURCE: &str = include_str!("clock.c");
const LIBRARY: &str = "clock.so";
const SOURCE_FILE: &str = "clock.c";
const OFFSET_FILE: &str = "offset";
const PRELOAD: &str = "LD_PRELOAD";

/// The wall clock of a process, by a preloaded library that the C compiler of this machine makes. Its monotonic clocks go on
/// as they are, as they do when an administrator sets a clock, but for time in which its host is said to have been asleep.
#[derive(Debug)]
pub struct ProcessClock {
    folder: TempDir,
    offset: File,
}

impl ProcessClock {
    /// A clock that is so many seconds ahead.
    ///
    /// # Errors
    ///
    /// If there is no C compiler (Debian packages gcc and libc6-dev), or no temporary folder.
    pub fn ahead(seconds: i64) -> Result<Self, Stop> {
        // A server that runs as another user reads it as well.
        let readable = || Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new().permissions(readable()).tempdir()?;
        std::fs::write(folder.path().join(SOURCE_FILE), SOURCE)?;
        let mut compiler = Command::new("cc");
        compiler.current_dir(folder.path()).args(["-shared", "-fPIC", "-O1", "-o", LIBRARY, SOURCE_FILE]);
        let output = compiler
            .output()
            .map_err(|_| Stop::missing("there is no C compiler, cc (Debian packages gcc and libc6-dev)"))?;
        if !output.status.success() {
            return Err(Stop::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let clock = Self { offset: File::create(folder.path().join(OFFSET_FILE))?, folder };
        for file in [LIBRARY, OFFSET_FILE] {
            std::fs::set_permissions(clock.folder.path().join(file), readable())?;
        }
        clock.hide(Duration::ZERO)?;
        clock.set_ahead(seconds)?;
        Ok(clock)
    }

    /// Steps it, also under a process that runs.
    ///
    /// # Errors
    ///
    /// If the file that says what time it is cannot be written.
    pub fn set_ahead(&self, seconds: i64) -> Result<(), Stop> {
        // In place: the process has the file mapped into its memory.
        Ok(self.offset.write_all_at(&seconds.to_ne_bytes(), 0)?)
    }

    /// Hides from its monotonic clock that this much time has passed: it was asleep, and so was its host. For a process that
    /// is stopped, or it would see the clock go back.
    ///
    /// # Errors
    ///
    /// If the file that says what time it is cannot be written.
    pub fn hide(&self, asleep: Duration) -> Result<(), Stop> {
        let nanos = i64::try_from(asleep.as_nanos()).unwrap_or(i64::MAX);
        Ok(self.offset.write_all_at(&nanos.to_ne_bytes(), 8)?)
    }

    /// What a process must be started with.
    pub fn environment(&self) -> Vec<(String, String)> {
        let file = |name| self.folder.path().join(name).to_string_lossy().into_owned();
        vec![(PRELOAD.into(), file(LIBRARY)), ("LEASEHOLD_CLOCK_OFFSET".into(), file(OFFSET_FILE))]
    }
}

/// The library of the clock that a process is to run by, if it has one of its own.
pub(crate) fn clock_of(command: &Command) -> Option<String> {
    let given = command.get_envs().find(|(key, _)| *key == PRELOAD)?.1?;
    Some(given.to_string_lossy().into_owned())
}

/// Fails unless a process runs by its clock: one that is linked statically, or for another kind of processor than the
/// library, takes no notice, and nothing else would show that its clock never moved.
pub(crate) fn ensure_runs_by(library: Option<String>, pid: u32) -> Result<(), String> {
    let Some(library) = library else { return Ok(()) };
    let maps = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        // The maps of another user's process may be unreadable, in a container even for root.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(format!("cannot see whether process {pid} runs by its clock: {error}")),
    };
    match maps.contains(&library) {
        true => Ok(()),
        false => Err(format!("process {pid} took no notice of its clock, {library}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::Stdio;
    use std::time::Instant;

    #[test]
    fn process_that_takes_no_notice_of_its_clock_is_found() {
        let clock = ProcessClock::ahead(60).unwrap();
        let by = |library: &str| {
            let mut command = Command::new("cat");
            command.env(PRELOAD, library);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            // It answers when it has been loaded.
            process.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            let taken = ensure_runs_by(clock_of(&command), process.id());
            process.kill().unwrap();
            process.wait().unwrap();
            taken
        };
        by(&clock.environment()[0].1).unwrap();
        let none = clock.folder.path().join(SOURCE_FILE);
        assert!(by(none.to_str().unwrap()).unwrap_err().contains("took no notice of its clock"));
    }

    /// Prints the wall clock, and how long a wait of 100 ms on a condition took by the monotonic clock, in ms.
    const WAITS: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <time.h>
        int main(void) {
            pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
            pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
            struct timespec start, end, until;
            clock_gettime(CLOCK_REALTIME, &until);
            long shown = until.tv_sec;
            until.tv_nsec += 100000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            clock_gettime(CLOCK_MONOTONIC, &start);
            pthread_mutex_lock(&mutex);
            while (pthread_cond_timedwait(&condition, &mutex, &until) == 0) {}
            clock_gettime(CLOCK_MONOTONIC, &end);
            printf("%ld %ld\n", shown, (end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000);
        }"#;

    #[test]
    fn wait_until_a_moment_of_a_stepped_clock_takes_as_long_as_it_says() {
        for ahead in [-3600, 0, 3600] {
            let clock = ProcessClock::ahead(ahead).unwrap();
            let (source, program) = (clock.folder.path().join("waits.c"), clock.folder.path().join("waits"));
            std::fs::write(&source, WAITS).unwrap();
            assert!(Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap().success());
            let start = Instant::now();
            let output = Command::new(&program).envs(clock.environment()).output().unwrap();
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let words = String::from_utf8(output.stdout).unwrap();
            let (shown, took) = words.trim().split_once(' ').unwrap();
            let shown: i64 = shown.parse().unwrap();
            assert!(shown.abs_diff(now.as_secs().cast_signed() + ahead) < 60, "{shown}");
            let (took, at_most): (u128, _) = (took.parse().unwrap(), start.elapsed().as_millis());
            assert!((99..=at_most).contains(&took), "{took} ms");
        }
    }
}
