//! The suite over the backends of this workspace, on real servers. Oracle's MySQL is asked for by `scripts/test
//! --with-mysql`: it is not in stable Debian.

use leasehold_test_stores::stores;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut subjects = stores::all();
    subjects.extend(stores::adapters());
    leasehold_conformance::run(subjects)
}
