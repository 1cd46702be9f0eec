//! etcd: one member alone, and a cluster of three.

mod cluster;
mod http;
mod launch;
mod member;

pub use cluster::EtcdCluster;
pub use launch::etcd_server_missing;
pub use member::{EtcdServer, EtcdStatus};
