//! The recipe: a key in the queue, the oldest of which holds; a waiter is woken by the key before its own.

use super::Mistake;
use super::gateway::{Gateway, encoded};
use crate::subject::Address;
use leasehold_core::{
    Attempt, Busy, Claim, Error, ErrorKind, FencingToken, Grant, LossCause, OwnerId, Release, Renewal, Result,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The shortest lease, in seconds: a waiter keeps its place between two questions.
const LEAST_LEASE: u64 = 5;

pub(super) struct Recipe {
    mistake: Mistake,
    gateway: Arc<Gateway>,
    prefix: String,
    /// How many clients there were before it.
    number: usize,
    claims: Mutex<HashMap<OwnerId, OwnKey>>,
}

/// What is known of a claim's key.
#[derive(Clone, Default)]
struct OwnKey {
    lease: String,
    key: String,
    /// The revision at which it was created.
    revision: Option<u64>,
    is_granted: bool,
    /// Turns true when the watch fires.
    woken: Option<watch::Receiver<bool>>,
}

impl Recipe {
    pub(super) fn new(mistake: Mistake, address: &Address) -> Self {
        static CLIENTS: AtomicUsize = AtomicUsize::new(0);
        let ((gateway, prefix), number) = (Gateway::at(address), CLIENTS.fetch_add(1, Ordering::Relaxed));
        Self { mistake, gateway: Arc::new(gateway), prefix, number, claims: Mutex::default() }
    }

    pub(super) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let mut own = self.own_key(claim).await?;
        let revision = match own.revision {
            Some(revision) => revision,
            None => self.create(claim, &own).await?,
        };
        own.revision = Some(revision);
        let (first, end) = self.queue(claim);
        let queue =
            json!({ "key": first, "range_end": end, "sort_target": "CREATE", "sort_order": "ASCEND" });
        let Some(queue) = self.proven(&own, &queue).await? else {
            self.claims().remove(&claim.owner());
            return Err(Error::new(ErrorKind::Unavailable, "the lease has ended"));
        };
        let keys = queue["kvs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(at) = keys.iter().position(|other| other["key"] == *own.key) else {
            self.claims().remove(&claim.owner());
            return Err(Error::new(ErrorKind::Unavailable, "the key is gone"));
        };
        let now = number(&queue["header"]["revision"]);
        if at == 0 {
            own.is_granted = true;
            self.claims().insert(claim.owner(), own);
            let is_of_answer = self.mistake == Mistake::TokenOfTheAnswer && self.number.is_multiple_of(2);
            let token = if is_of_answer { now } else { revision };
            return Ok(Attempt::Granted(Grant::new(FencingToken::new(token))));
        }
        if !claim.waits() {
            self.release(claim).await?;
            return Ok(Attempt::Busy(Busy::new()));
        }
        let mut watched =
            json!({ "key": keys[at - 1]["key"], "start_revision": now + 1, "filters": ["NOPUT"] });
        if self.mistake == Mistake::AllWatchTheQueue {
            (watched["key"], watched["range_end"]) = (first.into(), end.into());
        }
        let (wake, woken) = watch::channel(false);
        let gateway = Arc::clone(&self.gateway);
        tokio::spawn(async move {
            // A waiter that asks again has another watch.
            tokio::select! {
                () = gateway.watch(&watched) => drop(wake.send_replace(true)),
                () = wake.closed() => {}
            }
        });
        own.woken = Some(woken);
        self.claims().insert(claim.owner(), own);
        Ok(Attempt::Busy(Busy::new().with_place_in_queue()))
    }

    pub(super) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let own = self.claims().get(&claim.owner()).cloned();
        let Some(own) = own.filter(|own| own.is_granted) else { return Ok(Renewal::Lost(LossCause::Gone)) };
        let lives = match self.mistake {
            Mistake::TrustsTheKeepAlive => number(&self.keep_alive(&own).await?["TTL"]) > 0,
            _ => {
                let key = self.proven(&own, &json!({ "key": own.key })).await?;
                key.is_some_and(|key| {
                    number(&key["kvs"][0]["create_revision"]) == own.revision.unwrap_or_default()
                })
            }
        };
        Ok(if lives { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
    }

    /// Ends the lease, and the key on it.
    pub(super) async fn release(&self, claim: &Claim) -> Result<Release> {
        let own = self.claims().get(&claim.owner()).cloned();
        let Some(own) = own else { return Ok(Release::NotHeld) };
        let revoked = self.gateway.ask("/v3/lease/revoke", &json!({ "ID": own.lease })).await?;
        self.claims().remove(&claim.owner());
        Ok(if own.is_granted && revoked.is_object() { Release::Released } else { Release::NotHeld })
    }

    pub(super) async fn changed(&self, claim: &Claim) {
        let woken = self.claims().get(&claim.owner()).and_then(|own| own.woken.clone());
        if let Some(mut woken) = woken
            && woken.wait_for(|woken| *woken).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// The key of a claim, which need not be there, and its lease.
    async fn own_key(&self, claim: &Claim) -> Result<OwnKey> {
        if let Some(own) = self.claims().get(&claim.owner()) {
            return Ok(own.clone());
        }
        let seconds = claim.ttl().as_millis().div_ceil(1000).max(LEAST_LEASE.into()) as u64;
        let lease = self.gateway.ask("/v3/lease/grant", &json!({ "TTL": seconds })).await?;
        let lease = lease["ID"].as_str().unwrap_or_default().to_owned();
        let key = encoded(format!("{}{lease}", self.directory(claim)).as_bytes());
        let own = OwnKey { lease, key, ..OwnKey::default() };
        self.claims().insert(claim.owner(), own.clone());
        Ok(own)
    }

    /// Writes the key, unless an earlier try has.
    async fn create(&self, claim: &Claim, own: &OwnKey) -> Result<u64> {
        let put = json!({ "key": own.key, "value": encoded(claim.owner().to_hex().as_bytes()), "lease": own.lease });
        let is_new = json!({ "key": own.key, "target": "CREATE", "create_revision": 0 });
        let (put, read) = (json!({ "request_put": put }), json!({ "request_range": { "key": own.key } }));
        let txn = json!({ "compare": [is_new], "success": [put], "failure": [read] });
        let answer = self.gateway.ask("/v3/kv/txn", &txn).await?;
        if answer["succeeded"] == true {
            return Ok(number(&answer["header"]["revision"]));
        }
        Ok(number(&answer["responses"][0]["response_range"]["kvs"][0]["create_revision"]))
    }

    /// What a read has found beside an extension of the lease, both of one leader; `None` if the lease has ended.
    async fn proven(&self, own: &OwnKey, read: &Value) -> Result<Option<Value>> {
        let (extension, found) = tokio::join!(self.keep_alive(own), self.gateway.ask("/v3/kv/range", read));
        let (extension, found) = (extension?, found?);
        let leader =
            |answer: &Value| (answer["header"]["member_id"].clone(), answer["header"]["raft_term"].clone());
        if leader(&extension) != leader(&found) {
            return Err(Error::new(ErrorKind::Unavailable, "the leader has changed"));
        }
        Ok((number(&extension["TTL"]) > 0).then_some(found))
    }

    async fn keep_alive(&self, own: &OwnKey) -> Result<Value> {
        self.gateway.ask("/v3/lease/keepalive", &json!({ "ID": own.lease })).await
    }

    /// The first key of the queue, and the first behind it.
    fn queue(&self, claim: &Claim) -> (String, String) {
        let directory = self.directory(claim);
        (encoded(directory.as_bytes()), encoded(directory.replace("/~", "/\x7f").as_bytes()))
    }

    /// The cases' names are plain; only their slash must not be one here.
    fn directory(&self, claim: &Claim) -> String {
        format!("{}/{}/~", self.prefix, claim.name().as_str().replace('/', "%2F"))
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<OwnerId, OwnKey>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gateway has long numbers as texts, and leaves out zeros.
fn number(value: &Value) -> u64 {
    value.as_str().and_then(|digits| digits.parse().ok()).or_else(|| value.as_u64()).unwrap_or_default()
}
