//! Protocols of Leasehold as state machines, explored by a model checker: every order of events within stated bounds, not
//! some of them. A crate of its own because it is compiled for speed also where tests are not.
//!
//! * `tests/redlock`: the tokens of Redlock.
