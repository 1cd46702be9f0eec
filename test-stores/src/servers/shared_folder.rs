use super::on_path::on_path;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{Launch, ServerProcess, run};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use tempfile::TempDir;

/// A directory, seen a second time by FUSE: as what `sshfs` mounts, and what a virtual machine or a container shares
/// with its host. To the kernel, its files have nothing to do with those of the directory itself.
#[derive(Debug)]
pub struct SharedFolder {
    /// `None` while it ends.
    daemon: Option<ServerProcess>,
    place: TempDir,
}

/// The daemon that shows the files of `directory` at `place`.
struct BindFs {
    directory: PathBuf,
    place: PathBuf,
}

impl Launch for BindFs {
    fn command(&self, _: &Path) -> Command {
        let mut command = Command::new("bindfs");
        // A daemon in the foreground ends with its parent.
        command.arg("-f").arg(&self.directory).arg(&self.place);
        command
    }

    fn is_ready(&self) -> bool {
        is_mounted(&self.place)
    }
}

/// Why no directory can be shared here, or `None` if one can.
pub fn shared_folder_missing() -> Option<String> {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        if on_path("bindfs").is_none() {
            return Some("bindfs is not installed (Debian package bindfs)".to_owned());
        }
        let tried = tempfile::tempdir().map_err(|error| Stop::failed(error.to_string()));
        let shared = tried.and_then(|directory| SharedFolder::of(directory.path()).map(drop));
        shared.err().map(|error| error.to_string())
    });
    MISSING.clone()
}

impl SharedFolder {
    /// Shares this directory, until it is dropped.
    ///
    /// # Errors
    ///
    /// If that cannot be done here: see [`shared_folder_missing`].
    pub fn of(directory: &Path) -> Result<Self, Stop> {
        let place = TempDir::new().map_err(|error| Stop::failed(format!("no place for it: {error}")))?;
        let daemon = BindFs { directory: directory.to_owned(), place: place.path().to_owned() };
        Ok(Self { daemon: Some(ServerProcess::start(daemon)?), place })
    }

    /// Where its files are seen.
    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

/// True if the directory belongs to another file system than its parent.
fn is_mounted(place: &Path) -> bool {
    let file_system = |directory: &Path| directory.metadata().map(|metadata| metadata.dev()).ok();
    let own = file_system(place);
    own.is_some() && own != place.parent().and_then(file_system)
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // The daemon hangs up before it unmounts: the folder is gone when the daemon has ended, and no sooner.
        let _ = self.daemon.take().map(ServerProcess::end);
        if is_mounted(self.path()) {
            let _ = run(Command::new("umount").arg("--lazy").arg(self.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn shared_folder_shows_the_files_and_leaves_nothing_mounted() {
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
