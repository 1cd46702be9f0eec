use super::{NOBODY, cannot, connect};
use crate::{Administrator, Cannot, Store, Subject};
use async_trait::async_trait;
use leasehold::{DistributedLock, LockName, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, query, query_scalar};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A SQLite file. There is no server: no network to cut, no process to stop.
#[derive(Debug)]
pub(crate) struct Sqlite;

#[derive(Debug)]
struct Database {
    directory: TempDir,
}

impl Database {
    fn file(&self) -> PathBuf {
        self.directory.path().join("locks.db")
    }

    /// A connection of the suite's own, as an administrator's would be.
    async fn open(&self) -> std::result::Result<SqliteConnection, Cannot> {
        let options = SqliteConnectOptions::new().filename(self.file()).busy_timeout(Duration::from_secs(10));
        SqliteConnection::connect_with(&options).await.map_err(cannot)
    }
}

#[async_trait]
impl Subject for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Cannot> {
        // In memory where there is such a place: the cases test the lock, not the disk.
        let place = std::path::Path::new("/dev/shm");
        let directory = if place.is_dir() { TempDir::new_in(place) } else { TempDir::new() };
        Ok(Box::new(Database { directory: directory.map_err(cannot)? }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }
}

#[async_trait]
impl Store for Database {
    fn address(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    async fn sync(&self) -> std::result::Result<(), Cannot> {
        Err(Cannot::new("whoever uses a file of this host loses the power together with it"))
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Cannot> {
        let delete = query("DELETE FROM leasehold WHERE name = ?").bind(name.as_str().as_bytes());
        let done = delete.execute(&mut self.open().await?).await.map_err(cannot)?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(Cannot::new(NOBODY)) }
    }

    async fn wipe(&self) -> std::result::Result<(), Cannot> {
        query("DELETE FROM leasehold").execute(&mut self.open().await?).await.map(drop).map_err(cannot)
    }

    async fn records(&self) -> std::result::Result<usize, Cannot> {
        let count = query_scalar("SELECT count(*) FROM leasehold");
        let count: i64 = count.fetch_one(&mut self.open().await?).await.map_err(cannot)?;
        usize::try_from(count).map_err(cannot)
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Cannot> {
        Err(Cannot::new("the store is a file: nobody looks after it, and its disk is everybody's"))
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Cannot> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Cannot> {
        let directory = self.directory.path().display();
        Ok(vec![
            format!("sqlite://{}", self.file().display()),
            format!("sqlite:{directory}/./locks.db"),
            format!("sqlite:{directory}//locks.db?busy_timeout=1s"),
        ])
    }
}
