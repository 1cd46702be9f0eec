//! Leasehold on SQL databases: locks in rows, with fencing tokens.
//!
//! [`open`] makes a backend of a store URL; wrap it in a [`LockClient`](leasehold_core::LockClient).
//!
//! ```no_run
//! # fn main() -> leasehold_core::Result<()> {
//! use leasehold_core::{LockClient, Namespace};
//! use leasehold_store_url::StoreUrl;
//!
//! let url = StoreUrl::parse("postgres://locker@localhost/shop?mode=lease")?;
//! let locks = LockClient::new(leasehold_sql::open(&url, &Namespace::default())?);
//! # drop(locks); Ok(()) }
//! ```
//!
//! | scheme | feature | modes |
//! |---|---|---|
//! | `mysql`, `mariadb` | `mysql` | `lease`, `for-update`, `optimistic` |
//! | `postgres`, `postgresql` | `postgres` | `lease`, `for-update`, `optimistic` |
//! | `sqlite` | `sqlite` | leases |
//!
//! These features bring no TLS; `tls` does. To fence a table of your own, use [`FencedWrite`].
//!
//! # Servers
//!
//! A row per name, granted by one statement (`lease`), by a row lock that an open transaction holds (`for-update`), or
//! by comparing a version (`optimistic`). The parameters of the URL, the rights and what is not promised are in the
//! guide `docs/sql.md` of the repository. The tables are made by [`init`](leasehold_core::LockAdmin::init), not by the
//! first use, so that locking needs no rights but `SELECT`, `INSERT` and `UPDATE`. Only
//! [`purge`](leasehold_core::LockAdmin::purge) deletes rows, and needs `DELETE`.
//!
//! # SQLite
//!
//! `sqlite:PATH`, with these parameters:
//!
//! | parameter | meaning | default |
//! |---|---|---|
//! | `busy_timeout` | how long a statement waits while another process writes, 10 ms to 60 s | `2s` |
//! | `table` | the table, made on first use: letters, digits and `_`, at most 63 | `leasehold` |
//! | `allow_network_fs` | `yes`: do not refuse a network file system | `no` |
//!
//! **The file.** It is made on first use with mode 0600, and so are its side files `-wal` and `-shm`; a directory named
//! `leasehold` is made too, with mode 0700, and for `.local/state/leasehold` the two above it; any other must exist. The file may be a database that has other tables; it
//! is put into WAL mode, and a commit is on the disk before it is answered (`synchronous=FULL`). These are refused: symbolic
//! and hard links, a file that is mounted by itself, directories in which everyone may replace files, files and side files
//! of others in directories in which everyone may make them, network file systems, and a table that is not ours. A user
//! with write access to the file can free every lock in it.
//!
//! `PATH` is absolute, or relative to the working directory. `sqlite:///PATH` is absolute too; `sqlite://PATH` is refused,
//! because `sqlite:${HOME}/locks.db` becomes that with a home of `/`.
//!
//! **Containers** share the file by sharing its directory: `-v /srv/locks:/data`, not
//! `-v /srv/locks/locks.db:/data/locks.db`, which gives each of them side files of its own.
//!
//! **Time.** Leases are counted on Linux's `CLOCK_BOOTTIME`, which all processes of a host share, which goes on during
//! suspend and which nobody can set: a step of the wall clock frees no lock and keeps none. Time namespaces are allowed
//! for. Tokens follow the wall clock. After a reboot, and in a file that was restored on another machine, the leases of the
//! earlier boot are over; see [below](#reboots) for how that is recognised.
//!
//! **Waiting** reads and does not write, so that it does not hold up the holder. The tasks of one client stand in line: the first
//! reads at least every 50 ms, and a release of that client wakes it.
//!
//! ## Reboots
//!
//! A lease belongs to the boot whose id stands in its row. LXC and systemd-nspawn show each of their containers a boot
//! id of its own, on one clock; such an id is not believed. A lease of which only the clock is known is over when it ends,
//! or when it is found to have begun in the future. So in those containers, and only there, a lease may last into the next
//! boot, if that boot has by then lasted as long as the earlier one had when the lease was granted. Such a lease is waited
//! out, for one ttl at most from then on.
//!
//! ## Not promised
//!
//! * Exclusion between two kernels on one file: a virtual machine and its host, or a disk that two machines have mounted.
//! * Exclusion when the file, or `-wal` or `-shm`, is deleted or replaced while locks are held. The next use notices it,
//!   and the holder learns of it from its next renewal; meanwhile another process may have been granted the lock, with a
//!   larger token.
//! * That a file that is mounted by itself is refused on Linux before 5.8, which does not tell.
//! * In a directory in which everyone may make files, safety from somebody who makes a side file in the very moment between
//!   our look and SQLite's: use a directory of your own.

mod fenced;
#[cfg(feature = "_server")]
mod for_update;
#[cfg(feature = "_store")]
mod lease;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
#[cfg(feature = "_server")]
mod optimistic;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "_server")]
mod purge;
#[cfg(feature = "_server")]
mod server;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod sqlite;
#[cfg(feature = "_store")]
mod trial;

pub use fenced::{FencedWrite, Parameters};

#[cfg(feature = "_store")]
use lease::RowLease;
use leasehold_core::{Error, ErrorKind, LockBackend, Namespace, Result};
use leasehold_store_url::StoreUrl;
use std::sync::Arc;

/// The schemes that [`open`] knows.
pub const SCHEMES: &[&str] = &["mariadb", "mysql", "postgres", "postgresql", "sqlite"];

/// Opens the backend for the database at `url`. Checks what can be checked, and touches no database: the first use does.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) for a part of the URL that cannot be; [`Misconfigured`](ErrorKind::Misconfigured) for
/// another scheme, for one whose feature is not compiled in, or for a variable such as `PGOPTIONS` in the environment, which
/// would override the URL; [`Unsupported`](ErrorKind::Unsupported) for SQLite on another system than Linux.
#[allow(unreachable_patterns, unused_variables, reason = "each scheme may be compiled in or not")]
pub fn open(url: &StoreUrl, namespace: &Namespace) -> Result<Arc<dyn LockBackend>> {
    match url.scheme() {
        #[cfg(feature = "mysql")]
        "mariadb" | "mysql" => Ok(open_server(Arc::new(mysql::MySqlDialect::open(url)?), namespace)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => {
            Ok(open_server(Arc::new(postgres::PostgresDialect::open(url)?), namespace))
        }
        #[cfg(all(feature = "sqlite", target_os = "linux"))]
        "sqlite" => Ok(Arc::new(RowLease::new(sqlite::Table::new(url, namespace)?))),
        "sqlite" if cfg!(feature = "sqlite") => Err(Error::new(
            ErrorKind::Unsupported,
            "locks on SQLite need Linux, by whose clock they are counted",
        )
        .with_help("use a store with a server")),
        "mariadb" | "mysql" => Err(not_compiled_in("MySQL", "mysql")),
        "postgres" | "postgresql" => Err(not_compiled_in("PostgreSQL", "postgres")),
        "sqlite" => Err(not_compiled_in("SQLite", "sqlite")),
        other => {
            Err(Error::new(ErrorKind::Misconfigured, format!("{other:?} is no scheme of a SQL database"))
                .with_help(format!("use one of: {}", SCHEMES.join(", "))))
        }
    }
}

#[cfg(feature = "_server")]
fn open_server(dialect: Arc<dyn server::Dialect>, namespace: &Namespace) -> Arc<dyn LockBackend> {
    let (name, mode) = (dialect.target().name, dialect.target().mode);
    let semantics = server::of_leases(name, mode.as_str(), dialect.texts().leases.sends_messages);
    let tables = server::Table::of(&*dialect);
    let server = server::Server::new(dialect, tables);
    match mode {
        server::Mode::Lease | server::Mode::Optimistic => {
            Arc::new(RowLease::new(lease::ServerTable::new(server, namespace, semantics)))
        }
        server::Mode::ForUpdate => Arc::new(for_update::HeldRow::new(server, namespace)),
    }
}

fn not_compiled_in(store: &str, feature: &str) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("{store} is not compiled into this program"))
        .with_help(format!("build leasehold-sql with the feature \"{feature}\""))
}
