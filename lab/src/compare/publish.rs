//! Reads reports, writes them, prints them.

use super::model::{Report, SCHEMA};
use super::render::{html, markdown, terminal};
use super::view::View;
use crate::args::ReportFormat;
use leasehold::Error;
use leasehold_console::{Failure, unprinted};
use std::io::{self, Write};
use std::path::Path;

/// A report that was written before.
pub(super) fn read(file: &Path) -> Result<Report, Failure> {
    let invalid = |problem: &dyn std::fmt::Display| {
        let problem = format!("{}: {problem}", file.display());
        Failure::new(Error::invalid(
            "report",
            problem,
            "name a report.json that leasehold compare has written",
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| invalid(&error))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => {
            return Err(invalid(&format_args!("its schema is {schema}, and this command's {SCHEMA}")));
        }
        None => return Err(invalid(&"it is no report: it has no schema")),
    }
    serde_json::from_value(value).map_err(|error| invalid(&error))
}

/// Makes the directory, before anything is measured: what cannot be written in the end is known at the beginning.
pub(super) fn make_room(directory: Option<&Path>) -> Result<(), Failure> {
    let Some(directory) = directory else { return Ok(()) };
    std::fs::create_dir_all(directory).map_err(|error| {
        let problem = format!("{}: {error}", directory.display());
        Failure::new(Error::invalid("out", problem, "name a directory that you may write to"))
    })
}

/// Writes all forms into the directory, if there is one, and prints one of them.
pub(super) fn publish(
    report: &Report,
    directory: Option<&Path>,
    format: ReportFormat,
) -> Result<(), Failure> {
    let view = View::of(report);
    let json = serde_json::to_string_pretty(report);
    let json = json.map_err(|error| Failure::internal("cannot write the report", error))? + "\n";
    if let Some(directory) = directory {
        let files = [
            ("report.json", json.clone()),
            ("report.md", markdown::render(&view)),
            ("report.html", html::render(&view)?),
        ];
        for (name, text) in files {
            let written = std::fs::write(directory.join(name), text);
            written.map_err(|error| Failure::internal("cannot write the report", error))?;
        }
    }
    let printed = match format {
        ReportFormat::Terminal => terminal::print(&view, directory),
        ReportFormat::Json => print(&json),
        ReportFormat::Markdown => print(&markdown::render(&view)),
        ReportFormat::Html => print(&html::render(&view)?),
    };
    printed.map_err(unprinted)
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
