//! Leasehold on SQL databases: locks in rows, with fencing tokens.
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
//! A row per name, granted by one statement (`lease`), by a row lock that an open transaction holds (`for-update`), or
//! by comparing a version (`optimistic`). The parameters of the URL, the rights and what is not promised are in the
//! guide `docs/sql.md` of the repository. The tables are made by [`init`](leasehold_core::LockAdmin::init), not by the
//! first use, so that locking needs no rights but `SELECT`, `INSERT` and `UPDATE`. Only
//! [`purge`](leasehold_core::LockAdmin::purge) deletes rows, and needs `DELETE`.
//!
//! `sqlite:PATH` is a file for the processes of one host, on Linux; the first use makes it and its table. Leases are counted by the host's
//! clock of its boot, which nobody can set; tokens follow the wall clock. The parameters, the files that are refused, reboots, containers,
//! and what is not promised are in the same guide.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod fenced;
#[cfg(feature = "_server")]
mod for_update;
#[cfg(feature = "_store")]
mod layout;
#[cfg(feature = "_store")]
mod lease;
#[cfg(feature = "mysql")]
mod mysql;
mod names;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "_server")]
mod server;
#[cfg(all(feature = "sqlite", target_os = "linux"))]
mod sqlite;
#[cfg(feature = "_store")]
mod trial;

pub use fenced::{FencedWrite, Parameters};

#[cfg(feature = "_store")]
use lease::RowLease;
#[cfg(feature = "_store")]
use leasehold_core::sync::locked as lock_mutex;
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
        "sqlite" => Ok(Arc::new(RowLease::new(sqlite::SqliteTable::new(url, namespace)?))),
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
    let mode = dialect.target().mode;
    let server = server::Server::new(dialect);
    match mode {
        server::Mode::Lease | server::Mode::Optimistic => {
            Arc::new(RowLease::new(lease::ServerTable::new(server, namespace)))
        }
        server::Mode::ForUpdate => Arc::new(for_update::HeldRow::new(server, namespace)),
    }
}

fn not_compiled_in(store: &str, feature: &str) -> Error {
    Error::new(ErrorKind::Misconfigured, format!("{store} is not compiled into this program"))
        .with_help(format!("build leasehold-sql with the feature \"{feature}\""))
}
