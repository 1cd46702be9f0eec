CREATE TABLE locks.by_name (name VARBINARY(640) PRIMARY KEY, owner BINARY(32), token BIGINT, ends_at BIGINT) ENGINE = InnoDB;
CREATE TABLE locks.by_text LIKE locks.by_name;
ALTER TABLE locks.by_text MODIFY name VARCHAR(640) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE locks.by_short_name LIKE locks.by_name;
ALTER TABLE locks.by_short_name MODIFY name VARBINARY(255);
CREATE TABLE locks.by_local_time LIKE locks.by_name;
ALTER TABLE locks.by_local_time MODIFY ends_at DATETIME(6);
CREATE TABLE locks.held (name VARBINARY(640) PRIMARY KEY) ENGINE = InnoDB;
CREATE TABLE locks.attempts (owner BINARY(32) PRIMARY KEY) ENGINE = InnoDB;
