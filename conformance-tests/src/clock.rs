//! Wall clocks for worker processes that can be stepped while they run. Not the machine's: that is shared.

use crate::case::Stop;
use std::path::PathBuf;
use tempfile::NamedTempFile;

/// The wall clock of a worker process, by a preloaded library (Debian package libfaketime). Its monotonic clocks go on
/// as they are, as they do when an administrator sets a clock.
pub(crate) struct SteppedClock {
    library: PathBuf,
    offset: NamedTempFile,
}

impl SteppedClock {
    /// A clock that is so many seconds ahead.
    pub(crate) fn ahead(seconds: i64) -> Result<Self, Stop> {
        let library = find().ok_or_else(|| crate::runner::missing("libfaketime is not installed"))?;
        let clock = Self { library, offset: NamedTempFile::new()? };
        clock.step_to(seconds)?;
        Ok(clock)
    }

    /// Steps it, also under a process that runs.
    pub(crate) fn step_to(&self, seconds: i64) -> Result<(), Stop> {
        Ok(std::fs::write(self.offset.path(), format!("{seconds:+}s\n"))?)
    }

    /// What a process must be started with.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
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
