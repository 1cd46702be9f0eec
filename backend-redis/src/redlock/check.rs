//! What about the nodes would weaken the promises.

use super::attempt::named_twice;
use super::nodes::{Node, Nodes};
use super::quorum::{Quorum, not_answered};
use crate::check;
use crate::keys::{Keys, LockKeys};
use crate::reply::text;
use crate::rights;
use futures_util::future::join_all;
use leasehold_core::{Error, Finding, LockName, Result, Severity};
use std::collections::HashMap;

/// Looks at every node, and at all of them together. A node that does not answer beside a majority that does is a finding.
///
/// # Errors
///
/// As of any call that too few nodes have answered: without a majority there is no store to look at.
pub(super) async fn check(nodes: &Nodes, keys: &Keys) -> Result<Vec<Finding>> {
    let any = keys.of(&LockName::new("leasehold/check")?);
    let looked = join_all(nodes.iter().map(|node| look_at(node, &any))).await;
    let (quorum, mut findings) = (nodes.quorum(), Vec::new());
    of_number(quorum, &mut findings);
    let mut down = Vec::new();
    for (node, found) in nodes.iter().zip(looked) {
        match found {
            Ok(found) => findings.extend(found.into_iter().map(|finding| of_node(node, finding))),
            Err(why) => down.push((node, why)),
        }
    }
    if quorum.blocked_by(down.len()) {
        let why: Vec<Error> = down.into_iter().map(|(_, why)| why).collect();
        return Err(not_answered(quorum, quorum.nodes() - why.len(), &why));
    }
    findings.extend(down.into_iter().map(|(node, why)| of_outage(node, &why)));
    of_identities(nodes, &mut findings).await;
    Ok(findings)
}

async fn look_at(node: &Node, keys: &LockKeys) -> Result<Vec<Finding>> {
    // A server that is not for locks is refused, although its settings could be read.
    node.link.connect().await?;
    let mut findings = check::look_at(&node.link).await?;
    findings.extend(rights::missing_on_node(&node.link, keys).await);
    Ok(findings)
}

fn of_node(node: &Node, mut finding: Finding) -> Finding {
    finding.message = format!("{}: {}", node.address, finding.message);
    finding
}

fn of_number(quorum: Quorum, findings: &mut Vec<Finding>) {
    let (all, majority) = (quorum.nodes(), quorum.majority());
    let what = format!("{all} nodes, of which {majority} are a majority: {} may fail", all - majority);
    findings.push(Finding::new(Severity::Info, "I_QUORUM", what, ""));
    if all % 2 == 0 {
        findings.push(Finding::new(
            Severity::Warning,
            "W_EVEN",
            format!("{all} nodes stand no more failures than {} do", all - 1),
            "add a node or take one out, in the URL of every client at once",
        ));
    }
}

fn of_outage(node: &Node, why: &Error) -> Finding {
    let help = why.help().unwrap_or_default();
    Finding::new(Severity::Warning, "W_NODE", format!("{}: {why}", node.address), help)
}

/// Two addresses may lead to one server: its run id tells, where we may see it. Every attempt finds out as well, from the
/// place that stands in a lock's value.
async fn of_identities(nodes: &Nodes, findings: &mut Vec<Finding>) {
    let ids = join_all(nodes.iter().map(|node| run_id(node))).await;
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (node, id) in nodes.iter().zip(ids) {
        let Some(id) = id else { continue };
        if let Some(first) = seen.insert(id, &node.address) {
            let twins = named_twice(first, &node.address);
            let help = twins.help().unwrap_or_default().to_owned();
            findings.push(Finding::new(Severity::Error, "E_SAME_NODE", twins.to_string(), help));
        }
    }
}

async fn run_id(node: &Node) -> Option<String> {
    let info = node.link.command(redis::cmd("INFO").arg("server")).await.ok()?;
    text(&info)?.lines().find_map(|line| line.strip_prefix("run_id:")).map(str::to_owned)
}
