//! The backends of this workspace as subjects of the suite, each on private servers of its own, and made by nothing but a URL.
//!
//! | question | file |
//! |---|---|
//! | which subjects there are | `subjects.rs`, `named.rs` |
//! | what happens to a store of servers in a case: start, pause, kill, crash, power loss, proxy, clock | `server_store.rs`, `members.rs`, `pool.rs` |
//! | what differs from store to store | `server_group.rs`; then `etcd/`, `redis/`, `sql/`, `zookeeper/`, a file for each topology |
//! | stores without a server | `memory.rs`, `sqlite.rs` |
//! | another kind of lock in the place of a plain lock | `adapter/` |

mod adapter;
mod cannot;
mod connect;
#[cfg(feature = "etcd")]
mod etcd;
mod kinds;
mod members;
mod memory;
mod named;
mod pool;
mod redis;
mod server_group;
mod server_store;
mod sql;
mod sqlite;
mod subjects;
mod wall_clock;
mod zookeeper;

pub use kinds::FacadeKinds;
pub use named::named;
pub use subjects::{adapters, all};
