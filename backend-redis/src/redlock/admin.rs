use super::nodes::Node;
use super::quorum::{Quorum, not_answered};
use super::{RedlockBackend, check};
use crate::admin::held_names;
use crate::{reply, scripts};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use leasehold_core::{FencingToken, Finding, LockAdmin, LockName, LockStatus, OwnerId, Result, Waiter};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many locks are asked about at once.
const INSPECT_AT_ONCE: usize = 64;

#[async_trait]
impl LockAdmin for RedlockBackend {
    /// A lock is shown as held if one owner holds it on a majority of the nodes. A lock of other programs is shown without owner
    /// and token.
    async fn inspect(&self, name: &LockName) -> Result<Vec<LockStatus>> {
        let keys = Arc::new(self.keys.of(name));
        let name = name.clone();
        let found = self
            .ask_all(|node| {
                let (keys, name) = (Arc::clone(&keys), name.clone());
                Box::pin(async move {
                    let known = node.link.run(&scripts::INSPECT, &keys.of_hold(), &[]).await?;
                    reply::holds(&name, &known).map(|mut holds| holds.pop())
                })
            })
            .await?;
        let held = agreed(self.nodes.quorum(), found.into_iter().flatten().collect());
        Ok(held.into_iter().collect())
    }

    /// Reads the names of all keys of the database, on every node. Locks that other programs hold are not found.
    async fn list(&self, prefix: &str) -> Result<Vec<LockStatus>> {
        let keys = Arc::new(self.keys.clone());
        let prefix: Arc<str> = prefix.into();
        let found = self
            .ask_all(|node| {
                let (keys, prefix) = (Arc::clone(&keys), Arc::clone(&prefix));
                Box::pin(async move { held_names(&node.link, &keys, &prefix).await })
            })
            .await?;
        let names: BTreeSet<LockName> = found.into_iter().flatten().collect();
        let mut looked = stream::iter(names)
            .map(|name| async move { reply::only_ours(self.inspect(&name).await) })
            .buffered(INSPECT_AT_ONCE);
        let mut held = Vec::new();
        while let Some(status) = looked.next().await {
            held.extend(status?);
        }
        Ok(held)
    }

    /// No waiter is known: they poll, and leave nothing on the nodes.
    async fn waiters(&self, _name: &LockName) -> Result<Vec<Waiter>> {
        Ok(Vec::new())
    }

    /// On each node by itself: what is freed there is what has that token there.
    async fn force_release(&self, name: &LockName, only_if: Option<FencingToken>) -> Result<Vec<LockStatus>> {
        let keys = Arc::new(self.keys.of(name));
        let only_if: Arc<str> = only_if.map(|token| token.to_string()).unwrap_or_default().into();
        let name = name.clone();
        let found = self
            .ask_all(|node| {
                let (keys, only_if, name) = (Arc::clone(&keys), Arc::clone(&only_if), name.clone());
                Box::pin(async move {
                    let before = node.link.run(&scripts::FORCE_RELEASE, &keys.of_hold(), &[&only_if]).await?;
                    reply::holds(&name, &before).map(|mut holds| holds.pop())
                })
            })
            .await?;
        let held = agreed(self.nodes.quorum(), found.into_iter().flatten().collect());
        Ok(held.into_iter().collect())
    }

    /// There is nothing to create. Makes sure that a majority of the nodes answers.
    async fn init(&self) -> Result<()> {
        self.ask_all(|node| Box::pin(async move { node.link.command(&redis::cmd("PING")).await }))
            .await
            .map(drop)
    }

    fn init_script(&self) -> Option<String> {
        None
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        check::check(&self.nodes, &self.keys).await
    }
}

impl RedlockBackend {
    /// The answers of all nodes that give one; an error if these are no majority.
    async fn ask_all<T: Send + 'static>(
        &self,
        question: impl Fn(Arc<Node>) -> BoxFuture<'static, Result<T>> + Send + Sync,
    ) -> Result<Vec<T>> {
        let (mut answers, mut failed) = (Vec::new(), Vec::new());
        let take = |_, answer| {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => failed.push(error),
            }
            false
        };
        self.nodes.ask(None, |node| Some(question(node)), take).await.detach();
        match answers.len() >= self.nodes.quorum().majority() {
            true => Ok(answers),
            false => Err(not_answered(self.nodes.quorum(), answers.len(), &failed)),
        }
    }
}

/// What a majority says alike. Its lease ends when the first of them all is left without a majority.
fn agreed(quorum: Quorum, mut found: Vec<LockStatus>) -> Option<LockStatus> {
    let key =
        |status: &LockStatus| -> (Option<OwnerId>, Option<FencingToken>) { (status.owner, status.token) };
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
        let told = |found: Vec<LockStatus>| agreed(Quorum::of(5), found);
        let held = told(vec![status(1, 7, 9), status(1, 7, 3), status(2, 8, 9), status(1, 7, 5)]).unwrap();
        assert_eq!((held.token, held.ends_in), (Some(FencingToken::new(7)), Some(Duration::from_secs(3))));
        let all = told((1..=5).map(|n| status(1, 7, n)).collect()).unwrap();
        assert_eq!(all.ends_in, Some(Duration::from_secs(3)), "then two are left");
        assert!(told(vec![status(1, 7, 9), status(1, 7, 9), status(2, 8, 9), status(2, 8, 9)]).is_none());
        assert!(told(vec![]).is_none());
    }
}
