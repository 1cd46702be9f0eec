//! `leasehold compare`: which store to choose, by measurement; and `leasehold report`, which renders its result again.
//! The form of the result, and what is read in it, is in `report/`.

mod candidate;
mod estimate;
mod suite;

use crate::args::{CompareArgs, ComparePart, Preset, ReportArgs};
use crate::conformance::check_time_scale;
use crate::interrupt::{EarlyEnd, Interrupts};
use crate::measure::{LeftOut, Plan, measure};
use crate::report::{Changes, NotRun, Report, StoreReport, Verdict, make_room, publish, read};
use candidate::Candidate;
use leasehold::backend::OwnerId;
use leasehold::semantics::Reach;
use leasehold::{Error, ErrorKind};
use leasehold_console::exit::{self, Code};
use leasehold_console::{Failure, Invocation};
use std::time::Instant;

const SPEED_IS_LOCAL: &str =
    "Speed is that of one host in one hour: compare ratios within one report, and reports of one machine.";
const ONE_HOST: &str = "Servers and clients share one host: there is no network between them, and each takes processor time from the other. \
     Latencies are lower bounds, and rates too. The servers run with the settings of the suite: durable, small, on the \
     host's own disk or in memory.";
const NO_FAULT: &str =
    "No fault was made in these stores; what they do under faults is what their backends promise.";
const QUICK: &str = "Cases that need more than their share of the machine, long windows and large crowds were left out by --quick.";

/// Tries the stores, publishes, and says by its code whether all that was tried is as declared.
pub(crate) async fn compare(args: &CompareArgs, invocation: &Invocation) -> Result<Code, Failure> {
    if args.only.contains(&ComparePart::Faults) && args.preset.is_none() {
        let problem = "no fault is made in a store that somebody may be using";
        let help = "use --preset local, which starts stores of its own";
        return Err(Error::invalid("only", problem, help).into());
    }
    check_time_scale()?;
    let baseline = args.baseline.as_deref().map(read).transpose()?;
    make_room(args.out.as_deref(), None)?;
    let (mut interrupts, began) = (Interrupts::listen()?, Instant::now());
    let private = args.preset == Some(Preset::Local);
    let plan = Plan::comparing(args.quick, args.bench_time, true);
    let seed = args.seed.map_or_else(random_seed, Ok)?;
    let mut report = Report::begin(&plan, Some(seed), private, caveats(private, args.quick));
    let mut candidates = candidate::all(args, invocation).await?;
    let outcome = try_all(args, seed, &mut candidates, invocation, &mut interrupts).await;
    report.stores = candidates.into_iter().map(|candidate| candidate.report).collect();
    report.end(began, matches!(outcome, Err(EarlyEnd::Interrupted(_))));
    report.changes = baseline.map(|baseline| Changes::between(&baseline, &report));
    publish(&report, args.out.as_deref(), args.format)?;
    match outcome {
        Err(EarlyEnd::Interrupted(signal)) => Ok(exit::ended_by(signal)),
        Err(EarlyEnd::Failed(failure)) => Err(failure),
        Ok(()) => conclude(&report),
    }
}

/// Renders a report again.
pub(crate) fn render_again(args: &ReportArgs) -> Result<Code, Failure> {
    let mut report = read(&args.file)?;
    if let Some(baseline) = &args.baseline {
        report.changes = Some(Changes::between(&read(baseline)?, &report));
    }
    make_room(args.out.as_deref(), Some(&args.file))?;
    publish(&report, args.out.as_deref(), args.format)?;
    Ok(Code::SUCCESS)
}

/// In an order that spoils nothing: first the suite and the faults, which mostly wait, many at once; then the measurements of speed,
/// one store after the other, on a machine that does nothing else.
async fn try_all(
    args: &CompareArgs,
    seed: u64,
    candidates: &mut [Candidate],
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<(), EarlyEnd> {
    let console = invocation.console;
    let wants = |part| args.only.is_empty() || args.only.contains(&part);
    for candidate in candidates.iter_mut() {
        candidate.meet(interrupts, console).await?;
    }
    if candidates.iter().any(Candidate::is_there) {
        console.note(estimate::estimate(args, candidates));
    }
    if wants(ComparePart::Suite) {
        suite::run_cases(candidates, seed, args.quick, interrupts, console).await?;
    } else {
        for candidate in candidates.iter() {
            candidate.clean_up(&[], interrupts, console).await;
        }
    }
    if wants(ComparePart::Faults) && args.preset.is_some() {
        suite::play_faults(candidates, seed, interrupts, console).await?;
    }
    if wants(ComparePart::Bench) {
        for candidate in candidates.iter_mut().filter(|candidate| candidate.is_there()) {
            measure_speed(candidate, args, invocation, interrupts).await?;
        }
    }
    interrupts.check()
}

/// If the store fails meanwhile, its report says so, and its worker has said why. What was measured before an early end is kept.
async fn measure_speed(
    candidate: &mut Candidate,
    args: &CompareArgs,
    invocation: &Invocation,
    interrupts: &mut Interrupts,
) -> Result<(), EarlyEnd> {
    let console = invocation.console;
    let plan = Plan::comparing(args.quick, args.bench_time, candidate.report.reach() != Some(Reach::Process));
    console.note(format_args!("measuring {}", candidate.report.name));
    let (target, is_late) = match interrupts.unless_ended(candidate.start()).await? {
        Ok(store) => (candidate.target(&*store, invocation).await.map(|target| (store, target)), false),
        Err(not_run) => (Err(Error::new(ErrorKind::Unavailable, not_run.why).into()), not_run.is_late),
    };
    let outcome = match target {
        Ok((_store, target)) => {
            let (figures, outcome) = measure(&plan, &target, interrupts, console).await;
            candidate.report.speed = figures;
            outcome
        }
        Err(failure) => Err(EarlyEnd::Failed(failure)),
    };
    let Err(EarlyEnd::Failed(failure)) = outcome else { return outcome };
    let why = Some(failure.message()).filter(|why| !why.is_empty());
    let why = why.unwrap_or_else(|| "a process failed, as standard error says".to_owned());
    console.warn(format_args!("{}: {why}", candidate.report.name), None);
    candidate.report.speed.left_out.push(LeftOut::new(LeftOut::THE_REST, &why));
    if !candidate.report.has_figures() {
        candidate.report.not_run = Some(NotRun { why, is_late });
    }
    Ok(())
}

fn random_seed() -> Result<u64, Error> {
    let id = OwnerId::random()?.to_hex();
    // Short enough to be typed again.
    Ok(id.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default())
}

fn caveats(private: bool, quick: bool) -> Vec<String> {
    let servers = if private { ONE_HOST } else { NO_FAULT };
    let all = [Some(servers), Some(SPEED_IS_LOCAL), quick.then_some(QUICK)];
    all.into_iter().flatten().map(str::to_owned).collect()
}

fn conclude(report: &Report) -> Result<Code, Failure> {
    let any = |verdict| report.stores.iter().any(|store| store.verdict() == verdict);
    if any(Verdict::Broken) {
        let help = "see its card in the report: each case that failed, and the command that shows it again";
        let error = Error::new(ErrorKind::Lost, "a store is not what it declares").with_help(help);
        return Err(Failure::new(error).with_code("E_FAILED", Code::FAILED));
    }
    if any(Verdict::Late) {
        return Ok(Code::LATE);
    }
    if !report.stores.iter().any(StoreReport::has_figures) {
        let why = |store: &StoreReport| Some(format!("{}: {}", store.name, store.not_run.as_ref()?.why));
        let reasons = report.stores.iter().filter_map(why).map(|why| ("cause", why));
        let error = Error::new(ErrorKind::Unavailable, "nothing was measured");
        let is_open = report.stores.iter().all(|store| store.verdict() == Verdict::NotJudged);
        let code = if is_open { Code::NOT_JUDGED } else { Code::UNAVAILABLE };
        return Err(Failure::new(error).exiting_with(code).with_lines(reasons));
    }
    let lacks_a_named_store = !report.setup.private_servers && any(Verdict::NotRun);
    Ok(if lacks_a_named_store || any(Verdict::NotJudged) { Code::NOT_JUDGED } else { Code::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::UserStore;
    use async_trait::async_trait;
    use clap::{Args, FromArgMatches};
    use leasehold::{DistributedLock, Registry};
    use leasehold_conformance::{Stop, Store, Subject};
    use leasehold_console::{Console, StoreOptions};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn run_in_which_no_server_was_ready_in_time_is_not_judged() {
        let code = |are_late: [bool; 2]| {
            let plan = Plan::comparing(true, None, true);
            let mut report = Report::begin(&plan, Some(7), true, Vec::new());
            report.stores = are_late
                .map(|is_late| {
                    let not_run = Some(NotRun { why: String::new(), is_late });
                    StoreReport { not_run, ..StoreReport::named("x") }
                })
                .into();
            conclude(&report).unwrap_err().code()
        };
        assert_eq!([[true, true], [true, false]].map(code), [Code::NOT_JUDGED, Code::UNAVAILABLE]);
    }

    #[test]
    fn exit_code_is_that_of_the_worst_store() {
        let code = |kinds: &[&str]| {
            let plan = Plan::comparing(true, None, true);
            let mut report = Report::begin(&plan, Some(7), true, Vec::new());
            let store = |kind: &&str| {
                let outcome = json!({"is": kind, "why": "it"});
                let case =
                    json!({"subject": "x", "case": "A01", "property": "p", "outcome": outcome, "took_ms": 7});
                StoreReport { cases: vec![serde_json::from_value(case).unwrap()], ..StoreReport::named("x") }
            };
            report.stores = kinds.iter().map(store).collect();
            conclude(&report).unwrap_or_else(|failure| failure.code())
        };
        assert_eq!(code(&["passed", "passed"]), Code::SUCCESS);
        assert_eq!(code(&["passed", "not-judged"]), Code::NOT_JUDGED);
        assert_eq!(code(&["not-judged", "late"]), Code::LATE);
        assert_eq!(code(&["not-judged", "late", "failed"]), Code::FAILED);
    }

    #[test]
    fn store_that_is_not_there_is_not_judged_if_the_user_named_it() {
        let code = |private: bool| {
            let plan = Plan::comparing(true, None, true);
            let mut report = Report::begin(&plan, Some(7), private, Vec::new());
            let not_run = Some(NotRun { why: "no server".to_owned(), is_late: false });
            let case = json!({"subject": "x", "case": "A01", "property": "p", "outcome": {"is": "passed"}, "took_ms": 7});
            let cases = vec![serde_json::from_value(case).unwrap()];
            report.stores = vec![
                StoreReport { cases, ..StoreReport::named("x") },
                StoreReport { not_run, ..StoreReport::named("y") },
            ];
            conclude(&report).unwrap()
        };
        assert_eq!([true, false].map(code), [Code::SUCCESS, Code::NOT_JUDGED]);
    }

    #[derive(Debug)]
    struct Stops(Stop);

    #[async_trait]
    impl Subject for Stops {
        fn name(&self) -> &str {
            "stops"
        }

        async fn start(&self) -> Result<Box<dyn Store>, Stop> {
            Err(self.0.clone())
        }

        async fn connect(&self, _: &str) -> leasehold::Result<Arc<dyn DistributedLock>> {
            unreachable!("it never starts")
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn server_that_is_not_ready_in_time_is_late_and_one_that_cannot_start_is_not_run() {
        for (stop, is_late) in [
            (Stop::NotJudged("not ready".to_owned()), true),
            (Stop::Skipped("no program".to_owned()), false),
            (Stop::Failed("it ends at once".to_owned()), false),
        ] {
            let subject: Arc<dyn Subject> = Arc::new(Stops(stop));
            let (report, root) = (StoreReport::named("x"), String::new());
            let candidate = Candidate { subject, user_store: None, report, root };
            assert_eq!(candidate.start().await.unwrap_err().is_late, is_late);
        }
    }

    fn invocation() -> Invocation {
        Invocation::new(StoreOptions::default(), Registry::default(), Console::before_options())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn store_of_which_nothing_could_be_measured_is_not_run() {
        let command = CompareArgs::augment_args(clap::Command::new("compare"));
        let args = CompareArgs::from_arg_matches(&command.get_matches_from(["compare"])).unwrap();
        let subject: Arc<dyn Subject> = Arc::new(Stops(Stop::Failed("it ends at once".to_owned())));
        let report = StoreReport::named("x");
        let mut candidate = Candidate { subject, user_store: None, report, root: String::new() };
        let mut interrupts = Interrupts::listen().unwrap();
        assert!(measure_speed(&mut candidate, &args, &invocation(), &mut interrupts).await.is_ok());
        assert_eq!(candidate.report.verdict(), Verdict::NotRun);
        assert!(candidate.report.not_run.unwrap().why.contains("it ends at once"));
    }

    #[test]
    fn stores_of_one_scheme_are_numbered() {
        let invocation = invocation();
        let urls = ["sqlite:a.db", "sqlite:b.db"].map(str::to_owned);
        let stores = UserStore::each(&urls, &invocation).unwrap();
        assert_eq!(stores.iter().map(|store| &*store.name).collect::<Vec<_>>(), ["sqlite", "sqlite-2"]);
    }
}
