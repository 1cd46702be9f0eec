//! Those who want the same, until somebody goes.

use super::errand::Errand;
use super::{AT_MOST, Joined};
use crate::keys::Keys;
use crate::refusal::{known_refusal, refusal};
use crate::servers::PrimaryNode;
use futures_util::future::join_all;
use leasehold_core::{Claim, Error, ErrorKind, Result};
use redis::Value;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

type Answered<E> = Result<Joined<<E as Errand>::Answer>>;

/// The claims that wait to be asked for.
#[derive(Debug)]
pub(super) struct Gathering<E: Errand> {
    node: Arc<PrimaryNode>,
    keys: Keys,
    line: Mutex<Line<E>>,
}

#[derive(Debug)]
struct Line<E: Errand> {
    waiting: Vec<Waiting<E>>,
    /// The runtime on which somebody goes for them. Who comes from another does not rely on it: it may stand still.
    goes_on: Option<Id>,
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

/// Whoever goes. It takes those that wait when its turn comes, or else when its runtime ends: then each has to ask by itself.
struct Going<E: Errand>(Option<Arc<Gathering<E>>>);

impl<E: Errand> Gathering<E> {
    pub(super) fn new(node: &Arc<PrimaryNode>, keys: &Keys) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), keys: keys.clone(), line: Mutex::default() })
    }

    /// Asks for a claim together with those for which others ask now, and at once if they are so many.
    pub(super) async fn ask(self: &Arc<Self>, claim: &Claim, enough: usize) -> Answered<E> {
        // Outside of a runtime there is nobody to go.
        let Ok(runtime) = Handle::try_current() else { return Ok(Joined::AskAlone) };
        self.join(claim, enough, &runtime).await.unwrap_or_else(|_| Err(no_answer()))
    }

    fn join(
        self: &Arc<Self>,
        claim: &Claim,
        enough: usize,
        runtime: &Handle,
    ) -> oneshot::Receiver<Answered<E>> {
        let (answer, answered) = oneshot::channel();
        match self.add(Waiting { claim: claim.clone(), answer }, enough, runtime.id()) {
            Added::Enough(all) => self.go_at_once(all, runtime),
            Added::First => drop(runtime.spawn(Going(Some(Arc::clone(self))).go())),
            Added::Behind => {}
        }
        answered
    }

    fn add(&self, one: Waiting<E>, enough: usize, runtime: Id) -> Added<E> {
        let mut line = self.line();
        line.waiting.push(one);
        if line.waiting.len() >= enough {
            Added::Enough(line.take())
        } else if line.goes_on.replace(runtime) == Some(runtime) {
            Added::Behind
        } else {
            Added::First
        }
    }

    /// By the caller's hand as far as the request, before the tasks behind it make theirs; then by a task.
    fn go_at_once(self: &Arc<Self>, all: Vec<Waiting<E>>, runtime: &Handle) {
        let gathering = Arc::clone(self);
        let mut going = Box::pin(async move { gathering.ask_for_all(all).await });
        if going.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            runtime.spawn(going);
        }
    }

    async fn ask_for_all(&self, waiting: Vec<Waiting<E>>) {
        join_all(requests(waiting).into_iter().map(|request| self.ask_for(request))).await;
    }

    fn line(&self) -> MutexGuard<'_, Line<E>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask_for(&self, waiting: Vec<Waiting<E>>) {
        let (claims, answers): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|Waiting { claim, answer }| (claim, answer)).unzip();
        let link = &self.node.link;
        let told = match E::ask(link, &self.keys, &claims).await {
            Ok(Value::ServerError(error)) => match known_refusal(&error, None) {
                Some(_) => Ok(claims.iter().map(|_| Joined::Refused).collect()),
                None => Err(link.here(refusal(&error, None))),
            },
            Ok(reply) => E::answers(&reply, claims.len()).map_err(|why| link.here(why)),
            Err(why) => Err(why),
        };
        let mut told = told.map(Vec::into_iter);
        let mut unheard = Vec::new();
        for (claim, answer) in claims.iter().zip(answers) {
            let told = match &mut told {
                Ok(told) => told.next().ok_or_else(no_answer),
                Err(why) => Err(why.clone()),
            };
            if let Err(Ok(Joined::Done(done))) = answer.send(told) {
                unheard.push((claim, done));
            }
        }
        // Their callers' runtime has ended meanwhile, and the release that followed on another may have come too early.
        for (claim, done) in unheard {
            E::take_back(link, &self.keys, claim, done).await;
        }
    }
}

impl<E: Errand> Line<E> {
    fn take(&mut self) -> Vec<Waiting<E>> {
        self.goes_on = None;
        std::mem::take(&mut self.waiting)
    }
}

impl<E: Errand> Default for Line<E> {
    fn default() -> Self {
        Self { waiting: Vec::new(), goes_on: None }
    }
}

impl<E: Errand> Going<E> {
    async fn go(mut self) {
        after_the_others().await;
        let Some(gathering) = self.0.take() else { return };
        let waiting = gathering.line().take();
        gathering.ask_for_all(waiting).await;
    }
}

impl<E: Errand> Drop for Going<E> {
    fn drop(&mut self) {
        if let Some(gathering) = self.0.take() {
            let left = gathering.line().take();
            left.into_iter().for_each(|one| drop(one.answer.send(Ok(Joined::AskAlone))));
        }
    }
}

/// When the tasks that are ready now have had their turn: a task that wakes itself goes to the end of the queue.
async fn after_the_others() {
    let mut is_last = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_last, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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

fn no_answer() -> Error {
    Error::new(
        ErrorKind::Indeterminate,
        "the runtime was shut down on which this was asked for together with others",
    )
    .with_help("ask again, on a runtime that lives as long as the answer takes")
}

#[cfg(test)]
mod tests {
    use super::super::errand::{Acquire, Release};
    use super::*;
    use crate::servers::Servers;
    use crate::target::Deployment;
    use futures_util::FutureExt;
    use leasehold_core::{LockName, Namespace, OwnerId};
    use leasehold_store_url::StoreUrl;
    use std::time::Duration;
    use tokio::runtime::Runtime;

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

    fn gathering() -> Arc<Gathering<Acquire>> {
        let url = StoreUrl::parse("redis://127.0.0.1:1").unwrap();
        let namespace = Namespace::new("leasehold:").unwrap();
        let (deployment, _) = Deployment::of(&url).unwrap();
        let servers = Servers::new(deployment, &Arc::default(), "channel".to_owned());
        let Servers::One(node) = servers else { panic!("{servers:?}") };
        Gathering::new(&node, &Keys::new(&namespace).unwrap())
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// One of them goes for all, when its turn comes; on another runtime it may never come.
    #[test]
    fn who_comes_from_another_runtime_does_not_wait_for_one_that_stands_still() {
        let (gathering, still, other) = (gathering(), runtime(), runtime());
        let left = gathering.join(&claim(1, 1000), 9, still.handle());
        let asked = gathering.join(&claim(2, 1000), 9, other.handle());
        // There is no server: an answer all the same.
        let answer = other.block_on(asked).unwrap();
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(other.block_on(left).unwrap().is_err());
    }

    #[test]
    fn when_the_runtime_ends_on_which_somebody_was_to_go_each_asks_by_itself() {
        let (gathering, ends, other) = (gathering(), runtime(), runtime());
        let left = [1, 2].map(|number| gathering.join(&claim(number, 1000), 9, ends.handle()));
        drop(ends);
        for answer in left {
            assert!(matches!(other.block_on(answer), Ok(Ok(Joined::AskAlone))));
        }
        // And nobody relies on who is gone.
        let next = gathering.join(&claim(3, 1000), 9, other.handle());
        assert_eq!(other.block_on(next).unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn outside_of_a_runtime_each_asks_by_itself() {
        let (gathering, claim) = (gathering(), claim(1, 1000));
        let asked = gathering.ask(&claim, 2).now_or_never();
        assert!(matches!(asked, Some(Ok(Joined::AskAlone))));
    }
}
