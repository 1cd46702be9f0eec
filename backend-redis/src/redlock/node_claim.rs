//! A claim on one node: what its scripts are asked, and with which arguments.

use super::nodes::RedlockNode;
use super::reply::{self, Claimed};
use crate::backend::whole_millis;
use crate::keys::{Keys, LockKeys};
use crate::scripts::{HOLDER, LOCK, Script, TOKEN};
use leasehold_core::{Claim, FencingToken, Result};
use std::sync::Arc;
use std::time::Duration;

const WITH_TOKEN: &[usize] = &[LOCK, HOLDER, TOKEN];
pub(super) const WITHOUT_TOKEN: &[usize] = &[LOCK, HOLDER];

// Each is one atomic step on one node, and knows of no other.
static CLAIM: Script = Script::with_keys(include_str!("scripts/claim.lua"), WITH_TOKEN);
static WRITE_TOKEN: Script = Script::with_keys(include_str!("scripts/write_token.lua"), WITH_TOKEN);
static REPAIR: Script = Script::with_keys(include_str!("scripts/repair.lua"), WITH_TOKEN);
static FORGET: Script = Script::with_keys(include_str!("scripts/forget.lua"), WITH_TOKEN);
static WITHDRAW: Script = Script::with_keys(include_str!("scripts/withdraw.lua"), WITHOUT_TOKEN);

#[derive(Debug)]
pub(super) struct NodeClaim {
    keys: LockKeys,
    owner: String,
    /// The number of the attempt. Each has its own, so that nothing of a later one is taken back with it.
    attempt: String,
    ttl: String,
    description: Arc<str>,
}

impl NodeClaim {
    pub(super) fn new(claim: &Claim, keys: &Keys, attempt: u64) -> Self {
        Self {
            keys: keys.of(claim.name()),
            owner: claim.owner().to_hex(),
            attempt: attempt.to_string(),
            ttl: claim.ttl_millis().to_string(),
            description: Arc::clone(claim.holder()),
        }
    }

    /// Asks a node to hold the name for this owner.
    pub(super) async fn hold(self: Arc<Self>, node: Arc<RedlockNode>) -> Result<Claimed> {
        let args = [&*self.owner, &self.attempt, &node.place.to_string(), &self.ttl];
        reply::claimed(&node.servers.run(&CLAIM, &self.keys, &args).await?)
    }

    /// Writes the token on a node. False if the node does not hold the name for this attempt any more, or has a token
    /// that is as large.
    pub(super) async fn write_token(
        self: Arc<Self>,
        node: Arc<RedlockNode>,
        token: FencingToken,
    ) -> Result<bool> {
        let args = [&*self.value(&self.attempt, &node), &token.to_string(), &self.ttl, &self.description];
        reply::done(&node.servers.run(&WRITE_TOKEN, &self.keys, &args).await?)
    }

    /// Takes back what this attempt has on a node, and nothing of a later one.
    pub(super) async fn take_back(self: Arc<Self>, node: Arc<RedlockNode>) -> Result<bool> {
        let args = [&*self.owner, &self.attempt, "0"];
        reply::done(&node.servers.run(&WITHDRAW, &self.keys, &args).await?)
    }

    /// Ends all that the owner has on a node. False if there was nothing to end.
    pub(super) async fn withdraw(self: Arc<Self>, node: Arc<RedlockNode>, linger: Duration) -> Result<bool> {
        let args = [&*self.owner, "", &whole_millis(linger).to_string()];
        reply::done(&node.servers.run(&WITHDRAW, &self.keys, &args).await?)
    }

    /// Deletes what a node has of the name, unless another owner has it there.
    pub(super) async fn forget(self: Arc<Self>, node: Arc<RedlockNode>) -> Result<()> {
        node.servers.run(&FORGET, &self.keys, &[&*self.owner]).await.map(drop)
    }

    /// The [record](reply::record) of the grant, from a node that has it.
    pub(super) async fn record(&self, node: &RedlockNode) -> Option<[String; 3]> {
        reply::record(&node.link.command(redis::cmd("GET").arg(self.keys.all()[HOLDER])).await.ok()?)
    }

    /// Sets the lock on a node that is without it. False if it is not free there.
    pub(super) async fn repair(&self, node: &RedlockNode, record: &[String; 3]) -> Result<bool> {
        let [attempt, token, rest] = record;
        let args = [&*self.value(attempt, node), token, &self.ttl, rest];
        reply::done(&node.servers.run(&REPAIR, &self.keys, &args).await?)
    }

    /// What stands in the lock key of a node.
    fn value(&self, attempt: &str, node: &RedlockNode) -> String {
        format!("{}:{attempt}:{}", self.owner, node.place)
    }
}
