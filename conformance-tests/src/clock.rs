//! Wall clocks for processes that can be stepped while they run. Not the machine's: that is shared.

mod shim;

pub use shim::ShimmedClock;

use crate::case::Stop;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::NamedTempFile;

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
        let library = find().ok_or_else(|| crate::runner::missing("libfaketime is not installed"))?;
        let offset = NamedTempFile::new()?;
        // A server that runs as another user reads it as well.
        std::fs::set_permissions(offset.path(), std::fs::Permissions::from_mode(0o644))?;
        let clock = Self { library, offset };
        clock.step_to(seconds)?;
        Ok(clock)
    }

    /// Steps it, also under a process that runs.
    ///
    /// # Errors
    ///
    /// If the file that says what time it is cannot be written.
    pub fn step_to(&self, seconds: i64) -> Result<(), Stop> {
        Ok(std::fs::write(self.offset.path(), format!("{seconds:+}s\n"))?)
    }

    /// What a process must be started with.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = [
            ("LD_PRELOAD", self.library.to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset.path().to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

fn find() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?.flatten();
    directories
        .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
}
