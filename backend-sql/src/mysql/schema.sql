CREATE TABLE IF NOT EXISTS {table} (
    -- One row per lock name. Rows are kept until they are purged: the next token is made from the last.
    -- All times are microseconds since 1970 by this server's clock: no time zone, no rounding, no year 2038.
    name        VARBINARY(640) NOT NULL PRIMARY KEY, -- prefix and lock name in UTF-8, compared byte by byte
    owner       BINARY(16)     NULL,                 -- who holds it; NULL if nobody does
    token       BIGINT         NOT NULL,             -- the fencing token of the last grant; kept when the lease ends
    ends_at     BIGINT         NOT NULL,             -- when the lease ends, or the linger if there is no owner
    acquired_at BIGINT         NOT NULL,             -- when it was granted last
    version     BIGINT         NOT NULL,             -- grows with every change
    holder      VARCHAR(1024)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- who the owner says it is: JSON, for people
    sharers     MEDIUMTEXT     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL -- the readers that hold, and the writers that wait for them: JSON
) ENGINE = InnoDB;
