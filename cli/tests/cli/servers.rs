//! The command on stores that are servers, each chosen by its URL alone: MariaDB and PostgreSQL in every mode, ZooKeeper.

use crate::support::{Place, Process, Running, gone};
use leasehold_test_stores::servers::{MariaDbServer, PostgresServer, ZooKeeperServer};
use rustix::process::Signal;
use std::process::Command;
use std::time::{Duration, Instant};

const MODES: [&str; 3] = ["lease", "for-update", "optimistic"];

enum Server {
    MariaDb(MariaDbServer),
    Postgres(PostgresServer),
    ZooKeeper { _server: ZooKeeperServer },
}

/// A store that nobody has used yet, and the place of one who is to.
struct Store {
    server: Server,
    place: Place,
    mode: &'static str,
}

fn mariadb(mode: &'static str) -> Store {
    let server = MariaDbServer::start().unwrap();
    let url = format!("mariadb://locker@127.0.0.1:{}/locks?mode={mode}", server.port());
    let store = Store { server: Server::MariaDb(server), place: Place::with_store(url), mode };
    store.sql("CREATE USER locker@'127.0.0.1'; GRANT ALL ON locks.* TO locker@'127.0.0.1'");
    store
}

fn postgres(mode: &'static str) -> Store {
    let server = PostgresServer::start().unwrap();
    let url = format!("postgres://locker@127.0.0.1:{}/postgres?mode={mode}", server.port());
    let store = Store { server: Server::Postgres(server), place: Place::with_store(url), mode };
    store.sql("CREATE ROLE locker LOGIN; GRANT CREATE ON SCHEMA public TO locker");
    store
}

fn zookeeper() -> Store {
    let server = ZooKeeperServer::start().unwrap();
    let url = server.url();
    Store { server: Server::ZooKeeper { _server: server }, place: Place::with_store(url), mode: "" }
}

fn databases() -> Vec<Store> {
    let of = |make: fn(&'static str) -> Store| MODES.map(make);
    of(mariadb).into_iter().chain(of(postgres)).collect()
}

impl Store {
    /// Runs statements by the database's own client, as its administrator.
    fn sql(&self, statements: &str) {
        let mut client = match &self.server {
            Server::MariaDb(server) => {
                let mut client = Command::new("mariadb");
                client.args(["--no-defaults", "-h127.0.0.1", "-uroot", "locks", "-e", statements]);
                client.arg(format!("-P{}", server.port()));
                client
            }
            Server::Postgres(server) => {
                let mut client = Command::new("psql");
                client.args(["-q", "-h127.0.0.1", "-Upostgres", "-c", statements, "-p"]);
                client.arg(server.port().to_string());
                client
            }
            Server::ZooKeeper { .. } => panic!("ZooKeeper speaks no SQL"),
        };
        assert!(client.output().unwrap().status.success(), "{statements}");
    }

    /// Takes a held lock away: from a lease by hand, from a transaction with its connection.
    fn take_away(&self) {
        match (&self.server, self.mode) {
            (Server::MariaDb(_), "for-update") => self.sql("KILL USER locker"),
            (Server::Postgres(_), "for-update") => {
                self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locker'");
            }
            _ => self.sql("DELETE FROM leasehold"),
        }
    }

    fn init(&self) {
        self.place.say(["-q", "init"]).expect(0, "", "");
    }
}

/// A command that ignores TERM, and the lock that it runs under.
fn start(place: &Place, ttl: &str) -> (Running, Process) {
    let script = "trap '' TERM; echo pid $$; while :; do sleep 1000; done";
    let mut run = place.start(["run", "--ttl", ttl, "x", "--", "sh", "-c", script]);
    let command = run.process_line("pid ");
    (run, command)
}

fn token_of(place: &Place) -> u64 {
    let said = place.say(["-q", "run", "-n", "x", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"]);
    said.code(0).out.trim().parse().unwrap()
}

/// What an operator does in the first hour.
fn is_used_as_any_other(store: &Store) {
    let place = &store.place;
    let first = token_of(place);
    let (first_run, command) = start(place, "3s");

    let refused = place.say(["run", "-n", "x", "--", "true"]);
    assert!(refused.code(75).err.starts_with("error[E_BUSY]: \"x\" is held by ada@"), "{}", refused.err);
    assert!(refused.err.contains("leasehold release --force --if-token "), "{}", refused.err);
    assert!(place.is_held("x"));
    let listed = place.say(["ls"]);
    let lines: Vec<&str> = listed.code(0).out.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("x "), "{lines:?}");
    let shown = place.say(["inspect", "x"]);
    assert!(shown.code(0).out.starts_with("\"x\" is held by ada@"), "{}", shown.out);

    let taken = place.say(["release", "--force", "--yes", "x"]);
    assert!(taken.code(0).err.ends_with("leasehold: \"x\" was taken from its holder\n"), "{}", taken.err);
    // By the end of the first one's lease at the latest: until then it may not have heard of it.
    let second = place.start(["run", "-w", "20s", "x", "--", "true"]);
    gone(&[command]);
    first_run.wait().code(80);
    second.wait().code(0);
    assert!(token_of(place) > first);
    place.say(["ls"]).expect(0, "", "");
    place.say(["inspect", "x"]).expect(0, "\"x\" is free\n", "");
    place.say(["config", "check"]).code(0);
}

#[test]
fn database_is_set_up_and_used_in_every_mode() {
    for store in databases() {
        let place = &store.place;
        let early = place.say(["run", "x", "--", "true"]);
        let way = format!("make it with `leasehold init -u '{}'`", place.url());
        assert!(early.code(78).err.contains(&way), "{}", early.err);
        let secret = place.url().replace("locker@", "locker:canary@");
        let with_secret = place.say(["run", "-u", &secret, "x", "--", "true"]);
        assert!(!with_secret.err.contains("canary"), "{}", with_secret.err);
        let printed = place.say(["init", "--print"]);
        assert!(printed.code(0).out.contains("CREATE TABLE"), "{printed:?}");
        store.sql(&printed.out);
        let grant = match &store.server {
            Server::MariaDb(_) => "SELECT 1",
            _ => "GRANT ALL ON ALL TABLES IN SCHEMA public TO locker",
        };
        store.sql(grant);
        let ready = place.say(["init"]);
        assert!(ready.code(0).err.ends_with("is ready\n"), "{}", ready.err);
        is_used_as_any_other(&store);
        let counted = place.say(["purge", "--idle", "30d", "-n"]);
        counted.expect(0, "", "leasehold: 0 names not used for 30d would be forgotten\n");
        place.say(["-q", "purge", "--idle", "30d"]).expect(0, "", "");
        let short = place.say(["-q", "purge", "--idle", "1s"]);
        short.expect(64, "", "error[E_INVALID]: invalid idle: 1s, at least 3600s\n");
    }
}

#[test]
fn zookeeper_needs_no_init() {
    let store = zookeeper();
    let printed = store.place.say(["init", "--print"]);
    printed.expect(0, "create \"/leasehold\" \"\" world:anyone:cdr\n", "");
    is_used_as_any_other(&store);
    let mut holder = store.place.start(["hold", "--ttl", "60s", "long"]);
    holder.line("{");
    holder.warned("warning: --ttl 60s is longer than the session with the store");
    holder.signal(Signal::TERM);
    holder.wait().code(0);
    let purged = store.place.say(["purge", "--idle", "30d"]);
    assert!(
        purged.code(0).err.ends_with("forgets by itself the names that nobody holds\n"),
        "{}",
        purged.err
    );
}

/// By whoever has the database's own client at hand.
#[test]
fn command_is_gone_before_the_next_holder_when_its_row_is_taken() {
    for store in databases() {
        store.init();
        let (first, command) = start(&store.place, "3s");
        store.take_away();
        gone(&[command]);
        let said = first.wait();
        said.code(80);
        assert!(said.err.contains("\"x\" was lost"), "{}", said.err);
        store.place.say(["run", "x", "--", "true"]).code(0);
    }
}

/// Where the store keeps no lease, the rest of the time is waited for by the holder.
#[test]
fn signal_ends_the_wait_before_the_release() {
    let store = zookeeper();
    let mut hold = store.place.start(["hold", "--hold-at-least", "1h", "x"]);
    hold.line("{");
    let start = Instant::now();
    // The first ends the hold.
    while hold.is_running() {
        assert!(start.elapsed() < Duration::from_secs(20), "no signal ends it");
        hold.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = hold.wait();
    assert!(said.code(0).err.contains("a signal ended the wait for --hold-at-least"), "{}", said.err);
    assert!(said.err.contains("it is free when the store sees that this process has ended"), "{}", said.err);
}

/// The database frees the row at once: there is no time for the grace, which is 5 s.
#[test]
fn command_dies_with_leasehold_where_the_lock_is_a_connection() {
    for store in [mariadb("for-update"), postgres("for-update")] {
        store.place.say(["-q", "init"]).code(0);
        let (run, command) = start(&store.place, "60s");
        let killed = Instant::now();
        run.signal(Signal::KILL);
        gone(&[command]);
        assert!(killed.elapsed() < Duration::from_secs(3), "{:?}", killed.elapsed());
        run.wait();
    }
}
