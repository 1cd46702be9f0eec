use super::schedule::{PlannedFault, PossibleFault, Schedule};
use crate::fault_run::{FaultRun, PreparedFault};
use crate::faults::{ClientSetup, Ground, SideEffect, Time, can_happen, injection, usual_lease};
use crate::stop::{Stop, Verdict};
use crate::worker::Worker;
use leasehold_core::{Fault, Outcome, Reach, Semantics};

/// The faults that the store can meet, and under which it promises anything.
pub(super) fn possible(run: &FaultRun) -> Vec<PossibleFault> {
    let faults = Fault::ALL.into_iter().filter(|fault| *fault != Fault::None);
    let possible = faults.filter_map(|fault| {
        let promised = promised(&run.semantics, fault);
        if !matches!(promised, Outcome::Holds | Outcome::Unavailable | Outcome::FencedOnly) {
            return None;
        }
        can_happen(run.cx.subject(), &run.semantics, fault).ok()?;
        let injection = injection(fault, run.cx.store(), &run.semantics).ok()?;
        let (timing, side_effect) = (injection.timing(), injection.side_effect());
        let (lasts, lies_in_wait) = (timing.lasts, timing.from_the_start);
        let is_possible = injection.is_one_of_many();
        is_possible.then_some(PossibleFault { fault, promised, lasts, side_effect, lies_in_wait })
    });
    possible.collect()
}

/// What is promised while it lasts and when it is healed: a clock that was set back jumps ahead then.
fn promised(semantics: &Semantics, fault: Fault) -> Outcome {
    let promised = semantics.promises.under(fault);
    let ahead = semantics.promises.under(Fault::StoreClockForward);
    match ahead {
        Outcome::FencedOnly | Outcome::MayBreak if fault == Fault::StoreClockBack => ahead,
        _ => promised,
    }
}

/// The faults of a round, ready to be made, and the processes that they are made on: each that hits a process has one of its
/// own. Where a lock excludes within one process only, there is no other one.
pub(super) struct SoakSetup {
    faults: Vec<SoakFault>,
    /// The processes that survive all faults, and then the processes that the faults hit.
    pub(super) workers: Vec<Worker>,
    /// What was drawn and cannot be made, and why.
    pub(super) left_out: Vec<String>,
    /// What was begun and could not be brought to its end, and why.
    pub(super) half_made: Option<String>,
}

/// Processes that no fault hits alone: a lock between processes needs two, or no client meets another.
const SURVIVORS: usize = 2;

type Environment = Vec<(String, String)>;

/// One fault, prepared.
struct SoakFault {
    plan: PlannedFault,
    fault: PreparedFault,
    /// Its process among the workers.
    process: usize,
}

/// A fault that was made: when, from just before to just after.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeFault {
    pub(super) what: PossibleFault,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl SoakSetup {
    /// Prepares all faults, and then starts the processes: no client is connected before clocks and proxies stand.
    pub(super) async fn new(run: &FaultRun, schedule: &Schedule) -> Result<Self, Stop> {
        let mut setup = Self { faults: vec![], workers: vec![], left_out: vec![], half_made: None };
        let mut plans: Vec<(usize, &PlannedFault)> = schedule.faults.iter().enumerate().collect();
        // To change a clock or a primary, servers may be started anew, with another address for proxies to lead to.
        plans.sort_by_key(|(_, plan)| plan.what.side_effect == SideEffect::None);
        let mut faults = Vec::new();
        for (place, plan) in plans {
            let fault = plan.what.fault;
            match run.prepare(fault, Some(usual_lease())).await {
                Ok(fault) => faults.push((place, SoakFault { plan: *plan, fault, process: 0 })),
                Err(Stop::Skipped(why)) => setup.leave_out(fault, &why),
                Err(stop) => return Err(Stop::Skipped(by_half(fault, &stop.into_reason()))),
            }
        }
        faults.sort_by_key(|(place, _)| *place);
        setup.faults = faults.into_iter().map(|(_, fault)| fault).collect();
        for (address, environment) in setup.orders(run) {
            setup.workers.push(run.worker(&address, &environment).await?);
        }
        Ok(setup)
    }

    /// How each of the workers is to connect, and what it is started with. Each fault that hits a process gets one of its own.
    fn orders(&mut self, run: &FaultRun) -> Vec<(String, Environment)> {
        let address = run.cx.store().address_for_holds_of(usual_lease());
        if run.semantics.reach == Reach::Process {
            return vec![(address, self.environment(|setup| &setup.holder_environment))];
        }
        let of_all = self.environment(|setup| &setup.others_environment);
        let mut orders = vec![(address, of_all.clone()); SURVIVORS];
        for prepared in self.faults.iter_mut().filter(|prepared| prepared.hits_a_process()) {
            prepared.process = orders.len();
            let setup = &prepared.fault.setup;
            let own = Some(&setup.holder_environment).filter(|own| !own.is_empty());
            orders.push((setup.holder.clone(), own.unwrap_or(&of_all).clone()));
        }
        orders
    }

    /// There is one at most: two faults of a round do not change the clocks.
    fn environment(&self, of: fn(&ClientSetup) -> &Environment) -> Environment {
        let mut all = self.faults.iter().map(|prepared| of(&prepared.fault.setup));
        all.find(|environment| !environment.is_empty()).cloned().unwrap_or_default()
    }

    /// Lets what lies in wait see a first use of the lock, as long as no other client uses it.
    pub(super) async fn before_the_hold(&mut self, run: &FaultRun) -> Verdict {
        for prepared in self.faults.iter_mut().filter(|prepared| prepared.plan.what.lies_in_wait) {
            let mut ground = run.ground(&mut self.workers[prepared.process], None);
            let done = prepared.fault.injection.before_the_hold(&mut ground).await;
            done.map_err(|stop| Stop::Skipped(by_half(prepared.fault.fault, &stop.into_reason())))?;
        }
        Ok(())
    }

    /// Makes all faults, each at its moment, and heals it at its own. Ends with the first that came to nothing half-way: the
    /// state of the store is unknown then.
    pub(super) async fn play(&mut self, run: &FaultRun) -> Vec<MadeFault> {
        let (mut made, mut missed) = (Vec::new(), Vec::new());
        for prepared in &mut self.faults {
            let mut ground = run.ground(&mut self.workers[prepared.process], None);
            let mut one = MadeFault { what: prepared.plan.what, from: run.recorder.now(), to: 0 };
            let done = prepared.play(run, &mut ground, &mut one.from).await;
            one.to = run.recorder.now();
            let fault = prepared.fault.fault;
            match done {
                Ok(()) => made.push(one),
                Err(stop) if stop.is_failed_or_missing() => {
                    made.push(one);
                    self.half_made = Some(by_half(fault, &stop.into_reason()));
                    break;
                }
                Err(stop) => missed.push((fault, stop.into_reason())),
            }
        }
        missed.iter().for_each(|(fault, why)| self.leave_out(*fault, why));
        made
    }

    fn leave_out(&mut self, fault: Fault, why: &str) {
        self.left_out.push(format!("{fault:?} was not made: {why}"));
    }
}

fn by_half(fault: Fault, why: &str) -> String {
    format!("{fault:?} was made by half: {why}")
}

impl SoakFault {
    async fn play(&mut self, run: &FaultRun, ground: &mut Ground<'_>, from: &mut u64) -> Verdict {
        let PlannedFault { after, what, lasts } = self.plan;
        if !what.lies_in_wait {
            self.fault.injection.before_the_hold(ground).await?;
        }
        tokio::time::sleep(after).await;
        *from = run.recorder.now();
        self.fault.inject(ground).await?;
        run.watch(Time::exactly(lasts)).await?;
        // It is there, and stays.
        self.fault.heal(ground).await.map_err(|stop| Stop::Failed(stop.into_reason()))
    }

    /// True if it has a process of its own; also if it kills one in its course: after a clock was set back, the lease of the dead
    /// goes on.
    fn hits_a_process(&self) -> bool {
        self.fault.hits_holder_alone() || self.fault.fault == Fault::StoreClockBack
    }
}
