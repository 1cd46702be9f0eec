//! A primary, a replica, and three Sentinels that watch them.

mod sentinel;

use super::RedisServer;
use leasehold_conformance::server::{ServerProcess, StartError, free_port};
use sentinel::{DOWN_AFTER, FASTER, NAME, Sentinel};
use std::time::{Duration, Instant};

/// So many Sentinels, of which two must agree that the primary is gone.
const SENTINELS: usize = 3;

/// Limit for a start or a fail-over. It takes a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);

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
    pub fn start() -> Result<Self, StartError> {
        let primary = RedisServer::start_with(&ARGUMENTS)?;
        let follow = format!("127.0.0.1 {}", primary.port());
        let replica = RedisServer::start_with(&[&ARGUMENTS[..], &["--replicaof", &follow]].concat())?;
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
        let hosts: Vec<String> =
            self.sentinel_ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The ports of the Sentinels.
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(|sentinel| sentinel.port).collect()
    }

    /// The two servers with data. Which of them is the primary changes.
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// The same, to be killed and restarted.
    pub fn server_mut(&mut self, number: usize) -> &mut RedisServer {
        &mut self.servers[number]
    }

    /// Both of them.
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
    pub fn fail_over(&mut self) -> Result<(), StartError> {
        let primary = self.known_primary()?;
        self.servers[primary].kill();
        self.make_impatient(true)?;
        self.wait_for_primary(1 - primary)?;
        self.make_impatient(false)
    }

    /// Stops the primary without closing a connection, and waits until the other one has taken over. Which one it was.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn supplant(&self) -> Result<usize, StartError> {
        let primary = self.known_primary()?;
        self.servers[primary].pause();
        self.make_impatient(true)?;
        self.wait_for_primary(1 - primary)?;
        self.make_impatient(false)?;
        Ok(primary)
    }

    /// Lets the Sentinels put the replica in the place of a primary that is well, as before its maintenance, and waits until
    /// they have. Which one it was: it goes on as a primary, because nobody tells it for minutes. In peace that takes them
    /// ten seconds.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn switch_over(&self) -> Result<usize, StartError> {
        let primary = self.known_primary()?;
        self.tell_sentinels(&["SENTINEL", "DEBUG", "publish-period", "60000"])?;
        self.sentinels[0].tell(&["SENTINEL", "FAILOVER", NAME])?;
        self.wait_for_primary(1 - primary)?;
        Ok(primary)
    }

    fn make_impatient(&self, impatient: bool) -> Result<(), StartError> {
        let after = DOWN_AFTER[usize::from(impatient)];
        self.tell_sentinels(&["SENTINEL", "SET", NAME, "down-after-milliseconds", after])
    }

    /// Waits until a server is a primary that takes writes, and all Sentinels say so.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_for_primary(&self, number: usize) -> Result<(), StartError> {
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
    pub fn cut_replica_off(&self) -> Result<(), StartError> {
        // A Sentinel makes a replica of what ought to be one, but if it is told to take its time, only after four minutes.
        self.tell_sentinels(&["SENTINEL", "DEBUG", "publish-period", "60000"])?;
        let replica = 1 - self.known_primary()?;
        tell(&self.servers[replica], &["REPLICAOF", "NO", "ONE"])
    }

    /// Starts again whoever is down, and waits until there is a primary with a replica, and all Sentinels know.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn heal(&mut self) -> Result<(), StartError> {
        for server in &mut self.servers {
            if server.command(&["PING"]).is_err() {
                server.restart(true)?;
            }
        }
        self.tell_sentinels(&FASTER)?;
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

    /// Lets them go on: those with data first, or they would be found dead.
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
    pub fn restart(&mut self, keep_data: bool) -> Result<(), StartError> {
        self.kill();
        self.servers.iter_mut().try_for_each(|server| server.restart(keep_data))?;
        for sentinel in &mut self.sentinels {
            sentinel.process.restart(false)?;
            sentinel.hurry()?;
        }
        self.wait_until_whole()
    }

    fn known_primary(&self) -> Result<usize, StartError> {
        self.primary().ok_or_else(|| StartError::new("no Sentinel names a primary"))
    }

    fn processes(&self) -> impl Iterator<Item = &ServerProcess> {
        let servers = self.servers.iter().map(|server| &**server);
        servers.chain(self.sentinels.iter().map(|sentinel| &sentinel.process))
    }

    fn tell_sentinels(&self, words: &[&str]) -> Result<(), StartError> {
        self.sentinels.iter().try_for_each(|sentinel| sentinel.tell(words))
    }

    /// Waits until there is a primary with a replica, and all Sentinels know.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_until_whole(&self) -> Result<(), StartError> {
        wait_until("a primary has a replica that all Sentinels know", || {
            let Some(primary) = self.primary() else { return false };
            let replica = self.servers[1 - primary].command(&["INFO", "replication"]).unwrap_or_default();
            replica.contains("master_link_status:up")
                && self.sentinels.iter().all(|sentinel| sentinel.sees_all(self.servers[primary].port()))
        })
    }
}

/// For the servers with data. `everysec` would hold a write back for up to two seconds on a busy disk, and a kill lose it.
const ARGUMENTS: [&str; 10] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
    "--repl-diskless-load",
    "swapdb",
];

fn tell(server: &RedisServer, words: &[&str]) -> Result<(), StartError> {
    match server.command(words) {
        Ok(answer) if answer.starts_with("+OK") => Ok(()),
        answer => Err(StartError::new(format!("a server answers {words:?} with {answer:?}"))),
    }
}

/// Asks every few milliseconds.
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), StartError> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > PATIENCE {
            return Err(StartError::new(format!("after {PATIENCE:?} it is not so that {what}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
