//! What is asked of the guards and of the store after each step, and what must be the answer.

use super::History;
use super::model_hold::ModelHold;
use crate::cases::prelude::*;
use leasehold_core::{Error, LockMode, LockStatus};
use tokio::time::{Instant, sleep};

impl History<'_> {
    pub(super) async fn look(&mut self) -> Verdict {
        for hold in &self.holds {
            let Some(guard) = &hold.guard else { continue };
            let (from, number) = (Instant::now(), hold.number);
            let (is_held, remaining, token) = (guard.is_held(), guard.remaining(), guard.token());
            let is_kept = hold.is_kept(from, Instant::now()).unwrap_or(is_held);
            let loss = guard.loss();
            ensure!(is_kept == is_held, "{number} is held: {is_kept}; its guard: {is_held}, {loss:?}");
            let is_same = token.is_err() || token.is_ok_and(|token| token == hold.token);
            ensure_untimed!(is_same, "{number} has another token");
            ensure!(remaining <= hold.lease, "{number} has {remaining:?} of {:?} left", hold.lease);
        }
        let is_list = self.rng.bool();
        self.look_at_the_store(is_list).await?;
        for mode in self.asked {
            // Behind the proxy, a client may have to connect anew.
            let by = if self.proxy.is_some() { 1 } else { self.rng.usize(..2) };
            self.attempt(*mode, by).await?;
        }
        Ok(())
    }

    /// Exactly the holds of the model are shown, with all that is known of them.
    async fn look_at_the_store(&self, is_list: bool) -> Verdict {
        let Some(operator) = self.clients[1].admin() else { return Ok(()) };
        let is_known = |status: &LockStatus| self.holds.iter().any(|hold| status.token == Some(hold.token));
        // An attempt that was refused may be the first of a queue until its place is withdrawn.
        let until = Instant::now() + self.cx.slack();
        let (before, from, shown) = loop {
            let before: Vec<Duration> = self.holds.iter().map(ModelHold::remaining).collect();
            let from = Instant::now();
            let shown = match is_list {
                true => operator.list(self.name.as_str()).await?,
                false => operator.inspect(&self.name).await?,
            };
            let is_of_an_attempt = |status: &LockStatus| !status.holder.labels.contains_key("step");
            if shown.iter().all(is_known) || !shown.iter().any(is_of_an_attempt) || from > until {
                break (before, from, shown);
            }
            sleep(Duration::from_millis(5)).await;
        };
        let to = Instant::now();
        ensure!(shown.iter().all(is_known), "one that nobody holds is among {shown:?}");
        for (hold, before) in self.holds.iter().zip(before) {
            let number = hold.number;
            let its: Vec<_> = shown.iter().filter(|status| status.token == Some(hold.token)).collect();
            let is_kept = hold.is_kept(from, to).map_or(its.len(), usize::from);
            let is_shown = its.len() == is_kept;
            ensure!(is_shown, "{number} is held: {is_kept}; in a list: {is_list}; shown: {shown:?}");
            let Some(status) = its.first() else { continue };
            let is_as_held = status.holder == hold.info && status.mode.is_shared() == hold.mode.is_shared();
            let is_right = status.is_released() && hold.guard.is_none() || is_as_held && !hold.is_released;
            ensure!(is_right, "{number} is shown as {status:?}");
            let Some(left) = status.ends_in else { continue };
            let least = before.saturating_sub(to - from).min(hold.remaining());
            let most = self.cx.lease(hold.lease.max(self.ttl * 2)) + self.cx.slack();
            let is_within = (least..=most).contains(&left);
            ensure!(is_within, "{number} is shown to end in {left:?}: {least:?} to {most:?}");
        }
        Ok(())
    }

    /// One attempt, and the release of what it is granted.
    async fn attempt(&mut self, mode: LockMode, by: usize) -> Verdict {
        let client = &self.clients[by];
        let from = Instant::now();
        let guard = client.poke_in(&self.name, mode).await?;
        let to = Instant::now();
        let conflicting = self.holds.iter().filter(|hold| hold.mode.conflicts_with(mode));
        let kept: Vec<Option<bool>> = conflicting.map(|hold| hold.is_kept(from, to)).collect();
        let Some(guard) = guard else {
            let is_free = kept.iter().all(|kept| *kept == Some(false));
            ensure!(!is_free, "a {mode} lock is refused, and no hold conflicts with it");
            return Ok(());
        };
        ensure!(!kept.contains(&Some(true)), "a {mode} lock is granted beside a hold that conflicts with it");
        let token = guard.token()?;
        let last = self.last.replace(token);
        ensure_untimed!(last < Some(token), "token {token} after {last:?}");
        Ok(guard.release().await?)
    }

    /// Makes a request of the client behind the proxy. The store carries it out, another reader comes
    /// and goes, and the reply is lost.
    pub(super) async fn unheard<T: Send + 'static>(
        &mut self,
        mode: LockMode,
        request: impl Future<Output = T> + Send + 'static,
        is_done: impl Fn(&[LockStatus]) -> bool + Send + Sync,
    ) -> Result<T, Stop> {
        let Some(proxy) = self.proxy.take() else { return Ok(request.await) };
        proxy.set(Traffic::HoldReplies);
        let (request, mut polls) = (tokio::spawn(request), 0);
        while !request.is_finished() && !is_done(&self.clients[1].looking()?.inspect(&self.name).await?) {
            sleep(Duration::from_millis(5)).await;
            polls += 1;
            // Where the store is asked more than once, or over a new connection, the last reply is the one to be lost.
            if polls % 4 == 0 {
                proxy.pass_one_reply();
            }
        }
        if mode.is_shared() {
            self.attempt(mode, 1).await?;
        }
        self.lost += usize::from(!request.is_finished());
        proxy.cut();
        proxy.set(Traffic::Pass);
        self.proxy = Some(proxy);
        Ok(request.await?)
    }

    /// Extends a lease. Over a connection that was cut, a backend may not know what became of the request: it is made again.
    pub(super) async fn extended(&self, guard: &LockGuard, longer: Duration) -> Result<(), Error> {
        loop {
            let outcome = guard.extend(longer).await;
            let is_unknown = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Indeterminate);
            if !(is_unknown && self.proxy.is_some() && guard.is_held()) {
                return outcome;
            }
        }
    }

    /// Waits until the store shows an effect of what goes on in the background.
    pub(super) async fn until_shown(&self, is_done: impl Fn(&[LockStatus]) -> bool + Send + Sync) -> Verdict {
        let Some(operator) = self.clients[1].admin() else {
            sleep(self.cx.slack()).await;
            return Ok(());
        };
        let (pause, ask) = (Duration::from_millis(2), || async { Ok(operator.inspect(&self.name).await?) });
        let shown = last_answer_within(self.cx.patience() / 4, pause, ask, |shown| is_done(shown)).await?;
        ensure_came!(is_done(&shown), "a guard that was dropped is not released");
        Ok(())
    }
}
