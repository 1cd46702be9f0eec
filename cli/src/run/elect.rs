//! `leasehold elect`: a command that runs whenever this host leads.
//!
//! Each term is a run of its own, with a watchdog of its own: campaign, start the command, watch, stop or let it end, resign. Between two
//! terms this host pauses, so that another one may lead.

use super::PreparedRun;
use super::ending::Ending;
use super::supervisor::{self, Supervisor};
use crate::acquire::{Acquired, acquire};
use crate::args::{AcquireArgs, ElectArgs, KindArgs, RunArgs, lock_name};
use crate::give_back::CLOSE_TIMEOUT;
use crate::lock_request::HeldLocks;
use crate::watchdog::stop_plan::OnLost;
use leasehold::{
    DistributedLock, DistributedLockExt, Election, Error, FencingToken, HolderInfo, Leader, Result, Wait,
};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, Poller, brief, print_json, unprinted};
use rustix::process::Signal;
use serde::Serialize;
use std::time::Duration;

/// The least pause between two terms of this host.
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// The signals that end no candidate while its command does not run.
const FOR_THE_COMMAND: [Signal; 3] = [Signal::HUP, Signal::USR1, Signal::USR2];

/// Runs the command in each term of this host; with `--watch`, shows the leaders.
pub(crate) async fn elect(args: &ElectArgs, invocation: &Invocation) -> Result<Code, Failure> {
    if args.nonblock {
        let fix = "leave it out; to run a command only if nobody else does, use leasehold run -n";
        return Err(Error::invalid("-n", "a candidate waits while another one leads", fix).into());
    }
    if args.watch {
        return watch(args, invocation).await;
    }
    if args.command.on_lost == OnLost::Warn {
        let fix = "choose term or kill: when another host leads, the command here must be over";
        return Err(Error::invalid("--on-lost", "warn, for a candidate", fix).into());
    }
    let run_args = RunArgs {
        names: args.name.iter().cloned().collect(),
        command: args.command.clone(),
        kind: KindArgs::default(),
        acquire: AcquireArgs::of_a_candidate(args.lease.clone()),
        reentrant: false,
        conflict_exit_code: Code::HELD.number(),
        strict_release: false,
        token_fd: None,
        status_fd: None,
    };
    let (mut run, supervisor) = PreparedRun::prepare(&run_args, None, invocation).await?;
    let [name] = run.request.names() else {
        return Err(Error::invalid("election", "several names", "name one").into());
    };
    let election = run.store.locks.elect(name)?.with_options(run.options.clone().with_wait(Wait::Forever));
    run.stack.check(&run.store, &run.request).await?;
    run.is_term = true;
    // They are for the command, and a reload that all hosts are told must not end the standbys. A closed terminal ends what it has started.
    let is_at_terminal = run.terminal.is_some();
    run.signals.ignore(if is_at_terminal { &[Signal::USR1, Signal::USR2] } else { &FOR_THE_COMMAND });
    run.store.introduce(run.stack.is_in_another_store(&run.store), run.console);
    let ending = run.lead(&election, supervisor, args).await;
    // The last term may have left something to be taken back.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, run.store.locks.close()).await;
    Ok(ending?.finish(invocation.console))
}

impl PreparedRun<'_> {
    /// Campaigns, and runs the command, until a term is the last one.
    async fn lead(
        &mut self,
        election: &Election,
        mut supervisor: Supervisor,
        args: &ElectArgs,
    ) -> Result<Ending, Failure> {
        loop {
            let acquisition = campaign(election);
            let acquired = acquire(&self.store, &self.request, acquisition, &mut self.signals, self.console);
            let held = match acquired.await? {
                Acquired::Locks(held) => held,
                Acquired::Interrupted(signal) => return Ok(Ending::interrupted(signal)),
            };
            let ending = match self.under(held, supervisor).await {
                Ok(ending) => ending,
                Err(failure) => Ending::failed(failure, self.args),
            };
            if args.once || !ending.is_followed_by_campaign(args.restart) {
                return Ok(ending);
            }
            ending.tell(self.console);
            // The signal came before the command, or after its end while the lock was given back.
            if let Some(signal) = self.signals.ended_by() {
                return Ok(Ending::interrupted(signal));
            }
            let pause = self.store.locks.semantics().wake_up.bound().max(LEAST_PAUSE);
            self.console.detail(format_args!("campaigns for {} again in {}", self.request, brief(pause)));
            if let Err(signal) = self.signals.unless_ended(tokio::time::sleep(pause)).await {
                return Ok(Ending::interrupted(signal));
            }
            supervisor = Supervisor::prepare(&self.program).map_err(supervisor::not_prepared)?;
        }
    }
}

async fn campaign(election: &Election) -> Result<HeldLocks> {
    // Only a second handle of this candidate could have resigned meanwhile.
    let guard = election.campaign().await?.into_guard();
    HeldLocks::of_one(guard.ok_or_else(Error::closed)?)
}

/// A line for each change of the leader.
#[derive(Debug, Serialize)]
struct LeaderLine<'a> {
    name: &'a str,
    /// `null` if nobody leads.
    term: Option<FencingToken>,
    leader: Option<&'a HolderInfo>,
    /// The beginning of the term by the clock of the store, in UTC.
    since: Option<String>,
}

impl<'a> LeaderLine<'a> {
    fn new(election: &'a Election, leader: Option<&'a Leader>) -> Self {
        let since = leader.and_then(|leader| leader.since);
        Self {
            name: election.name().as_str(),
            term: leader.map(|leader| leader.term),
            leader: leader.map(|leader| &leader.who),
            since: since.map(|since| humantime::format_rfc3339_millis(since).to_string()),
        }
    }
}

/// Prints the leaders until a signal comes.
async fn watch(args: &ElectArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = args.name.as_ref().ok_or_else(|| {
        Error::invalid("election", "there is no name", "write leasehold elect --watch NAME")
    })?;
    let store = invocation.open().await?;
    let election = store.locks.elect(lock_name(name)?)?;
    let doing = format!("still looking for the leader of {:?}", election.name());
    let mut poller = Poller::new(invocation.console, doing, true)?;
    // The term of the last line, which is `None` if nobody led, and the largest of all lines.
    let (mut last, mut largest) = (None, None);
    loop {
        let Some(leader) = poller.next(election.leader()).await? else { continue };
        let term = leader.as_ref().map(|leader| leader.term);
        if last == Some(term) || (term.is_some() && term < largest) {
            continue;
        }
        (last, largest) = (Some(term), largest.max(term));
        print_json(&LeaderLine::new(&election, leader.as_ref())).map_err(unprinted)?;
    }
}
