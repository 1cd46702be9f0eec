//! A replica of a database, for the cases that need one: it follows asynchronously, as replicas do that nobody has told
//! to do otherwise, and takes over when it is told to. Clients come by an address that moves with the primary.

use super::{Pooled, Running, SqlServer, cannot, in_time};
use async_trait::async_trait;
use leasehold::LockName;
use leasehold_conformance::proxy::Proxy;
use leasehold_conformance::{Cannot, Replicas, SteppedClock};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// The other server of two, and the address that leads to the primary.
#[derive(Debug)]
pub(super) struct Follower<Server> {
    server: Pooled<Server>,
    address: Proxy,
}

impl<Server: SqlServer> Running<Server> {
    /// Starts anew, as two servers, the first of which has a clock that is ahead by so much.
    pub(super) async fn be_followed(&self, ahead: Duration) -> Result<(), Cannot> {
        if self.followed_at().is_some() {
            return Ok(());
        }
        let (primary, follower) = self.launch_pair(ahead).await?;
        self.replace(primary);
        self.furnish().await.map_err(cannot)?;
        let address = Proxy::to(([127, 0, 0, 1], self.port()).into()).await.map_err(cannot)?;
        *self.follower() = Some(Follower { server: Pooled::apart(follower), address });
        self.caught_up().await
    }

    async fn launch_pair(&self, ahead: Duration) -> Result<(Server, Server), Cannot> {
        let Some(seconds) = i64::try_from(ahead.as_secs()).ok().filter(|seconds| *seconds > 0) else {
            return Server::launch_pair(Vec::new()).await;
        };
        let clock = SteppedClock::ahead(seconds)?;
        let pair = Server::launch_pair(clock.environment()).await?;
        *self.clock() = Some(clock);
        Ok(pair)
    }

    /// The address that moves, if there is one.
    pub(super) fn followed_at(&self) -> Option<String> {
        self.follower().as_ref().map(|follower| follower.address.address().to_string())
    }

    fn follower(&self) -> MutexGuard<'_, Option<Follower<Server>>> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn caught_up(&self) -> Result<(), Cannot> {
        let written = Server::count(self.port(), Server::WRITTEN).await?;
        // It may follow a primary that is no more: one that began anew with empty files.
        in_time("the replica does not catch up", async {
            while Server::count(self.port_of_follower()?, Server::FOLLOWED).await? < written {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
        .await
    }

    fn port_of_follower(&self) -> Result<u16, Cannot> {
        let none = || Cannot::new("nothing follows the server");
        self.follower().as_ref().map(|follower| follower.server.port()).ok_or_else(none)
    }

    /// Makes the follower the primary, and moves the address. Connections that the old one has stay with it.
    async fn take_over(&self) -> Result<(), Cannot> {
        Server::promote(self.port_of_follower()?).await?;
        if let Some(follower) = &mut *self.follower() {
            std::mem::swap(&mut *self.server(), &mut follower.server);
            follower.address.lead_to(([127, 0, 0, 1], self.port()).into());
        }
        Ok(())
    }
}

#[async_trait]
impl<Server: SqlServer> Replicas for Running<Server> {
    async fn catch_up(&self, _: &LockName) -> Result<(), Cannot> {
        self.caught_up().await
    }

    /// With all that there is until now: the tables, and what clients have left in them.
    async fn cut_off(&self, _: &LockName) -> Result<(), Cannot> {
        self.caught_up().await?;
        in_time("the replica listens on", Server::cut_off(self.port_of_follower()?)).await
    }

    async fn fail_over(&self, _: &LockName) -> Result<(), Cannot> {
        self.server().process().kill();
        self.take_over().await
    }

    async fn supplant(&self, _: &LockName) -> Result<(), Cannot> {
        self.server().process().pause();
        self.take_over().await
    }

    async fn revive(&self) -> Result<(), Cannot> {
        if let Some(old) = &mut *self.follower() {
            old.server.process().resume();
        }
        Ok(())
    }
}
