use super::group::SqlGroup;
use super::server::{SqlServer, kill_clients};
use crate::stores::connect::{loopback, with_options};
use crate::stores::server_group::ServerGroup;
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold_conformance::{Administrator, Stop, Store};
use std::any::Any;
use std::time::{Duration, Instant};

/// More connections than any server here takes.
const TOO_MANY: usize = 1_000;

/// A server that has refused connections for so long is full. It gives out the place of a client that has just left a little
/// later, on a busy machine after some milliseconds, and the client that is to find none would get that place.
const STAYS_FULL: Duration = Duration::from_millis(250);

#[async_trait]
impl<S: SqlServer> Administrator for ServerStore<SqlGroup<S>> {
    fn address_with(&self, connections: usize) -> Result<String, Stop> {
        Ok(with_options(&self.address(), &format!("connections={connections}")))
    }

    fn address_of_operator(&self) -> Result<String, Stop> {
        let group = self.group();
        Ok(group.url(S::ADMINISTRATOR, group.address()))
    }

    async fn behind_pooler(&self) -> Result<(Box<dyn Any + Send>, String), Stop> {
        let (pooler, port) = S::pooler(self.port()).await?;
        Ok((pooler, self.group().url_at(&[loopback(port)])))
    }

    async fn kill_connections(&self) -> Result<(), Stop> {
        kill_clients::<S>(self.port()).await
    }

    async fn connections(&self) -> Result<usize, Stop> {
        S::count(self.port(), S::CONNECTIONS).await
    }

    async fn open_transactions(&self) -> Result<usize, Stop> {
        S::count(self.port(), S::TRANSACTIONS).await
    }

    async fn take_all_connections(&self) -> Result<Box<dyn Any + Send>, Stop> {
        let (mut all, mut full_since) = (Vec::new(), None);
        while all.len() < TOO_MANY {
            match S::connect_as_locker(self.port()).await {
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
        Err(Stop::failed(format!("the server takes {TOO_MANY} connections and more")))
    }

    async fn set_time_zone(&self, offset: &str) -> Result<(), Stop> {
        self.set(&S::time_zone(offset)).await
    }

    async fn set_isolation(&self, level: &str) -> Result<(), Stop> {
        self.set(&S::isolation(level)).await
    }

    async fn end_idle_transactions(&self, after: Duration) -> Result<(), Stop> {
        self.set(&S::idle_limit(after)).await
    }

    async fn set_read_only(&self, read_only: bool) -> Result<(), Stop> {
        let statement = self.for_this_case_only(|group| group.primary.read_only(read_only))?;
        S::run(self.port(), &statement).await?;
        kill_clients::<S>(self.port()).await
    }

    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        self.step_wall_clock(seconds).await
    }

    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        self.set_disks_full(full)
    }
}

impl<S: SqlServer> ServerStore<SqlGroup<S>> {
    fn port(&self) -> u16 {
        self.group().primary.port()
    }

    /// Changes a setting of the whole server.
    async fn set(&self, statement: &str) -> Result<(), Stop> {
        let port = self.for_this_case_only(|group| group.primary.port());
        S::run(port, statement).await.map(drop)
    }
}
