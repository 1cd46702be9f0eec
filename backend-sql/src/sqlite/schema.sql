CREATE TABLE IF NOT EXISTS {table} (
    -- One row per lock name. Rows are kept until they are purged: the next token is made from the last.
    -- Host time: microseconds of CLOCK_BOOTTIME, without the offset of a time namespace.
    name         BLOB    NOT NULL PRIMARY KEY, -- prefix and lock name in UTF-8, compared byte by byte
    owner        BLOB    NOT NULL,             -- 16 bytes: who was granted it last
    token        INTEGER NOT NULL,             -- the fencing token of that grant
    ends_at      INTEGER NOT NULL,             -- host time: when the owner's lease ends; 0 once it was given up
    linger_until INTEGER NOT NULL,             -- host time: until when others are kept out after that; 0 if they are not
    written_at   INTEGER NOT NULL,             -- host time of the last change
    boot         TEXT,                         -- the kernel's boot id at the last change; NULL if it was hidden
    acquired_at  INTEGER NOT NULL,             -- Unix time of the grant in microseconds
    holder       TEXT    NOT NULL,             -- who the owner says it is: JSON, for people
    sharers      TEXT    NOT NULL DEFAULT ''   -- the readers that hold, and the writers that wait for them: JSON
) STRICT, WITHOUT ROWID;
