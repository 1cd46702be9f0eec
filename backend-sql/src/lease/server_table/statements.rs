//! The statements of the table, as the dialect has them.

use crate::names::TableName;
use crate::server::{ListStatement, Statement, Texts};

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) renew: ListStatement,
    pub(super) release: Ending,
    pub(super) end_grant: Ending,
    pub(super) look: ListStatement,
    pub(super) look_where_writes_go: ListStatement,
    pub(super) read_shared: Statement,
    pub(super) read_shared_where_writes_go: Statement,
    pub(super) make_row: Statement,
    pub(super) replace: Ending,
    pub(super) list: Statement,
    pub(super) idle: Statement,
    pub(super) purge: ListStatement,
}

/// A statement whose last line sends a message to waiters, and the same without that line.
#[derive(Debug)]
pub(super) struct Ending {
    /// `None` if the database sends no messages.
    pub(super) notifying: Option<Statement>,
    pub(super) silent: Statement,
}

impl Statements {
    pub(super) fn new(texts: &Texts, table: &TableName) -> Self {
        let leases = &texts.leases;
        let statement = |template: &str| Statement::new(template, texts, table);
        let list = |template: &str| ListStatement::new(template, texts, table);
        let ending = |template: &str| Ending {
            notifying: leases.notify.map(|notify| {
                statement(&template.replace("{returning}", "RETURNING").replace("{notify}", notify))
            }),
            silent: statement(template.split("{returning}").next().unwrap_or_default()),
        };
        let (look, read_shared) = (include_str!("../look.sql"), include_str!("../read_shared.sql"));
        let plain = read_shared.replace("{lock}", "").replace("{version}", "version");
        let locking = read_shared
            .replace("{lock}", "FOR UPDATE")
            .replace("{version}", "version - 1 + {one_if_writable}");
        Self {
            acquire: statement(leases.acquire),
            renew: list(include_str!("../renew.sql")),
            release: ending(include_str!("../release.sql")),
            end_grant: ending(include_str!("../end_grant.sql")),
            look: list(&look.replace("{lock}", "")),
            look_where_writes_go: list(&look.replace("{lock}", "FOR UPDATE")),
            read_shared: statement(&plain),
            read_shared_where_writes_go: statement(&locking),
            make_row: statement(leases.make_row),
            replace: ending(include_str!("../replace.sql")),
            list: statement(include_str!("../list.sql")),
            idle: statement(include_str!("../idle.sql")),
            purge: list(include_str!("../purge.sql")),
        }
    }
}
