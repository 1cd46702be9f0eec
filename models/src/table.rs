//! The table of results in `docs/generated/models.md`. With `LEASEHOLD_WRITE_TABLES=1` each run writes its own row; otherwise it
//! compares its result with that row. A run is one test of a model, and is named like it.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/generated/models.md");
const BEGIN: &str = "<!-- models: begin. Written by the runs of `models/` -->\n| run | within | states | s |\n|---|---|---:|---:|\n";
const END: &str = "<!-- models: end -->";

/// Serializes the writes of one test binary; cargo runs the binaries one after the other.
static WRITE_LOCK: Mutex<()> = Mutex::new(());

#[derive(Clone, Debug, Eq, PartialEq)]
struct Row {
    model: String,
    run: String,
    bounds: String,
    /// The number of states, or the refuted property.
    result: String,
    /// CPU time, empty if a property was refuted. It depends on the host, and is not compared.
    seconds: String,
}

/// Compares the result of the current test with its row, or writes the row.
pub(crate) fn check_run(bounds: &str, result: &str, seconds: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let [bounds, result, seconds] = [bounds, result, seconds].map(str::to_owned);
    let row = Row { model: model_name(), run: run_name(&test), bounds, result, seconds };
    if is_writing() {
        return update_rows(|rows| {
            rows.retain(|other| !other.is_same_run(&row));
            rows.push(row.clone());
        });
    }
    let recorded = read_rows().into_iter().find(|other| other.is_same_run(&row));
    let recorded = recorded.map(|recorded| Row { seconds: row.seconds.clone(), ..recorded });
    assert_eq!(
        Some(row),
        recorded,
        "docs/generated/models.md differs: LEASEHOLD_WRITE_TABLES=1 cargo test -p leasehold-models -- --test-threads 1"
    );
}

/// Compares the rows of this model with the tests of this binary, apart from the current one; or deletes the rows without a test.
pub fn check_run_list() {
    let binary = std::env::current_exe().unwrap_or_else(|error| panic!("path of the test binary: {error}"));
    let list = Command::new(binary).args(["--list", "--format", "terse"]).output();
    let list = list.unwrap_or_else(|error| panic!("list of tests: {error}"));
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let current = std::thread::current().name().unwrap_or_default().to_owned();
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test")).filter(|test| *test != current);
    let mut runs: Vec<String> = tests.map(run_name).collect();
    let model = model_name();
    if is_writing() {
        return update_rows(|rows| rows.retain(|row| row.model != model || runs.contains(&row.run)));
    }
    let mut recorded: Vec<String> =
        read_rows().into_iter().filter(|row| row.model == model).map(|row| row.run).collect();
    recorded.sort();
    runs.sort();
    assert_eq!(recorded, runs, "docs/generated/models.md has other runs of {model}");
}

fn is_writing() -> bool {
    std::env::var_os("LEASEHOLD_WRITE_TABLES").is_some()
}

/// `zookeeper`, if Cargo has named the test binary `zookeeper-` and a hash.
fn model_name() -> String {
    let binary = std::env::args().next().unwrap_or_default();
    let name = binary.rsplit(['/', '\\']).next().unwrap_or_default();
    name.split('-').next().unwrap_or_default().to_owned()
}

fn run_name(test: &str) -> String {
    test.replace('_', " ")
}

fn read_rows() -> Vec<Row> {
    let (_, table, _) = read_document();
    table.lines().filter_map(Row::parse).collect()
}

/// The text before the rows, the rows, and the text after them.
fn read_document() -> (String, String, String) {
    let text = fs::read_to_string(DOCUMENT).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (table, after))) = parts else { panic!("{DOCUMENT} has no table of the models") };
    (before.to_owned(), table.to_owned(), after.to_owned())
}

fn update_rows(update: impl FnOnce(&mut Vec<Row>)) {
    let _guard = WRITE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows = read_rows();
    update(&mut rows);
    rows.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
    let table: String = rows.iter().map(Row::to_markdown).collect();
    let (before, _, after) = read_document();
    let text = [&before, BEGIN, &table, END, &after].concat();
    fs::write(DOCUMENT, text).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", run, bounds, result, seconds, ""] = cells[..] else { return None };
        let (model, run) = run.split_once(": ")?;
        let [model, run, bounds, result, seconds] = [model, run, bounds, result, seconds].map(str::to_owned);
        Some(Self { model: model.replace('`', ""), run, bounds, result, seconds })
    }

    fn to_markdown(&self) -> String {
        let Self { model, run, bounds, result, seconds } = self;
        format!("| `{model}`: {run} | {bounds} | {result} | {seconds} |\n")
    }

    fn is_same_run(&self, other: &Self) -> bool {
        self.model == other.model && self.run == other.run
    }

    /// By model; in each, the runs that explored everything stand before those that refuted a property.
    fn sort_key(&self) -> (&str, bool, &str) {
        (&self.model, self.seconds.is_empty(), &self.run)
    }
}
