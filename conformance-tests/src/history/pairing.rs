use super::event::{DROPPED, HistoryEvent, Step};
use super::operation::{AcquireOutcome, Acquisition, Answer, Call, FaultSpan, History, HoldRecord, Write};
use leasehold_core::Fault;
use std::collections::HashMap;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

impl History {
    /// What all recorders have written in a directory. The error is that of the file system, or `InvalidData`, with file and line, or
    /// process and operation, for what no recorder can have written. A last line without an end is passed over: its writer was killed
    /// in the middle of it.
    pub(crate) fn read(directory: &Path) -> std::io::Result<Self> {
        let paired = Self::from_events(read_events(directory)?);
        paired.map_err(|why| Error::new(ErrorKind::InvalidData, format!("the history is none: {why}")))
    }

    /// The operations of these events, which are in the order of time.
    pub(crate) fn from_events(events: Vec<HistoryEvent>) -> Result<Self, String> {
        let mut pairing = Pairing::default();
        for event in events {
            let (process, op) = (event.process, event.op);
            pairing.take(event).map_err(|why| format!("operation {op} of process {process}: {why}"))?;
        }
        Ok(pairing.history)
    }
}

/// The events of all recorders in a directory, in the order of time.
fn read_events(directory: &Path) -> std::io::Result<Vec<HistoryEvent>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
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

fn read_file(path: &Path, events: &mut Vec<HistoryEvent>) -> std::io::Result<()> {
    let text = fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (index, line) in whole.lines().enumerate() {
        let read = serde_json::from_str(line);
        events.push(read.map_err(|error| {
            Error::new(ErrorKind::InvalidData, format!("{}:{}: {error}", path.display(), index + 1))
        })?);
    }
    Ok(())
}

/// Puts the answer of each operation to its question.
#[derive(Default)]
struct Pairing {
    history: History,
    /// What each operation is, and the place of its acquisition.
    begun: HashMap<(u32, u64), (Kind, usize)>,
}

#[derive(Clone, Copy)]
enum Kind {
    Acquisition,
    /// The renewal of this number.
    Renewal(usize),
    Release,
}

type Taken = Result<(), &'static str>;

const NO_QUESTION: &str = "an answer without a question";
const SECOND_ANSWER: &str = "a second answer";

impl Pairing {
    fn take(&mut self, HistoryEvent { at, process, op, step }: HistoryEvent) -> Taken {
        match step {
            Step::Acquire(asked) => {
                self.history.acquisitions.push(Acquisition {
                    name: asked.name,
                    process,
                    op,
                    asked_at: at,
                    ttl: from_millis(asked.ttl_ms),
                    wait: asked.wait_ms.map(from_millis),
                    renewed: asked.renewed,
                    mode: asked.mode,
                    permits: asked.permits,
                    ..Acquisition::default()
                });
                self.begin(process, op, Kind::Acquisition, self.history.acquisitions.len() - 1)?;
            }
            Step::Renew { hold, ttl_ms } => {
                let (index, hold) = self.hold(process, hold)?;
                let ttl = from_millis(ttl_ms);
                hold.renewals.push(Call { op, asked_at: at, ttl, ..Call::default() });
                let kind = Kind::Renewal(hold.renewals.len() - 1);
                self.begin(process, op, kind, index)?;
            }
            Step::Release { hold } => {
                let (index, hold) = self.hold(process, hold)?;
                if hold.release.is_some() {
                    return Err("a second release of one grant");
                }
                hold.release = Some(Call { op, asked_at: at, ..Call::default() });
                self.begin(process, op, Kind::Release, index)?;
            }
            Step::Observe { hold, held: true, until } => {
                let (_, hold) = self.hold(process, hold)?;
                hold.seen_until = hold.seen_until.max(until);
            }
            Step::Lost { hold } | Step::Observe { hold, held: false, .. } => {
                self.hold(process, hold)?.1.seen_ended.get_or_insert(at);
            }
            Step::Write(what) => self.history.writes.push(Write { at, process, op, what }),
            Step::Fault { fault, on, target } => self.fault(at, fault, on, target),
            answer => self.answered(at, process, op, &answer)?,
        }
        Ok(())
    }

    fn begin(&mut self, process: u32, op: u64, kind: Kind, acquisition: usize) -> Taken {
        match self.begun.insert((process, op), (kind, acquisition)) {
            None => Ok(()),
            Some(_) => Err("a number that was used before"),
        }
    }

    fn hold(&mut self, process: u32, op: u64) -> Result<(usize, &mut HoldRecord), &'static str> {
        if let Some((Kind::Acquisition, index)) = self.begun.get(&(process, op)).copied() {
            let acquisition = &mut self.history.acquisitions[index];
            if acquisition.is_granted() {
                return Ok((index, &mut acquisition.hold));
            }
        }
        Err("it concerns a grant that never was")
    }

    fn answered(&mut self, at: u64, process: u32, op: u64, answer: &Step) -> Taken {
        let (kind, index) = *self.begun.get(&(process, op)).ok_or(NO_QUESTION)?;
        let acquisition = &mut self.history.acquisitions[index];
        match kind {
            Kind::Acquisition => acquisition.answered(at, answer),
            Kind::Renewal(number) => acquisition.hold.renewed(number, at, answer),
            Kind::Release => acquisition.hold.release.as_mut().ok_or(NO_QUESTION)?.answered(at, answer),
        }
    }

    fn fault(&mut self, at: u64, fault: Fault, on: bool, target: Option<u32>) {
        let same = |span: &&mut FaultSpan| span.fault == fault && span.target == target;
        if on {
            self.history.faults.push(FaultSpan { fault, target, from: at, to: None });
        } else if let Some(span) = self.history.faults.iter_mut().rfind(same) {
            span.to.get_or_insert(at);
        }
    }
}

impl Acquisition {
    fn answered(&mut self, at: u64, answer: &Step) -> Taken {
        if self.answered_at.replace(at).is_some() {
            return Err(SECOND_ANSWER);
        }
        self.outcome = match answer {
            Step::Granted { token, until, slot } => {
                let (token, slot, until) = (*token, *slot, *until);
                self.hold = HoldRecord { token, slot, until, seen_until: until, ..HoldRecord::default() };
                AcquireOutcome::Granted
            }
            Step::Failed { why } if ["Busy", "TimedOut"].contains(&why.as_str()) => AcquireOutcome::Contended,
            Step::Failed { .. } => AcquireOutcome::Failed,
            Step::Unknown { why } => {
                self.was_dropped = why == DROPPED;
                AcquireOutcome::Unknown
            }
            _ => return Err(NO_QUESTION),
        };
        Ok(())
    }
}

impl HoldRecord {
    fn renewed(&mut self, number: usize, at: u64, answer: &Step) -> Taken {
        if let Step::Renewed { until } = answer {
            self.renewals[number].until = Some(*until);
            self.seen_until = self.seen_until.max(*until);
        }
        self.renewals[number].answered(at, answer)
    }
}

impl Call {
    fn answered(&mut self, at: u64, answer: &Step) -> Taken {
        if self.answered_at.replace(at).is_some() {
            return Err(SECOND_ANSWER);
        }
        self.answer = match answer {
            Step::Renewed { .. } | Step::Released => Answer::Ok,
            Step::Failed { .. } => Answer::Failed,
            Step::Unknown { .. } => Answer::Unknown,
            _ => return Err(NO_QUESTION),
        };
        Ok(())
    }
}

fn from_millis(millis: u64) -> u64 {
    millis.saturating_mul(1_000_000)
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
        assert!(error.contains(".jsonl:2: "), "{error}");
    }
}
