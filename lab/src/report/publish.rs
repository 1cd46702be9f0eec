//! Reads reports, writes them, prints them.

use super::findings::Findings;
use super::terminal;
use super::{Report, SCHEMA};
use crate::args::ReportFormat;
use crate::result_file::{can_be_written, write_result};
use crate::template::render;
use leasehold::Error;
use leasehold_console::{Failure, unprinted};
use minijinja::context;
use minijinja::value::Serde;
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// The file in a directory of a report that the others are made from.
const DATA: &str = "report.json";

/// A report that was written before.
pub(crate) fn read(file: &Path) -> Result<Report, Failure> {
    let invalid = |problem: &dyn Display, help: &'static str| {
        Failure::new(Error::invalid("report", format!("{}: {problem}", file.display()), help))
    };
    let name_one = "name a report.json that leasehold compare has written";
    let text = std::fs::read_to_string(file).map_err(|error| invalid(&error, name_one))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| invalid(&error, name_one))?;
    match value.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => {
            let problem = format_args!("its schema is {schema}, and this command's {SCHEMA}");
            return Err(invalid(
                &problem,
                "use the version of leasehold that has written it, or compare again",
            ));
        }
        None => return Err(invalid(&"it is no report: it has no schema", name_one)),
    }
    let by = value.get("leasehold").and_then(Value::as_str).unwrap_or_default().to_owned();
    serde_json::from_value(value).map_err(|error| {
        let problem = format_args!("{error}; it was written by leasehold {by}");
        invalid(&problem, "use the version of leasehold that has written it, or a later one")
    })
}

/// Makes the directory, before anything is measured: what cannot be written in the end is known at the beginning. Refuses one that has
/// a report, but for the one that is `rendered` again.
pub(crate) fn make_room(directory: Option<&Path>, rendered: Option<&Path>) -> Result<(), Failure> {
    let Some(directory) = directory else { return Ok(()) };
    let invalid = |problem: &dyn Display, help: &'static str| {
        Failure::new(Error::invalid("out", format!("{}: {problem}", directory.display()), help))
    };
    std::fs::create_dir_all(directory)
        .map_err(|error| invalid(&error, "name a directory that you may write to"))?;
    let data = directory.join(DATA);
    let is_rendered = rendered.is_some_and(|file| file.canonicalize().ok() == data.canonicalize().ok());
    if data.exists() && !is_rendered {
        return Err(invalid(&"it has a report already", "name another directory, or delete that report"));
    }
    can_be_written("out", Some(&data))
}

/// Writes all forms into the directory, if there is one, and prints one of them. If they cannot be written, all is printed.
pub(crate) fn publish(
    report: &Report,
    directory: Option<&Path>,
    format: ReportFormat,
) -> Result<(), Failure> {
    let Some(directory) = directory else { return print(report, format) };
    let findings = Findings::of(report);
    let written = write(directory, &report.to_json()?, &findings);
    let printed = match (format, &written) {
        (ReportFormat::Terminal, Ok(())) => terminal::print(&findings, Some(directory)).map_err(unprinted),
        _ => print(report, format),
    };
    written.and(printed)
}

/// Prints all of it.
pub(crate) fn print(report: &Report, format: ReportFormat) -> Result<(), Failure> {
    let findings = || Findings::of(report);
    let text = match format {
        ReportFormat::Terminal => return terminal::print(&findings(), None).map_err(unprinted),
        ReportFormat::Json => report.to_json()?,
        ReportFormat::Markdown => markdown(&findings())?,
        ReportFormat::Html => html(&findings())?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(unprinted)
}

/// The data first: the others can be made from them again. A report that is rendered again keeps them as they are.
fn write(directory: &Path, json: &str, findings: &Findings) -> Result<(), Failure> {
    if !directory.join(DATA).exists() {
        write_result(&directory.join(DATA), json.as_bytes())?;
    }
    write_result(&directory.join("report.md"), markdown(findings)?.as_bytes())?;
    write_result(&directory.join("report.html"), html(findings)?.as_bytes())
}

/// For a pull request or a wiki.
fn markdown(findings: &Findings) -> Result<String, Failure> {
    render("report.md", include_str!("report.md"), minijinja::Value::from(Serde(findings)))
}

/// One page that needs nothing else: no script, no request, and its own style.
fn html(findings: &Findings) -> Result<String, Failure> {
    let style = minijinja::Value::from_safe_string(include_str!("page.css").to_owned());
    let findings = minijinja::Value::from(Serde(findings));
    render("report.html", include_str!("report.html"), context! { style, ..findings })
}
