//! The backends of this workspace as subjects of the suite.

mod memory;

pub(crate) use memory::Memory;
