use async_trait::async_trait;
use leasehold_conformance::Cannot;
use leasehold_conformance::server::ServerProcess;
use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

/// A database server, and the suite's own hands in it: not by the code under test.
#[async_trait]
pub(crate) trait SqlServer: Debug + Send + Sync + Sized + 'static {
    const SCHEME: &'static str;
    const ALIAS: &'static str;
    const DATABASE: &'static str;
    const ADMINISTRATOR: &'static str;
    /// What else stands in its URLs.
    const OPTIONS: &'static str = "";
    /// Counts the connections of clients.
    const CONNECTIONS: &'static str;
    /// Counts the transactions that clients have open.
    const TRANSACTIONS: &'static str;
    /// Reads the server's wall clock, in seconds since 1970.
    const WALL_CLOCK: &'static str;

    /// Starts one in this environment.
    async fn launch(environment: Vec<(String, String)>) -> Result<Self, Cannot>;
    /// Starts one in this environment, and another one that follows it, in its own.
    async fn launch_pair(environment: Vec<(String, String)>) -> Result<(Self, Self), Cannot>;
    fn port(&self) -> u16;
    fn process(&mut self) -> &mut ServerProcess;

    /// Runs a statement as the administrator; how many rows it changed.
    async fn run(port: u16, statement: &str) -> Result<u64, Cannot>;
    async fn count(port: u16, statement: &str) -> Result<usize, Cannot>;
    async fn delete(port: u16, table: &str, name: &[u8]) -> Result<u64, Cannot>;
    /// Ends the connections of clients.
    async fn kill_clients(port: u16) -> Result<(), Cannot>;
    /// A connection of somebody who is no administrator.
    async fn stranger(port: u16) -> Result<Box<dyn Any + Send>, Cannot>;

    /// A pooler in front of the server that lends sessions for one transaction at a time, and its port.
    async fn pooler(port: u16) -> Result<(Box<dyn Any + Send>, u16), Cannot>;

    /// The statements that let `locker` use a table and nothing else.
    fn grants(table: &str) -> Vec<String>;

    /// Makes the server one that changes nothing, or one that does again; then this statement makes it so.
    fn read_only(&mut self, read_only: bool) -> Result<String, Cannot>;

    /// How far the server has written what others follow, as a number that grows.
    const WRITTEN: &'static str;
    /// How far one that follows has come, by the same count.
    const FOLLOWED: &'static str;
    /// Lets one that follows hear nothing more.
    async fn cut_off(port: u16) -> Result<(), Cannot>;
    /// Makes one that follows a primary.
    async fn promote(port: u16) -> Result<(), Cannot>;

    // The statements that change a setting for the sessions that come, if they do not choose their own.
    fn time_zone(offset: &str) -> String;
    fn isolation(level: &str) -> String;
    fn idle_limit(limit: Duration) -> String;
}
