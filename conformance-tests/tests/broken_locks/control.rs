//! A broken lock, its sound twin, and the case between them.

use crate::subject::{Lasting, Made, Make, Start};
use leasehold_conformance::{Kinds, Subject};
use leasehold_test_stores::stores;
use std::sync::Arc;

/// A broken lock, the same lock without the mistake, and the case that tells them apart.
pub(crate) struct Control {
    /// Its number in the list of classic mistakes.
    pub(crate) number: u8,
    pub(crate) mistake: &'static str,
    pub(crate) case: &'static str,
    /// A part of the words of that case, or parts between bars: a lock that is caught for another reason shows nothing.
    pub(crate) words: &'static str,
    /// The path of `start`.
    pub(crate) store: &'static str,
    pub(crate) start: Start,
    pub(crate) broken: Make,
    pub(crate) mended: Make,
    /// The kinds of the broken lock. The mended one has the library's.
    pub(crate) broken_kinds: &'static dyn Kinds,
    /// See [`Made::lease`].
    pub(crate) lease: Lasting,
}

impl Control {
    pub(crate) fn name(&self) -> String {
        format!("{:02}_{}", self.number, self.mistake)
    }

    /// The common name of the store that it stands on.
    pub(crate) fn store(&self) -> &'static str {
        const STORES: [(&str, &str); 8] = [
            ("etcd", "etcd"),
            ("redlock", "five Redis nodes"),
            ("cluster", "Redis Cluster"),
            ("replica", "Redis with a replica"),
            ("zookeeper", "ZooKeeper"),
            ("mariadb", "MariaDB"),
            ("postgres", "PostgreSQL"),
            ("sqlite", "SQLite"),
        ];
        let known = STORES.iter().find(|(path, _)| self.store.contains(path));
        known.map_or("Redis", |(_, name)| name)
    }

    pub(crate) fn broken(&self) -> Arc<dyn Subject> {
        Arc::new(Made {
            name: self.name(),
            start: self.start,
            make: self.broken,
            kinds: self.broken_kinds,
            lease: self.lease,
        })
    }

    pub(crate) fn mended(&self) -> Arc<dyn Subject> {
        Arc::new(Made {
            name: format!("{}_mended", self.name()),
            start: self.start,
            make: self.mended,
            kinds: &stores::FacadeKinds,
            lease: self.lease,
        })
    }
}
