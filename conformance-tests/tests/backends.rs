//! The suite over the backends of this workspace, on real servers. Oracle's MySQL is asked for by `scripts/test
//! --with-mysql`: it is not in stable Debian.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_conformance::run(leasehold_conformance::stores::all())
}
