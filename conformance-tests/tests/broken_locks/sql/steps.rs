use super::database::Steps;
use leasehold_core::{Attempt, Busy, Claim, FencingToken, Grant, LossCause, Release, Renewal};
use std::time::SystemTime;

/// One row per name, in one statement each, by the server's clock.
pub(crate) const SOUND: Steps = Steps {
    table: "CREATE TABLE IF NOT EXISTS locks (name VARBINARY(640) PRIMARY KEY, owner BINARY(16), token BIGINT, \
            expires DATETIME(6)) ENGINE = InnoDB",
    acquire: |database, claim| {
        Box::pin(async move {
            let acquire = sqlx::query(
                "INSERT INTO locks (name, owner, token, expires) \
                 VALUES (?, ?, LAST_INSERT_ID(1), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
                 ON DUPLICATE KEY UPDATE \
                 token = IF(owner IS NULL OR expires <= UTC_TIMESTAMP(6), LAST_INSERT_ID(token + 1), \
                            IF(owner = VALUES(owner), LAST_INSERT_ID(token), token + LAST_INSERT_ID(0))), \
                 owner = IF(token = LAST_INSERT_ID(), VALUES(owner), owner), \
                 expires = IF(token = LAST_INSERT_ID(), VALUES(expires), expires)",
            );
            let done = database.run(acquire.bind(name(claim)).bind(owner(claim)).bind(micros(claim))).await?;
            Ok(match done.last_insert_id() {
                0 => busy(),
                token => granted(token),
            })
        })
    },
    renew: |database, claim| {
        Box::pin(async move {
            let renew = sqlx::query(
                "UPDATE locks SET expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
                 WHERE name = ? AND owner = ? AND expires > UTC_TIMESTAMP(6)",
            );
            let done = database.run(renew.bind(micros(claim)).bind(name(claim)).bind(owner(claim))).await?;
            Ok(renewed(done.rows_affected()))
        })
    },
    release: |database, claim| {
        Box::pin(async move {
            let release = sqlx::query("UPDATE locks SET owner = NULL WHERE name = ? AND owner = ?");
            let done = database.run(release.bind(name(claim)).bind(owner(claim))).await?;
            Ok(released(done.rows_affected()))
        })
    },
};

/// The row is the lock, and nothing ever ends it but its holder.
pub(crate) const UNIQUE_ROW: Steps = Steps {
    acquire: |database, claim| {
        Box::pin(async move {
            let insert = sqlx::query("INSERT IGNORE INTO locks (name, owner, token) VALUES (?, ?, ?)");
            let token = micros_since_1970();
            let insert = insert.bind(name(claim)).bind(owner(claim)).bind(token);
            let done = database.run(insert).await?;
            Ok(if done.rows_affected() == 1 { granted(token.unsigned_abs()) } else { busy() })
        })
    },
    renew: |database, claim| {
        Box::pin(async move {
            let look = sqlx::query("SELECT COUNT(*) FROM locks WHERE name = ? AND owner = ?");
            let held = database.number(look.bind(name(claim)).bind(owner(claim))).await?;
            Ok(renewed(held.unwrap_or(0).unsigned_abs()))
        })
    },
    release: delete_row,
    ..SOUND
};

/// Looks whether it is free, and then takes it.
pub(crate) const SELECT_THEN_UPDATE: Steps = Steps {
    acquire: |database, claim| {
        Box::pin(async move {
            let insert =
                sqlx::query("INSERT IGNORE INTO locks (name, token) VALUES (?, 0)").bind(name(claim));
            let look =
                "SELECT token FROM locks WHERE name = ? AND (owner IS NULL OR expires <= UTC_TIMESTAMP(6))";
            let free = match database.number(sqlx::query(look).bind(name(claim))).await? {
                None => {
                    database.run(insert).await?;
                    database.number(sqlx::query(look).bind(name(claim))).await?
                }
                free => free,
            };
            let Some(last) = free else { return Ok(busy()) };
            let take = sqlx::query(
                "UPDATE locks SET owner = ?, token = ?, expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ?",
            );
            let take = take.bind(owner(claim)).bind(last + 1).bind(micros(claim)).bind(name(claim));
            database.run(take).await?;
            Ok(granted((last + 1).unsigned_abs()))
        })
    },
    ..SOUND
};

/// Names in a collation, as a `VARCHAR` has one unless somebody says otherwise.
pub(crate) const COLLATED: Steps = Steps {
    table: "CREATE TABLE IF NOT EXISTS locks (name VARCHAR(640) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci \
            PRIMARY KEY, owner BINARY(16), token BIGINT, expires DATETIME(6)) ENGINE = InnoDB",
    ..SOUND
};

/// A column that is too short, and `IGNORE`, which makes of a name that is too long another one.
pub(crate) const TRUNCATED: Steps = Steps {
    table: "CREATE TABLE IF NOT EXISTS locks (name VARBINARY(255) PRIMARY KEY, owner BINARY(16), token BIGINT, \
            expires DATETIME(6)) ENGINE = InnoDB",
    acquire: |database, claim| {
        Box::pin(async move {
            let insert = sqlx::query("INSERT IGNORE INTO locks (name, token) VALUES (?, 0)");
            database.run(insert.bind(name(claim))).await?;
            let take = sqlx::query(
                "UPDATE locks SET token = LAST_INSERT_ID(token + 1), owner = ?, \
                 expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
                 WHERE name = LEFT(?, 255) AND (owner IS NULL OR expires <= UTC_TIMESTAMP(6))",
            );
            let done = database.run(take.bind(owner(claim)).bind(micros(claim)).bind(name(claim))).await?;
            Ok(if done.rows_affected() == 1 { granted(done.last_insert_id()) } else { busy() })
        })
    },
    release: |database, claim| {
        Box::pin(async move {
            let release =
                sqlx::query("UPDATE locks SET owner = NULL WHERE name = LEFT(?, 255) AND owner = ?");
            let done = database.run(release.bind(name(claim)).bind(owner(claim))).await?;
            Ok(released(done.rows_affected()))
        })
    },
    ..SOUND
};

/// The row goes, and with it the last token.
pub(crate) const ROW_DELETED: Steps = Steps { release: delete_row, ..SOUND };

fn delete_row<'a>(database: &'a super::Database, claim: &'a Claim) -> super::database::Step<'a, Release> {
    Box::pin(async move {
        let delete = sqlx::query("DELETE FROM locks WHERE name = ? AND owner = ?");
        let done = database.run(delete.bind(name(claim)).bind(owner(claim))).await?;
        Ok(released(done.rows_affected()))
    })
}

fn name(claim: &Claim) -> Vec<u8> {
    claim.name().as_str().as_bytes().to_vec()
}

fn owner(claim: &Claim) -> Vec<u8> {
    claim.owner().as_u128().to_be_bytes().to_vec()
}

fn micros(claim: &Claim) -> i64 {
    i64::try_from(claim.ttl().as_micros()).unwrap()
}

fn micros_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}

fn granted(token: u64) -> Attempt {
    Attempt::Granted(Grant::new(FencingToken::new(token)))
}

fn busy() -> Attempt {
    Attempt::Busy(Busy::new())
}

fn renewed(rows: u64) -> Renewal {
    if rows == 1 { Renewal::Renewed } else { Renewal::Lost(LossCause::Gone) }
}

fn released(rows: u64) -> Release {
    if rows == 1 { Release::Released } else { Release::NotHeld }
}
