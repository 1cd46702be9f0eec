//! Real ZooKeeper servers: one alone, and an ensemble of three. Each takes about half a second until it answers.

mod classes;
mod ensemble;
mod four_letter_words;
mod launch;
mod server;

pub use ensemble::ZooKeeperEnsemble;
pub use four_letter_words::{ZooKeeperRole, ask_zookeeper};
pub use launch::{ZOOKEEPER_SUPER_USER, zookeeper_server_missing};
pub use server::ZooKeeperServer;
