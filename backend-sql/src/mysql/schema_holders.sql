CREATE TABLE IF NOT EXISTS {table} (
    -- The holder of each lock, for people, and its last token.
    -- Rows are kept until they are purged: the next token is made from the last.
    -- A lock is held exactly as long as its row in the table of rows is locked, whatever is written here.
    name        VARBINARY(640) NOT NULL PRIMARY KEY, -- prefix and lock name in UTF-8, compared byte by byte
    owner       BINARY(16)     NULL,                 -- who locked it last, exclusively; NULL once it was given back
    token       BIGINT         NOT NULL,             -- the fencing token of the last grant
    acquired_at BIGINT         NOT NULL,             -- when it was granted last: microseconds since 1970
    connection  BIGINT         NOT NULL,             -- the connection that has locked the row
    holder      VARCHAR(1024)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- who the owner says it is: JSON
    sharers     MEDIUMTEXT     CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL -- the readers by their tokens, and the writers that wait for them: JSON
) ENGINE = InnoDB;
