//! The wall clock of a server that bears no libfaketime.

use crate::stop::Stop;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const SOURCE: &str = include_str!("shim.c");
const LIBRARY: &str = "clock.so";
const SOURCE_FILE: &str = "clock.c";
const OFFSET_FILE: &str = "offset";

/// The wall clock of a process, by a preloaded library of our own, made by the C compiler of this machine. Its monotonic
/// clocks go on as they are, but for time in which its host is said to have been asleep.
#[derive(Debug)]
pub struct ShimmedClock {
    folder: TempDir,
    offset: File,
}

impl ShimmedClock {
    /// A clock that is so many seconds ahead.
    ///
    /// # Errors
    ///
    /// If there is no C compiler (Debian packages gcc and libc6-dev), or no temporary folder.
    pub fn ahead(seconds: i64) -> Result<Self, Stop> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join(SOURCE_FILE), SOURCE)?;
        compile(folder.path())?;
        let offset = File::create(folder.path().join(OFFSET_FILE))?;
        let clock = Self { folder, offset };
        clock.hide(Duration::ZERO)?;
        clock.step_to(seconds)?;
        Ok(clock)
    }

    /// Steps it, also under a process that runs.
    ///
    /// # Errors
    ///
    /// If the file that says what time it is cannot be written.
    pub fn step_to(&self, seconds: i64) -> Result<(), Stop> {
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
        vec![("LD_PRELOAD".into(), file(LIBRARY)), ("LEASEHOLD_CLOCK_OFFSET".into(), file(OFFSET_FILE))]
    }
}

fn compile(folder: &Path) -> Result<(), Stop> {
    let mut compiler = Command::new("cc");
    compiler.current_dir(folder).args(["-shared", "-fPIC", "-O1", "-o", LIBRARY, SOURCE_FILE]);
    let output = compiler
        .output()
        .map_err(|_| Stop::missing("there is no C compiler, cc (Debian packages gcc and libc6-dev)"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Stop::Failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
