use super::StartError;
use std::path::Path;
use std::process::Command;

/// How to start a server in a data directory, and how to tell that it is ready.
pub trait Launch: Send + Sync + 'static {
    /// The command line.
    fn command(&self, data: &Path) -> Command;

    /// True if it answers.
    fn is_ready(&self) -> bool;

    /// Fills an empty data directory, if the server does not do so itself.
    ///
    /// # Errors
    ///
    /// What went wrong.
    fn prepare(&self, data: &Path) -> Result<(), StartError> {
        let _ = data;
        Ok(())
    }

    /// From the next start on, it acknowledges nothing that is not on its disk. By default it is such a server anyway.
    fn sync_each_write(&mut self) {}

    /// Removes what a server that was killed leaves in the system outside of its data directory, when it is not to come
    /// back.
    fn bury(&self, data: &Path) {
        let _ = data;
    }
}
