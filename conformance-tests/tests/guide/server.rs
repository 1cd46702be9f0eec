use async_trait::async_trait;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::server::{Launch, ServerProcess, free_port};
use leasehold_conformance::{Stop, Store};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A server on this port, with its data in the directory that it is given.
struct ServerLaunch {
    program: PathBuf,
    port: u16,
}

impl Launch for ServerLaunch {
    fn command(&self, data: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--appendonly", "yes", "--dir"]).arg(data);
        command
    }

    /// A server takes connections before it has read its data; it answers with anything else until then.
    fn is_ready(&self) -> bool {
        let ping = || -> io::Result<[u8; 5]> {
            let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
            connection.write_all(b"PING\r\n")?;
            let mut answer = [0; 5];
            connection.read_exact(&mut answer).map(|()| answer)
        };
        ping().is_ok_and(|answer| answer == *b"+PONG")
    }
}

/// What `Subject::start` answers. The server ends with this value, and with the test, however that ends.
#[derive(Debug)]
pub(crate) struct ServerStore {
    port: u16,
    server: Mutex<ServerProcess>,
}

impl ServerStore {
    pub(crate) fn start(program: PathBuf) -> Result<Self, Stop> {
        let port = free_port()?;
        let server = ServerProcess::start(ServerLaunch { program, port })?;
        Ok(Self { port, server: Mutex::new(server) })
    }

    fn server(&self) -> MutexGuard<'_, ServerProcess> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for ServerStore {
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    async fn proxied(&self, patience: Duration) -> Result<(Proxy, String), Stop> {
        let proxy = Proxy::to(([127, 0, 0, 1], self.port).into()).await?;
        let address = format!("{} {}", proxy.address(), patience.as_millis());
        Ok((proxy, address))
    }

    async fn pause(&self) -> Result<(), Stop> {
        self.server().pause();
        Ok(())
    }

    async fn resume(&self) -> Result<(), Stop> {
        self.server().resume();
        Ok(())
    }

    async fn kill(&self) -> Result<(), Stop> {
        self.server().kill();
        Ok(())
    }

    async fn restart(&self, keep_data: bool) -> Result<(), Stop> {
        self.server().restart(keep_data)
    }
}
