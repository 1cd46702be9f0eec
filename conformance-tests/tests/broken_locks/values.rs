//! Mistakes in values: a name, a lease, a batch or a token is taken for another.

use crate::calls::{Calls, lock_of};
use crate::plain::{Batch, Plain, SOUND, Steps, Times, busy, fence, granted, key};
use crate::subject::{Address, Lasting};
use leasehold_core::{
    Claim, DistributedLock, Error, ErrorKind, LockMode, LockName, LossCause, LossSignal, Release, Renewal,
    TokenClass, renew_each,
};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Steps that take another name, or another lease, for the one that was asked for.
macro_rules! of_another_claim {
    ($other:path) => {
        Steps {
            acquire: |redis, claim| Box::pin(async move { (SOUND.acquire)(redis, &$other(claim)).await }),
            renew: |redis, claim| Box::pin(async move { (SOUND.renew)(redis, &$other(claim)).await }),
            release: |redis, claim| Box::pin(async move { (SOUND.release)(redis, &$other(claim)).await }),
        }
    };
}

/// #85: names are trimmed, as text from a form is.
pub(crate) const NAMES_TRIMMED: Steps = of_another_claim!(trimmed);

/// #86: a name that looks like a number is one.
pub(crate) const NAMES_THAT_COUNT: Steps = of_another_claim!(counted);

/// #104: of a name that is too long, the end is kept.
pub(crate) const NAMES_CUT_AT_THE_FRONT: Steps = of_another_claim!(cut_at_the_front);

/// #89, mended: no name has a colon in it, and every companion key has.
pub(crate) const NO_COLONS_IN_NAMES: Steps = of_another_claim!(without_colons);

/// #93: the lease is counted in microseconds, in 32 bits.
pub(crate) const LEASE_IN_32_BITS: Steps = of_another_claim!(in_32_bits);

/// #94: the lease is counted in whole seconds, rounded down. Rounded up, it is sound.
pub(crate) const WHOLE_SECONDS: Steps = of_another_claim!(whole_seconds);
pub(crate) const WHOLE_SECONDS_AT_LEAST: Steps = of_another_claim!(whole_seconds_at_least);

/// Ways to keep time that are coarse, and sound.
pub(crate) const SECONDS: Lasting = |time| Duration::from_secs(time.as_secs_f64().ceil() as u64);
pub(crate) const TWO_SECONDS_AT_LEAST: Lasting = |time| time.max(Duration::from_secs(2));
pub(crate) const A_SECOND_MORE: Lasting = |time| SECONDS(time) + Duration::from_secs(1);
pub(crate) const STEPS_OF_TEN: Lasting =
    |time| Duration::from_secs(10 * (time.as_secs_f64() / 10.0).ceil() as u64);
/// The lease ends as a second of the clock does.
pub(crate) const END_OF_A_SECOND: Lasting = |time| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    SECONDS(now + time) - now
};

pub(crate) const ROUNDED_DOWN: Lasting = |time| Duration::from_secs(time.as_secs().max(1));
/// #186
pub(crate) const A_SECOND_LESS: Lasting =
    |time| SECONDS(time).saturating_sub(Duration::from_secs(1)).max(time / 2);

/// #185 to #189: sound steps, and these times; with an administrator's side or without.
pub(crate) fn in_times(lasting: Times, has_admin: bool, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    (plain.lasting, plain.has_admin) = (lasting, has_admin);
    lock_of(plain)
}

fn named(claim: &Claim, name: &str) -> Claim {
    Claim::new(LockName::new(name).unwrap(), claim.owner(), claim.ttl(), claim.holder().clone())
}

fn lasting(claim: &Claim, ttl: Duration) -> Claim {
    Claim::new(claim.name().clone(), claim.owner(), ttl, claim.holder().clone())
}

fn trimmed(claim: &Claim) -> Claim {
    named(claim, claim.name().as_str().trim())
}

fn counted(claim: &Claim) -> Claim {
    match claim.name().as_str().parse::<f64>() {
        Ok(number) => named(claim, &number.to_string()),
        Err(_) => claim.clone(),
    }
}

fn cut_at_the_front(claim: &Claim) -> Claim {
    let name = claim.name().as_str();
    let mut start = name.len().saturating_sub(255);
    while !name.is_char_boundary(start) {
        start += 1;
    }
    named(claim, &name[start..])
}

fn without_colons(claim: &Claim) -> Claim {
    named(claim, &claim.name().as_str().replace('%', "%25").replace(':', "%3A"))
}

fn in_32_bits(claim: &Claim) -> Claim {
    lasting(claim, Duration::from_micros((claim.ttl().as_micros() as u32).into()))
}

fn whole_seconds(claim: &Claim) -> Claim {
    lasting(claim, ROUNDED_DOWN(claim.ttl()))
}

fn whole_seconds_at_least(claim: &Claim) -> Claim {
    lasting(claim, SECONDS(claim.ttl()))
}

/// #90: a renewal sets the end of the lease, whatever it is. A late renewal makes it earlier.
pub(crate) const RENEWAL_SETS_THE_END: Steps = Steps {
    renew: |redis, claim| {
        Box::pin(async move {
            let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
                          return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
            let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
            let held: u64 = redis.script(script, &[&key(claim)], &[&arguments[0], &arguments[1]]).await?;
            Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
        })
    },
    ..SOUND
};

/// #95: a grant that is recognised is not extended: its lease goes on from the first reply, which nobody heard.
pub(crate) const RECOGNISED_AS_IT_IS: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let script = "local v = redis.call('GET', KEYS[1])
                          if v == ARGV[1] then return tonumber(redis.call('GET', KEYS[2])) end
                          if v then return false end
                          redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
                          return redis.call('INCR', KEYS[2])";
            let keys = [key(claim), fence(claim)];
            let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
            let token: Option<u64> =
                redis.script(script, &[&keys[0], &keys[1]], &[&arguments[0], &arguments[1]]).await?;
            Ok(token.map_or_else(busy, granted))
        })
    },
    ..SOUND
};

/// #98: a release without an answer is made again, and "it was mine": the second time without a look at the owner.
pub(crate) const RELEASED_AGAIN_BY_NAME: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move {
            match (SOUND.release)(redis, claim).await {
                Err(_) => redis.command::<u64>(&["DEL", &key(claim)]).await.map(|_| Release::Released),
                released => released,
            }
        })
    },
    ..SOUND
};

/// #100: a refused attempt says in the store that it was there, and nobody removes that.
pub(crate) const REFUSED_LEAVE_A_KEY: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            redis
                .command::<()>(&["SET", &format!("{}:wants:{}", claim.name(), claim.owner().to_hex()), ""])
                .await?;
            (SOUND.acquire)(redis, claim).await
        })
    },
    ..SOUND
};

/// #102: the counter of tokens of a free name is kept for two leases.
pub(crate) const FENCE_OF_A_FREE_NAME_ENDS: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let attempt = (SOUND.acquire)(redis, claim).await?;
            redis.command::<u64>(&["PERSIST", &fence(claim)]).await?;
            Ok(attempt)
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let released = (SOUND.release)(redis, claim).await?;
            redis.command::<u64>(&["PEXPIRE", &fence(claim), &(claim.ttl_millis() * 2).to_string()]).await?;
            Ok(released)
        })
    },
    ..SOUND
};

/// #91: claims that are renewed together all get the lease of the first.
pub(crate) const TTL_OF_THE_FIRST: Batch = |plain, claims| {
    Box::pin(async move {
        let ttl = claims.first().map_or(Duration::ZERO, Claim::ttl);
        let claims: Vec<Claim> = claims.iter().map(|claim| lasting(claim, ttl)).collect();
        renew_each(&claims, |claim| plain.renew(claim)).await
    })
};

/// #92: the losses come first in the answer.
pub(crate) const LOSSES_FIRST: Batch = |plain, claims| {
    Box::pin(async move {
        let mut answers = renew_each(claims, |claim| plain.renew(claim)).await;
        answers.sort_by_key(|answer| matches!(answer, Ok(Renewal::Renewed)));
        answers
    })
};

/// #205: eight claims are renewed at a time, and those behind them are taken for renewed.
pub(crate) const EIGHT_AT_A_TIME: Batch = |plain, claims| {
    Box::pin(async move {
        let eight = &claims[..claims.len().min(8)];
        let mut answers = renew_each(eight, |claim| plain.renew(claim)).await;
        answers.resize_with(claims.len(), || Ok(Renewal::Renewed));
        answers
    })
};

/// #206: the first loss is told, and the others count as renewed.
pub(crate) const FIRST_LOSS_ONLY: Batch = |plain, claims| {
    Box::pin(async move {
        let mut answers = renew_each(claims, |claim| plain.renew(claim)).await;
        let losses = answers.iter_mut().filter(|answer| matches!(answer, Ok(Renewal::Lost(_))));
        losses.skip(1).for_each(|answer| *answer = Ok(Renewal::Renewed));
        answers
    })
};

/// A lock that renews in batches of this kind.
pub(crate) fn in_batches(batch: Option<Batch>, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    plain.batch = batch.unwrap_or(plain.batch);
    lock_of(plain)
}

/// #103: a lock that says how its holders are told of a loss.
pub(crate) fn telling(signal: LossSignal, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    plain.semantics.loss_signal = signal;
    lock_of(plain)
}

/// A sound lock that says what its order of tokens survives.
pub(crate) fn with_tokens_of(class: TokenClass, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    plain.semantics.token = class;
    lock_of(plain)
}

/// A lock of these steps that nobody can look at.
pub(crate) fn without_administrator(steps: Steps, address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(steps, address);
    plain.has_admin = false;
    lock_of(plain)
}

/// #109: the mode of a hold is not kept, and all are shown as shared.
pub(crate) fn shown_as_shared(address: &Address) -> Arc<dyn DistributedLock> {
    let mut plain = Plain::new(SOUND, address);
    plain.shown_mode = LockMode::Shared;
    lock_of(plain)
}

/// #232: every error of the server is an outage.
pub(crate) const REFUSALS_ARE_OUTAGES: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let answer = (SOUND.acquire)(redis, claim).await;
            answer.map_err(|error| Error::new(ErrorKind::Unavailable, "no answer").with_source(error))
        })
    },
    ..SOUND
};
