//! What the administrator of a database does while locks are held: mostly with good reasons, never with a warning.

use crate::stop::Stop;
use async_trait::async_trait;
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// The administrator of a store whose clients have sessions: connections with settings, transactions and an end.
///
/// A hook that is not there skips the cases that need it. Errors and cancel safety are those of [`Store`](crate::Store).
#[allow(unused_variables, reason = "a hook that is not there, or does nothing, needs none of them")]
#[async_trait]
pub trait Administrator: fmt::Debug + Send + Sync + 'static {
    /// The store's address for a client that may have so many connections for its statements.
    fn address_with(&self, connections: usize) -> Result<String, Stop> {
        Err(Stop::no_hook("address_with"))
    }

    /// The store's address for a client that may forget names, where those that take locks may not.
    fn address_of_operator(&self) -> Result<String, Stop> {
        Err(Stop::no_hook("address_of_operator"))
    }

    /// The store's address behind a pooler that lends sessions for one transaction at a time, and the pooler, which
    /// ends when it is dropped.
    async fn behind_pooler(&self) -> Result<(Box<dyn Any + Send>, String), Stop> {
        Err(Stop::no_hook("behind_pooler"))
    }

    /// The store's address on a file system that is not of this host alone, and that file system, which is unmounted
    /// when it is dropped.
    async fn behind_network_file_system(&self) -> Result<(Box<dyn Any + Send>, String), Stop> {
        Err(Stop::no_hook("behind_network_file_system"))
    }

    /// Ends the connections of all clients; the clients themselves live on.
    async fn kill_connections(&self) -> Result<(), Stop> {
        Err(Stop::no_hook("kill_connections"))
    }

    /// How many connections the clients have.
    async fn connections(&self) -> Result<usize, Stop> {
        Err(Stop::no_hook("connections"))
    }

    /// How many transactions the clients have open.
    async fn open_transactions(&self) -> Result<usize, Stop> {
        Err(Stop::no_hook("open_transactions"))
    }

    /// Opens connections until the store takes no more, and keeps them until the answer is dropped.
    async fn take_all_connections(&self) -> Result<Box<dyn Any + Send>, Stop> {
        Err(Stop::no_hook("take_all_connections"))
    }

    /// Sets the time zone of sessions that begin from now on and do not choose their own: `+02:00`.
    async fn set_time_zone(&self, offset: &str) -> Result<(), Stop> {
        Err(Stop::no_hook("set_time_zone"))
    }

    /// Sets the isolation level of sessions that begin from now on and do not choose their own: `SERIALIZABLE`.
    async fn set_isolation(&self, level: &str) -> Result<(), Stop> {
        Err(Stop::no_hook("set_isolation"))
    }

    /// Ends transactions in which nothing has been asked for this long, in sessions that begin from now on and do not
    /// choose their own; and whole sessions, where the store knows no other way.
    async fn end_idle_transactions(&self, after: Duration) -> Result<(), Stop> {
        Err(Stop::no_hook("end_idle_transactions"))
    }

    /// Lets the store change nothing any more, or change things again. What is under way is finished or ended.
    async fn set_read_only(&self, read_only: bool) -> Result<(), Stop> {
        Err(Stop::no_hook("set_read_only"))
    }

    /// Sets the store's wall clock this far ahead of the true time, or behind it, while it runs. The first step, which
    /// should be none, may be a new start with nothing.
    async fn set_clock_ahead(&self, seconds: i64) -> Result<(), Stop> {
        Err(Stop::no_hook("set_clock_ahead"))
    }

    /// What must be done before anybody is connected, so that its disk can be [filled](Self::fill_disk). Default: nothing.
    async fn prepare_disk(&self) -> Result<(), Stop> {
        Ok(())
    }

    /// Leaves no room for what the store wants to write; or makes room again, and starts the store anew if it died of it.
    async fn fill_disk(&self, full: bool) -> Result<(), Stop> {
        Err(Stop::no_hook("fill_disk"))
    }

    /// Makes the store throw away all that it keeps, as one does that has no room left in its memory; then it has room
    /// again.
    async fn evict_everything(&self) -> Result<(), Stop> {
        Err(Stop::no_hook("evict_everything"))
    }

    /// Makes the store forget the programs that its clients have left with it.
    async fn forget_scripts(&self) -> Result<(), Stop> {
        Err(Stop::no_hook("forget_scripts"))
    }

    /// Lets somebody's program keep the store from everything else for so long. Returns when it runs.
    async fn be_busy(&self, time: Duration) -> Result<(), Stop> {
        Err(Stop::no_hook("be_busy"))
    }

    /// Keeps the store's replica from hearing of changes, or lets it hear of them and waits until it has.
    async fn hold_back_replication(&self, hold: bool) -> Result<(), Stop> {
        Err(Stop::no_hook("hold_back_replication"))
    }
}
