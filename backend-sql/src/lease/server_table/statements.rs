//! The statements of the table, as the dialect has them.

use crate::names::TableName;
use crate::server::{ListStatement, Statement, Texts};

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) take: Statement,
    pub(super) renew: ListStatement,
    pub(super) release: Ending,
    pub(super) end_grant: Ending,
    pub(super) look: ListStatement,
    pub(super) look_where_writes_go: Statement,
    pub(super) read_shared: Statement,
    pub(super) read_shared_where_writes_go: Statement,
    pub(super) make_row: Statement,
    pub(super) replace: Ending,
    pub(super) list: Statement,
    pub(super) idle: Statement,
    pub(super) purge: ListStatement,
}

/// A statement that may send a message to waiters, and the same without one.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) notifying: Statement,
    pub(super) silent: Statement,
}

impl Statements {
    pub(super) fn new(texts: &Texts, table: &TableName) -> Self {
        let leases = &texts.leases;
        let statement = |template: &str| Statement::new(template, texts, table);
        let ending = |template: &str| Ending {
            notifying: statement(&template.replace("{notify}", leases.notify.unwrap_or("NULL"))),
            silent: statement(&template.replace("{notify}", "NULL")),
        };
        let (look, read_shared) = (include_str!("../look.sql"), include_str!("../read_shared.sql"));
        let plain = read_shared.replace("{lock}", "").replace("{version}", "version");
        let locking = read_shared
            .replace("{lock}", "FOR UPDATE")
            .replace("{version}", "version - 1 + {one_if_writable}");
        Self {
            acquire: statement(leases.acquire),
            take: statement(include_str!("optimistic/take.sql")),
            renew: ListStatement::new(include_str!("../renew.sql"), texts, table),
            release: ending(leases.release),
            end_grant: ending(leases.end_grant),
            look: ListStatement::new(&look.replace("{lock}", ""), texts, table),
            look_where_writes_go: statement(&look.replace("[:1]", ":1").replace("{lock}", "FOR UPDATE")),
            read_shared: statement(&plain),
            read_shared_where_writes_go: statement(&locking),
            make_row: statement(leases.make_row),
            replace: ending(leases.replace),
            list: statement(include_str!("../list.sql")),
            idle: statement(include_str!("../idle.sql")),
            purge: ListStatement::new(include_str!("../purge.sql"), texts, table),
        }
    }
}
