//! The mistakes of the shared lock: most of them a line of its scripts.

use leasehold_core::{Claim, ErrorKind, LockMode, Renewal, Result};
use std::collections::HashMap;

/// Parts of scripts, and what stands there instead.
type Lines = &'static [(&'static str, &'static str)];

#[derive(Clone, Copy)]
pub(crate) enum Mistake {
    Nothing,
    /// #67: looks for a holder and enters the new one in two steps.
    LooksThenEnters,
    /// #65: a number of readers, and not their owners.
    CountsReaders,
    /// #71: the last reader deletes the record without another look at it.
    DeletesWithoutLooking,
    Lines(Lines),
    /// #135, #194: the end of a lease in this mode is set by a second script.
    EndsByASecondStep(LockMode),
    /// #121: two holds of one name that are renewed together get the answer of one.
    AnswersByName,
    /// #123, #192: an attempt in this mode without an answer counts as refused.
    RefusedForUnknown(LockMode),
    /// #124, #193: a release in this mode without an answer counts as done.
    ReleasedForUnknown(LockMode),
    /// #196: looks whose the lock is, and deletes the writer in a second step.
    LooksThenDeletesTheWriter,
    /// #207: a writer that is refused looks again and again, and is told of an end in a millisecond.
    HintsToWriters,
    /// #228: the answers of readers come first, and then those of owners.
    AnswersByMode,
    /// #229: the mark of a writer that waits is the record of another lock.
    MarkOfAnotherName,
}

const ENTERS: &str = "redis.call('ZADD', readers, now + ttl, owner)\n";
const RENEWS: &str = "redis.call('ZADD', readers, 'GT', now + ttl, owner)\n";
const IS_READER: &str = "if not redis.call('ZSCORE', readers, owner) then return 0 end";
const LINGERS: &str = "redis.call('ZADD', readers, now + linger, 'released ' .. owner)";
const WRITER_LINGERS: &str =
    "if linger > 0 then return redis.call('SET', writer, 'released', 'PX', linger) and 1 end";
const EXTENDS_ALL: &str = "for _, other in ipairs(redis.call('ZRANGE', readers, 0, -1)) do
    redis.call('ZADD', readers, 'GT', now + ttl, other)
end
";

impl Mistake {
    pub(crate) const READER_REFUSED_FOR_UNKNOWN: Self = Self::RefusedForUnknown(LockMode::Shared);
    pub(crate) const WRITER_REFUSED_FOR_UNKNOWN: Self = Self::RefusedForUnknown(LockMode::Write);
    pub(crate) const READER_RELEASED_FOR_UNKNOWN: Self = Self::ReleasedForUnknown(LockMode::Shared);
    pub(crate) const WRITER_RELEASED_FOR_UNKNOWN: Self = Self::ReleasedForUnknown(LockMode::Write);
    pub(crate) const READER_ENDS_BY_A_SECOND_STEP: Self = Self::EndsByASecondStep(LockMode::Shared);
    pub(crate) const WRITER_ENDS_BY_A_SECOND_STEP: Self = Self::EndsByASecondStep(LockMode::Write);
    pub(crate) const RENEWAL_IS_OF_ANY_WRITER: Self = Self::Lines(&[(
        IS_READER,
        "if mode == 'write' and redis.call('EXISTS', writer) == 1 then return redis.call('PEXPIRE', writer, ttl) end
         if not redis.call('ZSCORE', readers, owner) then return 0 end",
    )]);
    pub(crate) const ONE_LEAST_TIME: Self = Self::Lines(&[("'released ' .. owner", "'released'")]);
    /// One end for all readers, which each of them renews.
    pub(crate) const ONE_END_FOR_ALL: Self = Self::Lines(&[
        (
            ENTERS,
            "redis.call('ZADD', readers, now + ttl, owner) for _, other in ipairs(redis.call('ZRANGE', readers, 0, -1)) do redis.call('ZADD', readers, 'GT', now + ttl, other) end\n",
        ),
        (IS_READER, "if redis.call('ZCARD', readers) == 0 then return 0 end"),
        (RENEWS, EXTENDS_ALL),
    ]);
    pub(crate) const RECOGNISED_AS_IT_IS: Self =
        Self::Lines(&[("redis.call('ZADD', readers, 'GT', now + ttl, owner) -- again", "")]);
    pub(crate) const RECOGNISED_WITH_A_NEW_TOKEN: Self = Self::Lines(&[(
        "return redis.call('HGET', tokens, owner)",
        "redis.call('HSET', tokens, owner, redis.call('INCR', fence)) return redis.call('HGET', tokens, owner)",
    )]);
    pub(crate) const RENEWAL_SETS_THE_END: Self = Self::Lines(&[(RENEWS, ENTERS)]);
    pub(crate) const READERS_DO_NOT_LINGER: Self = Self::Lines(&[(LINGERS, "")]);
    pub(crate) const READERS_LINGER_FOR_A_LEASE: Self =
        Self::Lines(&[(LINGERS, "redis.call('ZADD', readers, now + ttl, 'released ' .. owner)")]);
    pub(crate) const LINGERING_READER_ENDS_OTHERS: Self = Self::Lines(&[(
        LINGERS,
        "redis.call('DEL', readers) redis.call('ZADD', readers, now + linger, 'released ' .. owner)",
    )]);
    pub(crate) const WRITERS_DO_NOT_LINGER: Self = Self::Lines(&[(
        WRITER_LINGERS,
        "if mode == 'exclusive' and linger > 0 then return redis.call('SET', writer, 'released', 'PX', linger) and 1 end",
    )]);
    pub(crate) const LINGERING_WRITER_LETS_READERS_IN: Self = Self::Lines(&[(
        "if held or redis.call('EXISTS', wanted) == 1",
        "if held and held ~= 'released' or redis.call('EXISTS', wanted) == 1",
    )]);
    pub(crate) const LINGERING_HOLD_IS_SHOWN_AS_HELD: Self = Self::Lines(&[(
        WRITER_LINGERS,
        "if linger > 0 then return redis.call('PEXPIRE', writer, linger) end",
    )]);
    pub(crate) const RECORD_ENDS_WITH_THE_LATEST_READER: Self = Self::Lines(&[
        (ENTERS, "redis.call('ZADD', readers, now + ttl, owner) redis.call('PEXPIRE', readers, ttl)\n"),
        (RENEWS, "redis.call('ZADD', readers, 'GT', now + ttl, owner) redis.call('PEXPIRE', readers, ttl)\n"),
    ]);
    pub(crate) const RECORD_ENDS_WITH_THE_FIRST_READER: Self = Self::Lines(&[
        (ENTERS, "redis.call('ZADD', readers, now + ttl, owner) redis.call('PEXPIRE', readers, ttl, 'NX')\n"),
        (
            RENEWS,
            "redis.call('ZADD', readers, 'GT', now + ttl, owner) redis.call('PEXPIRE', readers, ttl, 'GT')\n",
        ),
    ]);
    pub(crate) const KNOWN_BY_ITS_TOKEN: Self =
        Self::Lines(&[(IS_READER, "if redis.call('HEXISTS', tokens, owner) == 0 then return 0 end")]);
    pub(crate) const KNOWN_BY_ITS_TOKEN_WHILE_ANY_READS: Self = Self::Lines(&[(
        IS_READER,
        "if redis.call('HEXISTS', tokens, owner) == 0 or redis.call('ZCARD', readers) == 0 then return 0 end",
    )]);
    pub(crate) const LEASES_OF_READERS_OF_A_MINUTE: Self = Self::Lines(&[(
        "local time =",
        "if mode == 'shared' then ttl = math.min(ttl, 60000) end local time =",
    )]);
    pub(crate) const RECOGNISED_WITH_THE_LAST_TOKEN: Self =
        Self::Lines(&[("return redis.call('HGET', tokens, owner)", "return redis.call('GET', fence)")]);
    pub(crate) const WRITER_RECOGNISED_AS_IT_IS: Self = Self::Lines(&[(
        "redis.call('PEXPIRE', writer, ttl, 'GT')\n        return redis",
        "if mode ~= 'write' then redis.call('PEXPIRE', writer, ttl, 'GT') end return redis",
    )]);
    pub(crate) const RENEWAL_SETS_THE_END_OF_A_WRITER: Self = Self::Lines(&[(
        "redis.call('PEXPIRE', writer, ttl, 'GT')\n        return 1",
        "if mode == 'write' then return redis.call('PEXPIRE', writer, ttl) end
        return redis.call('PEXPIRE', writer, ttl, 'GT') and 1",
    )]);
    pub(crate) const RENEWAL_OF_A_WRITER_BEGINS_ANEW: Self = Self::Lines(&[(
        IS_READER,
        "if mode == 'write' and redis.call('EXISTS', writer) == 0 then return redis.call('SET', writer, owner, 'PX', ttl) and 1 end
         if not redis.call('ZSCORE', readers, owner) then return 0 end",
    )]);
    pub(crate) const RENEWAL_GIVES_WAY_TO_A_WRITER: Self = Self::Lines(&[(
        IS_READER,
        "if redis.call('EXISTS', wanted) == 1 or not redis.call('ZSCORE', readers, owner) then return 0 end",
    )]);
    pub(crate) const ENDS_BY_THE_CLOCKS_OF_CLIENTS: Self = Self::Lines(&[(
        "local now = time[1] * 1000 + math.floor(time[2] / 1000)",
        "local now = tonumber(ARGV[7])",
    )]);
    pub(crate) const TOKENS_BEGIN_AGAIN: Self = Self::Lines(&[(
        "redis.call('ZREMRANGEBYSCORE', readers, '-inf', now)",
        "if redis.call('ZREMRANGEBYSCORE', readers, '-inf', now) > 0 and redis.call('ZCARD', readers) == 0 then redis.call('DEL', fence) end",
    )]);
    pub(crate) const SHOWS_TEN_READERS: Self = Self::Lines(&[(
        "redis.call('ZRANGE', readers, 0, -1)) do\n        add",
        "redis.call('ZRANGE', readers, 0, 9)) do\n        add",
    )]);

    /// A script with the mistake in it.
    pub(crate) fn put_into(self, script: String) -> String {
        let lines: Lines = match self {
            Self::CountsReaders => &[
                (ENTERS, "redis.call('ZADD', readers, now + ttl, redis.call('ZCARD', readers))\n"),
                (IS_READER, "if redis.call('ZCARD', readers) == 0 then return 0 end"),
                (RENEWS, EXTENDS_ALL),
            ],
            Self::EndsByASecondStep(LockMode::Shared) => {
                &[(ENTERS, "redis.call('ZADD', readers, '+inf', owner)\n")]
            }
            Self::EndsByASecondStep(_) => &[(
                "redis.call('SET', writer, owner, 'PX', ttl)",
                "redis.call('SET', writer, owner, unpack(mode == 'write' and {} or {'PX', ttl}))",
            )],
            Self::Lines(lines) => lines,
            _ => &[],
        };
        lines.iter().fold(script, |script, (line, instead)| script.replace(line, instead))
    }

    /// The answer of the store, as the lock takes it.
    pub(crate) fn answer(
        self,
        claim: &Claim,
        is_attempt: bool,
        answer: Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        let is_unknown = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate);
        match self {
            Self::RefusedForUnknown(mode) if is_unknown && is_attempt && mode == claim.mode() => Ok(None),
            Self::ReleasedForUnknown(mode) if is_unknown && !is_attempt && mode == claim.mode() => {
                Ok(Some(1))
            }
            _ => answer,
        }
    }

    /// The answers to a call that has renewed these claims.
    pub(crate) fn answers(self, claims: &[Claim], answers: Vec<Result<Renewal>>) -> Vec<Result<Renewal>> {
        if matches!(self, Self::AnswersByMode) {
            let of_claims = claims.iter().zip(answers);
            let (readers, others): (Vec<_>, Vec<_>) =
                of_claims.partition(|(claim, _)| claim.mode().is_shared());
            return readers.into_iter().chain(others).map(|(_, answer)| answer).collect();
        }
        if !matches!(self, Self::AnswersByName) {
            return answers;
        }
        let by_name: HashMap<_, _> = claims.iter().map(Claim::name).zip(answers).collect();
        claims.iter().filter_map(|claim| by_name.get(claim.name()).cloned()).collect()
    }
}
