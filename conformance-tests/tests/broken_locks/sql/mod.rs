//! The mistakes that people make in SQL, on a real MariaDB: a small lease in three steps, each of which can be exchanged.

mod database;
mod steps;

pub(crate) use database::{Database, lock, plain_store};
pub(crate) use steps::*;
