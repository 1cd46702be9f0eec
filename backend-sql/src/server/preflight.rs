//! Checks before the first use: the tables, the server, and a pooler in between.

use super::failure::Cause;
use super::schema::missing_table;
use super::{
    Answer, ErrorClass, ExpectedTable, PoolClass, PooledConnection, Server, Sessions, Statement,
    StatementKind, Value, read_only, sessions,
};
use crate::layout::compare;
use leasehold_core::trial::{addresses_finding, servers_finding};
use leasehold_core::{Error, ErrorKind, Finding, Result, Severity};
use tokio::time::timeout;

/// The number of connections by which a check looks for several servers behind one address.
const COMPARED: usize = 5;
const ONE_SERVER: &str = "use the address of one server, and no balancer";

/// Statements that need the rights that locking needs. They are explained and not executed, which fires no trigger.
const RIGHTS: [&str; 2] = [
    "EXPLAIN INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0",
    "EXPLAIN UPDATE {table} SET name = name WHERE 1 = 0",
];

impl Server {
    pub(crate) async fn init(&self) -> Result<()> {
        let mut connection = self.inner.pool.take(PoolClass::Attempt).await?;
        let question = self.dialect().texts().takes_writes;
        if !self.look(&mut connection, question, &[]).await?.is_one() {
            return Err(read_only(self.target()));
        }
        for table in &self.inner.tables {
            // A user that may not make the tables needs no right to, if they exist.
            if !self.look_at(&mut connection, table).await?.is_empty() {
                continue;
            }
            let make = self.about(table, table.layout.schema);
            let made = self.in_time(StatementKind::Write, connection.raw().tell(&make)).await?;
            match made.map_err(|error| (self.dialect().error_class(&error), error)) {
                // Another client was making it, which IF NOT EXISTS does not see. It is there by now.
                Ok(()) | Err((ErrorClass::Duplicate, _)) => {}
                Err((ErrorClass::Denied, error)) => {
                    let (table, address) = (&table.name, self.target().address());
                    let message = format!("these credentials may not make the table {table} on {address}");
                    let help = "give the output of `leasehold init --print` to somebody who may make tables";
                    let denied = Error::new(ErrorKind::Denied, message).with_help(help);
                    return Err(denied.with_source(Cause::from(error)));
                }
                Err((_, error)) => return Err(self.failure(error, StatementKind::Write)),
            }
        }
        self.check_tables(&mut connection).await?;
        connection.give_back();
        Ok(())
    }

    /// The statements that make the tables and grant what locking needs, for an administrator.
    pub(crate) fn init_script(&self) -> String {
        let (texts, user) = (self.dialect().texts(), &self.target().user);
        // As a string of MySQL, or a name of PostgreSQL. A line break would end a comment.
        let quote = if texts.quote == '"' { "\"" } else { "'" };
        let user: String = user.chars().filter(|it| !it.is_control()).collect();
        let user = format!("{quote}{}{quote}", user.replace(quote, &quote.repeat(2)));
        let grants = texts.grants.replace("{user}", &user);
        let grants = self.inner.tables.iter().map(|table| self.about(table, &grants)).collect::<String>();
        let make = |table: &ExpectedTable| self.about(table, table.layout.schema);
        format!("{}\n{grants}", self.inner.tables.iter().map(make).collect::<Vec<_>>().join("\n"))
    }

    fn about(&self, table: &ExpectedTable, statement: &str) -> String {
        statement.replace("{table}", &self.dialect().texts().quoted(&table.name))
    }

    /// Looks at the tables, at the settings of the server, and for rights that are missing.
    pub(crate) async fn check(&self) -> Result<Vec<Finding>> {
        let mut connection = self.inner.pool.take(PoolClass::Attempt).await?;
        self.check_tables(&mut connection).await?;
        let (mut connection, sessions) = self.check_sessions(connection).await?;
        let mut findings = match self.look(&mut connection, self.dialect().texts().settings, &[]).await {
            Ok(settings) => self.dialect().findings(&|wanted| {
                let is_wanted = |row: &&Vec<Value>| row.first().and_then(Value::as_text) == Some(wanted);
                let value = settings.rows.iter().find(is_wanted).and_then(|row| row.get(1)?.as_text());
                value.unwrap_or_default().to_owned()
            }),
            Err(denied) if denied.kind() == ErrorKind::Denied => {
                let cause = std::error::Error::source(&denied).map(ToString::to_string).unwrap_or_default();
                let message =
                    format!("the settings by which a server may forget locks were not read: {cause}");
                let help = "grant what is missing, or have an administrator check them";
                vec![Finding::new(Severity::Warning, "W_DENIED", message, help)]
            }
            Err(error) => return Err(error),
        };
        for table in &self.inner.tables {
            findings.extend(self.check_rights(&mut connection, table).await?);
        }
        connection.give_back();
        findings.extend(sessions.and_then(sessions::finding));
        findings.extend(servers_finding(self.servers_behind().await, ONE_SERVER));
        findings.extend(addresses_finding(&self.target().addresses().await, ONE_SERVER));
        Ok(findings)
    }

    /// What the servers say they are to which a few more connections lead; fewer, if there are no more to be had.
    async fn servers_behind(&self) -> Vec<String> {
        let (mut servers, within) = (Vec::new(), self.target().connect_timeout);
        for _ in 0..COMPARED {
            let said = timeout(within, async {
                let mut other = self.dialect().log_in().await?;
                let said = self.dialect().set_up(&mut *other).await?;
                self.target().note_server(said.clone());
                let mut said = Vec::from_iter(said);
                if let Some(started) = self.dialect().texts().started {
                    match other.first_row(started).await {
                        // Without the right to ask, it is not compared.
                        Err(error) if self.dialect().error_class(&error) == ErrorClass::Denied => {}
                        started => said.extend(started?.into_iter().flatten()),
                    }
                }
                other.close().await;
                Ok::<_, sqlx::Error>(said.join(", "))
            });
            let Ok(Ok(said)) = said.await else { break };
            servers.push(said);
        }
        servers
    }

    /// Only a missing right is reported here. The settings tell of a server that takes no writes.
    async fn check_rights(
        &self,
        connection: &mut PooledConnection,
        table: &ExpectedTable,
    ) -> Result<Option<Finding>> {
        for template in RIGHTS {
            let statement = Statement::new(template, self.dialect().texts(), &table.name);
            let asked = self.in_time(StatementKind::Read, connection.raw().ask(&statement, &[])).await?;
            if asked.is_err_and(|error| self.dialect().error_class(&error) == ErrorClass::Denied) {
                let message = format!("these credentials may not use {}", table.name);
                let help = "grant them SELECT, INSERT and UPDATE on the table";
                return Ok(Some(Finding::new(Severity::Error, "E_DENIED", message, help)));
            }
        }
        Ok(None)
    }

    pub(crate) fn has_shared_sessions(&self) -> bool {
        self.inner.session_check.found() == Some(Sessions::Shared)
    }

    /// Looks for a pooler, if it is not known yet whether there is one.
    ///
    /// A task of its own looks: one looks for all, and a caller may keep the future and not poll it.
    pub(super) async fn check_sessions(
        &self,
        mut connection: PooledConnection,
    ) -> Result<(PooledConnection, Option<Sessions>)> {
        let found = match self.inner.session_check.found() {
            Some(found) => Some(found),
            None => {
                let server = self.clone();
                let look = tokio::spawn(async move {
                    let found = server.inner.session_check.behind(&server, connection.raw()).await;
                    (connection, found)
                });
                // The longest time of one look: others may be before this one.
                let within = self.target().connect_timeout + self.target().timeout;
                let looked = timeout(within, look).await.map_err(|_| self.no_answer(StatementKind::Read))?;
                let found;
                (connection, found) = looked.map_err(|runtime_has_ended| {
                    Error::new(ErrorKind::Unavailable, "whether a pooler is in between was not found out")
                        .with_source(runtime_has_ended)
                })?;
                found?
            }
        };
        found.map_or(Ok(()), |found| sessions::check_mode(found, self.target()))?;
        Ok((connection, found))
    }

    /// Looks whether the server decides alone.
    pub(super) async fn check_server(&self, connection: &mut PooledConnection) -> Result<()> {
        let Some((question, refusal)) = self.dialect().other_writers() else { return Ok(()) };
        let answer = self.look(connection, question, &[]).await?;
        match answer.first().and_then(Value::as_text) {
            Some("ON" | "1") => Err(refusal),
            _ => Ok(()),
        }
    }

    pub(super) async fn check_tables(&self, connection: &mut PooledConnection) -> Result<()> {
        for table in &self.inner.tables {
            let found = self.look_at(connection, table).await?;
            if found.is_empty() {
                return Err(missing_table(&table.name, &self.target().url));
            }
            compare(&table.name, &found, table.layout.parts)?;
        }
        Ok(())
    }

    /// What is there under the name of a table; empty if nothing, or nothing that these credentials may see.
    async fn look_at(&self, connection: &mut PooledConnection, table: &ExpectedTable) -> Result<Vec<String>> {
        let texts = self.dialect().texts();
        let name = [Value::text(table.name.as_str()), Value::text(&texts.quoted(&table.name))];
        let parts = self.look(connection, texts.layout, &name).await?;
        Ok(parts.rows.iter().filter_map(|row| row.first()?.as_text().map(str::to_owned)).collect())
    }

    /// Asks a question that no later call repeats.
    async fn look(
        &self,
        connection: &mut PooledConnection,
        question: &str,
        values: &[Value],
    ) -> Result<Answer> {
        let statement = Statement::new(question, self.dialect().texts(), &self.target().table);
        let answer = self.in_time(StatementKind::Read, connection.raw().ask(&statement, values)).await?;
        answer.map_err(|error| self.failure(error, StatementKind::Read))
    }
}
