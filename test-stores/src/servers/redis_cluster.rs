//! A Redis cluster: three primaries, each with a replica if that is asked for.

use super::RedisServer;
use super::wait::wait_until;
use leasehold_conformance::Stop;
use leasehold_conformance::server::free_port;

/// How many primaries.
const PRIMARIES: usize = 3;

/// How many slots a cluster has.
const SLOTS: usize = 16_384;

/// How long the nodes let one of them be silent, in ms, so that a busy machine makes no fail-over.
const NODE_TIMEOUT: &str = "10000";

/// The same once a fail-over is wanted.
const NODE_TIMEOUT_ONCE_WANTED: &str = "500";

const ARGUMENTS: &str = "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-replica-validity-factor 0 \
    --appendonly yes --appendfsync no --repl-diskless-sync-delay 0 --repl-ping-replica-period 1";

/// Three Redis nodes that share the keys among them, perhaps with a replica each.
#[derive(Debug)]
pub struct RedisCluster {
    /// The primaries first, then their replicas in the same order.
    nodes: Vec<RedisServer>,
    ports: Vec<NodePorts>,
}

/// A node before it is started.
#[derive(Clone, Copy, Debug)]
struct NodePorts {
    port: u16,
    tls: u16,
    bus: u16,
}

impl RedisCluster {
    /// Starts three primaries, and as many replicas if they are wanted, and waits until they serve all keys: two seconds,
    /// which Redis takes before it trusts its own memory.
    ///
    /// # Errors
    ///
    /// If Redis is not installed or does not start.
    pub fn start(with_replicas: bool) -> Result<Self, Stop> {
        Self::start_all(if with_replicas { 2 * PRIMARIES } else { PRIMARIES }, &[], &[])
    }

    /// Starts three primaries with a replica each, in this environment.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(environment: &[(String, String)]) -> Result<Self, Stop> {
        Self::start_all(2 * PRIMARIES, &[], environment)
    }

    /// Starts three primaries that use TLS with these settings, among themselves and for clients, on other [ports](Self::tls_ports).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with_tls(settings: &[(&str, String)]) -> Result<Self, Stop> {
        Self::start_all(PRIMARIES, settings, &[])
    }

    fn start_all(
        count: usize,
        tls: &[(&str, String)],
        environment: &[(String, String)],
    ) -> Result<Self, Stop> {
        let port = || if tls.is_empty() { Ok(0) } else { free_port() };
        let ports = (0..count)
            .map(|_| Ok(NodePorts { port: free_port()?, tls: port()?, bus: free_port()? }))
            .collect::<Result<Vec<_>, Stop>>()?;
        let nodes = (0..count)
            .map(|number| start_node(number, &ports, tls, environment))
            .collect::<Result<_, _>>()?;
        let cluster = Self { nodes, ports };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// The ports of the nodes for TLS.
    pub fn tls_ports(&self) -> Vec<u16> {
        self.ports.iter().map(|node| node.tls).collect()
    }

    /// Its URL, with all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The nodes: the first three have begun as primaries, the others as their replicas.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The same, to be killed and restarted.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// The slot of a key, as a node says.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn slot_of(&self, key: &str) -> Result<u16, Stop> {
        let answer = self.answer(0, &["CLUSTER", "KEYSLOT", key])?;
        answer.trim_start_matches(':').parse().map_err(|_| Stop::failed(answer))
    }

    /// Kills the replica of a key's primary, so that it will never have what the primary is told from now on.
    ///
    /// # Errors
    ///
    /// If the nodes do not agree on the primary.
    pub fn cut_replica_off(&mut self, key: &str) -> Result<(), Stop> {
        let replica = Self::partner_of(self.owner_of(key)?);
        self.nodes[replica].kill();
        Ok(())
    }

    /// Kills the primary of a key and waits until its replica has taken over, with what that had.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn fail_over(&mut self, key: &str) -> Result<(), Stop> {
        let primary = self.owner_of(key)?;
        self.nodes[primary].kill();
        self.start_partner_of(primary)?;
        self.until_replaced(primary, key)
    }

    /// Starts a replica again that was cut off. Its primary is down, so it learns nothing new.
    fn start_partner_of(&mut self, primary: usize) -> Result<(), Stop> {
        let replica = &mut self.nodes[Self::partner_of(primary)];
        if replica.command(&["PING"]).is_err() {
            replica.restart(true)?;
        }
        Ok(())
    }

    /// Stops the primary of a key without closing a connection, waits until its replica has taken over, and answers which
    /// one it was.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn supplant(&mut self, key: &str) -> Result<usize, Stop> {
        let primary = self.owner_of(key)?;
        self.nodes[primary].pause();
        self.start_partner_of(primary)?;
        self.until_replaced(primary, key)?;
        Ok(primary)
    }

    fn until_replaced(&self, primary: usize, key: &str) -> Result<(), Stop> {
        let replica = Self::partner_of(primary);
        self.set_node_timeout(primary, NODE_TIMEOUT_ONCE_WANTED)?;
        wait_until("the replica has taken over", || self.serves(replica, key))?;
        self.set_node_timeout(primary, NODE_TIMEOUT)
    }

    /// The other node that has the same slots.
    pub(crate) fn partner_of(node: usize) -> usize {
        (node + PRIMARIES) % (2 * PRIMARIES)
    }

    fn set_node_timeout(&self, gone: usize, timeout: &str) -> Result<(), Stop> {
        let mut living = (0..self.nodes.len()).filter(|node| *node != gone);
        living.try_for_each(|node| self.tell(node, &["CONFIG", "SET", "cluster-node-timeout", timeout]))
    }

    /// The node that is the primary of a key, as all that live agree.
    ///
    /// # Errors
    ///
    /// If they do not agree in any reasonable time.
    pub fn owner_of(&self, key: &str) -> Result<usize, Stop> {
        let mut owner = None;
        wait_until("the nodes agree on the primary of a key", || {
            let owners: Vec<usize> = (0..self.nodes.len()).filter(|node| self.serves(*node, key)).collect();
            owner = owners.first().copied().filter(|_| owners.len() == 1);
            owner.is_some()
        })?;
        owner.ok_or_else(|| Stop::failed("no owner"))
    }

    /// Waits until every node that lives serves all slots, and every replica follows.
    ///
    /// # Errors
    ///
    /// If that takes longer than anything reasonable.
    pub fn wait_until_whole(&self) -> Result<(), Stop> {
        wait_until("all nodes serve all slots", || {
            self.nodes.iter().all(|node| {
                let info = node.command(&["CLUSTER", "INFO"]).unwrap_or_default();
                let replication = node.command(&["INFO", "replication"]).unwrap_or_default();
                let all = format!("cluster_slots_ok:{SLOTS}");
                info.contains("cluster_state:ok")
                    && info.contains(&all)
                    && !replication.contains("master_link_status:down")
            })
        })
    }

    /// True if the node lives and takes writes to the key.
    fn serves(&self, node: usize, key: &str) -> bool {
        let answer = self.nodes[node].command(&["EVAL", "return 1", "1", key]);
        answer.is_ok_and(|answer| answer == ":1")
    }

    fn tell(&self, node: usize, words: &[&str]) -> Result<(), Stop> {
        let answer = self.answer(node, words)?;
        if answer.starts_with('+') { Ok(()) } else { Err(Stop::failed(format!("{words:?}: {answer}"))) }
    }

    fn answer(&self, node: usize, words: &[&str]) -> Result<String, Stop> {
        let answer = self.nodes[node].command(words);
        answer.map_err(|error| Stop::failed(format!("node {node} does not answer {words:?}: {error}")))
    }
}

fn start_node(
    number: usize,
    ports: &[NodePorts],
    tls: &[(&str, String)],
    environment: &[(String, String)],
) -> Result<RedisServer, Stop> {
    let own = ports[number];
    let (bus, tls_port) = (own.bus.to_string(), own.tls.to_string());
    let mut arguments: Vec<&str> = ARGUMENTS.split_whitespace().collect();
    arguments.extend(["--cluster-port", &bus, "--cluster-node-timeout", NODE_TIMEOUT]);
    let settings: Vec<_> = tls.iter().map(|(setting, value)| (format!("--{setting}"), value)).collect();
    if !tls.is_empty() {
        arguments.extend(["--tls-port", &tls_port, "--tls-cluster", "yes"]);
        arguments.extend(settings.iter().flat_map(|(setting, value)| [setting.as_str(), value]));
    }
    RedisServer::start_on(own.port, &arguments, environment, vec![("nodes.conf", nodes_conf(number, ports))])
}

/// The file in which a node remembers all nodes, written beforehand: a cluster that is told of itself is ready sooner
/// than one that must find itself.
fn nodes_conf(me: usize, ports: &[NodePorts]) -> String {
    let id = |number: usize| format!("{:040x}", number + 1);
    let line = |(number, node): (usize, &NodePorts)| {
        let myself = if number == me { "myself," } else { "" };
        let first = number % PRIMARIES;
        let (role, master, slots) = if number < PRIMARIES {
            let ends = [first * SLOTS / PRIMARIES, (first + 1) * SLOTS / PRIMARIES - 1];
            ("master", "-".to_owned(), format!(" {}-{}", ends[0], ends[1]))
        } else {
            ("slave", id(first), String::new())
        };
        // The port by which nodes are named: that for TLS, if they use it.
        let (port, bus) = (if node.tls == 0 { node.port } else { node.tls }, node.bus);
        let epoch = first + 1;
        format!(
            "{} 127.0.0.1:{port}@{bus} {myself}{role} {master} 0 0 {epoch} connected{slots}\n",
            id(number)
        )
    };
    let nodes: String = ports.iter().enumerate().map(line).collect();
    format!("{nodes}vars currentEpoch {PRIMARIES} lastVoteEpoch 0\n")
}
