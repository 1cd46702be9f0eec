//! A replica of a database, for the cases that need one: it follows asynchronously, as is the default, and takes over when it is
//! told to. Clients come by an address that moves with the primary.

use super::group::SqlGroup;
use super::server::SqlServer;
use crate::stores::cannot::in_time;
use crate::stores::connect::loopback;
use crate::stores::server_group::ServerGroup;
use crate::stores::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{ProcessClock, Replicas, Stop};
use std::time::Duration;

/// The other server of two. When it has taken over, it is the old primary.
#[derive(Debug)]
pub(super) struct Replica<S> {
    server: S,
    /// The address that leads to the primary.
    pub(super) primary_address: Proxy,
}

impl<S: SqlServer> ServerStore<SqlGroup<S>> {
    /// Starts anew, as two servers, the first of which has a clock that is ahead by so much.
    pub(super) async fn start_with_replica(&self, ahead: Duration) -> Result<(), Stop> {
        if self.group().replica.is_some() {
            return Ok(());
        }
        let clock = match i64::try_from(ahead.as_secs()) {
            Ok(seconds) if seconds > 0 => Some(ProcessClock::ahead(seconds)?),
            _ => None,
        };
        let environment = clock.as_ref().map(ProcessClock::environment).unwrap_or_default();
        let (primary, server) = S::launch_pair(&environment).await?;
        let mode = self.group().mode;
        let primary_address = Proxy::to(loopback(primary.port())).await.map_err(Stop::failed)?;
        let replica = Some(Replica { server, primary_address });
        self.replace(SqlGroup { primary, replica, mode }, clock);
        SqlGroup::set_up(self).await?;
        self.caught_up().await
    }

    async fn caught_up(&self) -> Result<(), Stop> {
        let primary = self.group().primary.port();
        let written = S::count(primary, S::WRITTEN).await?;
        // The replica may follow a primary that has begun anew with empty files: it would never catch up.
        in_time("the replica does not catch up", async {
            while S::count(self.replica_port()?, S::FOLLOWED).await? < written {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
        .await
    }

    fn replica_port(&self) -> Result<u16, Stop> {
        let none = || Stop::skipped("nothing follows the server");
        self.group().replica.as_ref().map(|replica| replica.server.port()).ok_or_else(none)
    }

    /// Makes the replica the primary, and moves the address. Connections that the old one has stay with it.
    async fn take_over(&self) -> Result<(), Stop> {
        S::promote(self.replica_port()?).await?;
        self.for_this_case_only(|group| {
            if let Some(replica) = &mut group.replica {
                std::mem::swap(&mut group.primary, &mut replica.server);
                replica.primary_address.lead_to(loopback(group.primary.port()));
            }
        });
        Ok(())
    }
}

#[async_trait]
impl<S: SqlServer> Replicas for ServerStore<SqlGroup<S>> {
    async fn catch_up(&self, _: &LockName) -> Result<(), Stop> {
        self.caught_up().await
    }

    /// After the replica has all that there is until now: the tables, and what clients have left in them.
    async fn cut_off(&self, _: &LockName) -> Result<(), Stop> {
        self.caught_up().await?;
        in_time("the replica listens on", S::cut_off(self.replica_port()?)).await
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.primary.kill());
        self.take_over().await
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.primary.pause());
        self.take_over().await
    }

    async fn revive(&self) -> Result<(), Stop> {
        self.for_this_case_only(|group| group.replica.iter().for_each(|replica| replica.server.resume()));
        Ok(())
    }
}
