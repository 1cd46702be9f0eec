//! What differs from one store of servers to another: how its servers start, where clients find them, and what an administrator
//! does to its records. [`ServerStore`] is what happens to them in a case, the same for all.

use super::cannot::{ensure_disk, no_hook};
use super::server_store::ServerStore;
use async_trait::async_trait;
use leasehold::LockName;
use leasehold::semantics::Fault;
use leasehold_conformance::server::ServerProcess;
use leasehold_conformance::{Case, Counters, Members, Replicas, Stop};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::time::Duration;

/// Variables that a server is started with.
pub(super) type Environment = [(String, String)];

/// A server that keeps data.
pub(super) trait DataServer: DerefMut<Target = ServerProcess> + Debug + Send + Sync + 'static {
    /// The server's port on 127.0.0.1.
    fn port(&self) -> u16;

    /// From now on, what is there counts as synced to the disk, and what comes later only if the server syncs it.
    fn sync(&mut self) -> Result<(), Stop> {
        ensure_disk()?;
        self.sync_to_own_disk()
    }

    /// Kills the server, and takes away what was not [synced](Self::sync).
    fn lose_power(&mut self) -> Result<(), Stop> {
        ServerProcess::lose_power(self)
    }
}

/// Servers that are one store.
///
/// Methods that take a `store` may wait; they lock its group for as long as they must, and never across an await.
#[async_trait]
pub(super) trait ServerGroup: Debug + Send + Sized + 'static {
    type Server: DataServer;
    /// How clients use the servers: `()` if there is one way.
    type Mode: Copy + Debug + Send + Sync + 'static;

    /// True if a server may send a client to another one, by its port.
    const NAME_EACH_OTHER: bool = false;
    /// False if a crash starts the servers empty, as those that are configured as shipped come back: they write only a snapshot now
    /// and then. A restart that keeps data keeps it all the same.
    const CRASH_KEEPS_DATA: bool = true;
    /// False if the subject does not offer observers of its clients' events.
    const HAS_OBSERVERS: bool = true;

    /// Whether a case is put to the subject, and if not, why.
    fn covers(_mode: Self::Mode, _case: &Case) -> Result<(), Stop> {
        Ok(())
    }

    /// Whether a fault can happen to the servers, and if not, why.
    fn can_meet(_fault: Fault) -> Result<(), Stop> {
        Ok(())
    }

    /// The longest lease that the servers make of this ttl.
    fn lease(ttl: Duration) -> Duration {
        ttl
    }

    // How servers start and end.

    /// Starts servers in this environment.
    fn launch(mode: Self::Mode, environment: &Environment) -> Result<Self, Stop>;

    /// The servers that keep data.
    fn servers(&mut self) -> &mut [Self::Server];

    /// Waits until servers that were started again are one store.
    fn settle(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn pause_all(&mut self) {
        self.servers().iter().for_each(|server| server.pause());
    }

    fn resume_all(&mut self) -> Result<(), Stop> {
        self.servers().iter().for_each(|server| server.resume());
        Ok(())
    }

    fn kill_all(&mut self) {
        self.servers().iter_mut().for_each(|server| server.kill());
    }

    fn restart_all(&mut self, keep_data: bool) -> Result<(), Stop> {
        self.kill_all();
        self.servers().iter_mut().try_for_each(|server| server.restart(keep_data))?;
        self.settle()
    }

    fn sync_all(&mut self) -> Result<(), Stop> {
        self.servers().iter_mut().try_for_each(Self::Server::sync)
    }

    // Where clients find the servers.

    /// The addresses that clients connect to.
    fn addresses(&self) -> Vec<SocketAddr>;

    /// The URL of the store at such addresses, of the servers or of proxies.
    fn url_at(&self, addresses: &[SocketAddr]) -> String;

    /// The URL for clients whose holds may last as long as this without a word from the store.
    fn url_for_holds_of(&self, _time: Duration, addresses: &[SocketAddr]) -> String {
        self.url_at(addresses)
    }

    /// The URL at the addresses of a proxy.
    fn url_through_proxy(&self, addresses: &[SocketAddr]) -> String {
        self.url_at(addresses)
    }

    /// Other URLs of the store.
    fn aliases(&self) -> Result<Vec<String>, Stop> {
        Err(no_hook("aliases"))
    }

    /// A URL with a secret in it.
    fn url_with_secret(&self, _secret: &str) -> Result<String, Stop> {
        Err(no_hook("secret"))
    }

    /// Lets clients use lock names with this prefix.
    fn permit_prefix(&self, _prefix: &str) -> Result<(), Stop> {
        Ok(())
    }

    // What an administrator does, by other means than the code under test.

    /// Prepares servers that have started with nothing.
    async fn set_up(_store: &ServerStore<Self>) -> Result<(), Stop> {
        Ok(())
    }

    /// Makes servers that another case has used like new ones.
    async fn reset(_store: &ServerStore<Self>) -> Result<(), Stop> {
        Ok(())
    }

    /// Refuses what clients ask for, or serves them again.
    async fn refuse(_store: &ServerStore<Self>, _refuse: bool) -> Result<(), Stop> {
        Err(no_hook("refuse"))
    }

    /// Deletes the record of a held lock.
    async fn delete(store: &ServerStore<Self>, name: &LockName) -> Result<(), Stop>;

    /// Deletes everything that the store keeps of a name.
    async fn delete_queue(_store: &ServerStore<Self>, _name: &LockName) -> Result<(), Stop> {
        Err(no_hook("delete_queue"))
    }

    /// Deletes everything.
    async fn wipe(store: &ServerStore<Self>) -> Result<(), Stop>;

    /// Loses everything in the worst way.
    async fn lose_data(store: &ServerStore<Self>) -> Result<(), Stop> {
        Self::wipe(store).await
    }

    /// How many keys, rows or nodes there are.
    async fn records(store: &ServerStore<Self>) -> Result<usize, Stop>;

    /// What the servers have counted.
    fn counters(&self) -> Result<Counters, Stop> {
        Err(no_hook("counters"))
    }

    /// The wall clocks that the servers show, in milliseconds since 1970.
    async fn wall_clocks(store: &ServerStore<Self>) -> Result<Vec<i64>, Stop>;

    /// Lets a replica follow from now on, whose clock is behind by so much.
    async fn replicate(store: &ServerStore<Self>, _behind: Duration) -> Result<(), Stop> {
        Self::replicas(store).map(drop)
    }

    fn members(_store: &ServerStore<Self>) -> Result<&dyn Members, Stop> {
        Err(no_hook("members"))
    }

    fn replicas(_store: &ServerStore<Self>) -> Result<&dyn Replicas, Stop> {
        Err(no_hook("replicas"))
    }
}
