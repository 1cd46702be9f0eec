use crate::locked;
use crate::stop::Stop;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;

/// Below the range from which the kernel takes ports for outgoing connections (`ip_local_port_range`, from 32768): one
/// of those could take the port of a server that is being restarted.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// More than are in use at a time: the oldest beyond these have had their time. Each costs a file descriptor, of which a
/// process may have 1024.
const KEPT: usize = 256;

/// A port of the loopback address on which nobody listens, and which nobody else is given as long as its server may need it:
/// neither here nor in another process that asks for one.
///
/// # Errors
///
/// If there is none.
pub fn free_port() -> Result<u16, Stop> {
    // A UDP socket, on which no store listens, reserves the port for a server, also while no server runs.
    static GIVEN: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());
    for _ in 0..1_000 {
        let port = fastrand::u16(RANGE);
        let claim = match UdpSocket::bind(("127.0.0.1", port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
            claim => claim?,
        };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            let mut given = locked(&GIVEN);
            given.push_back(claim);
            if given.len() > KEPT {
                given.pop_front();
            }
            return Ok(port);
        }
    }
    Err(Stop::failed("no free port on 127.0.0.1 from 20000 to 31999"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_port_without_a_listener_is_given_only_once() {
        let port = free_port().unwrap();
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "its server can have it");
        let error = UdpSocket::bind(("127.0.0.1", port)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "another process would take it as well");
    }
}
