use super::event::HistoryEvent;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The key of a file's first line, whose value is the version of the format.
pub(super) const HEADER: &str = "leasehold-history";
/// Raised when a reader of the old one could misunderstand the new one. Fields are added without.
pub(super) const VERSION: u64 = 2;

/// The events of all recorders in a directory, in the order of time.
pub(super) fn read_events(directory: &Path) -> Result<Vec<HistoryEvent>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    // Events of one moment stand in the same order whenever they are read.
    files.sort();
    let mut events = Vec::new();
    for file in files {
        read_file(&file, &mut events)?;
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

fn read_file(path: &Path, events: &mut Vec<HistoryEvent>) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (index, line) in whole.lines().enumerate() {
        let read = match index {
            0 => check_header(line),
            _ => serde_json::from_str(line).map(|event| events.push(event)).map_err(Error::from),
        };
        read.map_err(|error| {
            Error::new(ErrorKind::InvalidData, format!("{}:{}: {error}", path.display(), index + 1))
        })?;
    }
    Ok(())
}

fn check_header(line: &str) -> Result<()> {
    let header: serde_json::Value = serde_json::from_str(line)?;
    match header.get(HEADER).and_then(serde_json::Value::as_u64) {
        Some(VERSION) => Ok(()),
        Some(other) => Err(Error::other(format!("version {other} of the format, {VERSION} is known"))),
        None => Err(Error::other(format!("no history: its first line has no {HEADER:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Recorder, Step};
    use leasehold_core::Fault;
    use std::io::Write;

    #[test]
    fn events_of_several_recorders_come_back_in_the_order_of_time() {
        let directory = tempfile::tempdir().unwrap();
        let recorders = [0; 3].map(|_| Recorder::create(directory.path()).unwrap());
        for round in 0..20 {
            recorders[round % 3].injected(Fault::HolderPaused, Some(7)).unwrap();
        }
        let events = read_events(directory.path()).unwrap();
        assert_eq!(events.len(), 20);
        assert!(events.is_sorted_by(|one, next| one.at <= next.at && one.op < next.op), "{events:?}");
        let step = Step::Fault { fault: Fault::HolderPaused, on: true, target: Some(7) };
        assert_eq!(events[0].step, step);
    }

    #[test]
    fn line_without_an_end_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(directory.path()).unwrap();
        recorder.injected(Fault::StorePaused, None).unwrap();
        let file = fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(b"{\"at\":12,\"proc").unwrap();
        assert_eq!(read_events(directory.path()).unwrap().len(), 1);
        file.write_all(b"\n").unwrap();
        let error = read_events(directory.path()).unwrap_err().to_string();
        assert!(error.contains(".jsonl:3: "), "{error}");
    }

    #[test]
    fn unknown_version_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("1-1.jsonl"), "{\"leasehold-history\":1}\n").unwrap();
        let error = read_events(directory.path()).unwrap_err().to_string();
        assert!(error.ends_with("1-1.jsonl:1: version 1 of the format, 2 is known"), "{error}");
    }
}
