//! The suite over the backends of this workspace, on real servers, and over the kinds of lock in memory. Oracle's MySQL is
//! asked for by `scripts/test --with-mysql`: it is not in stable Debian.

mod kinds;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut subjects = leasehold_conformance::stores::all();
    subjects.extend(kinds::subjects());
    leasehold_conformance::run(subjects)
}
