//! The classes that a server loads, as the virtual machine has them in memory: with them it starts in two thirds of the
//! time. Made once on a machine, from a server that is started for it.

use super::launch::{JARS, ZooKeeperLaunch};
use crate::servers::template::template;
use leasehold_conformance::server::{ServerProcess, StartError, free_port};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const FILE: &str = "classes.jsa";

/// The file of them, for this virtual machine. Where it cannot be made, servers load their classes as ever.
pub(super) fn archive(java: &Path) -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let name =
            format!("zookeeper-classes-{}-{}", changed(java)?, changed_last(Path::new(JARS[0]).parent()?)?);
        template(&name, |home| show(&home.join(FILE)))
            .ok()
            .map(|home| home.join(FILE))
            .filter(|file| file.is_file())
    };
    MADE.get_or_init(make).clone()
}

/// Another version of the virtual machine, or of anything that it reads, is another file: it would refuse this one.
fn changed(file: &Path) -> Option<i64> {
    Some(file.canonicalize().ok()?.metadata().ok()?.mtime())
}

fn changed_last(folder: &Path) -> Option<i64> {
    folder.read_dir().ok()?.filter_map(|entry| changed(&entry.ok()?.path())).max()
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
    use super::super::launch::installed;
    use super::super::{ZooKeeperServer, zookeeper_server_missing};
    use super::*;

    #[test]
    fn a_server_has_the_classes_from_the_file() {
        if zookeeper_server_missing().is_some() || archive(&installed().unwrap()).is_none() {
            return;
        }
        let server = ZooKeeperServer::start().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.process.id().unwrap())).unwrap();
        assert!(maps.contains(FILE), "{maps}");
    }
}
