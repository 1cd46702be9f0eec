//! A fail-over to a replica.

use crate::cases::prelude::*;
use crate::subject::Replicas;

/// Longer than a fail-over takes.
pub(super) const OUTLASTS: Duration = Duration::from_secs(30);

pub(super) fn long(cx: &Context) -> AcquireOptions {
    cx.options().with_ttl(OUTLASTS).with_wait(OUTLASTS)
}

/// The replicas of the store; they are added now if it was started without any.
pub(super) async fn replicas(cx: &Context) -> Result<&dyn Replicas, Stop> {
    cx.store().replicate(Duration::ZERO).await?;
    cx.store().replicas()
}
