use crate::args::ConfigVerb;
use leasehold::admin::{Finding, Severity};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, Invocation, OpenStore, print_json, safe, unprinted};
use std::io::{self, Write};

/// Looks at the configuration.
pub(super) async fn config(verb: &ConfigVerb, invocation: &Invocation) -> Result<Code, Failure> {
    match verb {
        ConfigVerb::Check { json } => check(*json, invocation).await,
        ConfigVerb::Show { json } => show(*json, invocation).await,
        ConfigVerb::Path => path(invocation),
    }
}

async fn check(json: bool, invocation: &Invocation) -> Result<Code, Failure> {
    let store = invocation.open().await?;
    let findings = store.admin()?.check().await?;
    if json {
        print_json(&findings).map_err(unprinted)?;
    } else {
        print(&findings, &store).map_err(unprinted)?;
    }
    let broken = findings.iter().any(|finding| finding.severity >= Severity::Error);
    Ok(if broken { Code::CONFIG } else { Code::SUCCESS })
}

fn print(findings: &[Finding], store: &OpenStore) -> io::Result<()> {
    let mut out = anstream::stdout();
    let url = store.config.url();
    if findings.is_empty() {
        return writeln!(out, "{url} answers, and nothing weakens its locks");
    }
    writeln!(out, "{url} answers")?;
    for finding in findings {
        let severity = match finding.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            _ => "error",
        };
        writeln!(out, "{severity}[{}]: {}", finding.code, safe(&finding.message))?;
        if !finding.help.is_empty() {
            writeln!(out, "  help     {}", safe(&finding.help))?;
        }
    }
    Ok(())
}

/// The backend is opened, which connects to nothing, because it alone knows the parameters of a profile.
async fn show(json: bool, invocation: &Invocation) -> Result<Code, Failure> {
    let config = invocation.load()?;
    invocation.registry.open(&config).await?;
    let entries = invocation.registry.show(&config);
    if json {
        print_json(&entries).map_err(unprinted)?;
        return Ok(Code::SUCCESS);
    }
    let lines: Vec<String> =
        entries.iter().map(|entry| format!("{} = {:?}", entry.key, entry.value)).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let mut out = io::stdout();
    for (line, entry) in lines.iter().zip(&entries) {
        writeln!(out, "{line:<width$}  # {}", entry.source).map_err(unprinted)?;
    }
    Ok(Code::SUCCESS)
}

/// The file that counts. If there is none, where one is looked for is a message, so that a script reads nothing.
fn path(invocation: &Invocation) -> Result<Code, Failure> {
    let sources = invocation.store.sources();
    let config = sources.load()?;
    match config.file() {
        Some(file) => writeln!(io::stdout(), "{}", file.display()).map_err(unprinted)?,
        None => {
            let places: Vec<String> =
                sources.search_path().iter().map(|path| path.display().to_string()).collect();
            invocation
                .console
                .note(format_args!("there is no configuration file; looked for {}", places.join(", ")));
        }
    }
    Ok(Code::SUCCESS)
}
