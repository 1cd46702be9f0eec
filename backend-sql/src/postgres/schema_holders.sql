CREATE TABLE IF NOT EXISTS {table} (
    -- The holder of each lock, for people, and its last token.
    -- Rows are kept until they are purged: the next token is made from the last.
    -- A lock is held exactly as long as its row in the table of rows is locked, whatever is written here.
    name        bytea  NOT NULL PRIMARY KEY, -- prefix and lock name in UTF-8, compared byte by byte
    owner       bytea  NULL,                 -- 16 bytes: who locked it last, exclusively; NULL once it was given back
    token       bigint NOT NULL,             -- the fencing token of the last grant
    acquired_at bigint NOT NULL,             -- when it was granted last: microseconds since 1970
    connection  bigint NOT NULL,             -- the server process of the connection that has locked the row
    holder      text   NOT NULL,             -- who the owner says it is: JSON
    sharers     text   NULL                  -- the readers by their tokens, and the writers that wait for them: JSON
)
WITH (fillfactor = 50);
