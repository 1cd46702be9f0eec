//! The readers of a shared hold, as they are read and replaced in a row.

use super::SqliteTable;
use super::rows::read_shared;
use crate::lease::{NextRow, READERS, ReadFor, ReaderTable, SharedRow, foreign_row};
use async_trait::async_trait;
use leasehold_core::{Error, LockName, Result};

#[async_trait]
impl ReaderTable for SqliteTable {
    async fn read_shared(&self, name: &LockName, _: ReadFor) -> Result<Option<SharedRow>> {
        self.read(name, read_shared).await
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        self.check_open()?;
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let make = move || {
            let query = settings.query(include_str!("make_row.sql")).bind(name.clone());
            query.bind(READERS.to_bytes().to_vec()).bind(settings.clock.now().0).bind(settings.boot())
        };
        self.writer.run(make).await.map(drop)
    }

    async fn replace(&self, name: &LockName, was: &SharedRow, next: &NextRow, _: bool) -> Result<bool> {
        self.check_open()?;
        let (settings, name) = (self.settings.clone(), self.settings.stored_name(name));
        let (was, next) = (was.clone(), next.clone());
        let replace = move || {
            let query = settings.query(include_str!("replace.sql")).bind(name.clone());
            let query = query.bind(READERS.to_bytes().to_vec()).bind(next.token.get().cast_signed());
            let query = query.bind(next.ends_at).bind(next.sharers.clone());
            let query =
                query.bind(settings.clock.now().0).bind(settings.clock.unix_micros()).bind(settings.boot());
            let query = was.version.iter().fold(query, |query, number| query.bind(*number));
            query.bind(was.sharers.clone()).bind(next.before)
        };
        Ok(self.writer.run(replace).await?.changed == 1)
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.settings.options.path)
    }
}
