//! What one attempt asks of each node: to hold the name, to write its token, to take back what it took.

use super::nodes::Node;
use super::reply::{self, Claimed};
use super::scripts;
use crate::keys::LockKeys;
use crate::release::whole_millis;
use leasehold_core::{Claim, Error, ErrorKind, FencingToken, Result};
use std::sync::Arc;
use std::time::Duration;

/// One attempt of an owner, under a number of its own.
#[derive(Debug)]
pub(super) struct NumberedAttempt {
    keys: LockKeys,
    owner: String,
    number: String,
    ttl: String,
    words: Arc<str>,
}

impl NumberedAttempt {
    pub(super) fn new(claim: &Claim, keys: LockKeys, number: u64) -> Self {
        Self {
            keys,
            owner: claim.owner().to_hex(),
            number: number.to_string(),
            ttl: claim.ttl_millis().to_string(),
            words: Arc::clone(claim.holder()),
        }
    }

    /// Asks a node to hold the name for this owner.
    pub(super) async fn claim(self: Arc<Self>, node: Arc<Node>) -> Result<Claimed> {
        let place = node.place.to_string();
        let args = [&*self.owner, &self.number, &place, &self.ttl];
        let reply = node.link.run(&scripts::CLAIM, &self.keys.of_grant(), &args).await?;
        reply::claimed(&reply)
    }

    /// Writes the token on a node. False if the node does not hold the name for this attempt any more, or has a token
    /// that is as large.
    pub(super) async fn write_token(self: Arc<Self>, node: Arc<Node>, token: FencingToken) -> Result<bool> {
        let (value, token) = (format!("{}:{}:{}", self.owner, self.number, node.place), token.to_string());
        let args = [&*value, &token, &self.ttl, &self.words];
        let reply = node.link.run(&scripts::WRITE_TOKEN, &self.keys.of_grant(), &args).await?;
        reply::done(&reply)
    }

    /// Takes back what this attempt has on a node, and nothing of a later one.
    pub(super) async fn take_back(self: Arc<Self>, node: Arc<Node>) -> Result<bool> {
        withdraw(&node, &self.keys, &self.owner, AttemptFilter::Only(&self.number), Duration::ZERO).await
    }

    /// Takes back whatever the owner has on a node.
    pub(super) async fn withdraw(self: Arc<Self>, node: Arc<Node>) -> Result<bool> {
        withdraw(&node, &self.keys, &self.owner, AttemptFilter::Any, Duration::ZERO).await
    }
}

/// The attempts of an owner that are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptFilter<'a> {
    Any,
    /// That of this number.
    Only(&'a str),
}

/// Ends what an owner has on a node. False if there was nothing to end.
pub(super) async fn withdraw(
    node: &Node,
    keys: &LockKeys,
    owner: &str,
    which: AttemptFilter<'_>,
    linger: Duration,
) -> Result<bool> {
    let attempt = match which {
        AttemptFilter::Any => "",
        AttemptFilter::Only(number) => number,
    };
    let args = [owner, attempt, &whole_millis(linger).to_string()];
    let reply = node.link.run(&scripts::WITHDRAW, &keys.of_hold(), &args).await?;
    reply::done(&reply)
}

/// Two places of the URL lead to one server. It is counted once, whatever the URL says: it holds a name under one place.
pub(super) fn named_twice(one: &str, other: &str) -> Error {
    let message = format!("{one} and {other} are the same server, and a majority may count it once only");
    Error::new(ErrorKind::Misconfigured, message).with_help("take one of them out of the URL")
}
