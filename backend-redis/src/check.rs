//! What about the servers would weaken the promises.

use crate::backend::RedisBackend;
use crate::connection::{Route, ServerLink, wait_for};
use crate::keys::LockKeys;
use crate::reply::parse;
use crate::rights::{self, error_finding};
use crate::server_error::{replica, unknown_is_unavailable};
use crate::servers::SINGLE;
use crate::target::{Address, Replicas, Target};
use futures_util::future::join_all;
use leasehold_core::trial::{addresses_finding, servers_finding};
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::net::lookup_host;

const CONNECTIONS: usize = 4;
const ONE_SERVER: &str = "use the address of one server, or a URL of Sentinels, a cluster or redlock://";

/// Looks at the servers. What they do not let us see, and a part of a cluster that does not answer, is said, and is no failure. `keys`
/// are those of a name that is not in use. Errors as of any request, if no server answers, or none of them lets us in.
pub(crate) async fn check(backend: &RedisBackend, keys: &LockKeys) -> Result<Vec<Finding>> {
    let (mut findings, mut failed) = (Vec::new(), Vec::new());
    let links = backend.servers.each().await.map_err(unknown_is_unavailable)?;
    for link in &links {
        let looked = async { look_at_server(backend, link.as_ref().map_err(Error::clone)?, keys).await };
        let mut of_node = match looked.await {
            Ok(findings) => findings,
            Err(why) => {
                failed.push(why.clone());
                vec![unusable(&why)]
            }
        };
        if let (true, Ok(link)) = (backend.servers.mode() != SINGLE, link) {
            for finding in &mut of_node {
                finding.message.insert_str(0, &format!("{}: ", link.route));
            }
        }
        findings.extend(of_node);
    }
    match failed.first() {
        Some(why) if failed.len() == links.len() => Err(why.clone()),
        _ => Ok(findings),
    }
}

async fn look_at_server(backend: &RedisBackend, link: &ServerLink, keys: &LockKeys) -> Result<Vec<Finding>> {
    let mut findings = look_at(link).await?;
    // The rights are looked at before the slot: those to any key can be asked of any node.
    findings.extend(rights::missing(link, backend.servers.is_cluster(), keys).await);
    if let Some(replicas) = backend.replicas {
        findings.extend(replica_finding(link, replicas).await);
    }
    Ok(findings)
}

/// The identity and the settings of the server. The error says that there is no connection.
pub(crate) async fn look_at(link: &ServerLink) -> Result<Vec<Finding>> {
    link.connection().await?;
    let mut findings = Vec::new();
    match link.facts().await {
        Ok(facts) => {
            let what =
                format!("the server is {} {}, {}, {}", facts.flavour, facts.version, facts.mode, facts.role);
            findings.push(Finding::new(Severity::Info, "I_SERVER", what, ""));
            if facts.is_replica() {
                findings.push(error_finding(Severity::Error, "E_REPLICA", "", &replica()));
            }
        }
        Err(why) => {
            // The server may have gone since the connection was made.
            link.connection().await?;
            findings.push(not_seen("who the server is", &why));
        }
    }
    let question =
        redis::cmd("CONFIG").arg("GET").arg(&["maxmemory-policy", "appendonly", "appendfsync"]).take();
    match link.command(&question).await.and_then(|settings| parse(&settings)) {
        Ok(settings) => setting_findings(&settings, &mut findings),
        Err(why) => findings.push(not_seen("the settings of the server", &why)),
    }
    let Target { address, tls, password, .. } = link.route.target();
    let is_network = matches!(address, Address::Tcp { .. });
    findings.extend((password.is_some() && tls.is_none() && is_network).then(Finding::clear_text));
    findings.extend(server_findings(link).await);
    Ok(findings)
}

/// Asks over several connections which server answers: behind a balancer, each may lead to another one.
async fn server_findings(link: &ServerLink) -> Vec<Finding> {
    let Route::Server(target) = &*link.route else { return Vec::new() };
    let asked = join_all([(); CONNECTIONS].map(|()| async {
        let link = ServerLink::new(Route::Server(target.clone()), Arc::default(), String::new());
        let id = link.run_id().await;
        link.close();
        id
    }));
    let (ids, failed): (Vec<_>, Vec<_>) = asked.await.into_iter().partition(Result::is_ok);
    let ids = ids.into_iter().flatten().filter(|id| !id.is_empty()).map(|id| format!("run_id {id}"));
    let unseen = failed.into_iter().find_map(Result::err);
    let unseen = unseen.map(|why| not_seen("whether one server answers at this address", &why));
    let found = match &target.address {
        Address::Tcp { host, port } => lookup_host((host.as_str(), *port)).await.ok(),
        Address::Unix(_) => None,
    };
    let addresses: Vec<_> = found.into_iter().flatten().map(|address| address.ip()).collect();
    let of_name = addresses_finding(&addresses, ONE_SERVER);
    servers_finding(ids, ONE_SERVER).into_iter().chain(of_name).chain(unseen).collect()
}

async fn replica_finding(link: &ServerLink, replicas: Replicas) -> Option<Finding> {
    let wanted = replicas.count;
    match link.command(&wait_for(replicas)).await.and_then(|count| parse::<u32>(&count)) {
        Ok(count) if count >= wanted => None,
        Ok(count) => {
            let what = format!(
                "{count} replicas follow the server, and wait_replicas asks for {wanted}: no lock is granted"
            );
            let help = "look at the replicas: INFO replication; or lower wait_replicas in the URL";
            Some(Finding::new(Severity::Error, "E_REPLICAS", what, help))
        }
        Err(why) => Some(unusable(&why)),
    }
}

/// A node that does not answer, refuses the login, or is none for locks, beside others; or one that does not count its replicas.
fn unusable(why: &Error) -> Finding {
    let code = if why.kind() == ErrorKind::Denied { "E_DENIED" } else { "E_SERVER" };
    error_finding(Severity::Error, code, "", why)
}

fn not_seen(what: &str, why: &Error) -> Finding {
    error_finding(Severity::Info, "I_NOT_SEEN", &format!("cannot see {what}: "), why)
}

fn setting_findings(settings: &HashMap<String, String>, findings: &mut Vec<Finding>) {
    let setting = |name| settings.get(name).map(String::as_str);
    if let Some(policy) = setting("maxmemory-policy").filter(|policy| *policy != "noeviction") {
        findings.push(Finding::new(
            Severity::Warning,
            "W_EVICT",
            format!("maxmemory-policy is {policy:?}: when its memory is full, the server may evict a lock"),
            "set maxmemory-policy to noeviction, or keep locks on a server of their own",
        ));
    }
    match (setting("appendonly"), setting("appendfsync")) {
        (Some("yes"), Some("always")) | (None, _) => {}
        (Some("yes"), _) => findings.push(Finding::new(
            Severity::Info,
            "I_POWER_LOSS",
            "appendfsync is not \"always\": when its machine loses power, the server forgets the last second's grants; tokens grow nevertheless",
            "set appendfsync to always, or let what you protect check the token",
        )),
        (Some(_), _) => findings.push(Finding::new(
            Severity::Warning,
            "W_RESTART",
            "appendonly is off: when it is started again, the server has forgotten who holds what; tokens grow nevertheless",
            "set appendonly to yes, or let what you protect check the token",
        )),
    }
}
