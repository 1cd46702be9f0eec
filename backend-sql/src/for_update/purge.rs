use super::HeldRow;
use super::rows::Rows;
use crate::server::{PoolClass, Statement, Value, name_the_right};
use leasehold_core::{LockName, Purge, Result};
use std::time::Duration;

impl HeldRow {
    pub(super) async fn forget_idle(&self, idle: Duration, purge: Purge) -> Result<u64> {
        Purge::check_idle(idle)?;
        let statements = Statements::new(&self.rows);
        let idle = Value::int(idle.as_micros());
        let (mut from, behind) = self.rows.range("");
        let mut forgotten = 0;
        loop {
            let values = [Value::bytes(from.clone()), Value::bytes(behind.clone()), idle.clone()];
            let names = self.rows.server().read(PoolClass::Attempt, &statements.idle, &values).await?;
            let names: Vec<&[u8]> = names.rows.iter().filter_map(|row| row.first()?.as_bytes()).collect();
            let Some(last) = names.last() else {
                return Ok(forgotten);
            };
            from = [last, [0].as_slice()].concat();
            for name in names {
                let gone = self.rows.forget(&statements, name, &idle, purge).await;
                forgotten += u64::from(gone.map_err(name_the_right)?);
            }
        }
    }

    /// Deletes the rows of names that are not held.
    pub(super) async fn forget_names(&self, names: &[LockName]) -> Result<()> {
        let statements = Statements::new(&self.rows);
        for name in names {
            let (name, _) = self.rows.range(name.as_str());
            self.rows.forget(&statements, &name, &Value::int(0), Purge::Delete).await?;
        }
        Ok(())
    }
}

struct Statements {
    idle: Statement,
    purge: Statement,
    purge_row: Statement,
}

impl Statements {
    fn new(rows: &Rows) -> Self {
        let (texts, holders) = (rows.server().dialect().texts(), &rows.server().target().table);
        Self {
            idle: Statement::new(include_str!("idle.sql"), texts, holders),
            purge: Statement::new(include_str!("purge.sql"), texts, holders),
            purge_row: Statement::new(include_str!("purge_row.sql"), texts, &holders.of_rows()),
        }
    }
}

impl Rows {
    /// Forgets one name, while its row is locked by nobody but us; false if somebody has it.
    async fn forget(&self, statements: &Statements, name: &[u8], idle: &Value, purge: Purge) -> Result<bool> {
        let Some(mut locked) = self.lock_stored(Value::bytes(name)).await? else {
            return Ok(false);
        };
        let values = [Value::bytes(name), idle.clone()];
        let deleted = match purge {
            Purge::Delete => {
                let entry = self.server().write(PoolClass::Renewal, &statements.purge, &values).await;
                match entry {
                    Ok(entry) if entry.changed > 0 => self
                        .delete_locked(&mut locked.connection, &statements.purge_row, Value::bytes(name))
                        .await
                        .map(|()| true),
                    Ok(_) => Ok(false),
                    Err(error) => Err(error),
                }
            }
            _ => Ok(true),
        };
        self.roll_back(locked.connection).await;
        deleted
    }
}
