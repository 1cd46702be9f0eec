//! What is asked of one node: each script is one atomic step on that node, and knows of no other.
//!
//! What each guarantees stands at its head. As with [all scripts](crate::scripts), the server's word "error" means that
//! nothing was done.

use crate::scripts::Script;

/// A script behind the functions that several of them share.
macro_rules! script {
    ($($part:literal),+) => { Script::new(concat!(include_str!("values.lua"), $(include_str!($part)),+)) };
}

pub(super) static CLAIM: Script = script!("tokens.lua", "claim.lua");
pub(super) static WRITE_TOKEN: Script = script!("tokens.lua", "write_token.lua");
pub(super) static WITHDRAW: Script = script!("withdraw.lua");
pub(super) static RENEW: Script = script!("renew.lua");
pub(super) static REPAIR: Script = script!("tokens.lua", "repair.lua");
