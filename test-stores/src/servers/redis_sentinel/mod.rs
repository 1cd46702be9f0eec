//! A primary, a replica, and three Sentinels that watch them.

mod sentinel;

use super::RedisServer;
use super::wait::wait_until;
use leasehold_conformance::Stop;
use leasehold_conformance::server::{ServerProcess, free_port};
use sentinel::{DOWN_AFTER, DOWN_AFTER_ONCE_WANTED, NAME, Sentinel};

/// Two of the three must agree that the primary is gone.
const SENTINELS: usize = 3;

/// A Redis with a replica, which three Sentinels promote when the primary is gone.
#[derive(Debug)]
pub struct RedisSentinelGroup {
    servers: [RedisServer; 2],
    sentinels: Vec<Sentinel>,
}

impl RedisSentinelGroup {
    /// Starts five servers, and waits until the replica follows and the Sentinels know.
    ///
    /// # Errors
    ///
    /// If Redis is not installed or does not start.
    pub fn start() -> Result<Self, Stop> {
        Self::start_in(&[])
    }

    /// Starts them with the servers that keep data in this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(environment: &[(String, String)]) -> Result<Self, Stop> {
        let mut arguments: Vec<&str> = ARGUMENTS.split_whitespace().collect();
        let primary = RedisServer::start_in(&arguments, environment)?;
        let follow = format!("127.0.0.1 {}", primary.port());
        arguments.extend(["--replicaof", &follow]);
        let replica = RedisServer::start_in(&arguments, environment)?;
        let ports = (0..SENTINELS).map(|_| free_port()).collect::<Result<Vec<_>, _>>()?;
        let sentinels = (0..SENTINELS)
            .map(|number| Sentinel::start(number, &ports, primary.port(), replica.port()))
            .collect::<Result<_, _>>()?;
        let group = Self { servers: [primary, replica], sentinels };
        group.wait_until_whole()?;
        Ok(group)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        Self::url_with(self.sentinel_ports())
    }

    /// The URL of a group whose Sentinels are reached by these ports.
    pub fn url_with(sentinels: impl IntoIterator<Item = u16>) -> String {
        let hosts: Vec<String> = sentinels.into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The ports of the Sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|sentinel| sentinel.port).collect()
    }

    /// A server with data, 0 or 1. Which of the two is the primary changes.
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// Both servers with data, to be killed and restarted.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// Which of the two is the primary, as a Sentinel sees it.
    pub fn primary(&self) -> Option<usize> {
        let port = self.sentinels.iter().find_map(Sentinel::primary_port)?;
        self.servers.iter().position(|server| server.port() == port)
    }

    /// Kills the primary and waits until the other one has taken over, in the eyes of all Sentinels.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn fail_over(&mut self) -> Result<(), Stop> {
        let primary = self.known_primary()?;
        self.servers[primary].kill();
        self.wait_until_replaced(primary)
    }

    /// Stops the primary without closing a connection, waits until the other one has taken over, and answers which one it was.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn supplant(&self) -> Result<usize, Stop> {
        let primary = self.known_primary()?;
        self.servers[primary].pause();
        self.wait_until_replaced(primary)?;
        Ok(primary)
    }

    /// Lets the Sentinels put the replica in the place of a primary that is well, as before its maintenance, and waits until
    /// they have. The old primary, which is answered, goes on as one: the Sentinels, told to take their time, correct it after
    /// minutes. Otherwise that takes them ten seconds.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn switch_over(&self) -> Result<usize, Stop> {
        let primary = self.known_primary()?;
        self.tell_sentinels(&["SENTINEL", "DEBUG", "publish-period", "60000"])?;
        self.sentinels[0].tell(&["SENTINEL", "FAILOVER", NAME])?;
        self.wait_for_primary(1 - primary)?;
        Ok(primary)
    }

    /// Waits until the other server is the primary. The Sentinels give the old one up sooner meanwhile.
    fn wait_until_replaced(&self, primary: usize) -> Result<(), Stop> {
        let set_down_after =
            |after| self.tell_sentinels(&["SENTINEL", "SET", NAME, "down-after-milliseconds", after]);
        set_down_after(DOWN_AFTER_ONCE_WANTED)?;
        self.wait_for_primary(1 - primary)?;
        set_down_after(DOWN_AFTER)
    }

    /// Waits until a server is a primary that takes writes, and all Sentinels say so.
    fn wait_for_primary(&self, number: usize) -> Result<(), Stop> {
        let port = self.servers[number].port();
        wait_until("the replica has taken over", || {
            let role = self.servers[number].command(&["ROLE"]).unwrap_or_default();
            role.contains("master") && self.sentinels.iter().all(|one| one.primary_port() == Some(port))
        })
    }

    /// Cuts the replica off from the primary: what that is told from now on, it will not have when it takes over.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn cut_replica_off(&self) -> Result<(), Stop> {
        // A Sentinel makes this server a replica again; told to take its time, only after four minutes.
        self.tell_sentinels(&["SENTINEL", "DEBUG", "publish-period", "60000"])?;
        let replica = 1 - self.known_primary()?;
        tell(&self.servers[replica], &["REPLICAOF", "NO", "ONE"])
    }

    /// Starts servers again that are down, and waits until there is a primary with a replica, and all Sentinels know.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn heal(&mut self) -> Result<(), Stop> {
        for server in &mut self.servers {
            if server.command(&["PING"]).is_err() {
                server.restart(true)?;
            }
        }
        self.sentinels.iter().try_for_each(Sentinel::hurry)?;
        let primary = self.known_primary()?;
        let port = self.servers[primary].port().to_string();
        // The Sentinels would do it, in their time.
        tell(&self.servers[1 - primary], &["REPLICAOF", "127.0.0.1", &port])?;
        self.wait_until_whole()
    }

    /// Stops all servers without closing a connection.
    pub fn pause(&self) {
        self.processes().for_each(ServerProcess::pause);
    }

    /// Lets all servers go on: those with data first, or the Sentinels would find them dead.
    pub fn resume(&self) {
        self.processes().for_each(ServerProcess::resume);
    }

    /// Kills all servers.
    pub fn kill(&mut self) {
        self.sentinels.iter_mut().for_each(|sentinel| sentinel.process.kill());
        self.servers.iter_mut().for_each(|server| server.kill());
    }

    /// Starts all servers again, with what they had written or with nothing. The first is the primary again.
    ///
    /// # Errors
    ///
    /// If one does not start.
    pub fn restart(&mut self, keep_data: bool) -> Result<(), Stop> {
        self.kill();
        self.servers.iter_mut().try_for_each(|server| server.restart(keep_data))?;
        for sentinel in &mut self.sentinels {
            sentinel.process.restart(false)?;
            sentinel.hurry()?;
        }
        self.wait_until_whole()
    }

    fn known_primary(&self) -> Result<usize, Stop> {
        self.primary().ok_or_else(|| Stop::failed("no Sentinel names a primary"))
    }

    fn processes(&self) -> impl Iterator<Item = &ServerProcess> {
        let servers = self.servers.iter().map(|server| &**server);
        servers.chain(self.sentinels.iter().map(|sentinel| &sentinel.process))
    }

    fn tell_sentinels(&self, words: &[&str]) -> Result<(), Stop> {
        self.sentinels.iter().try_for_each(|sentinel| sentinel.tell(words))
    }

    /// Waits until there is a primary with a replica, and all Sentinels know.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_until_whole(&self) -> Result<(), Stop> {
        wait_until("a primary has a replica that all Sentinels know", || {
            let Some(primary) = self.primary() else { return false };
            let replica = self.servers[1 - primary].command(&["INFO", "replication"]).unwrap_or_default();
            replica.contains("master_link_status:up")
                && self.sentinels.iter().all(|sentinel| sentinel.sees_all(self.servers[primary].port()))
        })
    }
}

/// Arguments of the servers with data. `everysec` would hold a write back for up to two seconds on a busy disk, and a kill lose it.
const ARGUMENTS: &str = "--appendonly yes --appendfsync no \
    --repl-diskless-sync-delay 0 --repl-ping-replica-period 1 --repl-diskless-load swapdb";

fn tell(server: &RedisServer, words: &[&str]) -> Result<(), Stop> {
    match server.command(words) {
        Ok(answer) if answer.starts_with("+OK") => Ok(()),
        answer => Err(Stop::failed(format!("a server answers {words:?} with {answer:?}"))),
    }
}
