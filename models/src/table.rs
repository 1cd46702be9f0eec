//! The table of the runs in `docs/generated/models.md`. With `LEASEHOLD_WRITE_TABLES=1` each run writes its own row; otherwise
//! it is held against it.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/generated/models.md");
const BEGIN: &str = "<!-- models: begin. Written by the runs of `models/` -->\n| run | within | states | s |\n|---|---|---:|---:|\n";
const END: &str = "<!-- models: end -->";

/// The runs of one program write one after the other; cargo runs one program after the other.
static WRITING: Mutex<()> = Mutex::new(());

/// What a run has done. How long it took is not compared: that is for the machine to say.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Row {
    model: String,
    run: String,
    within: String,
    seen: String,
    seconds: String,
}

/// Holds what the present test has seen against its row, or writes that.
pub(crate) fn agrees(within: &str, seen: &str, seconds: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let [within, seen, seconds] = [within, seen, seconds].map(str::to_owned);
    let row = Row { model: model(), run: in_words(&test), within, seen, seconds };
    if is_to_be_written() {
        return change(|rows| {
            rows.retain(|other| !other.is_of_the_run(&row));
            rows.push(row.clone());
        });
    }
    let written = rows().into_iter().find(|other| other.is_of_the_run(&row));
    let written = written.map(|written| Row { seconds: row.seconds.clone(), ..written });
    assert_eq!(
        Some(row),
        written,
        "docs/generated/models.md says otherwise: LEASEHOLD_WRITE_TABLES=1 cargo test -p leasehold-models -- --test-threads 1"
    );
}

/// Holds the rows of a model against the tests of its program, in which this is one; or deletes those of other runs.
pub fn names_the_runs_of_this_program() {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("this program is nowhere: {error}"));
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output();
    let listed = listed.unwrap_or_else(|error| panic!("this program does not run: {error}"));
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let this = std::thread::current().name().unwrap_or_default().to_owned();
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test")).filter(|test| *test != this);
    let mut runs: Vec<String> = tests.map(in_words).collect();
    let model = model();
    if is_to_be_written() {
        return change(|rows| rows.retain(|row| row.model != model || runs.contains(&row.run)));
    }
    let mut written: Vec<String> =
        rows().into_iter().filter(|row| row.model == model).map(|row| row.run).collect();
    written.sort();
    runs.sort();
    assert_eq!(written, runs, "docs/generated/models.md has other runs of {model}");
}

fn is_to_be_written() -> bool {
    std::env::var_os("LEASEHOLD_WRITE_TABLES").is_some()
}

/// Cargo calls it `zookeeper-` and a hash.
fn model() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    name.split('-').next().unwrap_or_default().to_owned()
}

fn in_words(test: &str) -> String {
    test.replace('_', " ")
}

fn rows() -> Vec<Row> {
    let (_, table, _) = document();
    table.lines().filter_map(Row::parse).collect()
}

/// What stands before the rows, the rows, and what stands after them.
fn document() -> (String, String, String) {
    let text = fs::read_to_string(DOCUMENT).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (table, after))) = parts else { panic!("{DOCUMENT} has no table of the models") };
    (before.to_owned(), table.to_owned(), after.to_owned())
}

fn change(change: impl FnOnce(&mut Vec<Row>)) {
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows = rows();
    change(&mut rows);
    rows.sort_by(|one, other| one.place().cmp(&other.place()));
    let table: String = rows.iter().map(Row::line).collect();
    let (before, _, after) = document();
    let text = [&before, BEGIN, &table, END, &after].concat();
    fs::write(DOCUMENT, text).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", run, within, seen, seconds, ""] = cells[..] else { return None };
        let (model, run) = run.split_once(": ")?;
        let [model, run, within, seen, seconds] = [model, run, within, seen, seconds].map(str::to_owned);
        Some(Self { model: model.replace('`', ""), run, within, seen, seconds })
    }

    fn line(&self) -> String {
        let Self { model, run, within, seen, seconds } = self;
        format!("| `{model}`: {run} | {within} | {seen} | {seconds} |\n")
    }

    fn is_of_the_run(&self, other: &Self) -> bool {
        self.model == other.model && self.run == other.run
    }

    /// What was explored to its end stands before what was refuted.
    fn place(&self) -> (&str, bool, &str) {
        (&self.model, self.seconds.is_empty(), &self.run)
    }
}
