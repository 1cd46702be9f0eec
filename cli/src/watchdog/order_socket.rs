use super::protocol::{CommandReport, Order, to_line};
use crate::inherited;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The watchdog's end of the socket.
#[derive(Debug)]
pub(super) struct OrderSocket {
    socket: UnixStream,
    heard: Vec<u8>,
    closed: bool,
}

impl OrderSocket {
    /// Takes the socket that was inherited under this number.
    pub(super) fn take(number: RawFd) -> io::Result<Self> {
        let socket = UnixStream::from(inherited::take(number)?);
        Ok(Self { socket, heard: Vec::new(), closed: false })
    }

    /// Waits for an order. `None` if there will be none.
    pub(super) fn wait_for_order(&mut self) -> Option<Order> {
        loop {
            if let Some(order) = self.next_order() {
                return Some(order);
            }
            if self.closed {
                return None;
            }
            self.listen();
        }
    }

    /// From now on neither reading nor writing waits for `leasehold`, which may be stopped.
    pub(super) fn stop_waiting(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// The next order, of those that have arrived.
    pub(super) fn order(&mut self) -> Option<Order> {
        self.listen();
        self.next_order()
    }

    /// True once `leasehold` is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if `leasehold` is gone already, and what was heard of it was its last word.
    pub(super) fn has_ended(&mut self) -> bool {
        self.listen();
        self.closed
    }

    pub(super) fn report(&mut self, report: &CommandReport) {
        // A failure means that `leasehold` is gone or does not read: the watchdog acts on its own then.
        let _ = self.socket.write_all(&to_line(report));
    }

    fn listen(&mut self) {
        // The line of a command may have megabytes.
        let mut buffer = [0; 1 << 14];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.closed = true,
            Ok(length) => self.heard.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.closed = true,
        }
    }

    fn next_order(&mut self) -> Option<Order> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        let order = serde_json::from_slice(&line).ok();
        // An order that is none means that the two are not of one build, and cannot work together.
        self.closed |= order.is_none();
        order
    }
}

impl AsFd for OrderSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
