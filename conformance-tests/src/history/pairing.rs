use super::event::{Asked, DROPPED, Event, Extended, Granted, Injected, Of, Phase, Step, Until};
use super::operation::{Acquisition, Answer, Call, History, Hold, Outcome, Renewal, Span, Write};
use std::collections::HashMap;
use std::sync::Arc;

/// Puts the phases of each operation together.
#[derive(Default)]
pub(super) struct Pairing {
    history: History,
    names: HashMap<String, u32>,
    open: HashMap<(u32, u64), Place>,
}

/// Where an operation stands.
#[derive(Clone, Copy)]
enum Place {
    Acquisition(usize),
    /// Of this acquisition, this renewal.
    Renewal(usize, usize),
    /// Of this acquisition.
    Release(usize),
}

type Taken = Result<(), &'static str>;

const NO_QUESTION: &str = "an answer without a question";
const SECOND_ANSWER: &str = "a second answer";
const NO_GRANT: &str = "it concerns a grant that never was";

impl Pairing {
    pub(super) fn into_history(self) -> History {
        self.history
    }

    pub(super) fn take(&mut self, event: Event) -> Taken {
        let Event { at, process, op, step } = event;
        match step {
            Step::Acquire(Phase::Invoke(asked)) => self.asked(at, process, op, asked),
            Step::Acquire(phase) => {
                let Some(Place::Acquisition(index)) = self.open.get(&(process, op)) else {
                    return Err(NO_QUESTION);
                };
                self.history.acquisitions[*index].answer(at, phase)
            }
            Step::Renew(Phase::Invoke(what)) => self.renewing(at, process, op, &what),
            Step::Renew(phase) => self.renewed(at, process, op, &phase),
            Step::Release(Phase::Invoke(of)) => self.releasing(at, process, op, &of),
            Step::Release(phase) => self.released(at, process, op, &phase),
            Step::Lost(Of { hold }) => self.saw(process, hold, at, None),
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
        let place = Place::Acquisition(self.history.acquisitions.len());
        if self.open.insert((process, op), place).is_some() {
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
            outcome: Outcome::Unknown,
        });
        Ok(())
    }

    fn hold(&mut self, process: u32, op: u64) -> Result<(usize, &mut Hold), &'static str> {
        let Some(Place::Acquisition(index)) = self.open.get(&(process, op)).copied() else {
            return Err(NO_GRANT);
        };
        match &mut self.history.acquisitions[index].outcome {
            Outcome::Granted(hold) => Ok((index, hold)),
            _ => Err(NO_GRANT),
        }
    }

    fn renewing(&mut self, at: u64, process: u32, op: u64, what: &Extended) -> Taken {
        let (index, hold) = self.hold(process, what.hold)?;
        let place = Place::Renewal(index, hold.renewals.len());
        hold.renewals.push(Renewal { ttl: from_millis(what.ttl_ms), call: Call::asked(op, at), until: None });
        self.open.insert((process, op), place);
        Ok(())
    }

    fn renewed(&mut self, at: u64, process: u32, op: u64, phase: &Phase<Extended, Until>) -> Taken {
        let Some(Place::Renewal(index, number)) = self.open.get(&(process, op)).copied() else {
            return Err(NO_QUESTION);
        };
        let Outcome::Granted(hold) = &mut self.history.acquisitions[index].outcome else {
            return Err(NO_GRANT);
        };
        if let Phase::Ok(until) = phase {
            hold.renewals[number].until = Some(until.until);
            hold.seen_until = hold.seen_until.max(until.until);
        }
        hold.renewals[number].call.answer(at, phase)
    }

    fn releasing(&mut self, at: u64, process: u32, op: u64, of: &Of) -> Taken {
        let (index, hold) = self.hold(process, of.hold)?;
        if hold.release.is_some() {
            return Err("a second release of one grant");
        }
        hold.release = Some(Call::asked(op, at));
        self.open.insert((process, op), Place::Release(index));
        Ok(())
    }

    fn released<C, A>(&mut self, at: u64, process: u32, op: u64, phase: &Phase<C, A>) -> Taken {
        let Some(Place::Release(index)) = self.open.get(&(process, op)).copied() else {
            return Err(NO_QUESTION);
        };
        let Outcome::Granted(hold) = &mut self.history.acquisitions[index].outcome else {
            return Err(NO_GRANT);
        };
        hold.release.as_mut().ok_or(NO_QUESTION)?.answer(at, phase)
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
        let same = |span: &&mut Span| span.fault == fault && span.target == target && span.name == name;
        if on {
            self.history.faults.push(Span { fault, target, name, from: at, to: None });
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
            Phase::Ok(granted) => Outcome::Granted(Box::new(Hold {
                token: granted.token,
                slot: granted.slot,
                until: granted.until,
                seen_until: granted.until,
                ..Hold::default()
            })),
            Phase::Fail(reason) if ["Busy", "TimedOut"].contains(&reason.why.as_str()) => Outcome::Contended,
            Phase::Fail(_) => Outcome::Failed,
            Phase::Info(_) | Phase::Invoke(_) => Outcome::Unknown,
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
