//! Questions to etcd over HTTP, as its gateway and its metrics take them: the client under test is not asked.

use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The body of the answer to a request.
pub(super) fn ask(port: u16, method: &str, path: &str, body: &str, within: Duration) -> Result<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(Error::other(format!("{path} was answered with {answer:?}"))),
    }
}

/// The value of a text in a flat object of JSON.
pub(super) fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The sum of all counters of `/metrics` whose name begins with this.
pub(super) fn sum(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter(|line| line.starts_with(name));
    let values = values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum::<f64>() as u64
}
