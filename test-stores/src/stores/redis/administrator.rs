//! What the administrator of a Redis does: by commands of the default user, whom the clients under test are not.

use super::servers::wall_clock;
use super::{Node, Pooled, USER, cannot, start, tell};
use crate::stores::wall_clock::ensure_ahead;
use async_trait::async_trait;
use leasehold_conformance::ShimmedClock;
use leasehold_conformance::{Administrator, Cannot};
use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How many clients a server takes whose connections are to be used up.
const FEW_CLIENTS: usize = 32;
/// How long what the server does by itself may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[async_trait]
impl Administrator for Node {
    async fn kill_connections(&self) -> Result<(), Cannot> {
        let there = self.connections().await?;
        match &*self.command(&["CLIENT", "KILL", "USER", USER])? {
            ":0" if there > 0 => {
                Err(Cannot::failed(format!("{there} clients are connected, and none was killed")))
            }
            killed if killed.starts_with(':') => Ok(()),
            other => Err(Cannot::failed(format!("CLIENT KILL answered {other}"))),
        }
    }

    async fn connections(&self) -> Result<usize, Cannot> {
        let clients = self.command(&["CLIENT", "LIST"])?;
        Ok(clients.lines().filter(|line| line.contains(&format!("user={USER}"))).count())
    }

    async fn take_all_connections(&self) -> Result<Box<dyn Any + Send>, Cannot> {
        self.set("maxclients", &FEW_CLIENTS.to_string())?;
        let strangers = (0..FEW_CLIENTS * 2).map(|_| TcpStream::connect(("127.0.0.1", self.port())));
        let strangers: Vec<_> = strangers.collect::<Result<_, _>>().map_err(cannot)?;
        // The server has seen the last of them when it has turned it away.
        let mut refusal = [0; 4];
        strangers.last().map(|mut last| last.read(&mut refusal)).transpose().map_err(cannot)?;
        Ok(Box::new(strangers))
    }

    async fn end_idle_transactions(&self, after: Duration) -> Result<(), Cannot> {
        self.set("timeout", &after.as_secs().to_string())
    }

    async fn set_read_only(&self, read_only: bool) -> Result<(), Cannot> {
        self.set("min-replicas-to-write", if read_only { "1" } else { "0" })
    }

    async fn step_clock(&self, seconds: i64) -> Result<(), Cannot> {
        let mut clock = self.clock();
        match &*clock {
            Some(clock) => clock.step_to(seconds).map_err(Cannot::from)?,
            None => {
                let new = ShimmedClock::ahead(seconds)?;
                *self.server() = Pooled::apart(start(&new.environment())?);
                *clock = Some(new);
            }
        }
        ensure_ahead(wall_clock(&self.server())?, seconds)
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Cannot> {
        let mut server = self.harmed();
        if full { server.fill_disk() } else { server.restart(true) }.map_err(cannot)
    }

    async fn evict_everything(&self) -> Result<(), Cannot> {
        self.set("maxmemory-policy", "allkeys-random")?;
        self.set("maxmemory", "1")?;
        let start = Instant::now();
        while self.command(&["DBSIZE"])? != ":0" {
            if start.elapsed() > PATIENCE {
                return Err(Cannot::failed("the server evicts nothing"));
            }
        }
        self.set("maxmemory", "0")?;
        self.set("maxmemory-policy", "noeviction")
    }

    async fn forget_scripts(&self) -> Result<(), Cannot> {
        tell(&self.server(), &["SCRIPT", "FLUSH"])
    }

    async fn be_busy(&self, time: Duration) -> Result<(), Cannot> {
        self.set("busy-reply-threshold", "50")?;
        let mut stranger = self.say("EVAL 'while true do end' 0").map_err(cannot)?;
        let start = Instant::now();
        while !self.says_that_it_is_busy().map_err(cannot)? {
            if start.elapsed() > PATIENCE {
                return Err(Cannot::failed("the server is never busy"));
            }
        }
        let mut killer = TcpStream::connect(("127.0.0.1", self.port())).map_err(cannot)?;
        std::thread::spawn(move || {
            std::thread::sleep(time);
            // Its answer is of no use, and that of the program says that it was ended.
            let _ = (killer.write_all(b"SCRIPT KILL\r\n"), stranger.read(&mut [0; 64]));
        });
        Ok(())
    }
}

impl Node {
    /// It stays so: the server is for no other case.
    fn set(&self, setting: &str, value: &str) -> Result<(), Cannot> {
        drop(self.harmed());
        match &*self.command(&["CONFIG", "SET", setting, value])? {
            "+OK" => Ok(()),
            other => Err(Cannot::failed(format!("CONFIG SET {setting} answered {other}"))),
        }
    }

    fn says_that_it_is_busy(&self) -> std::io::Result<bool> {
        let mut answer = [0; 5];
        self.say("PING")?.read_exact(&mut answer)?;
        Ok(answer == *b"-BUSY")
    }

    /// Says one line, on a connection of its own.
    fn say(&self, line: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port()))?;
        write!(stream, "{line}\r\n")?;
        Ok(stream)
    }
}
