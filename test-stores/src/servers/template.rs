use leasehold_conformance::Stop;
use leasehold_conformance::server::run;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fills `data` with a copy of what `make` has made once on this machine: making a database takes half a second,
/// copying it some twenty milliseconds.
///
/// `name` is to carry the version of what is made. Several test processes may come at once; one makes it.
pub(super) fn copy_of(
    name: &str,
    data: &Path,
    make: impl FnOnce(&Path) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let template = template(name, make)
        .map_err(|error| Stop::failed(format!("cannot make the template of {name}: {error}")))?;
    // The copy keeps the owners: a server that refuses to be root refuses root's files as well.
    run(Command::new("cp").args(["-rp", "--reflink=auto"]).arg(template.join(".")).arg(data)).map(drop)
}

/// The directory of what `make` has made once on this machine. Its name is to carry the version of what is made.
pub(super) fn template(name: &str, make: impl FnOnce(&Path) -> Result<(), Stop>) -> Result<PathBuf, Stop> {
    let home = home()?;
    let done = home.join(name);
    let lock = File::create(home.join(format!("{name}.lock")))?;
    lock.lock()?;
    if !done.is_dir() {
        // A template is made under another name: one that was interrupted is never taken for whole.
        let under_way = home.join(format!("{name}.new"));
        let _ = fs::remove_dir_all(&under_way);
        fs::create_dir(&under_way)?;
        make(&under_way)?;
        fs::rename(&under_way, &done)?;
    }
    Ok(done)
}

/// Where the templates are.
fn home() -> Result<PathBuf, Stop> {
    let home = std::env::temp_dir().join(format!("leasehold-servers-{}", user()));
    make_own(&home)?;
    Ok(home)
}

/// Other users may go through it, because a server that runs as another user must. No other user may write into it: what is
/// there already is taken for a template.
fn make_own(home: &Path) -> Result<(), Stop> {
    DirBuilder::new().recursive(true).mode(THROUGH).create(home)?;
    let found = fs::symlink_metadata(home)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & WRITTEN_BY_OTHERS != 0 {
        let home = home.display();
        return Err(Stop::failed(format!("{home} is no directory that only this user can write to")));
    }
    // The mask of this process may have taken the way through it.
    Ok(fs::set_permissions(home, Permissions::from_mode(THROUGH))?)
}

const THROUGH: u32 = 0o711;
const WRITTEN_BY_OTHERS: u32 = 0o022;

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    fn home() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        make_own(&home).unwrap();
        (place, home)
    }

    fn is_refused(home: &Path) -> bool {
        make_own(home).is_err_and(|error| error.to_string().contains("only this user"))
    }

    #[test]
    fn our_own_directory_is_made_and_found_again() {
        let (_place, home) = home();
        assert_eq!(fs::metadata(&home).unwrap().mode() & 0o777, THROUGH);
        make_own(&home).unwrap();
    }

    #[test]
    fn link_in_place_of_the_directory_is_refused() {
        let (place, home) = home();
        let link = place.path().join("link");
        symlink(&home, &link).unwrap();
        assert!(is_refused(&link));
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        for mode in [0o731, 0o713] {
            let (_place, home) = home();
            fs::set_permissions(&home, Permissions::from_mode(mode)).unwrap();
            assert!(is_refused(&home), "{mode:o}");
        }
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        let (_place, home) = home();
        // Only root can give it away.
        if chown(&home, Some(user() + 1), None).is_ok() {
            assert!(is_refused(&home));
        }
    }
}
