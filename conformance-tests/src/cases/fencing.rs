//! F: tokens that only grow.

use crate::cases::prelude::*;
use crate::clock::SteppedClock;
use leasehold_core::{FencingToken, TokenClass};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const CASES: CaseTable = cases![
    F01 tokens_grow_from_hold_to_hold,
    F02 tokens_grow_over_expiry_force_deletion_and_restart,
    F03 tokens_of_sixteen_clients_grow_in_the_order_of_their_holds,
    F04 refused_attempts_repeat_no_token,
    F06 renewal_does_not_change_the_token,
    F07 resource_refuses_older_tokens_only,
    F08 late_write_of_a_paused_holder_is_refused,
    F11 tokens_survive_the_loss_of_all_data,
    F13 tokens_grow_whatever_the_clocks_of_clients_show,
    F14 tokens_grow_over_several_idle_leases,
];

async fn next_token(client: &Client, name: &LockName) -> Result<FencingToken, Stop> {
    let guard = client.take(name, &AcquireOptions::new()).await?;
    let token = guard.token()?;
    guard.release().await?;
    Ok(token)
}

/// Remembers the last token and expects a larger one.
struct Growing(Option<FencingToken>);

impl Growing {
    fn ensure(&mut self, next: FencingToken, when: &str) -> Verdict {
        ensure!(self.0 < Some(next), "{when}: token {next} after {:?}", self.0);
        self.0 = Some(next);
        Ok(())
    }
}

async fn tokens_grow_from_hold_to_hold(cx: &Context) -> Verdict {
    let (one, two, name) = (cx.client().await?, cx.client().await?, cx.name());
    let mut growing = Growing(None);
    for round in 0..50 {
        let client = if round % 2 == 0 { &one } else { &two };
        growing.ensure(next_token(client, &name).await?, "after a release")?;
    }
    Ok(())
}

async fn tokens_grow_over_expiry_force_deletion_and_restart(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let mut growing = Growing(None);
    growing.ensure(next_token(&client, &name).await?, "at first")?;

    let expiring = client.take(&name, &cx.fixed()).await?;
    growing.ensure(expiring.token()?, "after a release")?;
    tokio::time::sleep(cx.ttl() + Duration::from_millis(20)).await;
    let _expired = Context::let_go_unless_lease(&client, expiring);
    growing.ensure(next_token(&client, &name).await?, "after a lease that ended")?;

    if let Some(admin) = client.admin() {
        let forced = client.take(&name, &cx.options()).await?;
        growing.ensure(forced.token()?, "before a forced release")?;
        admin.force_release(&name, None).await?;
        growing.ensure(next_token(&client, &name).await?, "after a forced release")?;
    }

    let deleted = client.take(&name, &cx.options()).await?;
    growing.ensure(deleted.token()?, "before a deletion")?;
    let deletion = cx.store().delete(&name).await;
    optional(deletion.clone())?;
    drop(deleted);
    growing.ensure(next_token(&client, &name).await?, "after a deletion")?;

    let restart = cx.store().restart(true).await;
    optional(restart.clone())?;
    growing.ensure(next_token(&cx.client().await?, &name).await?, "after a restart")?;
    // All that this store can show was shown; what it cannot is no reason to call the rest a success.
    if let (Err(no_deletion), Err(no_restart)) = (deletion, restart) {
        return Err(Stop::Skipped(format!(
            "shown over release, expiry and force only: {no_deletion}; {no_restart}"
        )));
    }
    Ok(())
}

async fn tokens_of_sixteen_clients_grow_in_the_order_of_their_holds(cx: &Context) -> Verdict {
    let name = cx.name();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let options = AcquireOptions::new().with_wait(cx.patience() * 3);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (client, name, seen, options) =
            (cx.client().await?, name.clone(), Arc::clone(&seen), options.clone());
        tasks.spawn(async move {
            for _ in 0..4 {
                let guard = client.take(&name, &options).await?;
                // Written down while it is held, so the list is in the order of the holds.
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(guard.token()?);
                guard.release().await?;
            }
            Ok::<_, Stop>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(seen.len() == 64, "{} of 64 holds", seen.len());
    ensure!(seen.is_sorted_by(|one, next| one < next), "tokens in the order of their holds: {seen:?}");
    Ok(())
}

async fn refused_attempts_repeat_no_token(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    let token = guard.token()?;
    for _ in 0..20 {
        ensure!(client.poke(&name).await?.is_none(), "a second holder");
    }
    guard.release().await?;
    let next = next_token(&client, &name).await?;
    ensure!(next > token, "token {next} after {token} and refused attempts");
    Ok(())
}

async fn renewal_does_not_change_the_token(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let guard = client.take(&name, &cx.options()).await?;
    let token = guard.token()?;
    tokio::time::sleep(cx.ttl() * 3 / 2).await;
    ensure!(guard.token()? == token, "token {} after renewals of {token}", guard.token()?);
    for status in client.looking()?.inspect(&name).await? {
        ensure!(status.token == Some(token), "the store has {:?} for {token}", status.token);
    }
    Ok(guard.release().await?)
}

/// What a resource that checks tokens does: one comparison, in the same step as the write.
#[derive(Default)]
struct Register {
    highest: u64,
    written: Vec<&'static str>,
}

impl Register {
    fn write(&mut self, token: u64, what: &'static str) -> bool {
        if token < self.highest {
            return false;
        }
        self.highest = token;
        self.written.push(what);
        true
    }
}

async fn resource_refuses_older_tokens_only(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let mut register = Register::default();
    let first = client.take(&name, &AcquireOptions::new()).await?;
    let old = first.token()?.get();
    ensure!(register.write(old, "first"), "the first token was refused");
    ensure!(register.write(old, "first again"), "an equal token was refused");
    first.release().await?;
    let second = client.take(&name, &AcquireOptions::new()).await?;
    ensure!(register.write(second.token()?.get(), "second"), "a newer token was refused");
    ensure!(!register.write(old, "late"), "an older token was accepted");
    Ok(second.release().await?)
}

/// Kleppmann's scenario, with real processes: the first holder is stopped, the second works, the first wakes up and
/// writes with the token that it read before.
async fn late_write_of_a_paused_holder_is_refused(cx: &Context) -> Verdict {
    let name = cx.name();
    let mut register = Register::default();
    let (mut first, mut second) = (cx.worker().await?, cx.worker().await?);
    let old = first.take(&name, cx.ttl()).await?;
    first.pause();
    let new = second.take(&name, cx.ttl()).await?;
    ensure!(register.write(new, "by the second"), "the second holder's write was refused");
    first.resume();
    ensure!(!register.write(old, "by the first, late"), "the late write of a paused holder was accepted");
    let released = first.release().await?;
    ensure!(released == "error Lost", "the paused holder's release was answered {released:?}");
    let status = second.status().await?;
    ensure!(status == "held", "the second holder is {status:?} after the first one's late release");
    Ok(())
}

async fn tokens_survive_the_loss_of_all_data(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let class = client.semantics().token;
    if class != TokenClass::Durable {
        return Err(Stop::Skipped(format!("tokens are declared to live as long as the {class:?}")));
    }
    let before = next_token(&client, &name).await?;
    cx.store().wipe().await?;
    let after = next_token(&cx.client().await?, &name).await?;
    ensure!(after > before, "token {after} after {before}, over the loss of all data");
    Ok(())
}

/// Long after the end of anything that a store might keep for as long as a lease: one name was released, one was not.
async fn tokens_grow_over_several_idle_leases(cx: &Context) -> Verdict {
    let (client, released, ended) = (cx.client().await?, cx.named("released"), cx.named("ended"));
    let ttl = cx.ttl() / 2;
    let guard = client.take(&released, &cx.options().with_ttl(ttl)).await?;
    let mut after_release = Growing(Some(guard.token()?));
    guard.release().await?;
    let guard = client.take(&ended, &cx.fixed().with_ttl(ttl)).await?;
    let mut after_end = Growing(Some(guard.token()?));
    tokio::time::sleep(ttl * 4).await;
    drop(guard);
    after_release.ensure(next_token(&client, &released).await?, "four leases after a release")?;
    after_end.ensure(next_token(&client, &ended).await?, "three leases after the end of a lease")
}

/// The client whose clock is an hour ahead takes the lock first.
async fn tokens_grow_whatever_the_clocks_of_clients_show(cx: &Context) -> Verdict {
    let (client, name, ahead) = (cx.client().await?, cx.name(), SteppedClock::ahead(3600)?);
    let mut worker = cx.worker_at(&cx.store().address(), &ahead.environment()).await?;
    let mut last = 0;
    for _ in 0..3 {
        for whose in ["ahead", "right"] {
            let token = if whose == "ahead" {
                let token = worker.take(&name, cx.ttl()).await?;
                worker.release().await?;
                token
            } else {
                next_token(&client, &name).await?.get()
            };
            ensure!(token > last, "token {token} after {last}, of a client whose clock is {whose}");
            last = token;
        }
    }
    Ok(())
}
