use super::node_claim::{NodeClaim, WITHOUT_TOKEN};
use super::nodes::{RedlockNode, ask, detach};
use super::quorum::{Quorum, not_answered};
use super::{RedlockBackend, named_twice};
use crate::admin::{held_names, inspect_ours};
use crate::check;
use crate::reply;
use crate::rights::{self, error_finding};
use crate::scripts::Script;
use async_trait::async_trait;
use futures_util::future::join_all;
use leasehold_core::trial::unused_name;
use leasehold_core::{
    AcquireOptions, Attempt, Claim, Error, FencingToken, Finding, LockAdmin, LockBackend, LockName,
    LockStatus, OwnerId, Result, Severity, Waiter,
};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// A node has no readers and no queue.
static INSPECT: Script = Script::with_keys(include_str!("../scripts/inspect.lua"), WITHOUT_TOKEN);
static FORCE_RELEASE: Script = Script::with_keys(include_str!("../scripts/force_release.lua"), WITHOUT_TOKEN);

#[async_trait]
impl LockAdmin for RedlockBackend {
    /// A lock is shown as held if one owner holds it on a majority of the nodes. A lock of other programs is shown without owner
    /// and token.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        self.agreed_hold(name, &INSPECT, String::new()).await
    }

    /// Reads the names of all keys of the database, on every node. Locks that other programs hold are not found.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let found = self
            .ask_all(|node| {
                let (keys, prefix) = (self.keys.clone(), prefix.to_owned());
                async move { held_names(&node.link, &keys, &prefix).await }
            })
            .await?;
        let (held, failed) = inspect_ours(self, found.into_iter().flatten().collect()).await;
        failed.map_or(Ok(held), Err)
    }

    /// No waiter is known: they poll, and leave nothing on the nodes.
    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    /// On each node by itself: what is freed there is what has that token there.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let only_if = only_if.map(|token| token.to_string()).unwrap_or_default();
        self.agreed_hold(name, &FORCE_RELEASE, only_if).await
    }

    /// There is nothing to create. Makes sure that a majority of the nodes answers.
    async fn init(&self) -> Result<()> {
        let ping = |node: Arc<RedlockNode>| async move { node.link.command(&redis::cmd("PING")).await };
        self.ask_all(ping).await.map(drop)
    }

    /// Each name is acquired first: one that is held is not granted. A node that does not answer keeps what it has.
    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for name in names {
            let claim = Claim::new(name.clone(), OwnerId::random()?, AcquireOptions::DEFAULT_TTL, "".into());
            if let Attempt::Granted(_) = self.try_acquire(&claim).await? {
                let claim = Arc::new(NodeClaim::new(&claim, &self.keys, 0));
                self.ask_all(|node| Arc::clone(&claim).forget(node)).await?;
            }
        }
        Ok(())
    }

    /// Looks at every node, and at all of them together. A node that does not answer beside a majority that does is a finding.
    async fn check(&self) -> Result<Vec<Finding>> {
        let keys = self.keys.of(&unused_name()?);
        let looked = join_all(self.nodes.iter().map(async |node| {
            let mut findings = check::look_at(&node.link).await?;
            findings.extend(rights::refused(&node.link, &keys, rights::COMMANDS).await);
            Ok::<_, Error>(findings)
        }))
        .await;
        let (quorum, mut down) = (self.quorum(), Vec::new());
        let mut findings = quorum_findings(quorum);
        for (node, found) in self.nodes.iter().zip(looked) {
            let place = format!("{}: ", node.address);
            match found {
                Ok(found) => findings.extend(found.into_iter().map(|mut finding| {
                    finding.message.insert_str(0, &place);
                    finding
                })),
                Err(why) => {
                    findings.push(error_finding(Severity::Warning, "W_NODE", &place, &why));
                    down.push(why);
                }
            }
        }
        if quorum.blocked_by(down.len()) {
            return Err(not_answered(quorum, quorum.nodes - down.len(), &down));
        }
        findings.extend(self.same_servers().await);
        Ok(findings)
    }
}

impl RedlockBackend {
    /// What a majority of the nodes answers alike to a script that tells of the hold of a name.
    async fn agreed_hold(
        &self,
        name: &LockName,
        script: &'static Script,
        only_if: String,
    ) -> Result<Vec<LockStatus>> {
        let question = Arc::new((self.keys.of(name), name.clone(), only_if));
        let found = self
            .ask_all(|node| {
                let question = Arc::clone(&question);
                async move {
                    let (keys, name, only_if) = &*question;
                    let known = node.servers.run(script, keys, &[only_if]).await?;
                    reply::holds(name, &known).map(|mut holds| holds.pop())
                }
            })
            .await?;
        Ok(agreed(self.quorum(), found.into_iter().flatten().collect()).into_iter().collect())
    }

    /// The answers of all nodes that give one; an error if these are no majority.
    async fn ask_all<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &self,
        question: impl Fn(Arc<RedlockNode>) -> F,
    ) -> Result<Vec<T>> {
        let (mut answers, mut failed) = (Vec::new(), Vec::new());
        let take = |_, answer| {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => failed.push(error),
            }
            false
        };
        detach(ask(&self.nodes, |_| true, None, question, take).await);
        match answers.len() >= self.quorum().majority() {
            true => Ok(answers),
            false => Err(not_answered(self.quorum(), answers.len(), &failed)),
        }
    }

    /// Two addresses may lead to one server: its run id tells, where we may see it. Every attempt finds out as well, from the
    /// place that stands in a lock's value.
    async fn same_servers(&self) -> Vec<Finding> {
        let ids = join_all(self.nodes.iter().map(|node| node.link.run_id())).await;
        let (mut findings, mut seen) = (Vec::new(), HashMap::new());
        for (node, id) in self.nodes.iter().zip(ids) {
            let id = id.ok().filter(|id| !id.is_empty());
            if let Some(first) = id.and_then(|id| seen.insert(id, &node.address)) {
                let twice = named_twice(first, &node.address);
                findings.push(error_finding(Severity::Error, "E_SAME_NODE", "", &twice));
            }
        }
        findings
    }
}

fn quorum_findings(quorum: Quorum) -> Vec<Finding> {
    let (all, majority) = (quorum.nodes, quorum.majority());
    let what = format!("{all} nodes, of which {majority} are a majority: {} may fail", all - majority);
    let mut findings = vec![Finding::new(Severity::Info, "I_QUORUM", what, "")];
    if all % 2 == 0 {
        let what = format!("{all} nodes stand no more failures than {} do", all - 1);
        let help = "add a node or take one out, in the URL of every client at once";
        findings.push(Finding::new(Severity::Warning, "W_EVEN", what, help));
    }
    findings
}

/// What a majority says alike. Its lease ends when the first of them all is left without a majority.
fn agreed(quorum: Quorum, mut found: Vec<LockStatus>) -> Option<LockStatus> {
    let key = |status: &LockStatus| (status.owner, status.token);
    let votes = |of: &LockStatus| found.iter().filter(|status| key(status) == key(of)).count();
    let winner = key(found.iter().find(|status| votes(status) >= quorum.majority())?);
    found.retain(|status| key(status) == winner);
    // A lease without an end lasts longest.
    found.sort_by_key(|status| Reverse(status.ends_in.map_or((1, None), |ends_in| (0, Some(ends_in)))));
    (quorum.majority() <= found.len()).then(|| found.swap_remove(quorum.majority() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::OwnerId;
    use std::time::Duration;

    fn status(owner: u128, token: u64, seconds: u64) -> LockStatus {
        let mut status = LockStatus::new(LockName::new("a").unwrap());
        status.owner = Some(OwnerId::from_u128(owner));
        status.token = Some(FencingToken::new(token));
        status.ends_in = Some(Duration::from_secs(seconds));
        status
    }

    #[test]
    fn hold_of_a_majority_is_shown_with_the_end_of_the_majority() {
        let told = |found: Vec<LockStatus>| agreed(Quorum { nodes: 5 }, found);
        let held = told(vec![status(1, 7, 9), status(1, 7, 3), status(2, 8, 9), status(1, 7, 5)]).unwrap();
        assert_eq!((held.token, held.ends_in), (Some(FencingToken::new(7)), Some(Duration::from_secs(3))));
        let all = told((1..=5).map(|n| status(1, 7, n)).collect()).unwrap();
        assert_eq!(all.ends_in, Some(Duration::from_secs(3)), "then two are left");
        assert!(told(vec![status(1, 7, 9), status(1, 7, 9), status(2, 8, 9), status(2, 8, 9)]).is_none());
        assert!(told(vec![]).is_none());
    }
}
