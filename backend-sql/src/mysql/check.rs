//! Settings of MySQL and MariaDB that weaken what is promised.

use crate::server::{Mode, Target};
use leasehold_core::{Finding, Severity};

pub(super) const TWO_GRANT: &str =
    "the server is a node of a Galera cluster: two of its nodes may grant one lock at the same time";
pub(super) const ONE_WRITES: &str = "let all clients use one node, and say so with galera=single-writer";

pub(super) fn findings(target: &Target, setting: &dyn Fn(&str) -> String) -> Vec<Finding> {
    let setting = |name: &str| setting(name).to_ascii_uppercase();
    let is_on = |name: &str| matches!(setting(name).as_str(), "ON" | "1");
    let (flush, synced) = (setting("INNODB_FLUSH_LOG_AT_TRX_COMMIT"), setting("SYNC_BINLOG"));
    // MariaDB's 3 is its 1, and writes once more.
    let flushes_all = flush == "3" && setting("VERSION").contains("MARIADB");
    let mut findings = Vec::new();
    let mut find = |severity, code, message: &str, help: &str| {
        findings.push(Finding::new(severity, code, message, help));
    };
    if is_on("READ_ONLY") || is_on("INNODB_READ_ONLY") {
        let help = "name the primary, not a replica";
        find(Severity::Error, "E_READ_ONLY", "the server takes no writes", help);
    }
    if is_on("WSREP_ON") && !target.galera_single_writer {
        find(Severity::Error, "E_GALERA", TWO_GRANT, ONE_WRITES);
    }
    if flush != "1" && !flushes_all {
        let message = format!(
            "innodb_flush_log_at_trx_commit is {flush}: a crash of the machine may forget the last grants"
        );
        find(Severity::Warning, "W_FLUSH", &message, "set it to 1");
    }
    // A commit that is not in the log is taken back when the server recovers (MariaDB manual, "Binary Log Group Commit and
    // InnoDB Performance").
    if is_on("LOG_BIN") && synced != "1" && !flushes_all {
        let message = format!("sync_binlog is {synced}: a crash of the machine may forget the last grants");
        find(Severity::Warning, "W_SYNC_BINLOG", &message, "set it to 1");
    }
    if is_on("LOG_BIN") && setting("BINLOG_FORMAT") == "STATEMENT" {
        let (severity, code, harm) = match target.mode {
            Mode::ForUpdate => (Severity::Error, "E_BINLOG", "the server locks no row for this mode"),
            Mode::Lease | Mode::Optimistic => {
                (Severity::Warning, "W_BINLOG", "a replica would work out other times and tokens")
            }
        };
        find(severity, code, &format!("binlog_format is STATEMENT: {harm}"), "set it to ROW or MIXED");
    }
    findings
}
