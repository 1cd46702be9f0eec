//! Histories at random of a lock that is one: a store and its clients, simulated on a clock of their own.

use super::TTL;
use crate::history::{
    Asked, Done, Event, Extended, Granted, History, Injected, Observed, Of, Phase, Reason, Step, Until,
    Written,
};
use fastrand::Rng;
use leasehold_core::Fault;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// What kind of history.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) clients: u64,
    pub(super) names: u64,
    /// Acquisitions that are begun.
    pub(super) acquisitions: u64,
    /// Of a hundred answers, so many are lost.
    pub(super) lost_answers: u32,
    /// Of a hundred holders, so many die, and so many keep the lock for longer than its lease.
    pub(super) accidents: u32,
}

/// In 0.1 ms: short enough that operations overlap in all ways.
const TICK: u64 = 100_000;
const LEASE: u64 = 10_000;
const BELIEF: u64 = 9_880;

/// A valid history.
pub(super) fn history(shape: Shape, rng: &mut Rng) -> History {
    let mut world = World {
        shape,
        rng,
        now: 0,
        agenda: BinaryHeap::new(),
        turns: HashMap::new(),
        begun: 0,
        ops: 0,
        store: BTreeMap::new(),
        events: Vec::new(),
    };
    for client in 0..shape.clients {
        let at = world.rng.u64(0..50);
        world.at(at, Client { process: client + 1, turn: Turn::Idle });
    }
    world.run();
    world.events.sort_by_key(|event| event.at);
    History::from_events(world.events).unwrap()
}

struct World<'a> {
    shape: Shape,
    rng: &'a mut Rng,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    turns: HashMap<u64, Client>,
    begun: u64,
    ops: u64,
    store: BTreeMap<u64, Entry>,
    events: Vec<Event>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    owner: Option<u64>,
    ends_at: u64,
    token: u64,
    written: u64,
}

struct Client {
    process: u64,
    turn: Turn,
}

/// What a client does next. Everything that is sent arrives at a moment of its own.
enum Turn {
    Idle,
    AskArrives { want: Want, sent: u64 },
    AskAnswered { want: Want, sent: u64, token: Option<u64> },
    Holding(Grip),
    RenewalArrives(Grip, u64),
    RenewalAnswered(Grip, u64, bool),
    ReleaseArrives(Grip, u64),
    ReleaseAnswered(Grip, u64, bool),
}

#[derive(Clone, Copy)]
struct Want {
    op: u64,
    name: u64,
    deadline: Option<u64>,
}

#[derive(Clone, Copy)]
struct Grip {
    want: Want,
    token: u64,
    until: u64,
    renewals: u32,
}

impl World<'_> {
    fn at(&mut self, at: u64, client: Client) {
        self.ops += 1;
        self.turns.insert(self.ops, client);
        self.agenda.push(Reverse((at, self.ops)));
    }

    fn soon(&mut self, process: u64, turn: Turn) {
        let at = self.now + self.rng.u64(1..20);
        self.at(at, Client { process, turn });
    }

    fn run(&mut self) {
        while let Some(Reverse((at, turn))) = self.agenda.pop() {
            self.now = at;
            if let Some(client) = self.turns.remove(&turn) {
                self.step(client);
            }
        }
    }

    fn step(&mut self, Client { process, turn }: Client) {
        match turn {
            Turn::Idle => self.ask(process),
            Turn::AskArrives { want, sent } => self.asked(process, want, sent),
            Turn::AskAnswered { want, sent, token } => self.told(process, want, sent, token),
            Turn::Holding(grip) => self.hold(process, grip),
            Turn::RenewalArrives(grip, op) => {
                let renewed = self.owned(&grip, |entry, now| entry.ends_at = entry.ends_at.max(now + LEASE));
                self.soon(process, Turn::RenewalAnswered(grip, op, renewed));
            }
            Turn::RenewalAnswered(grip, op, renewed) => self.renewed(process, grip, op, renewed),
            Turn::ReleaseArrives(grip, op) => {
                let released = self.owned(&grip, |entry, _| entry.owner = None);
                self.soon(process, Turn::ReleaseAnswered(grip, op, released));
            }
            Turn::ReleaseAnswered(grip, op, released) => self.released(process, grip, op, released),
        }
    }

    fn ask(&mut self, process: u64) {
        if self.begun >= self.shape.acquisitions {
            return;
        }
        self.begun += 1;
        let wait_ms = [Some(0), Some(20), None][self.rng.usize(0..3)];
        let op = self.number();
        let want = Want {
            op,
            name: self.rng.u64(0..self.shape.names),
            deadline: wait_ms.map(|wait| self.now + wait * 10),
        };
        let asked = Asked { name: format!("lock{}", want.name), ttl_ms: 1000, wait_ms, renewed: false };
        self.write(process, op, Step::Acquire(Phase::Invoke(asked)));
        self.soon(process, Turn::AskArrives { want, sent: self.now });
    }

    fn asked(&mut self, process: u64, want: Want, sent: u64) {
        let now = self.now;
        let entry = self.store.entry(want.name).or_default();
        let free = entry.owner.is_none_or(|owner| owner == want.op) || entry.ends_at <= now;
        let token = free.then(|| {
            entry.token += 1 + now % 3;
            (entry.owner, entry.ends_at) = (Some(want.op), now + LEASE);
            entry.token
        });
        self.soon(process, Turn::AskAnswered { want, sent, token });
    }

    fn told(&mut self, process: u64, want: Want, sent: u64, token: Option<u64>) {
        if self.chance(self.shape.lost_answers) {
            // Nobody comes back to it: if it was granted, it lasts for its lease.
            if self.rng.bool() {
                self.write(process, want.op, Step::Acquire(Phase::Info(why("Indeterminate"))));
            }
            return self.soon(process, Turn::Idle);
        }
        match token {
            Some(token) => {
                let until = sent + BELIEF;
                self.write(
                    process,
                    want.op,
                    Step::Acquire(Phase::Ok(Granted { token, until: until * TICK })),
                );
                let grip = Grip { want, token, until, renewals: 0 };
                if self.rng.u32(0..3) == 0 {
                    self.update(process, &grip);
                }
                self.soon(process, Turn::Holding(grip));
            }
            None if want.deadline.is_some_and(|deadline| deadline <= self.now) => {
                self.write(process, want.op, Step::Acquire(Phase::Fail(why("Busy"))));
                self.soon(process, Turn::Idle);
            }
            None => self.soon(process, Turn::AskArrives { want, sent: self.now }),
        }
    }

    fn hold(&mut self, process: u64, grip: Grip) {
        if self.chance(self.shape.accidents) {
            return self.accident(process, grip);
        }
        if self.now >= grip.until {
            let lost = Step::Lost(Of { hold: grip.want.op });
            self.note(process, lost);
        } else if self.rng.bool() {
            let until = grip.until * TICK;
            self.note(process, Step::Observe(Observed { hold: grip.want.op, held: true, until }));
        }
        let op = self.number();
        if grip.renewals < 2 && self.now < grip.until && self.rng.u32(0..4) == 0 {
            let extended = Extended { hold: grip.want.op, ttl_ms: 1000 };
            self.write(process, op, Step::Renew(Phase::Invoke(extended)));
            return self.soon(process, Turn::RenewalArrives(grip, op));
        }
        self.write(process, op, Step::Release(Phase::Invoke(Of { hold: grip.want.op })));
        self.soon(process, Turn::ReleaseArrives(grip, op));
    }

    fn accident(&mut self, process: u64, grip: Grip) {
        if self.rng.bool() {
            let target = u32::try_from(process).ok();
            self.note(0, Step::Fault(Injected { fault: Fault::HolderKilled, on: true, target, name: None }));
            // Another one takes its place.
            self.soon(process + self.shape.clients, Turn::Idle);
        } else {
            let late = grip.until.max(self.now) + self.rng.u64(1..3000);
            self.at(late, Client { process, turn: Turn::Holding(grip) });
        }
    }

    fn renewed(&mut self, process: u64, mut grip: Grip, op: u64, renewed: bool) {
        grip.renewals += 1;
        let phase = match renewed {
            _ if self.chance(self.shape.lost_answers) => Phase::Info(why("Indeterminate")),
            true => {
                // From before it was sent, which was two legs of at most two milliseconds ago.
                grip.until = grip.until.max(self.now + BELIEF - 40);
                Phase::Ok(Until { until: grip.until * TICK })
            }
            false => Phase::Fail(why("Lost")),
        };
        self.write(process, op, Step::Renew(phase));
        self.soon(process, Turn::Holding(grip));
    }

    fn released(&mut self, process: u64, _grip: Grip, op: u64, released: bool) {
        let phase = match released {
            _ if self.chance(self.shape.lost_answers) => Phase::Info(why("Indeterminate")),
            true => Phase::Ok(Done::default()),
            false => Phase::Fail(why("Lost")),
        };
        self.write(process, op, Step::Release(phase));
        self.soon(process, Turn::Idle);
    }

    /// A counter that looks at tokens, read and written in one step here.
    fn update(&mut self, process: u64, grip: &Grip) {
        let entry = self.store.entry(grip.want.name).or_default();
        // Whoever writes late is refused: a newer grant was made, and has been shown.
        let accepted = entry.token == grip.token;
        entry.written += u64::from(accepted);
        let written = Written {
            hold: grip.want.op,
            token: grip.token,
            resource: format!("counter{}", grip.want.name),
            fenced: true,
            wrote: if accepted { entry.written } else { 0 },
            accepted,
        };
        self.note(process, Step::Write(written));
    }

    fn owned(&mut self, grip: &Grip, effect: impl FnOnce(&mut Entry, u64)) -> bool {
        let now = self.now;
        let entry = self.store.entry(grip.want.name).or_default();
        let owned = entry.owner == Some(grip.want.op) && entry.ends_at > now;
        if owned {
            effect(entry, now);
        }
        owned
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    fn number(&mut self) -> u64 {
        self.ops += 1;
        self.ops
    }

    fn note(&mut self, process: u64, step: Step) {
        let op = self.number();
        self.write(process, op, step);
    }

    fn write(&mut self, process: u64, op: u64, step: Step) {
        let process = u32::try_from(process).unwrap();
        self.events.push(Event { at: self.now * TICK, process, op, step });
    }
}

fn why(why: &str) -> Reason {
    Reason { why: why.to_owned() }
}

#[test]
fn a_lease_here_is_that_of_all_tests() {
    assert_eq!(u128::from(LEASE * TICK), TTL.as_nanos());
    assert_eq!(u128::from(BELIEF * TICK) + 12_000_000, TTL.as_nanos());
}
