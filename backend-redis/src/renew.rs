//! Renewals: many claims in each request.

use crate::backend::RedisBackend;
use crate::connection::ConfirmKind;
use crate::keys::LockKeys;
use crate::scripts::Script;
use crate::topology::cluster::Slot;
use crate::{reply, scripts};
use futures_util::future::join_all;
use leasehold_core::{Claim, LockMode, Renewal, Result};
use std::collections::BTreeMap;

impl RedisBackend {
    /// Renews claims in as few requests as is fair to others. The claims of one request are of one
    /// mode, and lie in one slot, where there are slots.
    pub(crate) async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut groups: BTreeMap<(bool, Option<Slot>), Vec<usize>> = BTreeMap::new();
        let keys: Vec<LockKeys> = claims.iter().map(|claim| self.keys.of(claim.name())).collect();
        for (index, keys) in keys.iter().enumerate() {
            let slot = self.servers.is_cluster().then(|| Slot::of(keys.lock()));
            groups.entry((claims[index].mode().is_shared(), slot)).or_default().push(index);
        }
        let requests =
            groups.values().flat_map(|indices| indices.chunks(leasehold_core::MAX_CLAIMS_PER_RENEWAL));
        let renewed = join_all(requests.map(async |indices| {
            let claims: Vec<_> = indices.iter().map(|index| (&claims[*index], &keys[*index])).collect();
            let renewals = self.renew_together(&claims).await;
            indices.iter().copied().zip(renewals)
        }));
        let mut renewals: Vec<_> = renewed.await.into_iter().flatten().collect();
        renewals.sort_unstable_by_key(|(index, _)| *index);
        renewals.into_iter().map(|(_, renewal)| renewal).collect()
    }

    async fn renew_together(&self, claims: &[(&Claim, &LockKeys)]) -> Vec<Result<Renewal>> {
        let args = |claim: &Claim| vec![claim.owner().to_hex(), claim.ttl_millis().to_string()];
        let requests: Vec<_> = claims.iter().map(|(claim, keys)| ((*keys).clone(), args(claim))).collect();
        let shortest = claims.iter().map(|(claim, _)| claim.ttl()).min().unwrap_or_default();
        let confirm = self.replicas.map(|replicas| (replicas.for_lease(shortest), ConfirmKind::Renewal));
        let script = claims.first().map_or(&scripts::RENEW, |(claim, _)| renewal_script(claim.mode()));
        let answers = self.servers.run_each(script, &[], &requests, confirm).await;
        let renewal = |answer: Result<_>| {
            let (answer, is_confirmed): (_, bool) = answer?;
            match reply::renewal(&answer)? {
                // An extension that too few replicas have is not counted on: the next primary may not know it. The lease
                // before it is.
                Renewal::Renewed if !is_confirmed => Ok(Renewal::Held),
                renewal => Ok(renewal),
            }
        };
        answers.into_iter().map(renewal).collect()
    }
}

pub(crate) fn renewal_script(mode: LockMode) -> &'static Script {
    if mode.is_shared() { &scripts::RENEW_SHARED } else { &scripts::RENEW }
}
