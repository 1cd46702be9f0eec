//! Databases on servers, each in every mode, used with exactly the rights that the manual asks for.

mod administrator;
mod group;
mod mariadb;
mod postgres;
mod replica;
mod server;

pub(super) use group::{Mode, SqlGroup};
