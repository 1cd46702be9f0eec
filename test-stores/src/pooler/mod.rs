//! A pooler in this process, for `MariaDB`: between clients and their server, it lends each client a session for one
//! transaction, and another one for the next. None is packaged for Debian; this does what `ProxySQL` and `MaxScale` are
//! used for. The settings of a client go on to every session that it gets, and its prepared statements are kept apart
//! from those of other clients. The pooler asks for no password: each client logs in at the server, with a session that then
//! belongs to all.

#[cfg(test)]
mod tests;
mod wire;

use crate::locked;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::{Packet, Response, Wire};

/// A pooler in front of one server. Connections end with it.
#[derive(Debug)]
pub struct MariaDbPooler {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl MariaDbPooler {
    /// Listens on a free loopback port for the server at this address.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop: nothing listens then.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server));
        Ok(Self { address, _tasks: tasks })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, server: SocketAddr) {
    let (pool, mut clients) = (Arc::<IdleSessions>::default(), JoinSet::new());
    while let Ok((client, _)) = listener.accept().await {
        while clients.try_join_next().is_some() {}
        let pool = Arc::clone(&pool);
        clients.spawn(async move {
            // An error ends the connection, and the client sees that.
            let _ = serve(Wire::new(client)?, server, &pool).await;
            io::Result::Ok(())
        });
    }
}

async fn serve(mut client: Wire, server: SocketAddr, pool: &IdleSessions) -> io::Result<()> {
    let Some(session) = log_in(&mut client, server).await? else {
        return Ok(());
    };
    pool.give_back(session);
    ClientConnection { wire: client, settings: Vec::new(), statements: HashMap::new(), lent: None }
        .serve(pool)
        .await
}

/// Lets the client and the server come to terms; `None` if they do not.
async fn log_in(client: &mut Wire, server: SocketAddr) -> io::Result<Option<ServerSession>> {
    let mut wire = Wire::new(TcpStream::connect(server).await?)?;
    let mut said = wire.read().await?;
    said.offer_no_encryption();
    client.write(&said).await?;
    while said.code() != wire::ERR {
        let answer = client.read().await?;
        // The first packet tells what the client understands. Without this flag, answers end in another way.
        if wire.is_new() && !answer.knows_one_end() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        wire.write(&answer).await?;
        said = wire.read().await?;
        client.write(&said).await?;
        if said.code() == wire::OK {
            return Ok(Some(ServerSession { wire, settings: Vec::new(), statements: HashMap::new() }));
        }
    }
    Ok(None)
}

/// Sessions that no client has. Each client has opened one, so there is one for each.
#[derive(Default)]
struct IdleSessions(Mutex<VecDeque<ServerSession>>);

impl IdleSessions {
    /// The session that has been idle longest, which is rarely the one that its borrower had before.
    fn lend(&self) -> io::Result<ServerSession> {
        let session = locked(&self.0).pop_front();
        session.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    fn give_back(&self, session: ServerSession) {
        locked(&self.0).push_back(session);
    }
}

/// A session of the server.
struct ServerSession {
    wire: Wire,
    /// The settings of its last borrower.
    settings: Vec<Packet>,
    /// Its own numbers of the statements that were prepared in it, by their packets.
    statements: HashMap<Vec<u8>, u32>,
}

impl ServerSession {
    async fn ask(&mut self, command: &Packet) -> io::Result<Response> {
        self.wire.write(command).await?;
        self.wire.answer(command.code()).await
    }

    /// Gives it these settings and no other.
    async fn set(&mut self, settings: &[Packet]) -> io::Result<()> {
        if self.settings != settings {
            self.statements.clear();
            self.settings = settings.to_vec();
            for setting in [&Packet::reset()].into_iter().chain(settings) {
                if !self.ask(setting).await?.is_done() {
                    return Err(io::Error::other("settings that were taken before are refused"));
                }
            }
        }
        Ok(())
    }

    /// Prepares a statement that a client has prepared, perhaps in another session.
    async fn prepare(&mut self, statement: &Packet) -> io::Result<Response> {
        let answer = self.ask(statement).await?;
        if let Some(number) = answer.statement() {
            self.statements.insert(statement.body.clone(), number);
        }
        Ok(answer)
    }

    async fn execute(&mut self, command: &Packet, statement: &Packet) -> io::Result<Response> {
        if !self.statements.contains_key(&statement.body) {
            let answer = self.prepare(statement).await?;
            if answer.statement().is_none() {
                return Ok(answer);
            }
        }
        let mut command = command.clone();
        command.set_statement(self.statements[&statement.body])?;
        self.ask(&command).await
    }
}

/// A connected client, with the settings that it made and the statements that it prepared.
struct ClientConnection {
    wire: Wire,
    settings: Vec<Packet>,
    /// The statements by the numbers that the client was given.
    statements: HashMap<u32, Packet>,
    /// The session of a transaction.
    lent: Option<ServerSession>,
}

impl ClientConnection {
    async fn serve(mut self, pool: &IdleSessions) -> io::Result<()> {
        loop {
            let command = self.wire.read().await?;
            match command.code() {
                wire::QUIT => return Ok(()),
                // A server does not answer this one.
                wire::CLOSE_STATEMENT => drop(self.statements.remove(&command.statement()?)),
                wire::QUERY | wire::PREPARE | wire::EXECUTE | wire::PING => self.pass(command, pool).await?,
                _ => return Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }

    async fn pass(&mut self, command: Packet, pool: &IdleSessions) -> io::Result<()> {
        let mut session = match self.lent.take() {
            Some(session) => session,
            None => {
                let mut session = pool.lend()?;
                session.set(&self.settings).await?;
                session
            }
        };
        let answer = match command.code() {
            wire::PREPARE => self.prepare(&mut session, &command).await?,
            wire::EXECUTE => {
                let statement = self.statements.get(&command.statement()?);
                session.execute(&command, statement.ok_or(io::ErrorKind::InvalidData)?).await?
            }
            _ => session.ask(&command).await?,
        };
        if command.is_setting() && answer.is_done() {
            self.settings.retain(|earlier| *earlier != command);
            self.settings.push(command);
            session.settings.clone_from(&self.settings);
        }
        match answer.is_in_transaction {
            true => self.lent = Some(session),
            false => pool.give_back(session),
        }
        for packet in &answer.packets {
            self.wire.write(packet).await?;
        }
        Ok(())
    }

    /// Gives a statement a number of the client's own, because each session counts from one.
    async fn prepare(&mut self, session: &mut ServerSession, statement: &Packet) -> io::Result<Response> {
        let mut answer = session.prepare(statement).await?;
        if answer.statement().is_some() {
            let number = self.statements.keys().max().map_or(1, |last| last + 1);
            answer.packets[0].set_statement(number)?;
            self.statements.insert(number, statement.clone());
        }
        Ok(answer)
    }
}
