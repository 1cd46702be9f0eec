use super::event::{Asked, DROPPED, Extended, Granted, HistoryEvent, HoldRef, Injected, Phase, Step, Until};
use super::operation::{
    AcquireOutcome, Acquisition, Answer, Call, FaultSpan, History, HoldRecord, Renewal, Write,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A list of events that no recorder can have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    process: u32,
    op: u64,
    what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} of process {}: {}", self.op, self.process, self.what)
    }
}

impl std::error::Error for Malformed {}

impl History {
    /// The operations of these events, which are in the order of time.
    ///
    /// # Errors
    ///
    /// [`Malformed`]: an answer without a question, a second answer, something that concerns a grant that never was.
    pub fn from_events(events: Vec<HistoryEvent>) -> Result<Self, Malformed> {
        let mut pairing = Pairing::default();
        for event in events {
            let (process, op) = (event.process, event.op);
            pairing.take(event).map_err(|what| Malformed { process, op, what })?;
        }
        Ok(pairing.history)
    }
}

/// Puts the phases of each operation together.
#[derive(Default)]
struct Pairing {
    history: History,
    names: HashMap<String, u32>,
    /// What each operation is, and its acquisition.
    open: HashMap<(u32, u64), (Kind, usize)>,
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
const NO_GRANT: &str = "it concerns a grant that never was";

impl Pairing {
    fn take(&mut self, event: HistoryEvent) -> Taken {
        let HistoryEvent { at, process, op, step } = event;
        match step {
            Step::Acquire(Phase::Invoke(asked)) => self.asked(at, process, op, asked),
            Step::Acquire(phase) => {
                let Some((Kind::Acquisition, index)) = self.open.get(&(process, op)) else {
                    return Err(NO_QUESTION);
                };
                self.history.acquisitions[*index].answer(at, phase)
            }
            Step::Renew(Phase::Invoke(what)) => self.renewing(at, process, op, &what),
            Step::Renew(phase) => self.renewed(at, process, op, &phase),
            Step::Release(Phase::Invoke(of)) => self.releasing(at, process, op, &of),
            Step::Release(phase) => self.released(at, process, op, &phase),
            Step::Lost(HoldRef { hold }) => self.saw(process, hold, at, None),
            Step::Observe(seen) => self.saw(process, seen.hold, at, seen.held.then_some(seen.until)),
            Step::Write(what) => {
                self.history.writes.push(Write { at, process, op, what });
                Ok(())
            }
            Step::Fault(what) => {
                self.fault(at, what);
                Ok(())
            }
        }
    }

    fn asked(&mut self, at: u64, process: u32, op: u64, asked: Asked) -> Taken {
        let names = &mut self.history.names;
        let number = match self.names.get(&asked.name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(names.len()).map_err(|_| "more names than can be counted")?;
                names.push(Arc::from(asked.name.as_str()));
                self.names.insert(asked.name, number);
                number
            }
        };
        let index = self.history.acquisitions.len();
        if self.open.insert((process, op), (Kind::Acquisition, index)).is_some() {
            return Err("a number that was used before");
        }
        self.history.acquisitions.push(Acquisition {
            name: number,
            process,
            op,
            asked_at: at,
            answered_at: None,
            ttl: from_millis(asked.ttl_ms),
            wait: asked.wait_ms.map(from_millis),
            renewed: asked.renewed,
            mode: asked.mode,
            permits: asked.permits,
            was_dropped: false,
            outcome: AcquireOutcome::Unknown,
        });
        Ok(())
    }

    fn hold(&mut self, process: u32, op: u64) -> Result<(usize, &mut HoldRecord), &'static str> {
        match self.open.get(&(process, op)).copied() {
            Some((Kind::Acquisition, index)) => Ok((index, self.granted(index)?)),
            _ => Err(NO_GRANT),
        }
    }

    fn granted(&mut self, acquisition: usize) -> Result<&mut HoldRecord, &'static str> {
        match &mut self.history.acquisitions[acquisition].outcome {
            AcquireOutcome::Granted(hold) => Ok(hold),
            _ => Err(NO_GRANT),
        }
    }

    fn renewing(&mut self, at: u64, process: u32, op: u64, what: &Extended) -> Taken {
        let (index, hold) = self.hold(process, what.hold)?;
        let kind = Kind::Renewal(hold.renewals.len());
        hold.renewals.push(Renewal { ttl: from_millis(what.ttl_ms), call: Call::asked(op, at), until: None });
        self.open.insert((process, op), (kind, index));
        Ok(())
    }

    fn renewed(&mut self, at: u64, process: u32, op: u64, phase: &Phase<Extended, Until>) -> Taken {
        let Some((Kind::Renewal(number), index)) = self.open.get(&(process, op)).copied() else {
            return Err(NO_QUESTION);
        };
        let hold = self.granted(index)?;
        if let Phase::Ok(until) = phase {
            hold.renewals[number].until = Some(until.until);
            hold.seen_until = hold.seen_until.max(until.until);
        }
        hold.renewals[number].call.answer(at, phase)
    }

    fn releasing(&mut self, at: u64, process: u32, op: u64, of: &HoldRef) -> Taken {
        let (index, hold) = self.hold(process, of.hold)?;
        if hold.release.is_some() {
            return Err("a second release of one grant");
        }
        hold.release = Some(Call::asked(op, at));
        self.open.insert((process, op), (Kind::Release, index));
        Ok(())
    }

    fn released<C, A>(&mut self, at: u64, process: u32, op: u64, phase: &Phase<C, A>) -> Taken {
        let Some((Kind::Release, index)) = self.open.get(&(process, op)).copied() else {
            return Err(NO_QUESTION);
        };
        self.granted(index)?.release.as_mut().ok_or(NO_QUESTION)?.answer(at, phase)
    }

    fn saw(&mut self, process: u32, op: u64, at: u64, until: Option<u64>) -> Taken {
        let (_, hold) = self.hold(process, op)?;
        match until {
            Some(until) => hold.seen_until = hold.seen_until.max(until),
            None => hold.seen_ended = Some(hold.seen_ended.map_or(at, |before| before.min(at))),
        }
        Ok(())
    }

    fn fault(&mut self, at: u64, what: Injected) {
        let Injected { fault, on, target, name } = what;
        let same = |span: &&mut FaultSpan| span.fault == fault && span.target == target && span.name == name;
        if on {
            self.history.faults.push(FaultSpan { fault, target, name, from: at, to: None });
        } else if let Some(span) = self.history.faults.iter_mut().rfind(same) {
            span.to.get_or_insert(at);
        }
    }
}

impl Acquisition {
    fn answer(&mut self, at: u64, phase: Phase<Asked, Granted>) -> Taken {
        if self.answered_at.is_some() {
            return Err(SECOND_ANSWER);
        }
        self.answered_at = Some(at);
        self.was_dropped = matches!(&phase, Phase::Info(reason) if reason.why == DROPPED);
        self.outcome = match phase {
            Phase::Ok(granted) => AcquireOutcome::Granted(Box::new(HoldRecord {
                token: granted.token,
                slot: granted.slot,
                until: granted.until,
                seen_until: granted.until,
                ..HoldRecord::default()
            })),
            Phase::Fail(reason) if ["Busy", "TimedOut"].contains(&reason.why.as_str()) => {
                AcquireOutcome::Contended
            }
            Phase::Fail(_) => AcquireOutcome::Failed,
            Phase::Info(_) | Phase::Invoke(_) => AcquireOutcome::Unknown,
        };
        Ok(())
    }
}

impl Call {
    fn asked(op: u64, at: u64) -> Self {
        Self { op, asked_at: at, answered_at: None, answer: Answer::Unknown }
    }

    fn answer<C, A>(&mut self, at: u64, phase: &Phase<C, A>) -> Taken {
        if self.answered_at.is_some() {
            return Err(SECOND_ANSWER);
        }
        self.answered_at = Some(at);
        self.answer = match phase {
            Phase::Ok(_) => Answer::Ok,
            Phase::Fail(_) => Answer::Failed,
            Phase::Info(_) | Phase::Invoke(_) => Answer::Unknown,
        };
        Ok(())
    }
}

fn from_millis(millis: u64) -> u64 {
    millis.saturating_mul(1_000_000)
}
