//! Those who want the same, until somebody goes.

use super::errand::Errand;
use super::{AT_MOST, Joined};
use crate::keys::Keys;
use crate::servers::PrimaryNode;
use futures_util::future::join_all;
use leasehold_core::{Claim, Error, ErrorKind, Result};
use redis::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use tokio::sync::oneshot;
use tokio::task::yield_now;

type Answered<E> = Result<Joined<<E as Errand>::Answer>>;

/// The claims that wait to be asked for.
#[derive(Debug)]
pub(super) struct Gathering<E: Errand> {
    node: Arc<PrimaryNode>,
    keys: Keys,
    /// Somebody goes soon if there are any.
    waiting: Mutex<Vec<Waiting<E>>>,
}

#[derive(Debug)]
struct Waiting<E: Errand> {
    claim: Claim,
    answer: oneshot::Sender<Answered<E>>,
}

/// What it is to the others that one more waits.
enum Added<E: Errand> {
    /// With it they are enough to go, and here they are.
    Enough(Vec<Waiting<E>>),
    /// Somebody has to go for it, and for those behind it.
    First,
    Behind,
}

/// Whoever goes. It takes those that wait when its turn comes, or else when its runtime ends: then they have no answer.
struct Going<E: Errand>(Option<Arc<Gathering<E>>>);

impl<E: Errand> Gathering<E> {
    pub(super) fn new(node: &Arc<PrimaryNode>, keys: &Keys) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), keys: keys.clone(), waiting: Mutex::default() })
    }

    /// Asks for a claim together with those for which others ask now, and at once if they are so many.
    pub(super) async fn ask(self: &Arc<Self>, claim: &Claim, enough: usize) -> Answered<E> {
        self.join(claim, enough).await.unwrap_or_else(|_| Err(nobody_went()))
    }

    fn join(self: &Arc<Self>, claim: &Claim, enough: usize) -> oneshot::Receiver<Answered<E>> {
        let (answer, answered) = oneshot::channel();
        match self.add(Waiting { claim: claim.clone(), answer }, enough) {
            Added::Enough(all) => self.go_at_once(all),
            Added::First => drop(tokio::spawn(Going(Some(Arc::clone(self))).go())),
            Added::Behind => {}
        }
        answered
    }

    fn add(&self, one: Waiting<E>, enough: usize) -> Added<E> {
        let mut waiting = self.waiting();
        waiting.push(one);
        match waiting.len() {
            so_many if so_many >= enough => Added::Enough(std::mem::take(&mut *waiting)),
            1 => Added::First,
            _ => Added::Behind,
        }
    }

    /// By the caller's hand as far as the request, before the tasks behind it make theirs; then by a task.
    fn go_at_once(self: &Arc<Self>, all: Vec<Waiting<E>>) {
        let gathering = Arc::clone(self);
        let mut going = Box::pin(async move { gathering.ask_for_all(all).await });
        if going.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            tokio::spawn(going);
        }
    }

    async fn ask_for_all(&self, waiting: Vec<Waiting<E>>) {
        join_all(requests(waiting).into_iter().map(|request| self.ask_for(request))).await;
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting<E>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask_for(&self, waiting: Vec<Waiting<E>>) {
        let (claims, answers): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|Waiting { claim, answer }| (claim, answer)).unzip();
        let told = match E::ask(&self.node.link, &self.keys, &claims).await {
            Ok(Value::ServerError(_)) => Ok(claims.iter().map(|_| Joined::AskAlone).collect()),
            Ok(reply) => E::answers(&reply, claims.len()).map_err(|why| self.node.link.here(why)),
            Err(why) => Err(why),
        };
        match told {
            // Who does not listen any more has no runtime, and its claim is withdrawn on another.
            Ok(told) => answers.into_iter().zip(told).for_each(|(answer, told)| drop(answer.send(Ok(told)))),
            Err(why) => answers.into_iter().for_each(|answer| drop(answer.send(Err(why.clone())))),
        }
    }
}

impl<E: Errand> Going<E> {
    async fn go(mut self) {
        // Until no other task is ready.
        yield_now().await;
        let Some(gathering) = self.0.take() else { return };
        let waiting = std::mem::take(&mut *gathering.waiting());
        gathering.ask_for_all(waiting).await;
    }
}

impl<E: Errand> Drop for Going<E> {
    fn drop(&mut self) {
        if let Some(gathering) = self.0.take() {
            let left = std::mem::take(&mut *gathering.waiting());
            // Not under the mutex: it wakes tasks.
            drop(left);
        }
    }
}

/// Those whose callers still listen, in as few requests as is fair to others.
fn requests<E: Errand>(mut waiting: Vec<Waiting<E>>) -> Vec<Vec<Waiting<E>>> {
    waiting.retain(|waiting| !waiting.answer.is_closed());
    let mut requests: Vec<Vec<Waiting<E>>> = Vec::new();
    for one in waiting {
        let fits = |request: &&mut Vec<Waiting<E>>| {
            request.len() < AT_MOST
                && request.first().is_some_and(|first| E::goes_with(&first.claim, &one.claim))
        };
        match requests.iter_mut().rev().find(fits) {
            Some(request) => request.push(one),
            None => requests.push(vec![one]),
        }
    }
    requests
}

fn nobody_went() -> Error {
    Error::new(ErrorKind::Indeterminate, "the runtime was shut down while others were asked for as well")
        .with_help("ask again, on a runtime that lives as long as the answer takes")
}

#[cfg(test)]
mod tests {
    use super::super::errand::{Acquire, Release};
    use super::*;
    use leasehold_core::{LockName, OwnerId};
    use std::time::Duration;

    fn claim(number: u32, ttl: u64) -> Claim {
        let (name, owner) =
            (LockName::new(format!("job/{number}")).unwrap(), OwnerId::from_u128(number.into()));
        Claim::new(name, owner, Duration::from_millis(ttl), "holder".into())
    }

    type Listeners<E> = Vec<oneshot::Receiver<Answered<E>>>;

    fn waiting<E: Errand>(claims: impl Iterator<Item = Claim>) -> (Vec<Waiting<E>>, Listeners<E>) {
        let wait = |claim| {
            let (answer, answered) = oneshot::channel();
            (Waiting { claim, answer }, answered)
        };
        claims.map(wait).unzip()
    }

    fn sizes<E: Errand>(requests: &[Vec<Waiting<E>>]) -> Vec<usize> {
        requests.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_request_is_of_claims_that_fit_and_not_of_too_many() {
        let (all, _listeners) = waiting::<Release>((0..70).map(|number| claim(number, 1000)));
        assert_eq!(sizes(&requests(all)), [AT_MOST, AT_MOST, 6]);
        // Every other one with another lease.
        let (all, _listeners) =
            waiting::<Acquire>((0..70).map(|number| claim(number, 1000 + u64::from(number % 2))));
        let requests = requests(all);
        assert_eq!(sizes(&requests), [AT_MOST, AT_MOST, 3, 3]);
        for request in requests {
            assert!(request.iter().all(|one| one.claim.ttl() == request[0].claim.ttl()));
        }
    }

    /// Its caller's runtime has ended, and it is withdrawn on another one: it must not be granted after that.
    #[test]
    fn who_does_not_listen_any_more_is_not_asked_for() {
        let (all, mut listeners) = waiting::<Acquire>((0..3).map(|number| claim(number, 1000)));
        listeners.remove(1);
        let asked: Vec<OwnerId> = requests(all).into_iter().flatten().map(|one| one.claim.owner()).collect();
        assert_eq!(asked, [claim(0, 1000).owner(), claim(2, 1000).owner()]);
    }
}
