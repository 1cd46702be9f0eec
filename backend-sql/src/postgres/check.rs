//! Settings of PostgreSQL that weaken what is promised.

use leasehold_core::{Finding, Severity};

pub(super) fn findings(setting: &dyn Fn(&str) -> String) -> Vec<Finding> {
    let has_no_standby_names = setting("synchronous_standby_names").is_empty();
    let waits = !matches!(setting("synchronous_commit").as_str(), "off" | "local");
    let mut findings = Vec::new();
    let mut find = |is_found: bool, severity, code, message: &str, help: &str| {
        findings.extend(is_found.then(|| Finding::new(severity, code, message, help)));
    };
    find(
        setting("in_recovery") == "true",
        Severity::Error,
        "E_READ_ONLY",
        "the server is a replica and takes no writes",
        "name the primary",
    );
    find(
        setting("in_recovery") != "true" && setting("read_only") == "on",
        Severity::Error,
        "E_READ_ONLY",
        "default_transaction_read_only is on: the server, this database or this role takes no writes",
        "switch it off, or name the primary",
    );
    find(
        setting("may_notify") == "false",
        Severity::Warning,
        "W_UNHEARD",
        "these credentials may not call pg_notify: waiters poll instead of being told of a release",
        "GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) to them",
    );
    find(
        setting("fsync") == "off",
        Severity::Warning,
        "W_FSYNC",
        "fsync is off: a crash of the machine may forget the last grants, or spoil the database",
        "set it to on",
    );
    find(
        setting("full_page_writes") == "off",
        Severity::Warning,
        "W_FULL_PAGE_WRITES",
        "full_page_writes is off: a crash of the machine may spoil the table",
        "set it to on, unless the file system writes whole pages",
    );
    find(
        waits && !has_no_standby_names && setting("standbys") == "0",
        Severity::Error,
        "E_NO_STANDBY",
        "every commit waits for a synchronous standby, and none is connected",
        "start the standby, or take it out of synchronous_standby_names",
    );
    find(
        setting("has_replicas") == "true" && has_no_standby_names,
        Severity::Warning,
        "W_ASYNC_REPLICA",
        "its replicas are asynchronous: one that takes over may not know the last grants",
        "name some in synchronous_standby_names, or let the resource check the tokens",
    );
    findings
}
