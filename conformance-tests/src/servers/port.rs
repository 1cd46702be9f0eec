use super::StartError;
use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// Below the range from which the kernel takes ports for outgoing connections (`ip_local_port_range`, from 32768): one
/// of those could take the port of a server that is being restarted.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port of the loopback address on which nobody listens, and which this process has not given out before.
///
/// # Errors
///
/// If there is none.
pub fn free_port() -> Result<u16, StartError> {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    for _ in 0..1_000 {
        let port = fastrand::u16(RANGE);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    Err(StartError::new("no free port on 127.0.0.1 from 20000 to 31999"))
}
