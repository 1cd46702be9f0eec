//! Leasehold on Redis.
