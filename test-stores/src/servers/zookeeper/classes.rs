//! An archive of the classes that a server loads, as the virtual machine has them in memory: with it, a server starts in two
//! thirds of the time. It is made once on a machine, by a server that is started for it.

use super::launch::{JARS, ZooKeeperLaunch};
use crate::servers::template::template;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{ServerProcess, free_port};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub(super) const FILE: &str = "classes.jsa";

/// The archive for this virtual machine. Where it cannot be made, servers load their classes as ever.
pub(super) fn archive(java: &Path) -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let name =
            format!("zookeeper-classes-{}-{}", modified(java)?, last_modified(Path::new(JARS[0]).parent()?)?);
        template(&name, |home| write_archive(&home.join(FILE)))
            .ok()
            .map(|home| home.join(FILE))
            .filter(|file| file.is_file())
    };
    MADE.get_or_init(make).clone()
}

/// A virtual machine refuses an archive that was written by another version of it, or of the classes: those have an archive of
/// another name.
fn modified(file: &Path) -> Option<i64> {
    Some(file.canonicalize().ok()?.metadata().ok()?.mtime())
}

fn last_modified(folder: &Path) -> Option<i64> {
    folder.read_dir().ok()?.filter_map(|entry| modified(&entry.ok()?.path())).max()
}

/// A virtual machine writes the archive when it ends.
fn write_archive(file: &Path) -> Result<(), Stop> {
    let mut launch = ZooKeeperLaunch::standalone(free_port()?, Vec::new())?;
    launch.classes = Some(format!("-XX:ArchiveClassesAtExit={}", file.display()));
    ServerProcess::start(launch)?.end()?;
    match file.is_file() {
        true => Ok(()),
        false => Err(Stop::failed(format!("{} was not written", file.display()))),
    }
}
