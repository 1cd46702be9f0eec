//! Settings of PostgreSQL that weaken what is promised.

use super::PostgresDialect;
use crate::server::{Link, Statement, Target, Value};
use leasehold_core::{Finding, Severity};

const SETTINGS: &str = include_str!("settings.sql");

pub(super) async fn check(
    target: &Target,
    link: &mut dyn Link,
    dialect: &PostgresDialect,
) -> sqlx::Result<Vec<Finding>> {
    let answer = link.ask(&Statement::new(SETTINGS, dialect, &target.table), &[]).await?;
    let setting = |wanted: &str| {
        let row = answer.rows.iter().find(|row| row.first().and_then(Value::as_text) == Some(wanted));
        row.and_then(|row| row.get(1)).and_then(Value::as_text).unwrap_or_default().to_owned()
    };
    let mut findings = Vec::new();
    let mut find = |severity, code, message: &str, help: &str| {
        findings.push(Finding::new(severity, code, message, help));
    };
    if setting("in_recovery") == "true" {
        find(
            Severity::Error,
            "E_READ_ONLY",
            "the server is a replica and takes no writes",
            "name the primary",
        );
    }
    if setting("fsync") == "off" {
        find(
            Severity::Warning,
            "W_FSYNC",
            "fsync is off: a crash of the machine may forget the last grants, or spoil the database",
            "set it to on",
        );
    }
    if setting("full_page_writes") == "off" {
        find(
            Severity::Warning,
            "W_FULL_PAGE_WRITES",
            "full_page_writes is off: a crash of the machine may spoil the table",
            "set it to on, unless the file system writes whole pages",
        );
    }
    let waits = !matches!(setting("synchronous_commit").as_str(), "off" | "local");
    if waits && !setting("synchronous_standby_names").is_empty() && setting("standbys") == "0" {
        find(
            Severity::Error,
            "E_NO_STANDBY",
            "every commit waits for a synchronous standby, and none is connected",
            "start the standby, or take it out of synchronous_standby_names",
        );
    }
    if setting("has_replicas") == "true" && setting("synchronous_standby_names").is_empty() {
        find(
            Severity::Warning,
            "W_ASYNC_REPLICA",
            "its replicas are asynchronous: one that takes over may not know the last grants",
            "name some in synchronous_standby_names, or let the resource check the tokens",
        );
    }
    Ok(findings)
}
