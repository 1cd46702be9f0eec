use super::host_capacity::{THREADS, lock};
use super::judge::judge;
use super::result::{CaseOutcome, CaseResult, Tally, skipped_by_reason};
use super::run::mix;
use crate::case::Case;
use crate::cases::all;
use crate::run_config::RunConfig;
use crate::subject::Subject;
use crate::time_scale::said_time_scale;
use crate::worker;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// How many of the slowest cases are named at the end.
const SLOWEST: usize = 20;

/// The exit code of a run that failed nothing and did not judge everything: `EX_TEMPFAIL` of `sysexits.h`, try again later.
const NOT_JUDGED: u8 = 75;

/// Names a file into which every result is written, one JSON object in a line.
const RESULTS: &str = "LEASEHOLD_RESULTS";

/// Runs every case against every subject and reports in the form of `cargo test`: filters, `--list`, `--exact` and
/// `--test-threads` work. To be called first in `main`, because it also serves as the worker processes of the cases.
///
/// A case that has no meaning for a subject is `ignored`, with its reason. A case that fails is run again, alone; if this machine
/// was late then, the case is `ignored` as not judged, and the exit code is 75. A subject whose store is missing fails,
/// unless `LEASEHOLD_SKIP_MISSING` is set. A run without a filter in which nothing ran fails, and so does one with a
/// `LEASEHOLD_TIME_SCALE` that is none. `LEASEHOLD_RESULTS=FILE`
/// writes every [`CaseResult`] into a file, one JSON object in a line.
pub fn run(subjects: Vec<Box<dyn Subject>>) -> ExitCode {
    let subjects: Vec<Arc<dyn Subject>> = subjects.into_iter().map(Arc::from).collect();
    if let Some(done) = worker::serve_as_worker(&subjects) {
        return done;
    }
    if let Err(said) = said_time_scale() {
        let _ = writeln!(io::stderr(), "LEASEHOLD_TIME_SCALE is {said:?}, from 0.1 to 10");
        return ExitCode::FAILURE;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let (config, results) = (RunConfig::from_environment(), Results::default());
    let mut pairs: Vec<(&Arc<dyn Subject>, Case)> =
        subjects.iter().flat_map(|subject| all().map(move |case| (subject, case))).collect();
    if !arguments.list {
        mix(&mut pairs);
    }
    let trials = pairs.into_iter().map(|(subject, case)| trial(subject, case, &config, &results)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    conclude(&arguments, &conclusion, &results)
}

type Results = Arc<Mutex<Vec<CaseResult>>>;

fn trial(subject: &Arc<dyn Subject>, case: Case, config: &RunConfig, results: &Results) -> Trial {
    let name = format!("{}::{}", subject.name(), case.name());
    let (subject, config, results) = (Arc::clone(subject), config.clone(), Arc::clone(results));
    Trial::ignorable_test(name, move || {
        let Some(result) = judge(&subject, case, &config, || ()) else {
            return Ok(Completion::ignored_with("it was interrupted"));
        };
        lock(&results).push(result.clone());
        match result.outcome {
            CaseOutcome::Passed => Ok(Completion::Completed),
            CaseOutcome::Skipped { why } => Ok(Completion::ignored_with(why)),
            CaseOutcome::NotJudged { why } => Ok(Completion::ignored_with(format!("NOT JUDGED: {why}"))),
            CaseOutcome::Late { why } => Err(Failed::from(format!("late: {why}"))),
            CaseOutcome::Failed { why } => Err(Failed::from(why)),
        }
    })
}

fn conclude(arguments: &Arguments, conclusion: &Conclusion, results: &Results) -> ExitCode {
    let mut results = std::mem::take(&mut *lock(results));
    if let Some(file) = std::env::var_os(RESULTS)
        && let Err(error) = write(&results, Path::new(&file))
    {
        let _ = writeln!(io::stderr(), "{RESULTS}={}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    results.sort_by_key(|result| std::cmp::Reverse(result.took_ms));
    if results.len() > SLOWEST {
        let _ = tell_slowest(&results);
    }
    if results.len() > SLOWEST {
        let _ = tell_skipped(&results);
    }
    let ran = conclusion.num_passed + conclusion.num_failed;
    if ran == 0 && arguments.filter.is_none() && !arguments.list {
        let _ = writeln!(io::stderr(), "nothing ran: that is a failure");
        return ExitCode::FAILURE;
    }
    let not_judged = Tally::count(&results).not_judged;
    if not_judged > 0 && !conclusion.has_failed() {
        let _ = writeln!(
            io::stderr(),
            "{not_judged} cases were not judged: run them again on a machine that is less busy"
        );
        return ExitCode::from(NOT_JUDGED);
    }
    conclusion.exit_code()
}

fn write(results: &[CaseResult], file: &Path) -> io::Result<()> {
    let mut file = io::BufWriter::new(std::fs::File::create(file)?);
    for result in results {
        serde_json::to_writer(&mut file, result)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

fn tell_skipped(results: &[CaseResult]) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    skipped_by_reason(results)
        .into_iter()
        .try_for_each(|(why, cases)| writeln!(stderr, "not tested, {why}: {}", cases.join(" ")))
}

fn tell_slowest(results: &[CaseResult]) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    let total: u64 = results.iter().map(|result| result.took_ms).sum();
    writeln!(stderr, "{} cases took {} s, one after the other. The slowest:", results.len(), total / 1000)?;
    for result in &results[..SLOWEST] {
        writeln!(stderr, "{:7.1} s  {}", result.took_ms as f64 / 1000.0, result.name())?;
    }
    Ok(())
}
