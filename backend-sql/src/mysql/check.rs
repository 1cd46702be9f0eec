//! Settings of MySQL and MariaDB that weaken what is promised.

use super::MySqlDialect;
use crate::server::{Link, Mode, Statement, Target, Value};
use leasehold_core::{Error, ErrorKind, Finding, Severity};

const SETTINGS: &str = include_str!("settings.sql");
const GALERA: &str = include_str!("galera.sql");

const TWO_GRANT: &str =
    "the server is a node of a Galera cluster: two of its nodes may grant one lock at the same time";
const ONE_WRITES: &str = "let all clients use one node, and say so with galera=single-writer";

/// Two nodes have two clocks, by which a lease that one has granted may be over on the other; and a row that is locked on
/// one is free on the others until a commit. So nothing is granted there unless one node alone decides.
pub(super) async fn refuses(
    target: &Target,
    link: &mut dyn Link,
    dialect: &MySqlDialect,
) -> sqlx::Result<Option<Error>> {
    if target.galera_single_writer {
        return Ok(None);
    }
    let answer = link.ask(&Statement::new(GALERA, dialect, &target.table), &[]).await?;
    let said = answer.rows.first().and_then(|row| row.first()).and_then(Value::as_text);
    Ok(said.is_some_and(is_on).then(|| Error::new(ErrorKind::Misconfigured, TWO_GRANT).with_help(ONE_WRITES)))
}

pub(super) async fn check(
    target: &Target,
    link: &mut dyn Link,
    dialect: &MySqlDialect,
) -> sqlx::Result<Vec<Finding>> {
    let answer = link.ask(&Statement::new(SETTINGS, dialect, &target.table), &[]).await?;
    let setting = |wanted: &str| {
        let row = answer.rows.iter().find(|row| row.first().and_then(Value::as_text) == Some(wanted));
        row.and_then(|row| row.get(1)).and_then(Value::as_text).unwrap_or_default().to_ascii_uppercase()
    };
    let is_on = |wanted: &str| is_on(&setting(wanted));
    let mut findings = Vec::new();
    let mut find = |severity, code, message: String, help: &str| {
        findings.push(Finding::new(severity, code, message, help));
    };
    if is_on("READ_ONLY") || is_on("INNODB_READ_ONLY") {
        find(
            Severity::Error,
            "E_READ_ONLY",
            "the server takes no writes".to_owned(),
            "name the primary, not a replica",
        );
    }
    if is_on("WSREP_ON") && !target.galera_single_writer {
        find(Severity::Error, "E_GALERA", TWO_GRANT.to_owned(), ONE_WRITES);
    }
    let (flush, version) = (setting("INNODB_FLUSH_LOG_AT_TRX_COMMIT"), setting("VERSION"));
    // MariaDB's 3 is its 1, and writes once more; but did not, in releases before these (MDEV-26138).
    let flushes_all = flush == "3" && is_mariadb(&version) && release(&version) >= (10, 6, 5);
    if flush != "1" && !flushes_all {
        find(
            Severity::Warning,
            "W_FLUSH",
            format!(
                "innodb_flush_log_at_trx_commit is {flush}: a crash of the machine may forget the last grants"
            ),
            "set it to 1",
        );
    }
    let synced = setting("SYNC_BINLOG");
    // A commit that is not in the log is taken back when the server recovers (MariaDB manual, "Binary Log Group Commit and
    // InnoDB Performance").
    if is_on("LOG_BIN") && synced != "1" && !flushes_all {
        find(
            Severity::Warning,
            "W_SYNC_BINLOG",
            format!("sync_binlog is {synced}: a crash of the machine may forget the last grants"),
            "set it to 1",
        );
    }
    if is_on("LOG_BIN") && setting("BINLOG_FORMAT") == "STATEMENT" {
        let (severity, code, what) = match target.mode {
            Mode::ForUpdate => (Severity::Error, "E_BINLOG", "the server locks no row for this mode"),
            Mode::Lease | Mode::Optimistic => {
                (Severity::Warning, "W_BINLOG", "a replica would work out other times and tokens")
            }
        };
        find(severity, code, format!("binlog_format is STATEMENT: {what}"), "set it to ROW or MIXED");
    }
    if target.mode == Mode::ForUpdate && !is_mariadb(&version) {
        find(
            Severity::Info,
            "I_IDLE",
            "MySQL has no time limit for idle transactions; wait_timeout of the session is used in its place"
                .to_owned(),
            "nothing to do",
        );
    }
    Ok(findings)
}

fn is_on(said: &str) -> bool {
    matches!(said, "ON" | "1")
}

fn is_mariadb(version: &str) -> bool {
    version.contains("MARIADB")
}

/// The three numbers that a version begins with; 0 for what does not read as one.
fn release(version: &str) -> (u32, u32, u32) {
    let numbers = version.split(|it: char| !it.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    (next(), next(), next())
}
