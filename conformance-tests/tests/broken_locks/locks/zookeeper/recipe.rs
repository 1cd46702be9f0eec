//! The recipe: a place in the queue, the lowest of which holds; a waiter is woken by the place before its own.

use super::Mistake;
use super::session::Session;
use crate::subject::Address;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, LockName, LossCause, OwnerId, Release,
    Renewal, Result,
};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use zookeeper_client::{Acls, Client, CreateMode, Error as Refusal, OneshotWatcher, Stat};

/// The prefixes of [`Mistake::SortedByName`], for one acquisition after the other: the third sorts before the first.
const PREFIXES: [char; 3] = ['8', '9', '4'];

/// The mark of a reader in the name of its place.
const READER: &str = "__READ__";

pub(super) struct Recipe {
    mistake: Mistake,
    session: Session,
    waiting: Mutex<HashMap<OwnerId, Waiting>>,
    acquisitions: Mutex<usize>,
}

/// What is known of a claim in the queue.
#[derive(Default)]
struct Waiting {
    /// The name of its node, from the reply to its creation.
    place: Option<String>,
    /// Turns true when the watch fires.
    woken: Option<watch::Receiver<bool>>,
    token: Option<FencingToken>,
}

impl Recipe {
    pub(super) fn new(mistake: Mistake, address: &Address) -> Self {
        let session = Session::at(address);
        Self { mistake, session, waiting: Mutex::default(), acquisitions: Mutex::default() }
    }

    pub(super) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let client = self.session.client().await?;
        if self.mistake == Mistake::OneNodeThatAllWatch {
            return self.take_the_one_node(&client, claim).await;
        }
        if let Some(token) = self.trusted(claim) {
            return Ok(granted(token));
        }
        let place = self.place(&client, claim).await?;
        loop {
            let queue = self.queue(&client, claim).await?;
            let Some(at) = queue.iter().position(|other| *other == place) else {
                self.forget(claim);
                return Err(Error::new(ErrorKind::Unavailable, "the place in the queue is gone"));
            };
            let Some(blocker) = self.blocker(claim, &queue[..at]) else {
                return self.first(&client, claim, &place).await;
            };
            if let Some(watch) = self.watch(&client, claim, blocker).await? {
                self.listen(claim, watch);
                return Ok(Attempt::Busy(Busy::new().with_place_in_queue()));
            }
        }
    }

    pub(super) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let client = self.session.client().await?;
        if self.mistake == Mistake::WaitsForExpired {
            return Ok(Renewal::Renewed);
        }
        let Some(place) = self.known(claim) else { return Ok(Renewal::Lost(LossCause::Gone)) };
        let node = self.session.outcome(client.check_stat(&format!("{}/{place}", queue(claim)))).await?;
        let mine = node.ok().flatten().is_some_and(|stat| self.is_of(&client, &stat));
        Ok(if mine { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    pub(super) async fn release(&self, claim: &Claim) -> Result<Release> {
        let client = self.session.client().await?;
        let place = match self.known(claim) {
            Some(place) => Some(place),
            None => self.found(&client, claim).await?,
        };
        let Some(place) = place else { return Ok(Release::NotHeld) };
        let deleted = self.session.outcome(client.delete(&format!("{}/{place}", queue(claim)), None)).await?;
        self.forget(claim);
        Ok(if deleted.is_ok() { Release::Released } else { Release::NotHeld })
    }

    pub(super) async fn changed(&self, claim: &Claim) {
        let woken = self.waiting().get(&claim.owner()).and_then(|waiting| waiting.woken.clone());
        if let Some(mut woken) = woken
            && woken.wait_for(|woken| *woken).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// The claim's node in the queue, found by its owner or made.
    async fn place(&self, client: &Client, claim: &Claim) -> Result<String> {
        if let Some(place) = self.known(claim) {
            return Ok(place);
        }
        if let Some(place) = self.found(client, claim).await? {
            self.remember(claim, &place, None);
            return Ok(place);
        }
        let queue = queue(claim);
        let mode = match self.mistake {
            Mistake::PersistentNodes => CreateMode::PersistentSequential,
            _ => CreateMode::EphemeralSequential,
        };
        let name = self.prefix(claim);
        let path = format!("{queue}/{name}");
        loop {
            let created = client.create(&path, &self.data(claim), &mode.with_acls(Acls::anyone_all()));
            match self.session.outcome(created).await? {
                Ok((stat, sequence)) => {
                    let place = format!("{name}{sequence}");
                    self.remember(claim, &place, Some(&stat));
                    return Ok(place);
                }
                Err(_) => {
                    let parent = CreateMode::Persistent.with_acls(Acls::anyone_all());
                    drop(self.session.outcome(client.create(&queue, b"", &parent)).await?);
                }
            }
        }
    }

    /// A node of this claim and this session, made by a call whose reply was lost.
    async fn found(&self, client: &Client, claim: &Claim) -> Result<Option<String>> {
        if self.mistake == Mistake::NoOwnerInTheName {
            return Ok(None);
        }
        let queue = self.queue(client, claim).await?;
        if self.mistake == Mistake::OwnerInTheData {
            return self.found_by_data(client, claim, queue).await;
        }
        Ok(queue.into_iter().find(|place| place.contains(&claim.owner().to_hex())))
    }

    async fn found_by_data(
        &self,
        client: &Client,
        claim: &Claim,
        places: Vec<String>,
    ) -> Result<Option<String>> {
        for place in places {
            let path = format!("{}/{place}", queue(claim));
            let read = self.session.outcome(client.get_data(&path)).await?;
            if read.is_ok_and(|(data, _)| data == self.data(claim)) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    async fn queue(&self, client: &Client, claim: &Claim) -> Result<Vec<String>> {
        let listed = self.session.outcome(client.list_children(&queue(claim))).await?;
        let mut places = listed.unwrap_or_default();
        if self.mistake == Mistake::SortedByName {
            places.sort();
        } else {
            places.sort_by_key(|place| sequence(place));
        }
        Ok(places)
    }

    /// The nearest place in front with which the claim conflicts.
    fn blocker<'a>(&self, claim: &Claim, in_front: &'a [String]) -> Option<&'a String> {
        let passes_readers = claim.mode().is_shared() || self.mistake == Mistake::WriterIgnoresReaders;
        in_front.iter().rev().find(|place| !(passes_readers && place.contains(READER)))
    }

    /// First in the queue: it holds, if the place is one of this session.
    async fn first(&self, client: &Client, claim: &Claim, place: &str) -> Result<Attempt> {
        let node = self.session.outcome(client.check_stat(&format!("{}/{place}", queue(claim)))).await?;
        match node.ok().flatten().filter(|stat| self.is_of(client, stat)) {
            Some(stat) => Ok(granted(token(&stat))),
            None => {
                self.forget(claim);
                Err(Error::new(ErrorKind::Unavailable, "the place in the queue is of an earlier session"))
            }
        }
    }

    /// The watch that wakes this claim, or `None` if what it would watch is gone.
    async fn watch(&self, client: &Client, claim: &Claim, before: &str) -> Result<Option<OneshotWatcher>> {
        let queue = queue(claim);
        if self.mistake == Mistake::AllWatchTheQueue {
            let listed = self.session.outcome(client.list_and_watch_children(&queue)).await?;
            return Ok(listed.ok().map(|(_, watch)| watch));
        }
        let read = self.session.outcome(client.get_and_watch_data(&format!("{queue}/{before}"))).await?;
        Ok(read.ok().map(|(_, _, watch)| watch))
    }

    fn listen(&self, claim: &Claim, watcher: OneshotWatcher) {
        let (wake, woken) = watch::channel(false);
        tokio::spawn(async move {
            drop(watcher.changed().await);
            wake.send_replace(true);
        });
        self.waiting().entry(claim.owner()).or_default().woken = Some(woken);
    }

    async fn take_the_one_node(&self, client: &Client, claim: &Claim) -> Result<Attempt> {
        let (queue, node) = (queue(claim), format!("{}/lock", queue(claim)));
        loop {
            let mode = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
            let owner = claim.owner().to_hex();
            match self.session.outcome(client.create(&node, owner.as_bytes(), &mode)).await? {
                Ok((stat, _)) => {
                    self.remember(claim, "lock", Some(&stat));
                    return Ok(granted(token(&stat)));
                }
                Err(Refusal::NoNode) => {
                    let parent = CreateMode::Persistent.with_acls(Acls::anyone_all());
                    drop(self.session.outcome(client.create(&queue, b"", &parent)).await?);
                }
                Err(_) => {
                    if let Ok((_, _, watch)) = self.session.outcome(client.get_and_watch_data(&node)).await? {
                        self.listen(claim, watch);
                        return Ok(Attempt::Busy(Busy::new()));
                    }
                }
            }
        }
    }

    fn prefix(&self, claim: &Claim) -> String {
        let owner = claim.owner().to_hex();
        match self.mistake {
            Mistake::NoOwnerInTheName | Mistake::OwnerInTheData => "lock-".to_owned(),
            Mistake::SortedByName => {
                let mut acquisitions = self.acquisitions.lock().unwrap_or_else(PoisonError::into_inner);
                let prefix = PREFIXES[*acquisitions % PREFIXES.len()];
                *acquisitions += 1;
                format!("_c_{prefix}{owner}-lock-")
            }
            _ if claim.mode().is_shared() => format!("_c_{owner}-{READER}"),
            _ => format!("_c_{owner}-lock-"),
        }
    }

    fn data(&self, claim: &Claim) -> Vec<u8> {
        match self.mistake {
            Mistake::OwnerInTheData => claim.owner().to_hex().into_bytes(),
            _ => Vec::new(),
        }
    }

    fn is_of(&self, client: &Client, stat: &Stat) -> bool {
        self.mistake == Mistake::PersistentNodes || stat.ephemeral_owner == client.session_id().0
    }

    fn trusted(&self, claim: &Claim) -> Option<FencingToken> {
        let waiting = self.waiting();
        let waiting = waiting.get(&claim.owner())?;
        let woken = waiting.woken.as_ref().is_some_and(|woken| *woken.borrow());
        waiting.token.filter(|_| woken && self.mistake == Mistake::TrustsTheWatch)
    }

    fn known(&self, claim: &Claim) -> Option<String> {
        self.waiting().get(&claim.owner())?.place.clone()
    }

    fn remember(&self, claim: &Claim, place: &str, stat: Option<&Stat>) {
        let mut waiting = self.waiting();
        let known = waiting.entry(claim.owner()).or_default();
        known.place = Some(place.to_owned());
        known.token = stat.map(token);
    }

    fn forget(&self, claim: &Claim) {
        self.waiting().remove(&claim.owner());
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<OwnerId, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parent of the places.
fn queue(claim: &Claim) -> String {
    queue_of(claim.name())
}

/// The cases' names are plain; only their slash must not be one here.
pub(super) fn queue_of(name: &LockName) -> String {
    format!("/{}", name.as_str().replace('/', "%2F"))
}

/// The number that the server has put at the end of a name.
fn sequence(place: &str) -> Option<u64> {
    place.rsplit(['-', '_']).next()?.parse().ok()
}

fn token(stat: &Stat) -> FencingToken {
    FencingToken::new(u64::try_from(stat.czxid).unwrap_or_default())
}

fn granted(token: FencingToken) -> Attempt {
    Attempt::Granted(Grant::new(token))
}
