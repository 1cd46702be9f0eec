//! Which server is the primary: what the Sentinels say, asked again for every connection, and once a second for as long as
//! there is one.
//!
//! All are asked at once, and the newest report of a majority counts: a Sentinel that was cut off from the others goes on
//! naming the old primary, and its report is the older one. If a majority does not answer in time, or knows less than was
//! heard before, those who do must be enough; the server that they name is asked for its role before it is believed.

use super::handshake;
use super::manager::ConnectionManager;
use super::multiplexed::Connection;
use crate::locked;
use crate::reply::text;
use crate::server_error::{Request, refusal, unknown_is_unavailable};
use crate::target::{Address, SentinelGroup, Target};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{Error, ErrorKind, Result};
use redis::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tokio::time::{Instant, timeout_at};

#[derive(Debug)]
pub(crate) struct Sentinels {
    all: Vec<Arc<Sentinel>>,
    /// What they call the primary.
    pub(super) name: String,
    /// How to talk to the primary, but not yet where.
    pub(super) primary: Target,
    /// Where the primary was by their last report that counted.
    last: Mutex<Option<PrimaryReport>>,
}

/// One Sentinel, and the connection to it.
#[derive(Debug)]
struct Sentinel {
    target: Target,
    manager: ConnectionManager,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PrimaryReport {
    pub(super) address: Address,
    pub(super) epoch: Epoch,
}

/// How new a report is: of two reports, that of the larger epoch is the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch {
    /// Grows with every fail-over.
    number: u64,
    /// False from a Sentinel that is in the middle of one: it has the new number, and names the old server.
    is_settled: bool,
}

impl Sentinels {
    pub(crate) fn new(SentinelGroup { sentinels, name, primary }: SentinelGroup) -> Self {
        let sentinel = |target| Arc::new(Sentinel { target, manager: ConnectionManager::default() });
        Self { all: sentinels.into_iter().map(sentinel).collect(), name, primary, last: Mutex::default() }
    }

    /// Asks who the primary is. Takes a third of the time to connect at most, so that there is some left for that. The error is
    /// [`Unavailable`](ErrorKind::Unavailable) if none answers, [`Misconfigured`](ErrorKind::Misconfigured) if none
    /// knows the name or they are no Sentinels, [`Denied`](ErrorKind::Denied) if they refuse the login.
    pub(super) async fn primary(&self) -> Result<PrimaryReport> {
        let (majority, heard) = (self.all.len() / 2 + 1, locked(&self.last).as_ref().map(|last| last.epoch));
        let is_enough = |newest: Epoch, answers| answers >= majority && Some(newest) >= heard;
        let report = self.newest_report(is_enough).await?;
        Ok(locked(&self.last).insert(report).clone())
    }

    /// What is said of the primary since this epoch, if anything. One Sentinel that has heard more is enough.
    pub(super) async fn newer_than(&self, known: Epoch) -> Option<PrimaryReport> {
        let is_enough = |newest: Epoch, _| newest > known && newest.is_settled;
        let report = self.newest_report(is_enough).await.ok()?;
        (report.epoch > known).then(|| locked(&self.last).insert(report).clone())
    }

    pub(super) fn close(&self) {
        self.all.iter().for_each(|sentinel| sentinel.manager.close());
    }

    async fn newest_report(&self, is_enough: impl Fn(Epoch, usize) -> bool) -> Result<PrimaryReport> {
        let deadline = Instant::now() + self.primary.timeouts.connect / 3;
        let mut asked: FuturesUnordered<_> =
            self.all.iter().map(|sentinel| ask(sentinel, &self.name, deadline)).collect();
        let (mut reports, mut failed) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(report) => reports.push(report),
                Err(error) => failed.push(error),
            }
            let newest = reports.iter().map(|report| report.epoch).max();
            if newest.is_some_and(|newest| is_enough(newest, reports.len())) {
                break;
            }
        }
        // Any other failure says more than an outage.
        let failure = failed.into_iter().min_by_key(|error| error.kind() == ErrorKind::Unavailable);
        let newest = reports.into_iter().max_by_key(|report| report.epoch);
        newest.ok_or_else(|| failure.unwrap_or_else(silent))
    }
}

impl Sentinel {
    async fn connect(&self) -> Result<Arc<Connection>> {
        let deadline = Instant::now() + self.target.timeouts.connect;
        let connected = handshake::connect(&self.target, &self.manager.waiters, deadline).await;
        let (connection, facts) = connected.map_err(|error| self.with_address(error))?;
        // A server without facts is believed: a proxy may stand before it.
        if !facts.mode.is_empty() && facts.mode != "sentinel" {
            let message = format!("it is no Sentinel, but {} {}", facts.flavour, facts.version);
            let help = "use the URL of one server, redis://host:port, or look at the port";
            return Err(self.with_address(Error::new(ErrorKind::Misconfigured, message).with_help(help)));
        }
        tracing::debug!(target: "leasehold", server = %self.target.address, "connected");
        Ok(Arc::new(connection))
    }

    fn with_address(&self, error: Error) -> Error {
        error.context(format_args!("Sentinel at {}", self.target.address))
    }
}

/// Where a Sentinel sees the primary.
///
/// Asks in a task that goes on after the deadline: a Sentinel that stays silent ends its connection by that, and is asked on
/// another one later.
async fn ask(sentinel: &Arc<Sentinel>, name: &str, deadline: Instant) -> Result<PrimaryReport> {
    let (asked, question) = (Arc::clone(sentinel), redis::cmd("SENTINEL").arg("MASTER").arg(name).take());
    let answer = tokio::spawn(async move {
        let connection = asked.manager.connection(asked.connect()).await?;
        let reply = connection.request(&question).await;
        reply.map_err(|why| asked.with_address(connection.unknown_outcome(why)))
    });
    let Ok(Ok(answer)) = timeout_at(deadline, answer).await else {
        return Err(sentinel.with_address(silent()));
    };
    match answer.map_err(unknown_is_unavailable)? {
        Value::ServerError(error)
            if error.details().is_some_and(|text| text.starts_with("No such master")) =>
        {
            let message = format!("the Sentinels watch nothing of the name {name:?}");
            Err(Error::new(ErrorKind::Misconfigured, message)
                .with_help("look at the name in the URL, and at SENTINEL MASTERS"))
        }
        Value::ServerError(error) => {
            Err(sentinel.with_address(refusal(&error, Request::Command("SENTINEL"))))
        }
        reply => read(&reply).map_err(|error| sentinel.with_address(error)),
    }
}

/// Reads the reply to `SENTINEL MASTER name`: a map, or in RESP2 a list.
fn read(reply: &Value) -> Result<PrimaryReport> {
    let fields: HashMap<String, Value> = redis::from_redis_value_ref(reply).unwrap_or_default();
    let field = |name| fields.get(name).and_then(text);
    let host = field("ip").filter(|host| !host.is_empty());
    let port = field("port").and_then(|port| port.parse().ok());
    let number = field("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
    let is_moving = field("flags").is_some_and(|flags| flags.contains("failover_in_progress"));
    match (host, port) {
        (Some(host), Some(port)) => {
            let epoch = Epoch { number, is_settled: !is_moving };
            Ok(PrimaryReport { address: Address::Tcp { host, port }, epoch })
        }
        _ => Err(Error::new(ErrorKind::Misconfigured, "its answer tells no address")
            .with_help("look at what listens there: it may be no Sentinel")),
    }
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "it did not answer in time")
        .with_help("look at the Sentinels and at the network to them, or raise connect_timeout in the URL")
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*locked(&self.last) {
            Some(PrimaryReport { address, .. }) => write!(f, "{address}, primary of {:?}", self.name),
            None => write!(f, "the primary of {:?}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn report_reads_the_same_in_both_protocols() {
        let words = ["name", "mm", "ip", "10.0.0.7", "port", "6380", "config-epoch", "12"];
        let list = Value::Array(words.map(word).into());
        let map = Value::Map(words.chunks(2).map(|pair| (word(pair[0]), word(pair[1]))).collect());
        let epoch = Epoch { number: 12, is_settled: true };
        let report =
            PrimaryReport { address: Address::Tcp { host: "10.0.0.7".to_owned(), port: 6380 }, epoch };
        assert_eq!(read(&list).unwrap(), report);
        assert_eq!(read(&map).unwrap(), report);
    }

    #[test]
    fn report_during_a_fail_over_is_older_than_one_after_it() {
        let epoch = |number, flags| {
            let words = ["ip", "h", "port", "1", "config-epoch", number, "flags", flags];
            read(&Value::Array(words.map(word).into())).unwrap().epoch
        };
        let (before, during) = (epoch("4", "master"), epoch("5", "master,failover_in_progress"));
        assert!(before < during && during < epoch("5", "master"));
    }

    #[test]
    fn reply_without_an_address_is_refused() {
        for reply in
            [Value::Nil, Value::Okay, Value::Array(vec![word("ip"), word("h")]), Value::Map(Vec::new())]
        {
            assert_eq!(read(&reply).unwrap_err().kind(), ErrorKind::Misconfigured, "{reply:?}");
        }
    }
}
