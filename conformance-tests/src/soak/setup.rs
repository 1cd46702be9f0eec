use super::schedule::{Possible, Schedule, Step};
use crate::case::{Stop, Verdict};
use crate::context::Context;
use crate::faults::{Claim, Ground, Injection, Setting, injection, usual_lease};
use crate::history::Recorder;
use crate::matrix::can_happen;
use crate::worker::Worker;
use leasehold_core::{Fault, Outcome, Reach, Semantics};

/// The faults that the store can meet, and under which it promises anything.
pub(super) fn possible(cx: &Context, semantics: &Semantics) -> Vec<Possible> {
    let faults = Fault::ALL.into_iter().filter(|fault| *fault != Fault::None);
    let of_kit = faults.filter_map(|fault| {
        let promised = promised(semantics, fault);
        if !matches!(promised, Outcome::Holds | Outcome::Unavailable | Outcome::FencedOnly) {
            return None;
        }
        can_happen(cx.subject(), semantics, fault).ok()?;
        let injection = injection(fault, cx.store(), semantics).ok()?;
        if !injection.is_one_of_many() {
            return None;
        }
        let schedule = injection.schedule();
        Some(Possible {
            fault,
            promised,
            lasts: schedule.lasts,
            claim: injection.claim(),
            lies_in_wait: schedule.from_the_start,
        })
    });
    of_kit.collect()
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
    faults: Vec<PreparedFault>,
    /// The processes that survive all faults, and then the processes that the faults hit.
    workers: Vec<Worker>,
    /// What was drawn and cannot be made, and why.
    pub(super) left_out: Vec<String>,
    /// What was begun and could not be brought to its end, and why.
    pub(super) half_made: Option<String>,
}

/// Processes that no fault hits alone: a lock between processes needs two, or no client meets another.
const SURVIVORS: usize = 2;

/// The address of the store, and what the process is started with.
type Order = (String, Environment);
type Environment = Vec<(String, String)>;

/// One fault, prepared.
struct PreparedFault {
    step: Step,
    injection: Box<dyn Injection>,
    setting: Setting,
    /// Its process among the workers.
    process: usize,
}

/// A fault that was made: when, from just before to just after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub(super) what: Possible,
    pub(super) from: u64,
    pub(super) to: u64,
}

impl SoakSetup {
    /// Prepares all faults, and then starts the processes: nobody is connected before clocks and proxies stand.
    pub(super) async fn new(cx: &Context, semantics: &Semantics, schedule: &Schedule) -> Result<Self, Stop> {
        let mut setup = Self { faults: vec![], workers: vec![], left_out: vec![], half_made: None };
        let mut steps: Vec<(usize, &Step)> = schedule.steps.iter().enumerate().collect();
        // To change a clock or a primary, servers may be started anew, with another address for proxies to lead to.
        steps.sort_by_key(|(_, step)| step.what.claim == Claim::Nothing);
        let mut faults = Vec::new();
        for (place, step) in steps {
            match PreparedFault::prepare(cx, semantics, *step).await {
                Ok(prepared) => faults.push((place, prepared)),
                Err(Stop::Skipped(why)) => setup.leave_out(step.what.fault, &why),
                Err(Stop::Failed(why)) => return Err(Stop::Skipped(by_half(step.what.fault, &why))),
            }
        }
        faults.sort_by_key(|(place, _)| *place);
        setup.faults = faults.into_iter().map(|(_, prepared)| prepared).collect();
        for (address, environment) in setup.orders(cx, semantics.reach) {
            setup.workers.push(Worker::start(cx.subject().name(), &address, &environment).await?);
        }
        Ok(setup)
    }

    /// How each of the workers is to connect, and what it is started with. Each fault that hits a process gets one of its own.
    fn orders(&mut self, cx: &Context, reach: Reach) -> Vec<Order> {
        let address = cx.store().address_for_holds_of(usual_lease());
        if reach == Reach::Process {
            return vec![(address, self.environment(|setting| &setting.holder_environment))];
        }
        let of_all = self.environment(|setting| &setting.others_environment);
        let mut orders = vec![(address, of_all.clone()); SURVIVORS];
        for prepared in self.faults.iter_mut().filter(|prepared| prepared.hits_a_process()) {
            prepared.process = orders.len();
            let own = Some(&prepared.setting.holder_environment).filter(|own| !own.is_empty());
            orders.push((prepared.setting.holder.clone(), own.unwrap_or(&of_all).clone()));
        }
        orders
    }

    /// There is one at most: two faults do not claim the clocks.
    fn environment(&self, of: fn(&Setting) -> &Environment) -> Environment {
        let mut all = self.faults.iter().map(|prepared| of(&prepared.setting));
        all.find(|environment| !environment.is_empty()).cloned().unwrap_or_default()
    }

    pub(super) fn workers(&mut self) -> &mut [Worker] {
        &mut self.workers
    }

    /// Lets what lies in wait see a first use of the lock, as long as nobody else uses it.
    pub(super) async fn before_the_hold(&mut self, cx: &Context, recorder: &Recorder) -> Verdict {
        let name = cx.name();
        for prepared in &mut self.faults {
            if prepared.step.what.lies_in_wait {
                let holder = &mut self.workers[prepared.process];
                let mut ground = Ground { store: cx.store(), holder, others: None, name: &name, recorder };
                let done = prepared.injection.before_the_hold(&mut ground).await;
                done.map_err(|stop| Stop::Skipped(by_half(prepared.step.what.fault, &why(stop))))?;
            }
        }
        Ok(())
    }

    /// Makes all faults, each at its moment, and heals it at its own. Ends with the first that came to nothing half-way: in
    /// what state the store is then, nobody knows.
    pub(super) async fn play(&mut self, cx: &Context, recorder: &Recorder) -> Vec<Made> {
        let (name, mut made, mut missed) = (cx.name(), Vec::new(), Vec::new());
        for prepared in &mut self.faults {
            let holder = &mut self.workers[prepared.process];
            let ground = Ground { store: cx.store(), holder, others: None, name: &name, recorder };
            let (one, done) = prepared.play(ground).await;
            let fault = prepared.step.what.fault;
            match done {
                Ok(()) => made.push(one),
                Err(stop) if stop.is_failed_or_missing() => {
                    made.push(one);
                    self.half_made = Some(by_half(fault, &why(stop)));
                    break;
                }
                Err(stop) => missed.push((fault, why(stop))),
            }
        }
        missed.iter().for_each(|(fault, why)| self.leave_out(*fault, why));
        made
    }

    fn leave_out(&mut self, fault: Fault, why: &str) {
        self.left_out.push(format!("{fault:?} was not made: {why}"));
    }
}

fn why(stop: Stop) -> String {
    let (Stop::Failed(why) | Stop::Skipped(why)) = stop;
    why
}

fn by_half(fault: Fault, why: &str) -> String {
    format!("{fault:?} was made by half: {why}")
}

impl PreparedFault {
    async fn prepare(cx: &Context, semantics: &Semantics, step: Step) -> Result<Self, Stop> {
        let mut injection = injection(step.what.fault, cx.store(), semantics)?;
        let schedule = injection.schedule().with_lease(usual_lease());
        let setting = injection.prepare(cx.store(), &schedule).await?;
        Ok(Self { step, injection, setting, process: 0 })
    }

    /// When it was made, and whether it was.
    async fn play(&mut self, mut ground: Ground<'_>) -> (Made, Verdict) {
        let from = ground.recorder.now();
        let mut made = Made { what: self.step.what, from, to: from };
        let done = self.make(&mut ground, &mut made.from).await;
        made.to = ground.recorder.now();
        (made, done)
    }

    async fn make(&mut self, ground: &mut Ground<'_>, from: &mut u64) -> Verdict {
        let Step { after, what, lasts } = self.step;
        if !what.lies_in_wait {
            self.injection.before_the_hold(ground).await?;
        }
        tokio::time::sleep(after).await;
        let target = self.hits_its_own().then(|| ground.holder.process());
        *from = ground.recorder.now();
        ground.recorder.injected(what.fault, target)?;
        let mut done = self.injection.inject(ground).await;
        if done.is_ok() {
            tokio::time::sleep(lasts).await;
            // It is there, and stays.
            done = self.injection.heal(ground).await.map_err(|stop| Stop::Failed(why(stop)));
        }
        // The dead stay dead.
        if what.fault != Fault::HolderKilled {
            ground.recorder.healed(what.fault, target)?;
        }
        done
    }

    /// True if nobody feels it but its own process.
    fn hits_its_own(&self) -> bool {
        self.injection.schedule().hits_holder || self.setting.holder != self.setting.others
    }

    /// The same, or if it kills one in its course: after a clock was set back, the lease of the dead goes on.
    fn hits_a_process(&self) -> bool {
        self.hits_its_own() || self.step.what.fault == Fault::StoreClockBack
    }
}
