//! The classes that a server loads, as the virtual machine has them in memory: with them it starts in two thirds of the time.
//! Made once on a machine, from a server that is started for it.

use super::launch::{JARS, ZooKeeperLaunch};
use crate::servers::template::template;
use crate::servers::{ServerProcess, StartError, free_port};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const FILE: &str = "classes.jsa";

/// The file of them, for this virtual machine. Where it cannot be made, servers load their classes as ever.
pub(super) fn archive(java: &Path) -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        // Another version of either is another file.
        let age = |path: &Path| path.canonicalize().and_then(std::fs::metadata).map(|data| data.mtime()).ok();
        let name = format!("zookeeper-classes-{}-{}", age(java)?, age(Path::new(JARS[0]))?);
        template(&name, |home| show(&home.join(FILE))).ok().map(|home| home.join(FILE))
    };
    MADE.get_or_init(make).clone()
}

/// A virtual machine writes them down when it ends.
fn show(file: &Path) -> Result<(), StartError> {
    let port = free_port()?;
    let launch = ZooKeeperLaunch::that_shows_its_classes(file, port)?;
    ServerProcess::start(launch)?.end()?;
    match file.is_file() {
        true => Ok(()),
        false => Err(StartError::new(format!("{} was not written", file.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ZooKeeperServer, zookeeper_server_missing};
    use super::*;

    #[test]
    fn a_server_has_the_classes_from_the_file() {
        if zookeeper_server_missing().is_some() {
            return;
        }
        let server = ZooKeeperServer::start().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.process.id().unwrap())).unwrap();
        assert!(maps.contains(FILE), "{maps}");
    }
}
