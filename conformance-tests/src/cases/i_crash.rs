//! I: processes that die, stop, and lose their network.

use crate::cases::prelude::*;
use crate::faults::{is_taken, until_done_unheard};

pub(super) const CASES: CaseTable = cases![
    I01 killed_or_stopped_holder_is_replaced_within_its_bound,
    I05 holder_killed_between_grant_and_reply_is_replaced,
];

async fn killed_or_stopped_holder_is_replaced_within_its_bound(cx: &Context) -> Verdict {
    let (client, name, mut worker) = (cx.client().await?, cx.name(), cx.worker().await?);
    worker.take(&name, cx.ttl()).await?;
    tokio::time::sleep(cx.ttl()).await;
    worker.ensure_not_lost("a holder that lives").await?;
    ensure_held(&client, &name, "while the holder lives").await?;
    worker.kill();
    free_within(&client, &name, crash_bound(cx).await?, "after its holder was killed").await?;
    let mut worker = cx.worker().await?;
    worker.take(&name, cx.ttl()).await?;
    worker.pause();
    free_within(&client, &name, silent_bound(cx).await?, "after its holder was stopped").await
}

/// The store has granted, and the holder dies before it has heard so: it does no second step, such as setting the end of the lease.
async fn holder_killed_between_grant_and_reply_is_replaced(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let (proxy, address) = cx.store().proxied(cx.patience()).await?;
    let mut worker = cx.worker_at(&address, &Vec::new()).await?;
    worker.take(&cx.named("warm-up"), cx.ttl()).await?;
    worker.release().await?;
    proxy.set(Traffic::HoldReplies);
    let before = proxy.reply_bytes();
    worker.begin_take(&name, cx.ttl()).await?;
    until_done_unheard(&proxy, before, (&*client, &name), is_taken).await?;
    worker.kill();
    free_within(&client, &name, crash_bound(cx).await?, "after its holder was killed in the middle").await
}
