CREATE TABLE IF NOT EXISTS {table} (
    -- One row per lock name: who has locked the row holds the lock.
    name VARBINARY(640) NOT NULL PRIMARY KEY -- prefix and lock name in UTF-8, compared byte by byte
) ENGINE = InnoDB;
