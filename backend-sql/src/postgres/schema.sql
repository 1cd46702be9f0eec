CREATE TABLE IF NOT EXISTS {table} (
    -- One row per lock name. Rows are kept until they are purged: the next token is made from the last.
    -- All times are microseconds since 1970 by this server's clock: no time zone, no rounding.
    name        bytea  NOT NULL PRIMARY KEY, -- prefix and lock name in UTF-8, compared byte by byte
    owner       bytea  NULL,                 -- 16 bytes: who holds it; NULL if nobody does
    token       bigint NOT NULL,             -- the fencing token of the last grant; kept when the lease ends
    ends_at     bigint NOT NULL,             -- when the lease ends, or the linger if there is no owner
    acquired_at bigint NOT NULL,             -- when it was granted last
    version     bigint NOT NULL,             -- grows with every change
    wanted_until bigint NOT NULL DEFAULT 0, -- until then a release sends a message to the waiters
    holder      text   NOT NULL,             -- who the owner says it is: JSON, for people
    sharers     text   NULL                  -- the readers that hold, and the writers that wait for them: JSON
)
-- Rows change in place, and no index but the primary key has to follow: half of each page is left for the next version.
WITH (fillfactor = 50);
