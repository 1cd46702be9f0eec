//! Mistakes in the commands that are sent to the server.

use crate::plain::{SOUND, Steps, busy, fence, granted, key};
use leasehold_core::{Attempt, Claim, Error, ErrorKind, LossCause, OwnerId, Release, Renewal};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// #1: a key without an end. A crashed holder keeps it for ever.
pub(crate) const SETNX_WITHOUT_EXPIRY: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let set: u64 = redis.command(&["SETNX", &key(claim), &claim.owner().to_hex()]).await?;
            if set == 0 {
                return Ok(busy());
            }
            Ok(granted(redis.command(&["INCR", &fence(claim)]).await?))
        })
    },
    renew: |redis, claim| {
        Box::pin(async move {
            let value: Option<String> = redis.command(&["GET", &key(claim)]).await?;
            let mine = value == Some(claim.owner().to_hex());
            Ok(if mine { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
        })
    },
    ..SOUND
};

/// #2: the end of the lease is set by a second command. A holder that dies between the two keeps the lock for ever.
pub(crate) const SETNX_THEN_EXPIRE: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let set: u64 = redis.command(&["SETNX", &key(claim), &claim.owner().to_hex()]).await?;
            if set == 0 {
                return Ok(busy());
            }
            redis.command::<u64>(&["PEXPIRE", &key(claim), &claim.ttl_millis().to_string()]).await?;
            Ok(granted(redis.command(&["INCR", &fence(claim)]).await?))
        })
    },
    ..SOUND
};

/// #3: the recipe of the old SETNX page: the end of the lease stands in the value, and whoever finds it passed takes
/// over by GETSET. The loser of a race has overwritten the winner's value by then.
pub(crate) const GETSET: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let mine = stamped(claim);
            let old: Option<String> = redis.command(&["GET", &key(claim)]).await?;
            let taken = match old {
                None => redis.command::<u64>(&["SETNX", &key(claim), &mine]).await? == 1,
                Some(old) if is_over(&old) => {
                    redis.command::<Option<String>>(&["GETSET", &key(claim), &mine]).await? == Some(old)
                }
                Some(_) => false,
            };
            if !taken {
                return Ok(busy());
            }
            Ok(granted(redis.command(&["INCR", &fence(claim)]).await?))
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let script = "local v = redis.call('GET', KEYS[1])
                          if not v or v:sub(1, 32) ~= ARGV[1] then return 0 end
                          return redis.call('DEL', KEYS[1])";
            let held: u64 = redis.script(script, &[&key(claim)], &[&claim.owner().to_hex()]).await?;
            Ok(if held == 1 { Release::Released } else { Release::NotHeld })
        })
    },
    ..SOUND
};

/// #4: the end of the lease stands in the value, by the clock of its writer, and is compared with the clock of its reader.
pub(crate) const CLIENT_CLOCK_EXPIRY: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let script = "local v = redis.call('GET', KEYS[1])
                          if v and tonumber(v:sub(34)) > tonumber(ARGV[2]) then return false end
                          redis.call('SET', KEYS[1], ARGV[1])
                          return redis.call('INCR', KEYS[2])";
            let keys = [key(claim), fence(claim)];
            let now = now_millis().to_string();
            let token: Option<u64> =
                redis.script(script, &[&keys[0], &keys[1]], &[&stamped(claim), &now]).await?;
            Ok(token.map_or_else(busy, granted))
        })
    },
    renew: |redis, claim| {
        Box::pin(async move {
            let script = "local v = redis.call('GET', KEYS[1])
                          if not v or v:sub(1, 32) ~= ARGV[1]:sub(1, 32) then return 0 end
                          redis.call('SET', KEYS[1], ARGV[1]) return 1";
            let held: u64 = redis.script(script, &[&key(claim)], &[&stamped(claim)]).await?;
            Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
        })
    },
    release: GETSET.release,
};

fn stamped(claim: &Claim) -> String {
    format!("{}:{}", claim.owner().to_hex(), now_millis() + u128::from(claim.ttl_millis()))
}

fn is_over(value: &str) -> bool {
    value.rsplit(':').next().and_then(|end| end.parse::<u128>().ok()).is_some_and(|end| end < now_millis())
}

fn now_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// #5: a release deletes the key, whoever its owner is.
pub(crate) const DEL_WITHOUT_OWNER_CHECK: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move {
            let deleted: u64 = redis.command(&["DEL", &key(claim)]).await?;
            Ok(if deleted == 1 { Release::Released } else { Release::NotHeld })
        })
    },
    ..SOUND
};

/// #6: checks and deletes, in two steps.
pub(crate) const GET_THEN_DEL: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move {
            let value: Option<String> = redis.command(&["GET", &key(claim)]).await?;
            if value != Some(claim.owner().to_hex()) {
                return Ok(Release::NotHeld);
            }
            redis.command::<u64>(&["DEL", &key(claim)]).await?;
            Ok(Release::Released)
        })
    },
    ..SOUND
};

/// #8: a renewal sets the end of the lease, whoever its owner is.
pub(crate) const PEXPIRE_WITHOUT_OWNER_CHECK: Steps = Steps {
    renew: |redis, claim| {
        Box::pin(async move {
            let held: u64 = redis.command(&["PEXPIRE", &key(claim), &claim.ttl_millis().to_string()]).await?;
            Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) })
        })
    },
    ..SOUND
};

/// #12: "the answer was inconclusive, carry on": no renewal ever fails, so no holder ever hears of a loss.
pub(crate) const INCONCLUSIVE_IS_RENEWED: Steps = Steps {
    renew: |redis, claim| {
        Box::pin(async move { Ok((SOUND.renew)(redis, claim).await.unwrap_or(Renewal::Renewed)) })
    },
    ..SOUND
};

/// #60: "no answer, so it is not mine": the lock that was granted is left to its lease.
pub(crate) const BUSY_FOR_UNKNOWN: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move { Ok((SOUND.acquire)(redis, claim).await.unwrap_or_else(|_| busy())) })
    },
    ..SOUND
};

/// #61: "it will have arrived": a release that was lost is left to the lease.
pub(crate) const RELEASED_FOR_UNKNOWN: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move { Ok((SOUND.release)(redis, claim).await.unwrap_or(Release::Released)) })
    },
    ..SOUND
};

/// #62: a renewal of a lease that has ended makes a new one, if the lock is free.
pub(crate) const RENEWAL_BEGINS_ANEW: Steps = Steps {
    renew: |redis, claim| {
        Box::pin(async move {
            let script = "local v = redis.call('GET', KEYS[1])
                          if v and v ~= ARGV[1] then return 0 end
                          redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
            let arguments = [claim.owner().to_hex(), claim.ttl_millis().to_string()];
            let held: u64 = redis.script(script, &[&key(claim)], &[&arguments[0], &arguments[1]]).await?;
            Ok(if held == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Taken) })
        })
    },
    ..SOUND
};

/// #18: a new owner for every try. A try whose reply was lost holds the lock, and no later one recognises it as its
/// own.
pub(crate) const NEW_OWNER_EACH_TRY: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let aka =
                Claim::new(claim.name().clone(), OwnerId::random()?, claim.ttl(), claim.holder().clone());
            aliases(|aliases| aliases.insert(claim.owner(), aka.clone()));
            (SOUND.acquire)(redis, &aka).await
        })
    },
    renew: |redis, claim| {
        Box::pin(async move {
            let aka =
                aliases(|aliases| aliases.get(&claim.owner()).cloned()).unwrap_or_else(|| claim.clone());
            (SOUND.renew)(redis, &aka).await
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let aka = aliases(|aliases| aliases.remove(&claim.owner())).unwrap_or_else(|| claim.clone());
            (SOUND.release)(redis, &aka).await
        })
    },
};

/// #107: an owner is the process id, and a number that counts from the days since the host was started.
pub(crate) const OWNER_OF_PID_AND_BOOT_CLOCK: Steps = Steps {
    acquire: |redis, claim| Box::pin(async move { (SOUND.acquire)(redis, &counted_by_process(claim)).await }),
    renew: |redis, claim| Box::pin(async move { (SOUND.renew)(redis, &counted_by_process(claim)).await }),
    release: |redis, claim| Box::pin(async move { (SOUND.release)(redis, &counted_by_process(claim)).await }),
};

/// The claim under its number in this process.
fn counted_by_process(claim: &Claim) -> Claim {
    const DAY: i64 = 86_400;
    let days = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec / DAY;
    aliases(|aliases| {
        let number = u128::from(std::process::id()) << 64 | (days as u128 + aliases.len() as u128);
        let aka = || {
            let owner = OwnerId::from_u128(number);
            Claim::new(claim.name().clone(), owner, claim.ttl(), claim.holder().clone())
        };
        aliases.entry(claim.owner()).or_insert_with(aka).clone()
    })
}

fn aliases<T>(act: impl FnOnce(&mut HashMap<OwnerId, Claim>) -> T) -> T {
    static ALIASES: Mutex<Option<HashMap<OwnerId, Claim>>> = Mutex::new(None);
    act(ALIASES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// #26: the counter of tokens goes with the record of the lock; it is kept by a release, and forgotten when the lease
/// ends in any other way.
pub(crate) const FENCE_GOES_WITH_THE_RECORD: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let attempt = (SOUND.acquire)(redis, claim).await?;
            redis.command::<u64>(&["PEXPIRE", &fence(claim), &claim.ttl_millis().to_string()]).await?;
            Ok(attempt)
        })
    },
    release: |redis, claim| {
        Box::pin(async move {
            let released = (SOUND.release)(redis, claim).await?;
            if released == Release::Released {
                redis.command::<u64>(&["PERSIST", &fence(claim)]).await?;
            }
            Ok(released)
        })
    },
    ..SOUND
};

/// #25: the token is the time, by the clock of the client that takes the lock.
pub(crate) const FENCE_IS_THE_CLIENTS_TIME: Steps = Steps {
    acquire: |redis, claim| {
        Box::pin(async move {
            let attempt = (SOUND.acquire)(redis, claim).await?;
            let now = u64::try_from(now_millis()).unwrap_or(u64::MAX);
            Ok(if let Attempt::Granted(_) = attempt { granted(now) } else { attempt })
        })
    },
    ..SOUND
};

/// #172: a renewal names the number of the one before it, so that one that comes late changes nothing. A repeated one is refused.
pub(crate) const RENEWALS_BY_NUMBER: Steps = Steps {
    renew: |redis, claim| {
        Box::pin(async move {
            let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
                          if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[3] then return -1 end
                          redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
                          return redis.call('INCR', KEYS[2])";
            let (owner, ttl) = (claim.owner().to_hex(), claim.ttl_millis().to_string());
            let last = renewals(|renewals| renewals.get(&claim.owner()).copied().unwrap_or(0)).to_string();
            let keys = [key(claim), format!("{}:{owner}", claim.name())];
            let next: i64 = redis.script(script, &[&keys[0], &keys[1]], &[&owner, &ttl, &last]).await?;
            let Ok(next) = u64::try_from(next) else { return Ok(Renewal::Lost(LossCause::Gone)) };
            renewals(|renewals| renewals.insert(claim.owner(), next));
            Ok(Renewal::Renewed)
        })
    },
    ..SOUND
};

fn renewals<T>(act: impl FnOnce(&mut HashMap<OwnerId, u64>) -> T) -> T {
    static RENEWALS: Mutex<Option<HashMap<OwnerId, u64>>> = Mutex::new(None);
    act(RENEWALS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// #173: a release that finds nothing to end is reported as a loss, also if it is made for the second time.
pub(crate) const NOTHING_TO_END_IS_LOST: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move {
            match (SOUND.release)(redis, claim).await? {
                Release::Released => Ok(Release::Released),
                Release::NotHeld => Err(Error::new(ErrorKind::Lost, "another owner has had it")),
            }
        })
    },
    ..SOUND
};

/// #174: a script checks the owner, and a command deletes: the lock may change hands between the two.
pub(crate) const CHECK_THEN_DEL: Steps = Steps {
    release: |redis, claim| {
        Box::pin(async move {
            let script = "return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0";
            let mine: u64 = redis.script(script, &[&key(claim)], &[&claim.owner().to_hex()]).await?;
            if mine == 0 {
                return Ok(Release::NotHeld);
            }
            redis.command::<u64>(&["DEL", &key(claim)]).await?;
            Ok(Release::Released)
        })
    },
    ..SOUND
};
