//! Renewal: the leases of all holds that fall due together are extended in one stream, beside one read of all their keys.

use crate::EtcdBackend;
use crate::claims::ClaimEntry;
use crate::failure::EtcdError;
use crate::keys::{self, Directory};
use crate::leases::{self, Lease};
use crate::link::Link;
use crate::notifier::Signal;
use crate::recipe::prove;
use crate::release;
use crate::wire::{KeyValue, TxnRequest};
use futures_util::future::join_all;
use leasehold_core::{Claim, Clock, Error, ErrorKind, LossCause, Moment, Renewal, Result, SystemClock};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The time to find out whether another owner has a lost lock.
const CAUSE_TIMEOUT: Duration = Duration::from_millis(250);
/// How often a renewal is sent again while a leader is elected.
const MAX_ROUNDS: usize = 3;

/// A hold that is renewed.
struct Held {
    entry: Arc<ClaimEntry>,
    key: Vec<u8>,
    revision: i64,
    lease: Lease,
}

/// What the server says of a hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extended {
    Yes,
    Gone,
    /// The key lives on another lease, or a leader was elected meanwhile.
    Unproven,
}

impl EtcdBackend {
    /// Renews holds, and answers for each in its order.
    pub(crate) async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut batch, mut longer) = (Vec::new(), Vec::new());
        let mut answers: Vec<Result<Renewal>> = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            answers.push(Ok(Renewal::Lost(LossCause::Gone)));
            let Some(entry) = self.shared.claims.get(claim.owner()) else { continue };
            let held = {
                let state = entry.lock().await;
                let own = state.as_ref().filter(|own| own.holds);
                own.and_then(|own| Some((own.key.clone(), own.revision?, own.lease, own.is_unsure)))
            };
            let Some((key, revision, lease, is_unsure)) = held else { continue };
            if lease.seconds < leases::seconds(claim.ttl()) || is_unsure {
                longer.push((index, entry));
            } else {
                batch.push((index, Held { entry, key, revision, lease }));
            }
        }
        let (renewed, prolonged) = tokio::join!(
            self.renew_batch(&batch),
            join_all(longer.iter().map(|(index, entry)| self.prolong(&claims[*index], entry)))
        );
        let renewed = batch.iter().map(|(index, _)| *index).zip(renewed);
        for (index, answer) in renewed.chain(longer.iter().map(|(index, _)| *index).zip(prolonged)) {
            answers[index] = match answer {
                Ok(true) => Ok(Renewal::Renewed),
                Ok(false) => Ok(Renewal::Lost(self.loss_cause(&claims[index]).await)),
                Err(error) => Err(error),
            };
        }
        answers
    }

    async fn renew_batch(&self, batch: &[(usize, Held)]) -> Vec<Result<bool>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut answers: Vec<Extended> = Vec::new();
        for _ in 0..MAX_ROUNDS {
            match self.extend(batch).await {
                Ok(extended) => answers = extended,
                Err(error) => {
                    let error = error.into_read_error();
                    return batch.iter().map(|_| Err(error.clone())).collect();
                }
            }
            if !answers.contains(&Extended::Unproven) {
                break;
            }
        }
        let answer = |extended: Extended| match extended {
            Extended::Yes => Ok(true),
            Extended::Gone => Ok(false),
            Extended::Unproven => {
                Err(Error::new(ErrorKind::Unavailable, "the leader of the cluster changes")
                    .with_help("look at the members and at the network between them"))
            }
        };
        answers.into_iter().map(answer).collect()
    }

    async fn extend(&self, batch: &[(usize, Held)]) -> Result<Vec<Extended>, EtcdError> {
        let holds = || batch.iter().map(|(_, held)| held);
        // A signal that comes after this is of something that the read may not have seen.
        let signals: Vec<_> = holds().map(|held| held.entry.notifier.take()).collect();
        let sent_at = SystemClock::new().now();
        let leases: Vec<i64> = holds().map(|held| held.lease.id).collect();
        let reads = holds().map(|held| keys::read_key(&held.key)).collect();
        let txn = TxnRequest { success: reads, ..TxnRequest::default() };
        let (proven, link) = prove(&self.shared.members, &leases, txn).await.0?;
        let (extended, revision) = (proven.extended, proven.revision);
        let found: HashMap<Vec<u8>, KeyValue> =
            proven.answer.ranges().into_iter().flatten().map(|key| (key.key.clone(), key)).collect();
        let mut answers = Vec::with_capacity(batch.len());
        for (index, (held, signal)) in holds().zip(signals).enumerate() {
            let key = found.get(&held.key).filter(|key| key.create_revision == held.revision);
            let lives = extended.as_ref().map(|extended| extended.get(index) == Some(&true));
            let answer = match (key, lives) {
                (None, _) | (Some(_), Some(false)) => Extended::Gone,
                (Some(_), Some(true)) => Extended::Yes,
                (Some(_), None) => Extended::Unproven,
            };
            if answer == Extended::Yes {
                self.confirm(held, signal, &link, revision, sent_at).await;
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Notes the extension, and sees to it that a watch is on the key: the stream of the one before may have ended.
    async fn confirm(&self, held: &Held, signal: Signal, link: &Arc<Link>, revision: i64, sent_at: Moment) {
        let mut state = held.entry.lock().await;
        let Some(own) = state.as_mut().filter(|own| own.holds && own.revision == Some(held.revision)) else {
            return;
        };
        if own.lease.id == held.lease.id {
            own.lease = own.lease.extended_at(sent_at);
        }
        let is_watched = own.watch.as_ref().is_some_and(|watch| watch.is_on(link));
        if signal != Signal::Watched || !is_watched {
            own.watch = None;
            let (watches, notifier) = (&self.shared.watches, &held.entry.notifier);
            own.watch = Some(watches.set(link, held.key.clone(), revision, notifier));
        }
        held.entry.notifier.watched();
    }

    /// Extends one hold to a ttl that is longer than its lease, or whose lease is not sure.
    async fn prolong(&self, claim: &Claim, entry: &Arc<ClaimEntry>) -> Result<bool> {
        let mut state = entry.lock().await;
        let Some(own) = state.as_mut() else { return Ok(false) };
        self.recipe(claim, entry).prolong(own).await.map_err(EtcdError::into_read_error)
    }

    /// [`Taken`](LossCause::Taken) if there is another contender: it holds the lock, or is about to. The answer to the whole
    /// batch waits for this, so an unknown cause is [`Gone`](LossCause::Gone) soon.
    async fn loss_cause(&self, claim: &Claim) -> LossCause {
        let directory: Directory = self.names.directory_of(claim.name());
        match timeout(CAUSE_TIMEOUT, release::queue(&self.shared.members, &directory)).await {
            Ok(Ok(queue))
                if queue.iter().any(|key| keys::parse_value(&key.value).0 != Some(claim.owner())) =>
            {
                LossCause::Taken
            }
            _ => LossCause::Gone,
        }
    }
}
