//! The conformance suite of Leasehold.

pub mod proxy;
pub mod servers;
