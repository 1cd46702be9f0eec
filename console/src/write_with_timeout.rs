use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::termios::isatty;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Timeout of a write: the thread that writes also renews the lock.
pub const WRITE_TIMEOUT: Duration = Duration::from_millis(50);
/// Interval between two tries while another process writes to the terminal.
const RETRY_INTERVAL: Duration = Duration::from_micros(100);
/// The bytes that a ready pipe takes as a whole (`pipe(7)`).
const PIPE_BUF: usize = 4096;

/// Writes what is taken without delay, in one piece if it is not very long: others may write to the same place.
///
/// # Errors
///
/// If nobody reads, such as at a terminal that Ctrl-S has stopped, or it cannot be written.
pub fn write_with_timeout(to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    write_within(WRITE_TIMEOUT, to, bytes)
}

/// The same with another timeout for each piece.
pub fn write_within(timeout: Duration, to: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let impatient = impatient(to.as_fd());
    let to = impatient.as_ref().map_or(to.as_fd(), AsFd::as_fd);
    let mut rest = bytes;
    let mut since = Instant::now();
    while !rest.is_empty() {
        if !is_ready(to, timeout) {
            return Err(unread());
        }
        match rustix::io::write(to, &rest[..rest.len().min(PIPE_BUF)]) {
            Ok(written) => (rest, since) = (&rest[written..], Instant::now()),
            Err(Errno::INTR) => {}
            // A terminal says so too while somebody else is in the middle of a write to it, ready as it is.
            Err(Errno::AGAIN) if since.elapsed() < timeout => std::thread::sleep(RETRY_INTERVAL),
            Err(Errno::AGAIN) => return Err(unread()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Another way to the same pipe or terminal, on which no write waits. A terminal that has room for a byte says that it is
/// ready, and then waits for room for all of them; and a pipe may have been filled by the command since it was asked. Not
/// a flag on the descriptor itself: it would hold for the command too.
///
/// `None` where there is none: without `/proc`, or if the terminal is another user's.
fn impatient(to: BorrowedFd<'_>) -> Option<OwnedFd> {
    let is_pipe = fstat(to).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if !is_pipe && !isatty(to) {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(format!("/proc/self/fd/{}", to.as_raw_fd()), flags, Mode::empty()).ok()
}

/// True if something that is written there is taken without delay, or never will be because it is closed.
fn is_ready(to: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut asked = [PollFd::new(&to, PollFlags::OUT)];
    let timeout =
        Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: timeout.subsec_nanos().into() };
    loop {
        match poll(&mut asked, Some(&timeout)) {
            // A signal came, which says nothing of the reader.
            Err(Errno::INTR) => {}
            answer => return answer != Ok(0),
        }
    }
}

fn unread() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "it is full, and nobody reads it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::fs::File;
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::channel;

    /// A long timeout: the other writer makes no pauses, so many writes have to be tried again.
    const A_SECOND: Duration = Duration::from_secs(1);

    /// Writes lines until one is refused.
    #[track_caller]
    fn fill(to: impl AsFd + Send + 'static) -> io::Error {
        let (sender, refused) = channel();
        std::thread::spawn(move || {
            let line = format!("{:97}\n", "");
            let refused = loop {
                if let Err(error) = write_with_timeout(&to, line.as_bytes()) {
                    break error;
                }
            };
            let _ = sender.send((refused, to));
        });
        refused.recv_timeout(Duration::from_secs(20)).expect("a write waits for a reader").0
    }

    /// A pseudoterminal: its master, which sees the output, and the terminal that is written to.
    fn terminal() -> (OwnedFd, OwnedFd) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = open(ptsname(&master, Vec::new()).unwrap(), flags, Mode::empty()).unwrap();
        (master, terminal)
    }

    #[test]
    fn write_without_a_reader_times_out() {
        let (_unread_pipe, pipe) = io::pipe().unwrap();
        assert_eq!(fill(pipe).kind(), ErrorKind::TimedOut);
        let (_unseen, terminal) = terminal();
        assert_eq!(fill(terminal).kind(), ErrorKind::TimedOut);
    }

    /// As a shell prints its prompt in the moment in which we say that we have started it.
    #[test]
    fn line_written_during_other_writes_to_the_terminal_is_not_lost() {
        let (screen, terminal) = terminal();
        let mut screen = File::from(screen);
        std::thread::spawn(move || while matches!(screen.read(&mut [0; 4096]), Ok(1..)) {});
        let done = AtomicBool::new(false);
        let refused = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let _ = rustix::io::write(&terminal, b"ready> ");
                }
            });
            let refused = (0..500).filter(|_| write_within(A_SECOND, &terminal, b"said\n").is_err()).count();
            done.store(true, Relaxed);
            refused
        });
        assert_eq!(refused, 0);
    }

    #[test]
    fn closed_pipe_is_a_broken_pipe_and_no_timeout() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(write_with_timeout(writer, b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
