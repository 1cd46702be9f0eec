-- Grants the row of a name to an owner, if it is free, and answers its last token and the time of the grant, which together
-- say all of its tokens (`lease/tokens.rs`); no row if it is not free.
--
-- Free: there is no such row, or its lease, or linger, is over. Held by this very owner, because the reply to an earlier
-- attempt was lost: granted again, with the same token. The primary key makes two rows of one name impossible, and under
-- READ COMMITTED the condition is worked out on the row as it is once its lock is had: of all that ask, one is granted.
-- The token grows with every grant, by one at least, and up to the time; it ends at 2^53 - 1. Several in a row are reserved
-- if the clock has passed the last one. Token and time are made of one look at the clock: it may be set between two, or the
-- server stand still, and together they would say other tokens than those that were granted.
--
-- :1 name   :2 owner   :3 ttl in microseconds   :4 holder   :5 tokens wanted behind the first
-- answers: int int
INSERT INTO {table} AS lease (name, owner, token, ends_at, acquired_at, version, holder)
SELECT :1, :2, clock.micros + :5, clock.micros + :3, clock.micros, clock.micros, :4 FROM (SELECT {now} AS micros) AS clock
ON CONFLICT (name) DO UPDATE SET
    owner       = excluded.owner,
    (token, acquired_at) = (
        SELECT CASE WHEN lease.owner = excluded.owner AND lease.ends_at > clock.micros THEN lease.token
                    WHEN lease.token < excluded.acquired_at THEN excluded.token
                    ELSE greatest(lease.token + 1, clock.micros) END,
               CASE WHEN lease.owner = excluded.owner AND lease.ends_at > clock.micros THEN lease.acquired_at
                    WHEN lease.token < excluded.acquired_at THEN excluded.acquired_at
                    WHEN lease.token >= clock.micros AND lease.token < clock.micros + 2000 THEN lease.token + 1
                    ELSE clock.micros END
        FROM (SELECT {now} AS micros) AS clock
    ),
    ends_at     = greatest(lease.ends_at, {now} + :3),
    version     = lease.version + 1,
    holder      = excluded.holder
WHERE (lease.ends_at <= {now} AND lease.token < 9007199254740991) OR (lease.owner = excluded.owner AND lease.ends_at > {now})
RETURNING token, acquired_at;
