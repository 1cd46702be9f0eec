//! The statements of the table, as the dialect has them.

use crate::names::TableName;
use crate::server::{ListStatement, Statement, Texts};

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) renew: ListStatement,
    pub(super) release: Notifying,
    pub(super) end_grant: Notifying,
    pub(super) look: ListStatement,
    pub(super) look_where_writes_go: ListStatement,
    pub(super) make_row: Statement,
    pub(super) replace: Notifying,
    pub(super) list: Statement,
    pub(super) idle: Statement,
    pub(super) purge: ListStatement,
}

/// A statement whose last line sends a message to waiters, and the same without that line.
#[derive(Debug)]
pub(super) struct Notifying {
    /// `None` if the database sends no messages.
    pub(super) notifying: Option<Statement>,
    pub(super) silent: Statement,
}

impl Statements {
    pub(super) fn new(texts: &Texts, table: &TableName) -> Self {
        let statement = |template: &str| Statement::new(template, texts, table);
        let list = |template: &str| ListStatement::new(template, texts, table);
        let notifying = |template: &str| Notifying {
            notifying: texts.notify.map(|notify| {
                statement(&template.replace("{returning}", "RETURNING").replace("{notify}", notify))
            }),
            silent: statement(template.split("{returning}").next().unwrap_or_default()),
        };
        let (look, release) = (include_str!("../look.sql"), include_str!("../release.sql"));
        let plain = look.replace("{lock}", "").replace("{version}", "version");
        let locking =
            look.replace("{lock}", "FOR UPDATE").replace("{version}", "version - 1 + {one_if_writable}");
        Self {
            acquire: statement(texts.acquire),
            renew: list(include_str!("../renew.sql")),
            release: notifying(&release.replace("{known_by}", "owner")),
            end_grant: notifying(&release.replace("{known_by}", "token")),
            look: list(&plain),
            look_where_writes_go: list(&locking),
            make_row: statement(
                &include_str!("../make_row.sql").replace("{unless_there}", texts.unless_there),
            ),
            replace: notifying(include_str!("../replace.sql")),
            list: statement(include_str!("../list.sql")),
            idle: statement(include_str!("../idle.sql")),
            purge: list(include_str!("../purge.sql")),
        }
    }
}
