//! Steps at random on one name, held against a model of its holds: after each step, everything that the model knows is asked of the
//! guards and of the store.

mod model_hold;
mod observation;

use crate::cases::prelude::*;
use futures_util::{StreamExt, TryStreamExt, stream};
use leasehold_core::{Error, FencingToken, HolderInfo, LockMode, LockStatus};
use model_hold::{End, ModelHold};
use tokio::time::{Instant, sleep_until};

/// What a hold asks for.
#[derive(Clone, Copy, Debug)]
struct LeasePlan {
    ttls: u32,
    is_renewed: bool,
    /// The length to which it is extended, in halves of a ttl.
    extended_to: Option<u32>,
    /// Its least time, in halves of a ttl.
    at_least: u32,
}

const LEASES: [LeasePlan; 6] = [
    LeasePlan { ttls: 1, is_renewed: false, extended_to: None, at_least: 0 },
    LeasePlan { ttls: 2, is_renewed: false, extended_to: None, at_least: 3 },
    LeasePlan { ttls: 2, is_renewed: true, extended_to: None, at_least: 0 },
    LeasePlan { ttls: 3, is_renewed: true, extended_to: None, at_least: 0 },
    LeasePlan { ttls: 1, is_renewed: false, extended_to: Some(3), at_least: 0 },
    LeasePlan { ttls: 3, is_renewed: true, extended_to: Some(1), at_least: 2 },
];
/// The histories of a case, all at once: together they meet each lease with each end. More would be a load, and leases end under a load.
const HISTORIES: usize = 8;

/// How a hold ends: by its owner, by its lease unless that is renewed, or by an operator, alone or with all others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum HoldEnd {
    Released,
    Dropped,
    Expired,
    Forced,
    AllForced,
}

const ENDS: [HoldEnd; 5] =
    [HoldEnd::Released, HoldEnd::Dropped, HoldEnd::Expired, HoldEnd::Forced, HoldEnd::AllForced];

/// Puts histories of two clients to a store, several at once, each on a name of its own. `groups` are the modes of holds that come and
/// leave in any order among each other, and `asked` those of the attempts that are made meanwhile. With `lost_replies`, one client loses
/// those to its grants and releases.
pub(super) async fn run_histories(
    cx: &Context,
    groups: fn(&mut fastrand::Rng) -> Vec<Vec<LockMode>>,
    asked: &[LockMode],
    lost_replies: bool,
) -> Verdict {
    let clients = [cx.client().await?, cx.client().await?];
    // Any other hold does not end by its lease, and may need a connection. A renewal would be answered in the place of what is lost.
    let is_lease = clients[0].semantics().hold == HoldKind::Lease;
    let is_met = |plan: &LeasePlan| match lost_replies {
        true => !plan.is_renewed,
        false => is_lease || plan.is_renewed && plan.extended_to.is_none(),
    };
    let leases = LEASES.into_iter().filter(is_met);
    let mut plans: Vec<_> = leases.flat_map(|lease| ENDS.map(|end| (lease, end))).collect();
    fastrand::Rng::with_seed(cx.seed()).shuffle(&mut plans);
    let mut next_plans = plans.iter().copied().cycle();
    let mut holds = 0;
    let games: Vec<_> = (0..HISTORIES)
        .map(|number| {
            let mut rng = fastrand::Rng::with_seed(cx.seed().wrapping_add(number as u64));
            let groups = groups(&mut rng).into_iter();
            let groups: Vec<Vec<_>> =
                groups.map(|modes| modes.into_iter().zip(&mut next_plans).collect()).collect();
            holds += groups.iter().map(Vec::len).sum::<usize>();
            (number, rng, groups)
        })
        .collect();
    ensure!(holds >= plans.len(), "{holds} holds cannot meet all of {} plans", plans.len());
    let histories = games.into_iter().map(async |(number, rng, groups)| {
        let mut history = History::new(cx, number, clients.clone(), asked, rng);
        if lost_replies {
            history.lose_replies().await?;
        }
        for group in groups {
            history.play(&group).await.map_err(|stop| history.tell(stop))?;
        }
        Ok::<_, Stop>(history.lost)
    });
    let histories = stream::iter(histories).buffer_unordered(HISTORIES);
    let lost = histories.try_fold(0, async |all, lost| Ok(all + lost)).await?;
    ensure!(!lost_replies || lost > 0, "no reply was lost: all of them were heard");
    Ok(())
}

struct History<'a> {
    cx: &'a Context,
    name: LockName,
    /// Longer where replies are lost: a client connects anew then.
    ttl: Duration,
    asked: &'a [LockMode],
    clients: [Client; 2],
    /// In front of the first client, if its replies are lost.
    proxy: Option<Proxy>,
    /// How many were lost.
    lost: usize,
    rng: fastrand::Rng,
    holds: Vec<ModelHold>,
    /// The last token.
    last: Option<FencingToken>,
    steps: Vec<String>,
}

impl<'a> History<'a> {
    fn new(
        cx: &'a Context,
        number: usize,
        clients: [Client; 2],
        asked: &'a [LockMode],
        rng: fastrand::Rng,
    ) -> Self {
        let (name, ttl) = (cx.named(&format!("history-{number:02}")), cx.ttl());
        let (holds, steps) = (Vec::new(), Vec::new());
        Self { cx, name, ttl, asked, clients, rng, proxy: None, lost: 0, holds, last: None, steps }
    }

    async fn lose_replies(&mut self) -> Verdict {
        self.clients[1].looking()?;
        let (proxy, client) = self.cx.client_behind_proxy(self.cx.patience()).await?;
        (self.proxy, self.clients[0], self.ttl) = (Some(proxy), client, self.cx.ttl() * 2);
        Ok(())
    }

    fn tell(&self, stop: Stop) -> Stop {
        let (name, seed, steps) = (&self.name, self.cx.seed(), self.steps.join("; "));
        stop.map(|words| format!("{words}. In {name} of the seed {seed}, after: {steps}"))
    }

    /// Each hold comes, is extended if it is to be, and ends; the steps of several holds in any order.
    async fn play(&mut self, plans: &[(LockMode, (LeasePlan, HoldEnd))]) -> Verdict {
        let mut order: Vec<usize> = (0..plans.len()).flat_map(|hold| [hold; 3]).collect();
        self.rng.shuffle(&mut order);
        for (at, number) in order.iter().enumerate() {
            self.until_determined().await;
            let (mode, (lease, end)) = plans[*number];
            let is_held = self.holds.iter().position(|hold| hold.number == *number && hold.guard.is_some());
            match (order[..at].iter().filter(|other| *other == number).count(), is_held, lease.extended_to) {
                (0, ..) => self.come(*number, mode, lease).await?,
                (1, Some(at), Some(halves)) => self.extend(at, self.ttl * halves / 2).await?,
                (2, Some(at), _) => self.end(at, end).await?,
                _ => continue,
            }
            self.until_determined().await;
            self.look().await?;
        }
        // What lingers would keep the next ones out.
        if let Some(over) = self.holds.iter().filter_map(|hold| Some(hold.ends?.latest)).max() {
            sleep_until(over + Duration::from_millis(1)).await;
            self.look().await?;
            self.holds.clear();
        }
        Ok(())
    }

    /// Waits while a hold may or may not be over.
    async fn until_determined(&self) {
        while let Some(over) = {
            let now = Instant::now();
            let undetermined = self.holds.iter().filter(|hold| hold.is_kept(now, now).is_none());
            undetermined.filter_map(|hold| Some(hold.ends?.latest)).max()
        } {
            sleep_until(over + Duration::from_millis(1)).await;
        }
    }

    /// When a lease ends that was asked for at one moment, and confirmed by now.
    fn ends(&self, sent: Instant, lease: Duration) -> End {
        let latest = Instant::now() + self.cx.lease(lease) + self.cx.slack() / 5;
        End { earliest: sent + lease.mul_f64(0.95), latest }
    }

    async fn come(&mut self, number: usize, mode: LockMode, plan: LeasePlan) -> Verdict {
        let by = if self.proxy.is_some() { number % 2 } else { self.rng.usize(..2) };
        self.steps.push(format!("{number} comes, of client {by}, {mode}, {plan:?}"));
        let (lease, at_least) = (self.ttl * plan.ttls, self.ttl * plan.at_least / 2);
        let info = HolderInfo::this_process().with_label("step", self.steps.len().to_string());
        let is_lost = self.proxy.is_some() && by == 0;
        // The node of an attempt that was refused stands in the queue until its client has deleted it.
        let is_session = self.clients[by].semantics().hold == HoldKind::Session;
        let wait = match is_lost {
            true => self.cx.patience().into(),
            false if is_session => self.ttl.into(),
            false => Wait::No,
        };
        let options = if plan.is_renewed { self.cx.options() } else { self.cx.fixed() };
        let options = options.with_ttl(lease).with_hold_at_least(at_least).with_wait(wait);
        let options = options.with_mode(mode).with_holder(&info);
        let (client, name, before) = (self.clients[by].clone(), self.name.clone(), self.last);
        let sent = Instant::now();
        let request = async move { client.acquire_with(&name, &options).await };
        let is_granted = |shown: &[LockStatus]| shown.iter().any(|hold| hold.holder == info);
        let guard = if is_lost { self.unheard(mode, request, is_granted).await?? } else { request.await? };
        if is_lost && sent.elapsed() > lease / 2 && !guard.is_held() {
            // It took so long to connect anew that the lease is over.
            drop(guard);
            return self.until_shown(|shown| !is_granted(shown)).await;
        }
        let (token, last) = (guard.token()?, self.last);
        // The lease of the first grant may be over before the client asks again: then the store grants anew.
        let is_late = is_lost && sent.elapsed() > lease.mul_f64(0.95);
        let is_in_order =
            before < Some(token) && (last == before || Some(token) < last || (is_late && Some(token) > last));
        ensure_untimed!(is_in_order, "token {token} after {before:?} and before {last:?}");
        self.last = last.max(Some(token));
        let ends = (!plan.is_renewed).then(|| self.ends(sent, lease));
        let lingers = (plan.at_least > 0).then(|| self.ends(sent, at_least));
        let (guard, is_released) = (Some(guard), false);
        self.holds.push(ModelHold { number, mode, token, info, lease, ends, lingers, guard, is_released });
        Ok(())
    }

    async fn extend(&mut self, at: usize, longer: Duration) -> Verdict {
        let (hold, sent) = (&self.holds[at], Instant::now());
        let Some(guard) = &hold.guard else { return Ok(()) };
        self.steps.push(format!("{} is extended to {longer:?}", hold.number));
        let extended = self.extended(guard, longer).await;
        let lease = longer.max(hold.lease);
        let end = self.ends(sent, lease);
        ensure_by(hold.is_kept(sent, Instant::now()), &extended, "an extension")?;
        let hold = &mut self.holds[at];
        if extended.is_ok() {
            hold.lease = lease;
        }
        // A failed extension may have been carried out.
        hold.ends = hold.ends.map(|before| End {
            earliest: if extended.is_ok() { end.earliest.max(before.earliest) } else { before.earliest },
            latest: end.latest.max(before.latest),
        });
        Ok(())
    }

    async fn end(&mut self, at: usize, end: HoldEnd) -> Verdict {
        self.steps.push(format!("{} is {end:?}", self.holds[at].number));
        // Where there is no operator, the owner releases.
        let has_operator = self.clients[1].admin().is_some();
        match (end, self.holds[at].ends) {
            (HoldEnd::Expired, Some(end)) => sleep_until(end.latest + Duration::from_millis(1)).await,
            (HoldEnd::Forced, _) if has_operator => return self.force(Some(at)).await,
            (HoldEnd::AllForced, _) if has_operator => return self.force(None).await,
            _ => {}
        }
        let mut hold = self.holds.remove(at);
        let Some(guard) = hold.guard.take() else { return Ok(()) };
        let from = Instant::now();
        let (token, may_linger) = (hold.token, hold.lingers.is_some_and(|end| end.latest > from));
        let is_gone = |shown: &[LockStatus]| {
            !shown.iter().any(|other| other.token == Some(token) && !(may_linger && other.is_released()))
        };
        let is_lost = self.proxy.is_some() && hold.number.is_multiple_of(2) && guard.is_held();
        let released = match is_lost {
            _ if end == HoldEnd::Dropped => {
                drop(guard);
                self.until_shown(&is_gone).await?;
                None
            }
            true => match self.unheard(hold.mode, guard.release(), &is_gone).await? {
                // The connection over which it was asked once more was cut as well, now or with an earlier reply.
                Err(error) if error.kind() == ErrorKind::Indeterminate => {
                    self.until_shown(&is_gone).await?;
                    None
                }
                heard => Some(heard),
            },
            false => Some(guard.release().await),
        };
        let was_kept = hold.is_kept(from, Instant::now());
        hold.is_released = matches!(released, Some(Ok(())));
        released.map_or(Ok(()), |released| ensure_by(was_kept, &released, "a release"))?;
        if let (Some(lingers), None | Some(true)) = (hold.lingers, was_kept) {
            // The rest of the time is counted from when the release arrives.
            hold.ends = Some(End { latest: lingers.latest + from.elapsed(), ..lingers });
            self.holds.push(hold);
        }
        Ok(())
    }

    /// Ends one hold, or all, as an operator.
    async fn force(&mut self, at: Option<usize>) -> Verdict {
        let operator = self.clients[1].looking()?;
        let wrong = self.last.map(|last| FencingToken::new(last.get() + 1));
        let of_nobody = operator.force_release(&self.name, wrong).await?;
        ensure!(of_nobody.is_empty(), "{of_nobody:?} was ended by a token that nobody has");
        let from = Instant::now();
        let ended = operator.force_release(&self.name, at.map(|at| self.holds[at].token)).await?;
        let to = Instant::now();
        let forced: Vec<_> = self.holds.drain(at.map_or(0..self.holds.len(), |at| at..at + 1)).collect();
        let is_meant = |ended: &LockStatus| forced.iter().any(|hold| ended.token == Some(hold.token));
        ensure!(ended.iter().all(is_meant), "{ended:?} was ended in the place of {at:?}");
        for hold in forced {
            let is_told = ended.iter().any(|status| status.token == Some(hold.token));
            let is_kept = hold.is_kept(from, to).unwrap_or(is_told);
            ensure!(is_kept == is_told, "{} was held: {is_kept}; ended by force: {ended:?}", hold.number);
            let Some(guard) = hold.guard else { continue };
            if hold.ends.is_none() {
                loss_within(&guard, hold.lease + self.cx.slack()).await?;
            }
            // Over a connection that breaks, a release is made again, and "not held" then means that it was done.
            let is_known = self.proxy.is_none().then_some(false);
            ensure_by(is_known, &guard.release().await, "a release, after one by force,")?;
        }
        Ok(())
    }
}

/// Expects that a request of a holder succeeds while the store has the hold, and tells of the loss otherwise.
fn ensure_by(is_kept: Option<bool>, outcome: &Result<(), Error>, request: &str) -> Verdict {
    let is_lost = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost);
    let is_right = is_kept.is_none_or(|kept| if kept { outcome.is_ok() } else { is_lost });
    ensure!(is_right, "{request} of a hold that is kept: {is_kept:?} is {outcome:?}");
    Ok(())
}
