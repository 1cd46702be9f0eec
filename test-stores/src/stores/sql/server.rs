use crate::stores::cannot::in_time;
use crate::stores::server_group::{DataServer, Environment};
use async_trait::async_trait;
use leasehold_conformance::Stop;
use std::any::Any;
use std::time::Duration;

/// A database server, and what an administrator does to it: not by the code under test.
#[async_trait]
pub(in crate::stores) trait SqlServer: DataServer + Sized {
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const DATABASE: &'static str;
    const ADMINISTRATOR: &'static str;
    /// More options of its URLs.
    const OPTIONS: &'static str = "";
    /// Counts the connections of clients.
    const CONNECTIONS: &'static str;
    /// Counts the transactions that clients have open.
    const TRANSACTIONS: &'static str;
    /// Reads the server's wall clock, in seconds since 1970.
    const WALL_CLOCK: &'static str;
    /// Reads how far a primary has written what replicas follow, as a number that grows.
    const WRITTEN: &'static str;
    /// Reads how far a replica has come, by the same count.
    const FOLLOWED: &'static str;

    fn launch(environment: &Environment) -> Result<Self, Stop>;
    /// Starts a primary in this environment, and a replica in its own.
    async fn launch_pair(environment: &Environment) -> Result<(Self, Self), Stop>;

    /// Runs a statement as the administrator, and answers how many rows it has changed.
    async fn run(port: u16, statement: &str) -> Result<u64, Stop>;
    async fn count(port: u16, statement: &str) -> Result<usize, Stop>;
    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Stop>;
    /// Ends the connections of clients, and waits until the server has noticed.
    async fn kill_clients(port: u16) -> Result<(), Stop>;
    /// A connection of the user of the tables.
    async fn connect_as_locker(port: u16) -> Result<Box<dyn Any + Send>, Stop>;
    /// A pooler in front of the server that lends sessions for one transaction at a time, and its port.
    async fn pooler(port: u16) -> Result<(Box<dyn Any + Send>, u16), Stop>;
    /// Lets a replica hear nothing more.
    async fn cut_off(port: u16) -> Result<(), Stop>;
    /// Makes a replica a primary.
    async fn promote(port: u16) -> Result<(), Stop>;

    /// Makes the server read-only or writable, as far as that takes no statement, and answers the statement for the rest.
    fn read_only(&mut self, read_only: bool) -> Result<String, Stop>;

    /// The statements that let `locker` use a table and nothing else.
    fn grants(table: &str) -> Vec<String>;

    // The statements that change a setting for the sessions that come, if they do not choose their own.
    fn time_zone(offset: &str) -> String;
    fn isolation(level: &str) -> String;
    fn idle_limit(limit: Duration) -> String;
}

/// Ends the connections of clients, within a limit.
pub(super) async fn kill_clients<S: SqlServer>(port: u16) -> Result<(), Stop> {
    in_time("clients are still connected", S::kill_clients(port)).await
}
