use super::{LOCKER, Running, SqlServer, cannot, kill_clients};
use crate::stores::wall_clock::ensure_ahead;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Cannot, SteppedClock};
use std::any::Any;
use std::time::{Duration, Instant};

/// More than any server takes here.
const MANY: usize = 1_000;

/// A server that has refused somebody for so long is full. It gives out the place of somebody who has just left a
/// little later, on a busy machine after some milliseconds, and that one would be had by whoever is to find none.
const STAYS_FULL: Duration = Duration::from_millis(250);

#[async_trait]
impl<Server: SqlServer> Administrator for Running<Server> {
    fn address_with(&self, connections: usize) -> Result<String, Cannot> {
        Ok(self.url(LOCKER, &self.place(), &format!("&connections={connections}")))
    }

    async fn behind_pooler(&self) -> Result<(Box<dyn Any + Send>, String), Cannot> {
        let (pooler, port) = Server::pooler(self.port()).await?;
        Ok((pooler, self.url(LOCKER, &format!("127.0.0.1:{port}"), "")))
    }

    async fn kill_connections(&self) -> Result<(), Cannot> {
        kill_clients::<Server>(self.port()).await
    }

    async fn connections(&self) -> Result<usize, Cannot> {
        Server::count(self.port(), Server::CONNECTIONS).await
    }

    async fn open_transactions(&self) -> Result<usize, Cannot> {
        Server::count(self.port(), Server::TRANSACTIONS).await
    }

    async fn take_all_connections(&self) -> Result<Box<dyn Any + Send>, Cannot> {
        let (mut all, mut full_since) = (Vec::new(), None);
        while all.len() < MANY {
            match Server::stranger(self.port()).await {
                Ok(connection) => {
                    all.push(connection);
                    full_since = None;
                }
                Err(_) if full_since.get_or_insert_with(Instant::now).elapsed() < STAYS_FULL => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(_) => return Ok(Box::new(all)),
            }
        }
        Err(Cannot::failed(format!("the server takes {MANY} connections and more")))
    }

    async fn set_time_zone(&self, offset: &str) -> Result<(), Cannot> {
        self.set(&Server::time_zone(offset)).await
    }

    async fn set_isolation(&self, level: &str) -> Result<(), Cannot> {
        self.set(&Server::isolation(level)).await
    }

    async fn end_idle_transactions(&self, after: Duration) -> Result<(), Cannot> {
        self.set(&Server::idle_limit(after)).await
    }

    async fn set_read_only(&self, read_only: bool) -> Result<(), Cannot> {
        let statement = self.harmed().read_only(read_only)?;
        Server::run(self.port(), &statement).await?;
        kill_clients::<Server>(self.port()).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Cannot> {
        let mut server = self.harmed();
        let process = server.process();
        if full { process.fill_disk() } else { process.restart(true) }.map_err(cannot)
    }

    async fn step_clock(&self, seconds: i64) -> Result<(), Cannot> {
        let running_on_it = {
            let clock = self.clock();
            clock.as_ref().map(|clock| clock.step_to(seconds))
        };
        match running_on_it {
            Some(stepped) => stepped.map_err(Cannot::from)?,
            None => self.start_on_a_clock(seconds).await?,
        }
        let shown = Server::count(self.port(), Server::WALL_CLOCK).await?;
        ensure_ahead(i64::try_from(shown).map_err(cannot)? * 1_000, seconds)
    }
}

impl<Server: SqlServer> Running<Server> {
    /// Changes a setting of the whole server.
    async fn set(&self, statement: &str) -> Result<(), Cannot> {
        drop(self.harmed());
        Server::run(self.port(), statement).await.map(drop)
    }

    async fn start_on_a_clock(&self, seconds: i64) -> Result<(), Cannot> {
        let clock = SteppedClock::ahead(seconds)?;
        let server = Server::launch(clock.environment()).await?;
        self.replace(server);
        *self.clock() = Some(clock);
        self.furnish().await.map_err(cannot)
    }
}
