use super::result::{CaseOutcome, CaseResult, Tally, skipped_by_reason};
use super::run::{Run, mix};
use crate::case::Case;
use crate::locked;
use crate::subject::Subject;
use crate::time_scale::said_time_scale;
use crate::worker;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

/// How many of the slowest cases are named at the end of a run that has more of them.
const SLOWEST: usize = 20;

/// The exit code of a run that failed nothing and did not judge everything: `EX_TEMPFAIL` of `sysexits.h`, try again later.
const NOT_JUDGED: u8 = 75;

/// Names a file into which every result is written, one JSON object in a line.
const RESULTS: &str = "LEASEHOLD_RESULTS";

/// Runs every case against every subject and reports in the form of `cargo test`: filters, `--list`, `--exact` and
/// `--test-threads` work. To be called first in `main`, because it also serves as the worker processes of the cases.
///
/// A case that has no meaning for a subject is `ignored`, with its reason. A case that fails is run again, alone; if this machine
/// was late then, the case is `ignored` as not judged, and the exit code is 75; so it is where a program that a case needs is missing,
/// unless `LEASEHOLD_SKIP_MISSING` is set. A run without a filter in which nothing ran fails, and so does one with a
/// `LEASEHOLD_TIME_SCALE` that is none. `LEASEHOLD_RESULTS=FILE` writes every [`CaseResult`] into a file, one JSON object in a line.
pub fn run(subjects: Vec<Box<dyn Subject>>) -> ExitCode {
    let subjects: Vec<Arc<dyn Subject>> = subjects.into_iter().map(Arc::from).collect();
    if let Some(done) = worker::serve_as_worker(&subjects) {
        return done;
    }
    if let Err(said) = said_time_scale() {
        return failure(format_args!("LEASEHOLD_TIME_SCALE is {said:?}, from 0.1 to 10"));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(Run::THREADS);
    let (run, results) = (Arc::new(Run::new(subjects)), Results::default());
    let mut plan = run.plan();
    if !arguments.list {
        mix(&mut plan);
    }
    let trials = plan.into_iter().map(|(subject, case)| trial(&run, subject, case, &results)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let results = std::mem::take(&mut *locked(&results));
    conclude(&arguments, &conclusion, results)
}

type Results = Arc<Mutex<Vec<CaseResult>>>;

fn trial(run: &Arc<Run>, subject: Arc<dyn Subject>, case: Case, results: &Results) -> Trial {
    let name = format!("{}::{}", subject.name(), case.name());
    let (run, results) = (Arc::clone(run), Arc::clone(results));
    Trial::ignorable_test(name, move || {
        let Some(result) = run.one(&subject, case, &|_| ()) else {
            return Ok(Completion::ignored_with("it was interrupted"));
        };
        locked(&results).push(result.clone());
        completion(result.outcome)
    })
}

fn completion(outcome: CaseOutcome) -> Result<Completion, Failed> {
    match outcome {
        CaseOutcome::Passed => Ok(Completion::Completed),
        CaseOutcome::Skipped { why } => Ok(Completion::ignored_with(why)),
        CaseOutcome::NotJudged { why } => Ok(Completion::ignored_with(format!("NOT JUDGED: {why}"))),
        CaseOutcome::Late { why } => Err(Failed::from(format!("late: {why}"))),
        CaseOutcome::Failed { why } => Err(Failed::from(why)),
    }
}

fn conclude(arguments: &Arguments, conclusion: &Conclusion, mut results: Vec<CaseResult>) -> ExitCode {
    if let Some(file) = std::env::var_os(RESULTS)
        && let Err(error) = write(&results, Path::new(&file))
    {
        return failure(format_args!("{RESULTS}={}: {error}", file.display()));
    }
    results.sort_by_key(|result| std::cmp::Reverse(result.took_ms));
    let _ = if results.is_empty() { Ok(()) } else { tell(&results) };
    let not_judged = Tally::count(&results).not_judged;
    if not_judged > 0 && !conclusion.has_failed() {
        failure(format_args!("{not_judged} cases were not judged, and their lines say why"));
        return ExitCode::from(NOT_JUDGED);
    }
    if conclusion.num_passed + conclusion.num_failed == 0 && arguments.filter.is_none() && !arguments.list {
        return failure(format_args!("nothing ran: that is a failure"));
    }
    conclusion.exit_code()
}

fn failure(words: std::fmt::Arguments<'_>) -> ExitCode {
    let _ = writeln!(io::stderr(), "{words}");
    ExitCode::FAILURE
}

fn write(results: &[CaseResult], file: &Path) -> io::Result<()> {
    let lines = results.iter().map(|result| Ok(serde_json::to_string(result)? + "\n"));
    std::fs::write(file, lines.collect::<io::Result<String>>()?)
}

/// What took long, what was run again, and what was not tested. The results begin with the slowest.
fn tell(results: &[CaseResult]) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    let total: u64 = results.iter().map(|result| result.took_ms).sum();
    writeln!(stderr, "{} cases took {} s, one after the other. The slowest:", results.len(), total / 1000)?;
    for result in results.iter().take(SLOWEST) {
        writeln!(stderr, "{:7.1} s  {}", result.took_ms as f64 / 1000.0, result.name())?;
    }
    for result in results {
        if let Some(why) = &result.at_first {
            writeln!(stderr, "run again, {}: {}", result.name(), why.lines().next().unwrap_or_default())?;
        }
    }
    for (why, cases) in skipped_by_reason(results) {
        writeln!(stderr, "not tested, {why}: {}", cases.join(" "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::by_id;
    use std::time::Duration;

    fn why() -> String {
        "it".to_owned()
    }

    #[test]
    fn line_of_a_case_is_ok_ignored_or_failed() {
        let of = |outcome| match completion(outcome) {
            Ok(Completion::Completed) => "ok".to_owned(),
            Ok(Completion::Ignored { reason }) => format!("ignored, {}", reason.unwrap_or_default()),
            Err(failed) => format!("failed, {}", failed.message().unwrap_or_default()),
        };
        assert_eq!(of(CaseOutcome::Passed), "ok");
        assert_eq!(of(CaseOutcome::Skipped { why: why() }), "ignored, it");
        assert_eq!(of(CaseOutcome::NotJudged { why: why() }), "ignored, NOT JUDGED: it");
        assert_eq!(of(CaseOutcome::Late { why: why() }), "failed, late: it");
        assert_eq!(of(CaseOutcome::Failed { why: why() }), "failed, it");
    }

    #[test]
    fn run_fails_if_nothing_ran_and_is_not_judged_if_nothing_else_failed() {
        let code = |num_passed, num_failed, outcome: CaseOutcome| {
            let (num_filtered_out, num_ignored, num_measured) = (0, 0, 0);
            let run = Conclusion { num_filtered_out, num_passed, num_failed, num_ignored, num_measured };
            let case = CaseResult::new("redis", by_id("A02").unwrap(), Ok(()), Duration::ZERO);
            format!("{:?}", conclude(&Arguments::default(), &run, vec![CaseResult { outcome, ..case }]))
        };
        let is = |code: u8| format!("{:?}", ExitCode::from(code));
        let open = || CaseOutcome::NotJudged { why: why() };
        assert_eq!(code(1, 0, CaseOutcome::Passed), is(0));
        assert_eq!(code(0, 0, CaseOutcome::Skipped { why: why() }), is(1));
        assert_eq!(code(1, 0, open()), is(75));
        assert_eq!(code(0, 0, open()), is(75));
        assert_eq!(code(1, 1, open()), is(101));
    }
}
