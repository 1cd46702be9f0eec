use super::cannot::{ensure_disk, not_held};
use super::connect::{connect, connect_observed};
use super::kinds::FacadeKinds;
use crate::locked;
use crate::servers::{SharedFolder, shared_folder_missing};
use async_trait::async_trait;
use leasehold::client::Observer;
use leasehold::{DistributedLock, LockName, Result};
use leasehold_conformance::server::Disk;
use leasehold_conformance::{Administrator, Kinds, Stop, Store, Subject};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection, query, query_scalar};
use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A SQLite file. There is no server: no network to cut, no process to stop.
#[derive(Debug)]
pub(crate) struct Sqlite;

#[derive(Debug)]
struct Database {
    /// The disk of its own, once a case wants to harm it. It is dropped before the directory that it is mounted over.
    disk: Mutex<Option<Disk>>,
    directory: TempDir,
}

type Done = std::result::Result<(), Stop>;

impl Database {
    fn file(&self) -> PathBuf {
        self.directory.path().join(FILE)
    }

    /// A connection of this crate's own, not of the code under test.
    async fn open(&self) -> std::result::Result<SqliteConnection, Stop> {
        let options = SqliteConnectOptions::new().filename(self.file()).busy_timeout(Duration::from_secs(10));
        SqliteConnection::connect_with(&options).await.map_err(Stop::failed)
    }

    /// Gives the file a disk of its own, which must be there before the file is.
    fn move_to_own_disk(&self) -> Done {
        ensure_disk()?;
        let mut disk = locked(&self.disk);
        if disk.is_none() {
            if self.file().exists() {
                return Err(Stop::failed("the file is on everybody's disk already"));
            }
            *disk = Some(Disk::under(self.directory.path())?);
        }
        Ok(())
    }

    fn harm_disk(&self, harm: impl FnOnce(&Disk) -> std::result::Result<(), Stop>) -> Done {
        let disk = locked(&self.disk);
        disk.as_ref().map_or_else(|| Err(Stop::failed(NO_DISK)), harm)
    }
}

const FILE: &str = "locks.db";
const NO_DISK: &str = "it has no disk of its own";

#[async_trait]
impl Subject for Sqlite {
    fn name(&self) -> &str {
        "sqlite"
    }

    fn kinds(&self) -> &dyn Kinds {
        &FacadeKinds
    }

    async fn start(&self) -> std::result::Result<Box<dyn Store>, Stop> {
        // The file is in memory where that is possible: the cases test the lock, not the disk.
        let place = std::path::Path::new("/dev/shm");
        let directory = if place.is_dir() { TempDir::new_in(place) } else { TempDir::new() };
        Ok(Box::new(Database { disk: Mutex::default(), directory: directory.map_err(Stop::failed)? }))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn DistributedLock>> {
        connect(address).await
    }

    async fn connect_observed(
        &self,
        address: &str,
        observer: Arc<dyn Observer>,
    ) -> std::result::Result<Arc<dyn DistributedLock>, Stop> {
        connect_observed(address, observer).await
    }
}

#[async_trait]
impl Store for Database {
    fn address(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    async fn sync(&self) -> std::result::Result<(), Stop> {
        self.move_to_own_disk()
    }

    async fn lose_power(&self) -> std::result::Result<(), Stop> {
        self.harm_disk(|disk| disk.lose_power().and_then(|()| disk.start_again()))
    }

    async fn delete(&self, name: &LockName) -> std::result::Result<(), Stop> {
        let delete = query("DELETE FROM leasehold WHERE name = ?").bind(name.as_str().as_bytes());
        let done = delete.execute(&mut self.open().await?).await.map_err(Stop::failed)?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(not_held()) }
    }

    async fn wipe(&self) -> std::result::Result<(), Stop> {
        query("DELETE FROM leasehold").execute(&mut self.open().await?).await.map(drop).map_err(Stop::failed)
    }

    async fn records(&self) -> std::result::Result<usize, Stop> {
        let count = query_scalar("SELECT count(*) FROM leasehold");
        let count: i64 = count.fetch_one(&mut self.open().await?).await.map_err(Stop::failed)?;
        usize::try_from(count).map_err(Stop::failed)
    }

    fn administrator(&self) -> std::result::Result<&dyn Administrator, Stop> {
        Ok(self)
    }

    async fn namespaced(&self, prefix: &str) -> std::result::Result<String, Stop> {
        Ok(format!("{} {prefix}", self.address()))
    }

    async fn aliases(&self) -> std::result::Result<Vec<String>, Stop> {
        let directory = self.directory.path().display();
        Ok(vec![
            format!("sqlite://{}", self.file().display()),
            format!("sqlite:{directory}/./locks.db"),
            format!("sqlite:{directory}//locks.db?busy_timeout=1s"),
        ])
    }
}

/// Only the disk has an administrator.
#[async_trait]
impl Administrator for Database {
    async fn prepare_disk(&self) -> Done {
        self.move_to_own_disk()
    }

    async fn fill_disk(&self, full: bool) -> Done {
        self.harm_disk(if full { Disk::fill } else { Disk::make_room })
    }

    async fn behind_network_file_system(&self) -> std::result::Result<(Box<dyn Any + Send>, String), Stop> {
        if let Some(why) = shared_folder_missing() {
            return Err(Stop::skipped(format!("no directory can be shared here: {why}")));
        }
        let shared = SharedFolder::of(self.directory.path())?;
        let address = format!("sqlite:{}", shared.path().join(FILE).display());
        Ok((Box::new(shared), address))
    }
}
