//! What the administrator of one Redis server does: by commands of the default user, which the clients under test are not.

use super::commands::{evict_everything, tell};
use super::server::USER;
use crate::servers::RedisServer;
use crate::stores::server_group::ServerGroup;
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Stop};
use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How many clients a server takes whose connections are to be used up.
const FEW_CLIENTS: usize = 32;
/// Limit for a server to be busy with a program.
const BUSY_WITHIN: Duration = Duration::from_secs(10);

#[async_trait]
impl Administrator for ServerStore<RedisServer> {
    async fn kill_connections(&self) -> Result<(), Stop> {
        let there = self.connections().await?;
        match &*self.group().command(&["CLIENT", "KILL", "USER", USER])? {
            ":0" if there > 0 => {
                Err(Stop::failed(format!("{there} clients are connected, and none was killed")))
            }
            killed if killed.starts_with(':') => Ok(()),
            other => Err(Stop::failed(format!("CLIENT KILL answered {other}"))),
        }
    }

    async fn connections(&self) -> Result<usize, Stop> {
        let clients = self.group().command(&["CLIENT", "LIST"])?;
        Ok(clients.lines().filter(|line| line.contains(&format!("user={USER}"))).count())
    }

    async fn take_all_connections(&self) -> Result<Box<dyn Any + Send>, Stop> {
        // This connection stays open: a server that sees its end after the strangers came would have a place for one more client.
        let administrator = self.set("maxclients", &FEW_CLIENTS.to_string())?;
        let strangers: Vec<_> =
            (0..FEW_CLIENTS * 2).map(|_| self.open_connection()).collect::<Result<_, _>>()?;
        // The server has seen the last of them when it has turned it away.
        let mut refusal = [0; 4];
        strangers.last().map(|mut last| last.read(&mut refusal)).transpose()?;
        Ok(Box::new((administrator, strangers)))
    }

    async fn end_idle_transactions(&self, after: Duration) -> Result<(), Stop> {
        self.set("timeout", &after.as_secs().to_string()).map(drop)
    }

    async fn set_read_only(&self, read_only: bool) -> Result<(), Stop> {
        self.set("min-replicas-to-write", if read_only { "1" } else { "0" }).map(drop)
    }

    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        self.step_wall_clock(seconds).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }

    async fn evict_everything(&self) -> Result<(), Stop> {
        self.for_this_case_only(|server| evict_everything(server.servers()))
    }

    async fn forget_scripts(&self) -> Result<(), Stop> {
        tell(&self.group(), &["SCRIPT", "FLUSH"])
    }

    async fn be_busy(&self, time: Duration) -> Result<(), Stop> {
        self.set("busy-reply-threshold", "50")?;
        let mut stranger = self.say("EVAL 'while true do end' 0")?;
        let start = Instant::now();
        while !self.says_that_it_is_busy()? {
            if start.elapsed() > BUSY_WITHIN {
                return Err(Stop::failed("the server is never busy"));
            }
        }
        let mut killer = self.open_connection()?;
        std::thread::spawn(move || {
            std::thread::sleep(time);
            // Neither answer is needed: that to the program says that it was ended.
            let _ = (killer.write_all(b"SCRIPT KILL\r\n"), stranger.read(&mut [0; 64]));
        });
        Ok(())
    }
}

impl ServerStore<RedisServer> {
    /// Changes a setting, which stays: the server is for no other case. The result is the connection that changed it.
    fn set(&self, setting: &str, value: &str) -> Result<TcpStream, Stop> {
        self.for_this_case_only(|_| ());
        let (mut stream, mut answer) = (self.say(&format!("CONFIG SET {setting} {value}"))?, [0; 5]);
        stream.read_exact(&mut answer)?;
        let refused = || Stop::failed(format!("the server refused to set {setting} to {value}"));
        (answer == *b"+OK\r\n").then_some(stream).ok_or_else(refused)
    }

    fn says_that_it_is_busy(&self) -> std::io::Result<bool> {
        let mut answer = [0; 5];
        self.say("PING")?.read_exact(&mut answer)?;
        Ok(answer == *b"-BUSY")
    }

    /// Says one line, on a connection of its own.
    fn say(&self, line: &str) -> std::io::Result<TcpStream> {
        let mut stream = self.open_connection()?;
        write!(stream, "{line}\r\n")?;
        Ok(stream)
    }

    fn open_connection(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", self.group().port()))
    }
}
