//! Settings of PostgreSQL that weaken what is promised.

use leasehold_core::{Finding, Severity};

pub(super) fn findings(setting: &dyn Fn(&str) -> String) -> Vec<Finding> {
    let has_standby_names = !setting("synchronous_standby_names").is_empty();
    let waits = !matches!(setting("synchronous_commit").as_str(), "off" | "local");
    let mut findings = Vec::new();
    let mut find = |severity, code, message: &str, help: &str| {
        findings.push(Finding::new(severity, code, message, help));
    };
    let takes_no_writes = setting("takes_no_writes");
    if !takes_no_writes.is_empty() {
        find(Severity::Error, "E_READ_ONLY", &takes_no_writes, "name the primary, or switch it off");
    }
    if setting("may_notify") == "false" {
        let message =
            "these credentials may not call pg_notify: waiters poll instead of being told of a release";
        let help = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) to them";
        find(Severity::Warning, "W_UNHEARD", message, help);
    }
    if setting("fsync") == "off" {
        let message =
            "fsync is off: a crash of the machine may forget the last grants, or spoil the database";
        find(Severity::Warning, "W_FSYNC", message, "set it to on");
    }
    if setting("full_page_writes") == "off" {
        let message = "full_page_writes is off: a crash of the machine may spoil the table";
        let help = "set it to on, unless the file system writes whole pages";
        find(Severity::Warning, "W_FULL_PAGE_WRITES", message, help);
    }
    if waits && has_standby_names && setting("standbys") == "0" {
        let message = "every commit waits for a synchronous standby, and none is connected";
        let help = "start the standby, or take it out of synchronous_standby_names";
        find(Severity::Error, "E_NO_STANDBY", message, help);
    }
    if setting("has_replicas") == "true" && !has_standby_names {
        let message = "its replicas are asynchronous: one that takes over may not know the last grants";
        let help = "name some in synchronous_standby_names, or let the resource check the tokens";
        find(Severity::Warning, "W_ASYNC_REPLICA", message, help);
    }
    findings
}
