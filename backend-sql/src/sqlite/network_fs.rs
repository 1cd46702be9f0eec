//! File systems on which SQLite cannot exclude processes of other hosts.

use rustix::fs::StatFs;

/// The file systems that reach over a network or through another kernel, by the number that `statfs(2)` gives them
/// (`linux/magic.h`, and the sources of those that are not in the kernel). On these, the locks that SQLite excludes
/// processes with may hold on one side only, and its shared memory is not shared (<https://sqlite.org/wal.html>).
const NETWORK: [(u32, &str); 24] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1980_0202, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "VirtualBox"),
    (0xbacb_acbc, "VMware"),
    (0x7c7c_6673, "Parallels"),
    (0x6163_6673, "ACFS"),
    (0x0131_11a8, "IBRIX"),
    (0xaad7_aaea, "PanFS"),
    (0xbeef_dead, "StorNext"),
];

/// The file systems that lay layers over each other. A file of a lower layer is copied at its first change: two mounts of one lower
/// layer then have a file each.
const LAYERED: [(u32, &str); 2] = [(0x794c_7630, "overlayfs"), (0x6175_6673, "AUFS")];

/// The name of a network file system; `None` for any other.
pub(super) fn network_file_system(at: &StatFs) -> Option<&'static str> {
    name_of(&NETWORK, number(at)?)
}

/// The name of a file system of layers; `None` for any other.
pub(super) fn layered_file_system(at: &StatFs) -> Option<&'static str> {
    name_of(&LAYERED, number(at)?)
}

/// The kernel's word is signed on some machines, and only 32 bits of it are ever used.
fn number(at: &StatFs) -> Option<u32> {
    u32::try_from(i128::from(at.f_type) & 0xffff_ffff).ok()
}

fn name_of(all: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    all.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::statfs;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        for (number, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x6573_5546, "FUSE")] {
            assert_eq!(name_of(&NETWORK, number), Some(name));
        }
        // ext4, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS.
        for number in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1, 0xf2f5_2010] {
            assert_eq!(name_of(&NETWORK, number), None, "{number:x}");
        }
        assert_eq!(name_of(&LAYERED, 0x794c_7630), Some("overlayfs"));
    }

    #[test]
    fn temporary_directory_is_on_a_local_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let at = statfs(directory.path()).unwrap();
        assert_eq!(network_file_system(&at), None);
    }
}
