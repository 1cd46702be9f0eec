//! Leasehold on SQL databases.
