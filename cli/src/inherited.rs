//! File descriptors that whoever started this process has opened for it.

use leasehold::Error;
use leasehold_console::Failure;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Takes the descriptor of this number, under another number that is closed on exec. The old one is closed on exec
/// too: what is meant for us is not handed on to the command. Unless it is a standard one, which the command needs.
///
/// # Errors
///
/// If no such descriptor is open.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from(rustix::io::Errno::BADF));
    }
    #[allow(
        unsafe_code,
        reason = "a number from the command line becomes a descriptor in no safe way. It is borrowed for three system \
                  calls, which answer EBADF if nothing is open there, and nobody else closes it meanwhile"
    )]
    let theirs = unsafe { BorrowedFd::borrow_raw(number) };
    // What was opened for us has come through an exec: this one is our own, under the lowest number that was free.
    if fcntl_getfd(theirs)?.contains(FdFlags::CLOEXEC) {
        return Err(io::Error::from(rustix::io::Errno::BADF));
    }
    let ours = fcntl_dupfd_cloexec(theirs, 3)?;
    if number > 2 {
        fcntl_setfd(theirs, FdFlags::CLOEXEC)?;
    }
    Ok(ours)
}

/// The descriptor that the caller names by this option of the command line.
pub(crate) fn take_for(option: &str, number: Option<RawFd>) -> Result<Option<File>, Failure> {
    let taken = number.map(take).transpose();
    let not_open = |_| {
        let number = number.unwrap_or_default();
        let problem = format_args!("descriptor {number} is not open");
        Error::invalid(option, problem, format!("open it when you call: {number}>FILE"))
    };
    Ok(taken.map_err(not_open)?.map(File::from))
}

/// Lets go of standard output, which is the command's alone: whoever reads it is to find its end when the command is
/// done with it, not when we are.
pub(crate) fn release_stdout() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn closed_descriptor_is_an_error() {
        for number in [-1, 9_999, RawFd::MAX] {
            assert_eq!(take(number).unwrap_err().raw_os_error(), Some(9), "{number}");
        }
    }

    #[test]
    fn descriptor_opened_by_this_process_is_an_error() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(take(file.as_raw_fd()).unwrap_err().raw_os_error(), Some(9));
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        assert!(take(file.as_raw_fd()).is_ok());
    }
}
