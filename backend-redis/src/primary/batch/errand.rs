//! The two things that are asked together.

use super::Joined;
use crate::keys::{Keys, LockKeys};
use crate::link::{Call, Link};
use crate::reply::{not_understood, text};
use crate::script_arg::ScriptArg;
use crate::scripts;
use leasehold_core::{Claim, FencingToken, Result};
use redis::Value;
use std::fmt::Debug;

/// What one call of a script asks for each of several claims.
pub(super) trait Errand: Send + Sync + 'static {
    /// What is answered for one of them.
    type Answer: Clone + Debug + Send + 'static;

    /// True if one call can serve both.
    fn goes_with(one: &Claim, other: &Claim) -> bool;

    /// Calls the script, and gives the very reply, which may be an error of the server. Errors as of [`Link::ask`].
    fn ask(link: &Link, keys: &Keys, claims: &[Claim]) -> impl Future<Output = Result<Value>> + Send;

    /// Undoes what was done for a claim that nobody asks for any more.
    fn take_back(
        link: &Link,
        keys: &Keys,
        claim: &Claim,
        answer: Self::Answer,
    ) -> impl Future<Output = ()> + Send;

    /// What the reply says for each of so many claims.
    ///
    /// # Errors
    ///
    /// [`Indeterminate`](leasehold_core::ErrorKind::Indeterminate) if it is no reply of the script.
    fn answers(reply: &Value, claims: usize) -> Result<Vec<Joined<Self::Answer>>>;
}

/// `acquire_batch.lua`
#[derive(Debug)]
pub(super) enum Acquire {}

/// `release_batch.lua`
#[derive(Debug)]
pub(super) enum Release {}

impl Errand for Acquire {
    type Answer = FencingToken;

    fn goes_with(one: &Claim, other: &Claim) -> bool {
        one.ttl() == other.ttl() && one.holder() == other.holder()
    }

    async fn ask(link: &Link, keys: &Keys, claims: &[Claim]) -> Result<Value> {
        let keys: Vec<LockKeys<3>> = claims.iter().map(|claim| keys.only_of_grant(claim.name())).collect();
        let keys = by_kind(&keys);
        let (shared, owners) = (claims.first(), owners(claims));
        let ttl = ScriptArg::number(shared.map_or(0, Claim::ttl_millis));
        let shared = [&*ttl, shared.map_or("", |claim| claim.holder())];
        let args: Vec<&str> = shared.into_iter().chain(owners.iter().map(|owner| &**owner)).collect();
        link.ask(&Call::new(&scripts::ACQUIRE_BATCH, &keys, &args)).await
    }

    /// This very grant, and whether or not it is heard: it has an end.
    async fn take_back(link: &Link, keys: &Keys, claim: &Claim, token: FencingToken) {
        let (keys, owner) = (keys.of(claim.name()), ScriptArg::owner(claim.owner()));
        let args = [&*owner, "0", &*ScriptArg::number(token.get())];
        let _ = link.ask(&Call::new(&scripts::TAKE_BACK, &keys.all(), &args)).await;
    }

    fn answers(reply: &Value, claims: usize) -> Result<Vec<Joined<FencingToken>>> {
        let reply = text(reply).ok_or_else(not_understood)?;
        let (token, digits) = reply.split_once(' ').ok_or_else(not_understood)?;
        let token = FencingToken::new(token.parse().map_err(|_| not_understood())?);
        told(digits, claims, &token)
    }
}

impl Errand for Release {
    type Answer = ();

    fn goes_with(_: &Claim, _: &Claim) -> bool {
        true
    }

    async fn ask(link: &Link, keys: &Keys, claims: &[Claim]) -> Result<Value> {
        let keys: Vec<LockKeys<2>> = claims.iter().map(|claim| keys.only_of_hold(claim.name())).collect();
        let keys = by_kind(&keys);
        let owners = owners(claims);
        let args: Vec<&str> = owners.iter().map(|owner| &**owner).collect();
        link.ask(&Call::new(&scripts::RELEASE_BATCH, &keys, &args)).await
    }

    /// What has ended has ended.
    async fn take_back(_: &Link, _: &Keys, _: &Claim, (): ()) {}

    fn answers(reply: &Value, claims: usize) -> Result<Vec<Joined<()>>> {
        told(&text(reply).ok_or_else(not_understood)?, claims, &())
    }
}

/// First the locks of all, then their records, and so on.
fn by_kind<const KINDS: usize>(keys: &[LockKeys<KINDS>]) -> Vec<&str> {
    let mut kinds = [const { Vec::new() }; KINDS];
    for keys in keys {
        kinds.iter_mut().zip(keys.all()).for_each(|(kind, key)| kind.push(key));
    }
    kinds.concat()
}

fn owners(claims: &[Claim]) -> Vec<ScriptArg> {
    claims.iter().map(|claim| ScriptArg::owner(claim.owner())).collect()
}

/// One digit for each: done, with this answer, or not.
fn told<T: Clone>(digits: &str, claims: usize, answer: &T) -> Result<Vec<Joined<T>>> {
    let joined = |digit| match digit {
        b'1' => Ok(Joined::Done(answer.clone())),
        b'0' => Ok(Joined::AskInFull),
        _ => Err(not_understood()),
    };
    let told: Vec<_> = digits.bytes().map(joined).collect::<Result<_>>()?;
    if told.len() == claims { Ok(told) } else { Err(not_understood()) }
}
