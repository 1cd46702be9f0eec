//! A pooler in this process, for `MariaDB`: between clients and their server, it lends each client a session for one
//! transaction, and another one for the next. None is packaged for Debian; this does what `ProxySQL` and `MaxScale` are
//! used for. It hands the settings of a client on to whatever session it gets, and keeps its prepared statements apart
//! from those of others. It asks nobody for a password: whoever comes logs in at the server, with a session that then
//! belongs to all.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use wire::{Answer, Packet, Wire};

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
    let (pool, mut clients) = (Arc::<Pool>::default(), JoinSet::new());
    while let Ok((client, _)) = listener.accept().await {
        while clients.try_join_next().is_some() {}
        let pool = Arc::clone(&pool);
        clients.spawn(async move {
            // What goes wrong ends the connection, and the client sees that.
            let _ = serve(Wire::of(client)?, server, &pool).await;
            io::Result::Ok(())
        });
    }
}

async fn serve(mut client: Wire, server: SocketAddr, pool: &Pool) -> io::Result<()> {
    let Some(session) = log_in(&mut client, server).await? else {
        return Ok(());
    };
    pool.give_back(session);
    Client { wire: client, settings: Vec::new(), statements: HashMap::new(), lent: None }.serve(pool).await
}

/// Lets the client and the server come to terms; `None` if they do not.
async fn log_in(client: &mut Wire, server: SocketAddr) -> io::Result<Option<Session>> {
    let mut wire = Wire::of(TcpStream::connect(server).await?)?;
    let mut said = wire.read().await?;
    said.offer_no_encryption();
    client.write(&said).await?;
    while said.code() != wire::ERR {
        let answer = client.read().await?;
        // The first says what the client understands. What ends an answer would look another way.
        if wire.is_new() && !answer.knows_one_end() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        wire.write(&answer).await?;
        said = wire.read().await?;
        client.write(&said).await?;
        if said.code() == wire::OK {
            return Ok(Some(Session { wire, settings: Vec::new(), statements: HashMap::new() }));
        }
    }
    Ok(None)
}

/// Sessions that are lent to nobody. As many have been opened as there were clients, so there is one for everybody.
#[derive(Default)]
struct Pool(Mutex<VecDeque<Session>>);

impl Pool {
    /// The one that has been here for the longest, which is rarely the one that its borrower had before.
    fn lend(&self) -> io::Result<Session> {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        session.ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    fn give_back(&self, session: Session) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(session);
    }
}

/// A session of the server.
struct Session {
    wire: Wire,
    /// What it was told for its last borrower.
    settings: Vec<Packet>,
    /// Its own numbers of what was prepared in it.
    statements: HashMap<Vec<u8>, u32>,
}

impl Session {
    async fn ask(&mut self, command: &Packet) -> io::Result<Answer> {
        self.wire.write(command).await?;
        self.wire.answer(command.code()).await
    }

    /// Makes it a session of whoever has these settings, and of nobody else.
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

    /// Prepares what a client has prepared, perhaps in another one.
    async fn prepare(&mut self, statement: &Packet) -> io::Result<Answer> {
        let answer = self.ask(statement).await?;
        if let Some(number) = answer.statement() {
            self.statements.insert(statement.body.clone(), number);
        }
        Ok(answer)
    }

    async fn execute(&mut self, command: &Packet, statement: &Packet) -> io::Result<Answer> {
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
struct Client {
    wire: Wire,
    settings: Vec<Packet>,
    /// By the numbers that it was given.
    statements: HashMap<u32, Packet>,
    /// In a transaction.
    lent: Option<Session>,
}

impl Client {
    async fn serve(mut self, pool: &Pool) -> io::Result<()> {
        loop {
            let command = self.wire.read().await?;
            match command.code() {
                wire::QUIT => return Ok(()),
                // Nothing is answered to it.
                wire::CLOSE_STATEMENT => drop(self.statements.remove(&command.statement()?)),
                wire::QUERY | wire::PREPARE | wire::EXECUTE | wire::PING => self.pass(command, pool).await?,
                _ => return Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }

    async fn pass(&mut self, command: Packet, pool: &Pool) -> io::Result<()> {
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

    /// With a number of its own: of two sessions each begins at one.
    async fn prepare(&mut self, session: &mut Session, statement: &Packet) -> io::Result<Answer> {
        let mut answer = session.prepare(statement).await?;
        if answer.statement().is_some() {
            let number = self.statements.keys().max().map_or(1, |last| last + 1);
            answer.packets[0].set_statement(number)?;
            self.statements.insert(number, statement.clone());
        }
        Ok(answer)
    }
}
