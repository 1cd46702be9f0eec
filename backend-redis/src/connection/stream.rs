use crate::target::{Address, Target};
use futures_util::future::select_ok;
use leasehold_core::{Error, ErrorKind, Result};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::{Instant, timeout_at};

/// An idle connection is probed at this interval: gateways forget connections on which nothing passes, and the next
/// request would find out the slow way.
const KEEPALIVE: Duration = Duration::from_secs(30);

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// Opens a stream to the target. A failure here says that no request was sent.
pub(super) async fn open(target: &Target, deadline: Instant) -> Result<Box<dyn ByteStream>> {
    let (host, port) = match &target.address {
        Address::Unix(path) => return Ok(Box::new(accepted(UnixStream::connect(path), deadline).await?)),
        Address::Tcp { host, port } => (host.as_str(), *port),
    };
    let addresses = timeout_at(deadline, lookup_host((host, port)))
        .await
        .map_err(|_| too_late("its address was not found"))?
        .map_err(|error| unreachable("its address was not found", error))?;
    // All at once: an address that swallows packets, often the IPv6 one, must not use up the time of the others.
    let attempts: Vec<_> = addresses.map(|address| Box::pin(connect(address))).collect();
    if attempts.is_empty() {
        return Err(Error::new(ErrorKind::Unavailable, "its name has no address")
            .with_help("look at the host in the URL"));
    }
    let (stream, _) = accepted(select_ok(attempts), deadline).await?;
    match &target.tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let encrypted = timeout_at(deadline, tls.encrypt(stream, host)).await.map_err(|_| {
                too_late("TLS was not agreed on")
                    .with_help("if the port takes connections without TLS, write redis://")
            })?;
            Ok(Box::new(encrypted?))
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

async fn accepted<T>(connecting: impl Future<Output = io::Result<T>>, deadline: Instant) -> Result<T> {
    timeout_at(deadline, connecting)
        .await
        .map_err(|_| too_late("it did not accept a connection"))?
        .map_err(|error| unreachable("it cannot be reached", error))
}

fn unreachable(what: &'static str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what}: {error}"))
        .with_source(error)
        .with_help("look at the address in the URL, and whether the server runs")
}

fn too_late(what: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what} in time"))
        .with_help("look at the server and at the network to it, or raise connect_timeout in the URL")
}
