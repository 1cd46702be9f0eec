use super::StartError;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Fills `data` with a copy of what `make` has made once on this machine: making a database takes half a second,
/// copying it some twenty milliseconds.
///
/// `name` is to carry the version of what is made. Several test processes may come at once; one makes it.
pub(super) fn copy_of(
    name: &str,
    data: &Path,
    make: impl FnOnce(&Path) -> Result<(), StartError>,
) -> Result<(), StartError> {
    let template = template(name, make)
        .map_err(|error| StartError::new(format!("cannot make the template of {name}: {}", error.message)))?;
    // With its owners: a server that refuses to be root refuses to be given root's files as well.
    run(Command::new("cp").args(["-rp", "--reflink=auto"]).arg(template.join(".")).arg(data)).map(drop)
}

/// Runs a command to its end.
pub(super) fn run(command: &mut Command) -> Result<Output, StartError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| StartError::new(format!("cannot execute {program}: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let words = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy).concat();
    let tail: Vec<&str> = words.lines().rev().take(5).collect();
    Err(StartError::new(format!("{program} ended with {}: {}", output.status, tail.join(" | "))))
}

/// Where what `make` has made once on this machine is, under a name that is to carry its version.
pub(super) fn template(
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), StartError>,
) -> Result<PathBuf, StartError> {
    let home = home()?;
    let done = home.join(name);
    let lock = File::create(home.join(format!("{name}.lock"))).map_err(io)?;
    lock.lock().map_err(io)?;
    if !done.is_dir() {
        // Made under another name: what was interrupted is never taken for whole.
        let under_way = home.join(format!("{name}.new"));
        let _ = fs::remove_dir_all(&under_way);
        fs::create_dir(&under_way).map_err(io)?;
        make(&under_way)?;
        fs::rename(&under_way, &done).map_err(io)?;
    }
    Ok(done)
}

/// Where the templates are. Others may go through it, because a server that runs as another user must.
fn home() -> Result<PathBuf, StartError> {
    use std::os::unix::fs::PermissionsExt;
    let user = rustix::process::getuid().as_raw();
    let home = std::env::temp_dir().join(format!("leasehold-servers-{user}"));
    fs::create_dir_all(&home).map_err(io)?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o711)).map_err(io)?;
    Ok(home)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn io(error: std::io::Error) -> StartError {
    StartError::new(error.to_string())
}
