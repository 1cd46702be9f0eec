use super::processes::holds_within;
use super::run;
use crate::stop::Stop;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

/// How large it says that it is. The file behind it has what was written.
const SIZE: &str = "1G";

/// Limit for a file system to become free after the processes that used it have ended.
const FREE_WITHIN: Duration = Duration::from_secs(30);

/// `EXT4_IOC_SHUTDOWN`, and that what is in memory is not to be written first (`fs/ext4/ext4.h`).
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);
const NOTHING_MORE: u32 = 2;

/// A disk that can be full, and lose its power: what was synced to it is there afterwards, what the kernel alone had is not.
///
/// It is a file with a file system of its own, mounted over a directory, which takes root; the file is in memory where
/// there is a place for such.
#[derive(Debug)]
pub struct Disk {
    image: TempDir,
    place: PathBuf,
}

/// Why there can be no disk here that loses its power, or `None` if there can.
pub fn disk_missing() -> Option<String> {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        let try_one = || Disk::under(tempfile::tempdir()?.path()).map(drop);
        try_one().err().map(|error: Stop| error.to_string())
    });
    MISSING.clone()
}

impl Disk {
    /// Mounts a disk over this directory, with all that is in it. No process may have a file in there open. The disk is
    /// removed when this is dropped, with all that is on it.
    ///
    /// # Errors
    ///
    /// If nothing can be mounted here: see [`disk_missing`].
    pub fn under(place: &Path) -> Result<Self, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::failed("only root can mount a disk that loses its power"));
        }
        let memory = Path::new("/dev/shm");
        let image = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }?;
        // What it takes from the directory keeps its owners; the directory itself is not part of that.
        run(tool("mkfs.ext4").args(["-q", "-m", "0", "-d"]).arg(place).arg(file(&image)).arg(SIZE))?;
        let directory = std::fs::metadata(place)?;
        mount(&image, place)?;
        let disk = Self { image, place: place.to_owned() };
        std::fs::set_permissions(place, directory.permissions())?;
        Ok(disk)
    }

    /// From this moment on nothing reaches it.
    ///
    /// # Errors
    ///
    /// If the kernel does not let this process do it.
    #[allow(unsafe_code, reason = "an ioctl that rustix has no function for")]
    pub fn lose_power(&self) -> Result<(), Stop> {
        let directory = File::open(&self.place)?;
        // SAFETY: the kernel reads one `u32` through the pointer, which is what `Setter` passes for this opcode.
        let shut_down = unsafe { ioctl(&directory, Setter::<SHUTDOWN, u32>::new(NOTHING_MORE)) };
        shut_down.map_err(|error| Stop::failed(format!("the disk does not lose its power: {error}")))
    }

    /// Turns the power on again. Every process that had a file in there open must have ended.
    ///
    /// # Errors
    ///
    /// If a process has not, or what is on the disk cannot be read.
    pub fn start_again(&self) -> Result<(), Stop> {
        self.unmount()?;
        mount(&self.image, &self.place)
    }

    /// Takes all the room that it has; what is in its files already can be written over.
    ///
    /// # Errors
    ///
    /// If it cannot be written for another reason.
    pub fn fill(&self) -> Result<(), Stop> {
        let mut filler = File::create(self.filler())?;
        let room = statvfs(&self.place).map_err(io::Error::from)?;
        // The large part without writing it: the file behind the disk may be in memory.
        match fallocate(&filler, FallocateFlags::empty(), 0, room.f_bavail * room.f_frsize) {
            Ok(()) | Err(Errno::NOSPC) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        filler.seek(SeekFrom::End(0))?;
        loop {
            match filler.write_all(&[0; 4096]) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    /// Gives back what [`fill`](Self::fill) has taken.
    ///
    /// # Errors
    ///
    /// If that is nothing.
    pub fn make_room(&self) -> Result<(), Stop> {
        Ok(std::fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }

    fn unmount(&self) -> Result<(), Stop> {
        let mut done = Ok(());
        holds_within(FREE_WITHIN, || {
            done = run(tool("umount").arg(&self.place)).map(drop);
            done.is_ok()
        });
        done
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = run(tool("umount").arg("--lazy").arg(&self.place));
        }
    }
}

fn file(image: &TempDir) -> PathBuf {
    image.path().join("disk")
}

fn mount(image: &TempDir, place: &Path) -> Result<(), Stop> {
    run(tool("mount").args(["-t", "ext4", "-o", "loop"]).arg(file(image)).arg(place)).map(drop)
}

/// These are for root, and not on everybody's path.
fn tool(name: &str) -> Command {
    let places = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).join(name));
    Command::new(places.into_iter().find(|file| file.is_file()).unwrap_or_else(|| name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Which there can be only for root, and not in every container.
    fn disk(place: &Path) -> Option<Disk> {
        match disk_missing() {
            None => Some(Disk::under(place).unwrap()),
            Some(why) => {
                eprintln!("not run: {why}");
                None
            }
        }
    }

    #[test]
    fn only_synced_writes_survive_a_power_loss() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("before"), "b").unwrap();
        let Some(disk) = disk(place.path()) else { return };
        let mut synced = File::create(place.path().join("synced")).unwrap();
        synced.write_all(b"s").unwrap();
        synced.sync_all().unwrap();
        fs::write(place.path().join("written"), "w").unwrap();
        disk.lose_power().unwrap();
        assert!(synced.write_all(b"later").is_err(), "it goes on without power");
        drop(synced);
        disk.start_again().unwrap();
        assert_eq!(fs::read(place.path().join("before")).unwrap(), b"b");
        assert_eq!(fs::read(place.path().join("synced")).unwrap(), b"s");
        assert!(!place.path().join("written").exists());
    }

    #[test]
    fn full_disk_takes_nothing_until_there_is_room() {
        let place = tempfile::tempdir().unwrap();
        let Some(disk) = disk(place.path()) else { return };
        let write = || fs::write(place.path().join("written"), "w");
        disk.fill().unwrap();
        assert_eq!(write().unwrap_err().kind(), io::ErrorKind::StorageFull);
        disk.make_room().unwrap();
        write().unwrap();
    }

    #[test]
    fn dropped_disk_leaves_nothing_mounted() {
        let place = tempfile::tempdir().unwrap();
        let Some(disk) = disk(place.path()) else { return };
        let mounted = || fs::read_to_string("/proc/mounts").unwrap().contains(place.path().to_str().unwrap());
        assert!(mounted());
        drop(disk);
        assert!(!mounted());
    }
}
