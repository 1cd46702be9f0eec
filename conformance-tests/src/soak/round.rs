use super::schedule::{PlannedFault, Schedule, possible_faults, promised};
use crate::checker::{CheckReport, Least, Measured, Model, met_a_hold};
use crate::context::Context;
use crate::expect::free_within;
use crate::fault_run::FaultRun;
use crate::faults::{ClientSetup, Ground, Injection, SideEffect, Time, usual_lease};
use crate::history::{FaultSpan, History};
use crate::lateness::Lateness;
use crate::run_config::RunConfig;
use crate::runner::CaseOutcome;
use crate::running_client::Role;
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use crate::time_scale::{nanos, scaled};
use crate::worker::{Environment, Request, Worker};
use leasehold_core::{Fault, Outcome, Reach};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A round that takes longer than this hangs.
const WATCHDOG: Duration = Duration::from_secs(180);

/// What came of one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Round {
    /// Its number, from zero.
    pub number: u64,
    /// The subject.
    pub subject: String,
    /// What it chose from: a soak of this subject with this seed begins with this round.
    pub seed: u64,
    /// The faults, in their order, with their moments; and which of them could not be made, and why. Empty if the store
    /// could not be started.
    pub schedule: String,
    /// How often the lock was granted.
    pub grants: usize,
    /// Faults that were made.
    pub faults: usize,
    /// Faults that met a holder of the lock.
    pub met: usize,
    /// How it came out. It is not judged if too few operations met, or if a bound was missed on a machine that was late. It is skipped
    /// if a fault was made only partly.
    pub outcome: CaseOutcome,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

impl Round {
    pub(super) fn new(number: u64, subject: &str, seed: u64) -> Self {
        let (subject, schedule, outcome) = (subject.to_owned(), String::new(), CaseOutcome::Passed);
        Self { number, subject, seed, schedule, grants: 0, faults: 0, met: 0, outcome, took_ms: 0 }
    }

    /// Draws a schedule for this subject, plays it to its end, and judges what was recorded in a directory below `root`. A
    /// rejected history is kept.
    pub(super) async fn play(
        &mut self,
        subject: Arc<dyn Subject>,
        config: RunConfig,
        root: &Path,
    ) -> Verdict {
        let start = Instant::now();
        let cx = Context::start(subject, "SOAK", config).await?;
        let (semantics, name) = (cx.semantics().await?, cx.name());
        let run = FaultRun::new(cx, semantics, name, root)?;
        let schedule = Schedule::draw(self.seed, &possible_faults(&run), usual_lease());
        self.schedule = schedule.to_string();
        let played = tokio::time::timeout(scaled(WATCHDOG), self.contend(&run, &schedule)).await;
        let hangs = |_| Err(Stop::Failed(format!("it hangs: no end after {WATCHDOG:?}")));
        let late = Lateness::of_a_case(start);
        let told = |why| format!("the history is in {}: {why}", run.directory.keep().display());
        played.unwrap_or_else(hangs).map_err(|stop| match late.excuse(stop) {
            Stop::Failed(why) if late.is_too_late() => Stop::NotJudged(late.told(&told(why))),
            stop => stop.map(told),
        })
    }

    /// Lets all clients contend while the faults are made.
    async fn contend(&mut self, run: &FaultRun, schedule: &Schedule) -> Verdict {
        let mut faults = self.prepare(run, schedule).await?;
        let mut workers = Vec::new();
        for (address, environment) in orders(run, &mut faults) {
            workers.push(run.worker(&address, &environment).await?);
        }
        // What lies in wait sees a first use of the lock, as long as no other client uses it.
        for one in faults.iter_mut().filter(|one| one.plan.spec.is_from_the_start()) {
            let mut ground = run.ground(&mut workers[one.process], None);
            let done = one.injection.before_the_hold(&mut ground).await;
            done.map_err(|stop| by_half(one.plan.spec.fault, stop))?;
        }
        let mut number = 0;
        // A process that has the store to itself contends only with itself.
        let clients = schedule.clients * if run.semantics.reach == Reach::Process { 3 } else { 1 };
        for process in &mut workers {
            for _ in 0..clients {
                number += 1;
                let workload = run.workload(&run.name, self.seed.wrapping_add(number), usual_lease());
                process.order(Request::Start(Role::Anybody, workload)).await?;
            }
        }
        let (made, mut ended) = self.make(run, &mut faults, &mut workers).await;
        if ended.is_ok() {
            ended = leave(run, &mut workers).await;
        }
        // No client writes while the history is read.
        drop(workers);
        violation_first(self.judge(run, &made), ended)
    }

    /// Prepares all faults, in the order in which they are made. No client is connected before clocks and proxies stand.
    async fn prepare(&mut self, run: &FaultRun, schedule: &Schedule) -> Result<Vec<RoundFault>, Stop> {
        let mut plans: Vec<(usize, &PlannedFault)> = schedule.faults.iter().enumerate().collect();
        // To change a clock or a primary, servers may be started anew, with another address for proxies to lead to.
        plans.sort_by_key(|(_, plan)| plan.spec.side_effect() == SideEffect::None);
        let mut faults = Vec::new();
        for (place, plan) in plans {
            let spec = plan.spec;
            match Injection::prepare(spec, run.cx.store(), usual_lease()).await {
                Ok(injection) => faults.push((place, RoundFault { plan: *plan, injection, process: 0 })),
                Err(Stop::Skipped(why)) => self.leave_out(spec.fault, &why),
                Err(stop) => return Err(by_half(spec.fault, stop)),
            }
        }
        faults.sort_by_key(|(place, _)| *place);
        Ok(faults.into_iter().map(|(_, fault)| fault).collect())
    }

    /// Makes all faults, each at its moment, and heals it at its own. Ends with the first that came to nothing half-way: the
    /// state of the store is unknown then.
    async fn make(
        &mut self,
        run: &FaultRun,
        faults: &mut [RoundFault],
        workers: &mut [Worker],
    ) -> (Vec<MadeFault>, Verdict) {
        let mut made = Vec::new();
        for fault in faults {
            let mut ground = run.ground(&mut workers[fault.process], None);
            let mut one = MadeFault { fault: fault.plan.spec.fault, from: run.recorder.now(), to: 0 };
            let done = fault.make(run, &mut ground, &mut one.from).await;
            one.to = run.recorder.now();
            match done {
                Ok(()) => made.push(one),
                // There is no way to make it, or another fault has ended the hold just before.
                Err(Stop::Skipped(why) | Stop::Absent(why)) => self.leave_out(one.fault, &why),
                Err(stop) => {
                    made.push(one);
                    return (made, Err(by_half(one.fault, stop)));
                }
            }
        }
        (made, Ok(()))
    }

    fn leave_out(&mut self, fault: Fault, why: &str) {
        self.schedule += &format!("; {fault:?} was not made: {why}");
    }

    fn judge(&mut self, run: &FaultRun, made: &[MadeFault]) -> Verdict {
        let room = run.cx.slack() * 4;
        let (history, report) = run.check(&model(run, made, room))?;
        self.met = made.iter().filter(|one| one.met_a_hold(&history)).count();
        (self.grants, self.faults) = (report.measured.grants, made.len());
        of_history(report, self.met, room)
    }
}

/// Processes that no fault hits alone: a lock between processes needs two, or no client meets another.
const SURVIVORS: usize = 2;

/// One fault, ready to be made.
struct RoundFault {
    plan: PlannedFault,
    injection: Injection,
    /// Its process among the workers.
    process: usize,
}

/// A fault that was made: when, from just before to just after.
#[derive(Clone, Copy)]
struct MadeFault {
    fault: Fault,
    from: u64,
    to: u64,
}

/// How each of the workers is to connect, and what it is started with: the processes that survive all faults, and then one for
/// each fault that hits a process. Where a lock excludes within one process only, there is no other one.
fn orders(run: &FaultRun, faults: &mut [RoundFault]) -> Vec<(String, Environment)> {
    let address = run.cx.store().address_for_holds_of(usual_lease());
    // There is one at most: two faults of a round do not change the clocks.
    let environment = |of: fn(&ClientSetup) -> &Environment| {
        let mut all = faults.iter().map(|fault| of(&fault.injection.setup));
        all.find(|environment| !environment.is_empty()).cloned().unwrap_or_default()
    };
    if run.semantics.reach == Reach::Process {
        return vec![(address, environment(|setup| &setup.holder_environment))];
    }
    let of_all = environment(|setup| &setup.others_environment);
    let mut orders = vec![(address, of_all.clone()); SURVIVORS];
    for fault in faults {
        // A fault that hits one process has a process of its own. So has a clock that is set back: a holder is killed in its course.
        if !fault.injection.hits_holder_alone() && fault.plan.spec.fault != Fault::StoreClockBack {
            continue;
        }
        fault.process = orders.len();
        let setup = &fault.injection.setup;
        let own = Some(&setup.holder_environment).filter(|own| !own.is_empty());
        orders.push((setup.holder.clone(), own.unwrap_or(&of_all).clone()));
    }
    orders
}

/// Ends all clients; the lock is free afterwards.
async fn leave(run: &FaultRun, workers: &mut Vec<Worker>) -> Verdict {
    // What the last fault has touched is over by then, or confirmed.
    tokio::time::sleep(usual_lease()).await;
    // A process that ended without being killed has failed, and does not answer.
    workers.retain_mut(|process| !process.was_killed());
    for process in &mut *workers {
        process.send(&Request::Leave(None)).await?;
    }
    for process in &mut *workers {
        process.done().await?;
    }
    if run.semantics.reach == Reach::Process {
        return Ok(());
    }
    free_within(&run.cx.client().await?, &run.name, run.cx.patience(), "after all clients had left").await
}

/// Two owners and a repeated token come before what ended the round. That comes before all else: bounds are missed because of it.
fn violation_first(judged: Verdict, ended: Verdict) -> Verdict {
    match judged {
        Err(Stop::Failed(_) | Stop::Wrong(_)) => judged,
        _ => ended.and(judged),
    }
}

fn by_half(fault: Fault, stop: Stop) -> Stop {
    Stop::Skipped(format!("{fault:?} was made by half: {}", stop.into_reason()))
}

impl RoundFault {
    async fn make(&mut self, run: &FaultRun, ground: &mut Ground<'_>, from: &mut u64) -> Verdict {
        let PlannedFault { after, spec, lasts } = self.plan;
        if !spec.is_from_the_start() {
            self.injection.before_the_hold(ground).await?;
        }
        tokio::time::sleep(after).await;
        *from = run.recorder.now();
        self.injection.inject(ground).await?;
        run.watch(Time::exactly(lasts)).await?;
        // Without this the fault remains, so it cannot be left out.
        self.injection.heal(ground).await.map_err(|stop| Stop::Failed(stop.into_reason()))
    }
}

/// What is promised, with room for a machine that does much at once.
fn model(run: &FaultRun, made: &[MadeFault], room: Duration) -> Model {
    let mut model = Model::from_semantics(&run.semantics, usual_lease(), room);
    // A waiter that is silent for longer than its place in the queue lasts moves to the end.
    model.order = None;
    // A holder that lost the lock to such a fault may believe for another lease that it has it.
    let after = nanos(usual_lease() + run.cx.slack());
    let lenient = made.iter().filter(|one| promised(&run.semantics, one.fault) == Outcome::FencedOnly);
    model.fenced_only = lenient.map(|one| (one.from, one.to.saturating_add(after))).collect();
    model
}

impl MadeFault {
    fn met_a_hold(&self, history: &History) -> bool {
        let began_in = |span: &FaultSpan| (self.from..=self.to).contains(&span.from);
        let own = history.faults.iter().find(|span| span.fault == self.fault && began_in(span));
        own.is_some_and(|span| met_a_hold(span, history, &history.kills()))
    }
}

/// One fault at random may meet no holder; if none meets one, or too few clients meet each other, the history shows nothing.
fn of_history(mut report: CheckReport, met: usize, room: Duration) -> Verdict {
    let (Measured { grants, contended, .. }, least) = (&report.measured, Least::USUAL);
    let is_void = met == 0 || *grants < least.grants || *contended < least.contended;
    let void = || format!("{met} faults met a holder, in {grants} grants, {contended} contended");
    report.void = is_void.then(void).into_iter().collect();
    report.verdict(report.to_string(), room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Rule;

    fn judged(rules: &[Rule], met: usize, (grants, contended): (usize, usize)) -> String {
        let measured = Measured { grants, contended, ..Measured::default() };
        // What a case would miss, and a round at random may: each fault meets a holder.
        let void = vec!["StorePaused at 7 met no holder".to_owned()];
        let mut report = CheckReport::default();
        (report.measured, report.void) = (measured, void);
        rules.iter().for_each(|rule| report.broken(*rule, "lock", 7, &[], String::new()));
        let verdict = of_history(report, met, Duration::from_secs(2));
        verdict.map_or_else(|stop| format!("{stop:?}"), |()| "passed".to_owned())
    }

    #[test]
    fn broken_rule_of_a_round_is_wrong_failed_or_late_as_in_a_case() {
        let of = |rules: &[Rule]| judged(rules, 1, (10, 3));
        assert!(of(&[Rule::TokenOrder, Rule::Exclusion, Rule::WakeUp]).starts_with("Wrong(\"Rejected: "));
        assert!(of(&[Rule::Exclusion, Rule::WakeUp]).starts_with("Failed(\"Rejected: "));
        let late = of(&[Rule::WakeUp, Rule::Crash]);
        assert!(late.starts_with("Late(\"Rejected: ") && late.ends_with(", Some(2s))"), "{late}");
        assert!(judged(&[Rule::Exclusion], 0, (0, 0)).starts_with("Failed("), "two owners, in a few grants");
    }

    #[test]
    fn round_in_which_no_fault_or_no_client_met_a_holder_is_void() {
        assert_eq!(judged(&[], 1, (10, 3)), "passed");
        for (met, counts) in [(0, (10, 3)), (1, (9, 3)), (1, (10, 2))] {
            let void = judged(&[], met, counts);
            assert!(void.starts_with("Void(\"Void: "), "{met} {counts:?}: {void}");
        }
    }

    #[test]
    fn fault_made_by_half_excuses_a_bound_and_neither_two_owners_nor_a_token() {
        let why = || "it".to_owned();
        let of = |judged| violation_first(judged, Err(Stop::Skipped("half".to_owned()))).unwrap_err();
        assert!(matches!(of(Err(Stop::Failed(why()))), Stop::Failed(_)));
        assert!(matches!(of(Err(Stop::Wrong(why()))), Stop::Wrong(_)));
        for judged in [Ok(()), Err(Stop::Late(why(), None)), Err(Stop::Void(why()))] {
            assert!(matches!(of(judged), Stop::Skipped(_)));
        }
    }
}
