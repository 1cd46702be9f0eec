//! Checks before the first use: the tables, the server, and a pooler in between.

use super::failure::{self, no_answer};
use super::{Connection, Doing, Found, Meaning, Server, Sessions, Statement, Table, sessions};
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use tokio::task::JoinError;
use tokio::time::timeout;

/// Statements that change nothing, and need the rights that locking needs.
const RIGHTS: [&str; 2] = [include_str!("may_insert.sql"), include_str!("may_update.sql")];

impl Server {
    /// Makes the tables that are missing, and looks at those that are there.
    pub(crate) async fn init(&self, script: &str) -> Result<()> {
        let mut connection = self.unchecked_connection().await?;
        let mut asked = timeout(self.shared.target.timeout, connection.link().tell(script)).await;
        // Another client was making them, which IF NOT EXISTS does not see. They are made by now.
        if let Ok(Err(error)) = &asked
            && self.meaning(error) == Meaning::Duplicate
        {
            asked = timeout(self.shared.target.timeout, connection.link().tell(script)).await;
        }
        match asked {
            Ok(Ok(())) => {}
            // A user that may not make the tables needs no right to, if they exist.
            Ok(Err(error)) if self.meaning(&error) == Meaning::Denied => {
                for table in &self.shared.tables {
                    if self.look_at(&mut connection, table).await?.is_none() {
                        let cause = failure::Cause::of(&error);
                        return Err(failure::may_not_make(table, &self.shared.target).with_source(cause));
                    }
                }
            }
            Ok(Err(error)) => return Err(self.failure(error, Doing::Keeping)),
            Err(_) => return Err(no_answer(Doing::Keeping, &self.shared.target)),
        }
        self.add_columns(&mut connection).await?;
        self.check_tables(&mut connection).await?;
        connection.give_back();
        Ok(())
    }

    /// Changes tables of an earlier schema. Of two clients that do so at once, one may find it done.
    async fn add_columns(&self, connection: &mut Connection) -> Result<()> {
        for table in &self.shared.tables {
            let found = self.look_at(connection, table).await?;
            let Some(statement) = found.and_then(|found| table.lacks_addition(&found)) else { continue };
            let statement = statement.replace("{table}", &self.shared.dialect.quoted(&table.name));
            match timeout(self.shared.target.timeout, connection.link().tell(&statement)).await {
                // The check that follows says what is missing still.
                Ok(Ok(()) | Err(_)) => {}
                Err(_) => return Err(no_answer(Doing::Keeping, &self.shared.target)),
            }
        }
        Ok(())
    }

    /// The statements that make the tables.
    pub(crate) fn schema(&self) -> String {
        let make = |table: &Table| table.schema.replace("{table}", &self.shared.dialect.quoted(&table.name));
        self.shared.tables.iter().map(make).collect::<Vec<_>>().join("\n")
    }

    /// Looks at the tables, at the settings of the server, and for rights that are missing.
    pub(crate) async fn check(&self) -> Result<Vec<Finding>> {
        let mut connection = self.unchecked_connection().await?;
        self.check_tables(&mut connection).await?;
        let (mut connection, sessions) = self.check_sessions(connection).await?;
        let check = self.shared.dialect.check(connection.link());
        let mut findings = match timeout(self.shared.target.timeout, check).await {
            Ok(findings) => findings.map_err(|error| self.failure(error, Doing::Looking))?,
            Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
        };
        for table in &self.shared.tables {
            findings.extend(self.check_rights(&mut connection, table).await?);
        }
        connection.give_back();
        findings.extend(sessions.and_then(sessions::finding));
        Ok(findings)
    }

    /// What else a statement may be refused for, such as a server that takes no writes, others look for.
    async fn check_rights(&self, connection: &mut Connection, table: &Table) -> Result<Option<Finding>> {
        for template in RIGHTS {
            let statement = Statement::new(template, &*self.shared.dialect, &table.name);
            let asked = connection.link().ask(&statement, &[]);
            match timeout(self.shared.target.timeout, asked).await {
                Ok(Err(error)) if self.meaning(&error) == Meaning::Denied => {
                    return Ok(Some(denied(table)));
                }
                Ok(_) => {}
                Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
            }
        }
        Ok(None)
    }

    /// Looks for a pooler, if it is not known yet whether there is one.
    ///
    /// By a task of its own: one looks for all, and a caller may keep the future and not poll it.
    pub(super) async fn check_sessions(
        &self,
        mut connection: Connection,
    ) -> Result<(Connection, Option<Sessions>)> {
        let found = match self.shared.sessions.found() {
            Some(found) => Some(found),
            None => {
                let server = self.clone();
                let look = tokio::spawn(async move {
                    let found = server.shared.sessions.behind(&server, connection.link()).await;
                    (connection, found)
                });
                // As long as one look takes: others may be before this one.
                let within = self.target().connect_timeout + self.target().timeout;
                let looked = timeout(within, look).await.map_err(|_| self.no_answer(Doing::Looking))?;
                let (looked_by, found) = looked.map_err(not_looked)?;
                connection = looked_by;
                found?
            }
        };
        found.map_or(Ok(()), |found| sessions::check_mode(found, self.target()))?;
        Ok((connection, found))
    }

    /// Looks whether the server decides alone.
    pub(super) async fn check_server(&self, connection: &mut Connection) -> Result<()> {
        let look = self.shared.dialect.refuses(connection.link());
        let refused = match timeout(self.shared.target.timeout, look).await {
            Ok(refused) => refused.map_err(|error| self.failure(error, Doing::Looking))?,
            Err(_) => return Err(no_answer(Doing::Looking, &self.shared.target)),
        };
        refused.map_or(Ok(()), Err)
    }

    pub(super) async fn check_tables(&self, connection: &mut Connection) -> Result<()> {
        for table in &self.shared.tables {
            table.compare(self.look_at(connection, table).await?.as_ref())?;
        }
        Ok(())
    }

    async fn look_at(&self, connection: &mut Connection, table: &Table) -> Result<Option<Found>> {
        let look = self.shared.dialect.look_at(connection.link(), &table.name);
        match timeout(self.shared.target.timeout, look).await {
            Ok(found) => found.map_err(|error| self.failure(error, Doing::Looking)),
            Err(_) => Err(no_answer(Doing::Looking, &self.shared.target)),
        }
    }
}

fn denied(table: &Table) -> Finding {
    let message = format!("these credentials may not use {}", table.name);
    Finding::new(Severity::Error, "E_DENIED", message, "grant them SELECT, INSERT and UPDATE on the table")
}

/// The runtime is at its end.
fn not_looked(error: JoinError) -> Error {
    Error::new(ErrorKind::Unavailable, "whether a pooler is in between was not found out").with_source(error)
}
