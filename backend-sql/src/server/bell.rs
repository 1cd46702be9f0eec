use std::fmt;
use std::sync::Weak;

/// How a server tells waiters that a lease was given up. A hint: they look by themselves as well.
pub(crate) trait Bell: fmt::Debug + Send + Sync {
    /// Hears in the background, and tells, for as long as it is wanted: by now at the latest. Cheap if that has begun.
    fn keep_hearing(&self, ring: Weak<dyn Ring>);
}

/// Who is told.
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL can ring"))]
pub(crate) trait Ring: fmt::Debug + Send + Sync {
    /// A lease was given up.
    fn ring(&self, name: &[u8]);

    /// Nobody knows which were.
    fn ring_all(&self);

    /// True if anybody waits, or has waited lately.
    fn is_wanted(&self) -> bool;
}
