use crate::cluster::Slot;
use crate::keys::{Keys, LockKeys};
use crate::link::{Confirmed, Matter};
use crate::script_arg::ScriptArg;
use crate::servers::{Answer, Manner, Refused, Servers};
use crate::target::Replicas;
use crate::{reply, scripts};
use futures_util::future::join_all;
use leasehold_core::{Claim, Renewal, Result};
use std::collections::BTreeMap;

/// How many leases one call of the script extends. It costs the server 2.6 µs a lease, where a call for each costs 6.0;
/// more in one call gain nothing and keep it longer from answering others.
const BATCH: usize = leasehold_core::MAX_CLAIMS_PER_RENEWAL;

/// Renews claims in as few calls as is fair to others. Those of one call lie in one slot, where there are slots.
pub(super) async fn renew(
    servers: &Servers,
    keys: &Keys,
    replicas: Option<Replicas>,
    claims: &[Claim],
) -> Vec<Result<Renewal>> {
    let mut slots: BTreeMap<Option<Slot>, Vec<(usize, &Claim)>> = BTreeMap::new();
    for (place, claim) in claims.iter().enumerate() {
        let slot = servers.have_slots().then(|| Slot::of(keys.of(claim.name()).lock()));
        slots.entry(slot).or_default().push((place, claim));
    }
    let batches = slots.values().flat_map(|claims| claims.chunks(BATCH));
    let renewed = join_all(batches.map(|batch| renew_batch(servers, keys, replicas, batch))).await;
    let mut renewals: Vec<_> = renewed.into_iter().flatten().collect();
    renewals.sort_unstable_by_key(|(place, _)| *place);
    renewals.into_iter().map(|(_, renewal)| renewal).collect()
}

/// The answers for claims, each with its place.
async fn renew_batch(
    servers: &Servers,
    keys: &Keys,
    replicas: Option<Replicas>,
    claims: &[(usize, &Claim)],
) -> Vec<(usize, Result<Renewal>)> {
    let all_keys: Vec<LockKeys> = claims.iter().map(|(_, claim)| keys.of(claim.name())).collect();
    let words = |claim: &Claim| [ScriptArg::owner(claim.owner()), ScriptArg::number(claim.ttl_millis())];
    let words: Vec<[ScriptArg; 2]> = claims.iter().map(|(_, claim)| words(claim)).collect();
    let lock_keys: Vec<&str> = all_keys.iter().flat_map(LockKeys::of_hold).collect();
    let args: Vec<&str> = words.iter().flatten().map(|word| &**word).collect();
    let shortest = claims.iter().map(|(_, claim)| claim.ttl()).min().unwrap_or_default();
    let manner = match replicas {
        Some(replicas) => Manner::Confirmed(replicas.for_lease(shortest), Matter::Renewal),
        None => Manner::Plain,
    };
    let answer = renew_keys(servers, &lock_keys, &args, manner, claims.len()).await;
    let places = claims.iter().map(|(place, _)| *place);
    match answer {
        Ok(renewals) => places.zip(renewals.into_iter().map(Ok)).collect(),
        // Each of them may have all its keys in one place, if not in the same.
        Err(Refused { is_torn_apart: true, .. }) if claims.len() > 1 => {
            let one_by_one = claims.chunks(1).map(|claim| renew_batch(servers, keys, replicas, claim));
            Box::pin(join_all(one_by_one)).await.concat()
        }
        // One call, one fate.
        Err(Refused { why, .. }) => places.map(|place| (place, Err(why.clone()))).collect(),
    }
}

async fn renew_keys(
    servers: &Servers,
    keys: &[&str],
    args: &[&str],
    manner: Manner,
    claims: usize,
) -> Result<Vec<Renewal>, Refused> {
    let Answer { reply, confirmed, .. } = servers.run_together(&scripts::RENEW, keys, args, manner).await?;
    let renewals = reply::renewals(&reply, claims)?;
    Ok(match confirmed {
        None | Some(Confirmed::Yes) => renewals,
        // Not to be counted on: a replica without it may be the next primary. The lease before it still is.
        Some(Confirmed::By(_) | Confirmed::Unasked(_)) => renewals.into_iter().map(held_only).collect(),
    })
}

fn held_only(renewal: Renewal) -> Renewal {
    match renewal {
        Renewal::Renewed => Renewal::Held,
        other => other,
    }
}
