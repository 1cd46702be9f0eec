use super::disk::tool;
use super::processes::end_of;
use super::template::run;
use super::{StartError, on_path, spawn_lasting};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Limit for a mount to come and to go.
const WITHIN: Duration = Duration::from_secs(30);

/// A directory, seen a second time by FUSE: as what `sshfs` mounts, and what a virtual machine or a container shares
/// with its host. To the kernel, and to whoever asks it, its files have nothing to do with those of the directory
/// itself.
#[derive(Debug)]
pub struct SharedFolder {
    daemon: Child,
    place: TempDir,
}

/// Why no directory can be shared here, or `None` if one can.
pub fn shared_folder_missing() -> Option<String> {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        if on_path("bindfs").is_none() {
            return Some("bindfs is not installed (Debian package bindfs)".to_owned());
        }
        let tried = tempfile::tempdir().map_err(|error| StartError::new(error.to_string()));
        let shared = tried.and_then(|directory| SharedFolder::of(directory.path()).map(drop));
        shared.err().map(|error| error.message)
    });
    MISSING.clone()
}

impl SharedFolder {
    /// Shares this directory, until it is dropped.
    ///
    /// # Errors
    ///
    /// If that cannot be done here: see [`shared_folder_missing`].
    pub fn of(directory: &Path) -> Result<Self, StartError> {
        let place = TempDir::new().map_err(|error| StartError::new(format!("no place for it: {error}")))?;
        let mut command = Command::new("bindfs");
        // In the foreground: it ends with its parent.
        command.arg("-f").arg(directory).arg(place.path());
        let daemon = spawn_lasting(&command, |command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })?;
        let folder = Self { daemon, place };
        folder.wait_until_mounted()?;
        Ok(folder)
    }

    /// Where its files are seen.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    fn wait_until_mounted(&self) -> Result<(), StartError> {
        let start = Instant::now();
        while file_system(self.path()).is_none_or(|own| Some(own) == file_system_around(self.path())) {
            if let Some(ended) = end_of(&self.daemon) {
                return Err(StartError::new(format!("bindfs ended with {ended}: no FUSE here?")));
            }
            if start.elapsed() > WITHIN {
                return Err(StartError::new("bindfs mounts nothing"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn file_system(of: &Path) -> Option<u64> {
    of.metadata().map(|of| of.dev()).ok()
}

fn file_system_around(place: &Path) -> Option<u64> {
    place.parent().and_then(file_system)
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        if let Some(daemon) = i32::try_from(self.daemon.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(daemon, Signal::TERM);
        }
        // It first hangs up, and then unmounts: the folder is gone when the daemon is, and no sooner.
        let start = Instant::now();
        while end_of(&self.daemon).is_none() && start.elapsed() < WITHIN {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if file_system(self.path()) != file_system_around(self.path()) {
            let _ = run(tool("umount").arg("--lazy").arg(self.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_shows_the_files_of_the_directory_and_leaves_nothing_mounted() {
        if let Some(why) = shared_folder_missing() {
            eprintln!("not run: {why}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let shared = SharedFolder::of(directory.path()).unwrap();
        let place = shared.path().to_owned();
        fs::write(place.join("file"), "f").unwrap();
        assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"f");
        drop(shared);
        assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(place.to_str().unwrap()));
    }
}
