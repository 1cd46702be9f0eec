use crate::args::{Cli, ManArgs};
use clap_mangen::Man;
use leasehold::Error;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, unprinted};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What a manual page has beside the options, behind those that are rendered from the command line.
const MORE: &str = r"
.SH ENVIRONMENT
.TP
\fBLEASEHOLD_URL\fR, \fBLEASEHOLD_PROFILE\fR, \fBLEASEHOLD_CONFIG\fR
The store; a profile of the configuration file; that file.
.TP
\fBLEASEHOLD_TTL\fR, \fBLEASEHOLD_WAIT\fR, \fBLEASEHOLD_PREFIX\fR
The length of a lease, the wait for a lock, and what stands in front of each lock name in the store.
.TP
\fBLEASEHOLD_PASSWORD_FILE\fR
A file with the password of the store. It is read again for every connection.
.TP
\fBLEASEHOLD_REQUIRE_STORE\fR
If it is 1, a call that names no store fails.
.TP
\fBLEASEHOLD_LOG\fR
A filter for the log on standard error, such as info.
.PP
A command that runs under a lock finds these:
.TP
\fBLEASEHOLD_NAME\fR, \fBLEASEHOLD_TOKEN\fR
The lock, and its fencing token; of several names, \fBLEASEHOLD_NAMES\fR and \fBLEASEHOLD_TOKENS\fR, as JSON.
.TP
\fBLEASEHOLD_SLOT\fR, \fBLEASEHOLD_TERM\fR
The slot under --permits; the term under elect.
.TP
\fBLEASEHOLD_HELD\fR, \fBLEASEHOLD_BACKEND\fR, \fBLEASEHOLD_TTL_MS\fR, \fBLEASEHOLD_ACQUIRED_AT\fR, \fBLEASEHOLD_STACK\fR
1; the kind of store; the length of the lease; since when, in UTC; all locks, from the outermost on.
.SH FILES
.TP
\fI./leasehold.toml\fR, \fI$XDG_CONFIG_HOME/leasehold/config.toml\fR, \fI/etc/leasehold/config.toml\fR
The configuration: the first of them that exists.
.TP
\fI~/.local/state/leasehold/locks.db\fR
The locks of this user, if no store is named.
.SH EXIT STATUS
Of run and elect, that of the command. Otherwise 0 for success, 1 for a question that was answered no, or for a failed test of a store, 64 for a wrong command line, 69 if the store is unavailable, 70 for an
internal failure, 75 if the lock is held by another client, 77 if the store refuses, 78 for a wrong configuration, 80 if the lock was
lost, 81 if the release was not confirmed, 126 and 127 if the command cannot be executed or found, and 128 + n after signal n.
.SH SEE ALSO
.BR leasehold (1),
.BR leasehold-run (1),
.BR leasehold-elect (1),
.BR leasehold-hold (1),
.BR leasehold-ls (1),
.BR leasehold-inspect (1),
.BR leasehold-release (1),
.BR leasehold-config (1),
.BR flock (1),
.BR systemd.service (5),
.BR crontab (5)
";

/// Prints the manual, or writes a page for each verb.
pub(super) fn man(args: &ManArgs) -> Result<Code, Failure> {
    match &args.directory {
        Some(directory) => write_pages(directory).map_err(|error| {
            let problem = format_args!("cannot write to {}", directory.display());
            Error::invalid("directory", problem, "name one that exists and is yours").with_source(error)
        })?,
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(Cli::definition()).render(&mut page);
            page.extend_from_slice(MORE.as_bytes());
            rendered.and_then(|()| io::stdout().write_all(&page)).map_err(unprinted)?;
        }
    }
    Ok(Code::SUCCESS)
}

fn write_pages(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::definition(), directory)?;
    for page in std::fs::read_dir(directory)? {
        let path = page?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("leasehold"));
        if is_ours && path.extension().is_some_and(|section| section == "1") {
            File::options().append(true).open(path)?.write_all(MORE.as_bytes())?;
        }
    }
    Ok(())
}
