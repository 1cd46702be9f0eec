//! The matrix over the backends of this workspace: every fault under every store, one named line each; and negative
//! controls of the matrix itself, and of the soak, which draws from the same faults.
//!
//! `LEASEHOLD_SEED` repeats the choices of a run; to the file that `LEASEHOLD_MATRIX_JSON` names, each cell is added as
//! a line of JSON when it is finished.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

mod controls;
mod soak;
mod tame;

use leasehold_conformance::matrix::{Cell, Matrix, State, cell_name};
use leasehold_conformance::server::disk_missing;
use leasehold_conformance::{Subject, serve_as_worker};
use leasehold_core::{Fault, Outcome};
use leasehold_test_stores::servers::shared_folder_missing;
use leasehold_test_stores::stores;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock, Mutex};

fn main() -> ExitCode {
    let subjects: Vec<Arc<dyn Subject>> = stores::all().into_iter().map(Arc::from).collect();
    let honest = Arc::clone(controls::named("redis", &subjects));
    if let Some(done) = serve_as_worker(&[subjects.clone(), controls::subjects(&subjects)].concat()) {
        return done;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(Matrix::THREADS);
    let seed = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let [controls, waiting_controls] = [false, true].map(|tame| controls::trials(&subjects, seed, tame));
    let matrix = Arc::new(Matrix::new(&subjects, seed));
    let file = std::env::var_os("LEASEHOLD_MATRIX_JSON")
        .map(|path| Mutex::new(OpenOptions::new().append(true).create(true).open(path).unwrap()));
    let file = Arc::new(file);
    // Fault by fault, so that the stores of several servers, of which few play at a time, do not stand together.
    let mut pairs: Vec<_> = matrix.all().collect();
    pairs.sort_by_key(|(_, fault)| *fault as usize);
    let reader = |subject: &Arc<dyn Subject>| reader_trial(&matrix, Arc::clone(subject), &file);
    let readers: Vec<Trial> = subjects.iter().map(reader).collect();
    let cells = pairs.into_iter().map(|(subject, fault)| trial(&matrix, subject, fault, &file));
    let of_the_run = Trial::test("controls::fault_weaker_than_in_the_committed_run", weaker_faults_are_found);
    let controls = controls.into_iter().chain([of_the_run]);
    // Controls need a machine that is on time: they come when few cells are left. A control without a fault waits for one, which takes
    // longest: it comes first.
    let first = soak::trials(&honest).into_iter().chain(waiting_controls);
    let trials = first.chain(readers).chain(cells).chain(controls).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if conclusion.num_passed + conclusion.num_failed == 0 && arguments.filter.is_none() && !arguments.list {
        let _ = writeln!(std::io::stderr(), "nothing ran: that is a failure");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(
    matrix: &Arc<Matrix>,
    subject: Arc<dyn Subject>,
    fault: Fault,
    file: &Arc<Option<Mutex<File>>>,
) -> Trial {
    let name = cell_name(subject.name(), fault);
    let (matrix, file) = (Arc::clone(matrix), Arc::clone(file));
    Trial::ignorable_test(name, move || {
        let cell = matrix.play(&subject, fault, false).ok_or("it was interrupted")?;
        append(&file, &cell);
        completion(&cell)
    })
}

fn append(file: &Option<Mutex<File>>, cell: &Cell) {
    if let Some(file) = file {
        writeln!(file.lock().unwrap(), "{}", serde_json::to_string(cell).unwrap()).unwrap();
    }
}

/// The store whose readers are changed by the same code as those of this one. The faults that only several servers have are made
/// under a writer in each run, and under readers by `scripts/matrix`.
fn has_readers_as(subject: &str) -> Option<&'static str> {
    Some(match subject {
        "sqlite" | "mariadb" | "mariadb-optimistic" | "postgres-optimistic" => "postgres",
        "mariadb-for-update" => "postgres-for-update",
        "redis-sentinel" | "redis-cluster" => "redis",
        "etcd-ensemble" => "etcd",
        "zookeeper-ensemble" => "zookeeper",
        _ => return None,
    })
}

/// All faults under a reader, in one line.
fn reader_trial(matrix: &Arc<Matrix>, subject: Arc<dyn Subject>, file: &Arc<Option<Mutex<File>>>) -> Trial {
    let (matrix, file) = (Arc::clone(matrix), Arc::clone(file));
    Trial::ignorable_test(format!("{}::faults_under_a_reader", subject.name()), move || {
        if file.is_none()
            && let Some(other) = has_readers_as(subject.name())
        {
            let why = format!("played by scripts/matrix: its readers are those of {other}");
            return Ok(Completion::ignored_with(why));
        }
        let cells: Vec<Cell> = std::thread::scope(|scope| {
            let play = |fault| {
                scope.spawn({
                    let (matrix, subject) = (&matrix, &subject);
                    move || matrix.play(subject, fault, true)
                })
            };
            let playing = Fault::ALL.map(play);
            playing.into_iter().filter_map(|cell| cell.join().unwrap()).collect()
        });
        cells.iter().for_each(|cell| append(&file, cell));
        let verdicts = cells.iter().map(completion).collect::<Result<Vec<_>, _>>()?;
        let was_played = |verdict: &Completion| matches!(verdict, Completion::Completed);
        let is_played = verdicts.iter().any(was_played);
        Ok(verdicts.into_iter().next().filter(|_| !is_played).unwrap_or(Completion::Completed))
    })
}

static COMMITTED: LazyLock<Vec<Cell>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../fixtures/matrix.json")).unwrap());

/// The same cell in the run that is written down.
fn committed(cell: &Cell) -> Option<&'static Cell> {
    let place = |cell: &Cell| (cell.subject.clone(), cell.fault, cell.reader);
    COMMITTED.iter().find(|other| place(other) == place(cell))
}

/// What a machine on which nothing is missing can play, by a user who may mount. A hook that fails is not to pass for a
/// fault that cannot be made.
fn was_played(cell: &Cell) -> bool {
    committed(cell).is_some_and(|cell| !matches!(cell.state, State::NotRun { .. }))
}

/// True if a cell that is better than in the committed run must have had a weaker fault. Whether a holder hears of its loss
/// before another client has the lock is a race, which may end either way; it is no race if nothing is lost at all, or if a
/// store grants that can grant nothing.
fn is_weaker_than_it_was(cell: &Cell) -> bool {
    let as_before = |other: &Cell| other.state == State::Kept && other.promised == cell.promised;
    committed(cell).is_some_and(as_before)
        && (cell.promised == Outcome::Unavailable || !cell.figures.lost_something())
}

/// The run that is written down, with cells in it that are better all at once.
fn weaker_faults_are_found() -> Result<(), Failed> {
    let found = |(subject, reader): (&str, bool), fault: Fault, loses: Option<f64>| {
        let is_meant = |cell: &&Cell| (&*cell.subject, cell.reader, cell.fault) == (subject, reader, fault);
        let mut cell = COMMITTED.iter().find(is_meant).unwrap().clone();
        cell.state = State::Better;
        (cell.figures.detected_ms, cell.figures.recovered_ms) = (loses, None);
        completion(&cell).is_err()
    };
    // In this order: a grant although no client can write; no loss although a restart loses all; a loss that no other client
    // was faster than; a cell that has always been better.
    let told = [
        found(("redis", false), Fault::DiskFull, Some(1_400.0)),
        found(("redis", true), Fault::StoreRestarted, None),
        found(("redis", false), Fault::StoreRestarted, Some(1_400.0)),
        found(("postgres-for-update", false), Fault::StoreClockForward, None),
    ];
    if told == [true, true, false, false] { Ok(()) } else { Err(Failed::from(format!("{told:?}"))) }
}

/// True if the fault needs a mount that this user cannot make: a disk of the server's own that loses its power or is full, or
/// a shared folder. Redis loses its power without a mount, and only SQLite needs one for a full disk.
fn cannot_be_mounted(cell: &Cell) -> bool {
    match cell.fault {
        Fault::PowerLost => !cell.subject.starts_with("red") && disk_missing().is_some(),
        Fault::DiskFull => cell.subject == "sqlite" && disk_missing().is_some(),
        Fault::NetworkFileSystem => shared_folder_missing().is_some(),
        _ => false,
    }
}

fn skips_missing() -> bool {
    std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some()
}

fn completion(cell: &Cell) -> Result<Completion, Failed> {
    match &cell.state {
        State::Better if is_weaker_than_it_was(cell) => Err(Failed::from(format!(
            "more than fixtures/matrix.json has: is the fault still made?\n{}",
            serde_json::to_string_pretty(cell).unwrap()
        ))),
        State::Kept | State::Better => Ok(Completion::Completed),
        State::NotApplicable { why } => Ok(Completion::ignored_with(format!("not applicable: {why}"))),
        State::NotRun { why } if was_played(cell) && !skips_missing() && !cannot_be_mounted(cell) => {
            Err(Failed::from(format!("fixtures/matrix.json has it, and it was not played now: {why}")))
        }
        State::NotRun { why } => Ok(Completion::ignored_with(format!("not run: {why}"))),
        State::Broken { why } | State::Late { why } | State::Void { why } | State::NotJudged { why } => {
            Err(Failed::from(format!("{why}\n{}", serde_json::to_string_pretty(cell).unwrap())))
        }
    }
}
