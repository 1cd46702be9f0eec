//! What an administrator says to Redis servers, on a connection of its own.

use crate::servers::{RedisServer, ask_redis};
use crate::stores::cannot::{in_time, not_held};
use leasehold::LockName;
use leasehold_conformance::Stop;
use std::time::{Duration, Instant};

/// Arguments of a server that answers when what it has done is in its file. The default, `everysec`, keeps a write back for up to
/// two seconds while the disk is slow (`flushAppendOnlyFile` in Redis's `aof.c`), and a killed process loses that.
pub(super) const APPEND_ONLY: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

/// Limit for a server to evict all keys.
const EVICTED_WITHIN: Duration = Duration::from_secs(10);

/// Counts the keys, and of a queue its places, with what may be left of a waiter that has none.
const RECORDS: &str = "#!lua flags=allow-cross-slot-keys
    local records = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do
        local name = string.match(key, '^(.*):owners$')
        if name then
            local places = redis.call('ZCARD', name .. ':queue')
            records = records + math.max(0, redis.call('HLEN', key) - places)
        elseif string.match(key, ':queue$') then
            records = records + redis.call('ZCARD', key)
        else
            records = records + 1
        end
    end
    return records";

/// Says this to a server, which must not refuse it.
pub(super) fn tell(server: &RedisServer, words: &[&str]) -> Result<(), Stop> {
    let answer = server.command(words)?;
    match answer.starts_with('-') {
        true => Err(Stop::failed(format!("{words:?} answered {answer}"))),
        false => Ok(()),
    }
}

/// Asks a server for a number.
pub(super) fn ask_number(server: &RedisServer, words: &[&str]) -> Result<usize, Stop> {
    let answer = server.command(words)?;
    answer.trim_start_matches(':').parse().map_err(|_| Stop::failed(answer.clone()))
}

pub(super) fn lock_key(name: &LockName) -> String {
    format!("leasehold:{name}")
}

/// Deletes the lock key of a name.
pub(super) fn delete(server: &RedisServer, name: &LockName) -> Result<(), Stop> {
    match ask_number(server, &["DEL", &lock_key(name)])? {
        0 => Err(not_held()),
        _ => Ok(()),
    }
}

/// What a server keeps of locks, if it is a primary. A replica keeps the same as its primary, and counts as none.
pub(super) fn records(server: &RedisServer) -> Result<usize, Stop> {
    if !server.command(&["ROLE"])?.contains("master") {
        return Ok(0);
    }
    ask_number(server, &["EVAL", RECORDS, "0"])
}

pub(super) fn kill_connections(server: &RedisServer) -> Result<(), Stop> {
    ["normal", "pubsub"].into_iter().try_for_each(|kind| tell(server, &["CLIENT", "KILL", "TYPE", kind]))
}

/// Refuses the scripts of clients that have no user of their own, or takes them again.
pub(super) fn refuse_scripts(servers: &[RedisServer], refuse: bool) -> Result<(), Stop> {
    let rights = if refuse { ["-eval", "-evalsha"] } else { ["+eval", "+evalsha"] };
    servers
        .iter()
        .try_for_each(|server| tell(server, &[&["ACL", "SETUSER", "default"][..], &rights].concat()))
}

/// Ends all connections of clients, and makes a server forget its keys, its scripts and what it has counted.
pub(super) fn clear(server: &RedisServer) -> Result<(), Stop> {
    kill_connections(server)?;
    [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["CONFIG", "RESETSTAT"]]
        .into_iter()
        .try_for_each(|words| tell(server, words))
}

/// Makes servers evict all keys. No client can write meanwhile, because there is no room for it.
pub(super) fn evict_everything(servers: &[RedisServer]) -> Result<(), Stop> {
    servers.iter().try_for_each(|server| {
        tell(server, &["CONFIG", "SET", "maxmemory-policy", "allkeys-random"])?;
        tell(server, &["CONFIG", "SET", "maxmemory", "1"])
    })?;
    let start = Instant::now();
    for server in servers {
        while ask_number(server, &["DBSIZE"])? > 0 {
            if start.elapsed() > EVICTED_WITHIN {
                return Err(Stop::failed("a server evicts nothing"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    servers.iter().try_for_each(|server| {
        tell(server, &["CONFIG", "SET", "maxmemory", "0"])?;
        tell(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"])
    })
}

/// The wall clocks of servers, in milliseconds since 1970.
pub(super) fn wall_clocks(servers: &[RedisServer]) -> Result<Vec<i64>, Stop> {
    let clock = |server| {
        let seconds = ask_number(server, &["EVAL", "return tonumber(redis.call('TIME')[1])", "0"])?;
        i64::try_from(seconds * 1_000).map_err(Stop::failed)
    };
    servers.iter().map(clock).collect()
}

/// Waits until a replica has all that its primary has, by their ports.
pub(super) async fn caught_up(primary: u16, replica: u16) -> Result<(), Stop> {
    let told = replication_offset(primary)?;
    in_time("the replica does not catch up", async {
        while replication_offset(replica).unwrap_or_default() < told {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    })
    .await
}

fn replication_offset(port: u16) -> Result<u64, Stop> {
    let info = ask_redis(port, &["INFO", "replication"])?;
    let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")?.parse().ok());
    offset.ok_or_else(|| Stop::failed("a server tells no replication offset"))
}
