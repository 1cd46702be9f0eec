//! Histories at random of a lock that is one: a store and its clients, simulated on a clock of their own.

use super::TTL;
use crate::history::{Asked, History, HistoryEvent, Step, Written};
use fastrand::Rng;
use leasehold_core::{Fault, LockMode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// The parameters of a random history.
#[derive(Clone, Copy)]
pub(super) struct HistoryConfig {
    pub(super) clients: u64,
    pub(super) names: u64,
    /// Acquisitions that are begun.
    pub(super) acquisitions: u64,
    /// Percentage of answers that are lost.
    pub(super) lost_answers: u32,
    /// Percentage of holders that die, or keep the lock for longer than its lease.
    pub(super) accidents: u32,
    pub(super) kind: Kind,
}

/// What the names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Locks,
    /// Locks of which this percentage of acquisitions is shared.
    Readers(u32),
    /// Semaphores with this number of permits.
    Permits(u32),
}

/// In 0.1 ms: short enough that operations overlap in all ways.
const TICK: u64 = 100_000;
const LEASE: u64 = 10_000;
const BELIEF: u64 = 9_880;

/// A valid history.
pub(super) fn history(config: HistoryConfig, rng: &mut Rng) -> History {
    let mut world = World {
        config,
        rng,
        now: 0,
        agenda: BinaryHeap::new(),
        turns: HashMap::new(),
        begun: 0,
        ops: 0,
        store: BTreeMap::new(),
        events: Vec::new(),
    };
    for client in 0..config.clients {
        let at = world.rng.u64(0..50);
        world.at(at, Client { process: client + 1, turn: Turn::Idle });
    }
    world.run();
    world.events.sort_by_key(|event| event.at);
    History::from_events(world.events).unwrap()
}

struct World<'a> {
    config: HistoryConfig,
    rng: &'a mut Rng,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    turns: HashMap<u64, Client>,
    begun: u64,
    ops: u64,
    /// By the name and the slot.
    store: BTreeMap<(u64, u32), Entry>,
    events: Vec<HistoryEvent>,
}

#[derive(Default)]
struct Entry {
    owners: Vec<Owner>,
    token: u64,
    written: u64,
    /// The token of the last write.
    last_write: u64,
}

struct Owner {
    op: u64,
    mode: LockMode,
    ends_at: u64,
}

struct Client {
    process: u64,
    turn: Turn,
}

/// What a client does next. Everything that is sent arrives at a moment of its own.
enum Turn {
    Idle,
    AskArrives { want: Want, sent: u64 },
    AskAnswered { want: Want, sent: u64, granted: Option<(u32, u64)> },
    Holding(HeldGrant),
    RenewalArrives(HeldGrant, u64),
    RenewalAnswered(HeldGrant, u64, bool),
    ReleaseArrives(HeldGrant, u64),
    ReleaseAnswered(HeldGrant, u64, bool),
}

#[derive(Clone, Copy)]
struct Want {
    op: u64,
    name: u64,
    mode: LockMode,
    deadline: Option<u64>,
}

#[derive(Clone, Copy)]
struct HeldGrant {
    want: Want,
    slot: u32,
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
            Turn::AskAnswered { want, sent, granted } => self.told(process, want, sent, granted),
            Turn::Holding(grant) => self.hold(process, grant),
            Turn::RenewalArrives(grant, op) => {
                let renewed = self.owned(&grant, |entry, place, now| {
                    let ends_at = &mut entry.owners[place].ends_at;
                    *ends_at = (now + LEASE).max(*ends_at);
                });
                self.soon(process, Turn::RenewalAnswered(grant, op, renewed));
            }
            Turn::RenewalAnswered(grant, op, renewed) => self.renewed(process, grant, op, renewed),
            Turn::ReleaseArrives(grant, op) => {
                let released = self.owned(&grant, |entry, place, _| {
                    entry.owners.remove(place);
                });
                self.soon(process, Turn::ReleaseAnswered(grant, op, released));
            }
            Turn::ReleaseAnswered(grant, op, released) => self.released(process, grant, op, released),
        }
    }

    fn ask(&mut self, process: u64) {
        if self.begun >= self.config.acquisitions {
            return;
        }
        self.begun += 1;
        let wait_ms = [Some(0), Some(20), None][self.rng.usize(0..3)];
        let op = self.number();
        let readers = if let Kind::Readers(percent) = self.config.kind { percent } else { 0 };
        let mode = if self.chance(readers) { LockMode::Shared } else { LockMode::Exclusive };
        let deadline = wait_ms.map(|wait| self.now + wait * 10);
        let want = Want { op, name: self.rng.u64(0..self.config.names), mode, deadline };
        let permits = if let Kind::Permits(permits) = self.config.kind { Some(permits) } else { None };
        let name = format!("lock{}", want.name);
        let asked = Asked { name, ttl_ms: 1000, wait_ms, renewed: false, mode, permits };
        self.write(process, op, Step::Acquire(asked));
        self.soon(process, Turn::AskArrives { want, sent: self.now });
    }

    fn asked(&mut self, process: u64, want: Want, sent: u64) {
        let now = self.now;
        let slots = if let Kind::Permits(permits) = self.config.kind { permits } else { 1 };
        let granted = (0..slots).find_map(|slot| {
            let entry = self.store.entry((want.name, slot)).or_default();
            entry.owners.retain(|owner| owner.ends_at > now);
            let free = !entry.owners.iter().any(|owner| owner.mode.conflicts_with(want.mode));
            free.then(|| {
                entry.token += 1 + now % 3;
                entry.owners.push(Owner { op: want.op, mode: want.mode, ends_at: now + LEASE });
                (slot, entry.token)
            })
        });
        self.soon(process, Turn::AskAnswered { want, sent, granted });
    }

    fn told(&mut self, process: u64, want: Want, sent: u64, granted: Option<(u32, u64)>) {
        if self.chance(self.config.lost_answers) {
            // The client never returns to it: a grant lasts for its lease.
            if self.rng.bool() {
                self.write(process, want.op, unknown());
            }
            return self.soon(process, Turn::Idle);
        }
        match granted {
            Some((slot, token)) => {
                let until = sent + BELIEF;
                let number = matches!(self.config.kind, Kind::Permits(_)).then_some(slot);
                let answer = Step::Granted { token, until: until * TICK, slot: number };
                self.write(process, want.op, answer);
                let grant = HeldGrant { want, slot, token, until, renewals: 0 };
                if self.rng.u32(0..3) == 0 {
                    self.update(process, &grant);
                }
                self.soon(process, Turn::Holding(grant));
            }
            None if want.deadline.is_some_and(|deadline| deadline <= self.now) => {
                self.write(process, want.op, failed("Busy"));
                self.soon(process, Turn::Idle);
            }
            None => self.soon(process, Turn::AskArrives { want, sent: self.now }),
        }
    }

    fn hold(&mut self, process: u64, grant: HeldGrant) {
        if self.chance(self.config.accidents) {
            return self.accident(process, grant);
        }
        if self.now >= grant.until {
            let lost = Step::Lost { hold: grant.want.op };
            self.note(process, lost);
        } else if self.rng.bool() {
            let until = grant.until * TICK;
            self.note(process, Step::Observe { hold: grant.want.op, held: true, until });
        }
        let op = self.number();
        if grant.renewals < 2 && self.now < grant.until && self.rng.u32(0..4) == 0 {
            self.write(process, op, Step::Renew { hold: grant.want.op, ttl_ms: 1000 });
            return self.soon(process, Turn::RenewalArrives(grant, op));
        }
        self.write(process, op, Step::Release { hold: grant.want.op });
        self.soon(process, Turn::ReleaseArrives(grant, op));
    }

    fn accident(&mut self, process: u64, grant: HeldGrant) {
        if self.rng.bool() {
            let target = u32::try_from(process).ok();
            self.note(0, Step::Fault { fault: Fault::HolderKilled, on: true, target });
            // Another one takes its place.
            self.soon(process + self.config.clients, Turn::Idle);
        } else {
            let late = grant.until.max(self.now) + self.rng.u64(1..3000);
            self.at(late, Client { process, turn: Turn::Holding(grant) });
        }
    }

    fn renewed(&mut self, process: u64, mut grant: HeldGrant, op: u64, renewed: bool) {
        grant.renewals += 1;
        let answer = match renewed {
            _ if self.chance(self.config.lost_answers) => unknown(),
            true => {
                // From before it was sent, which was two legs of at most two milliseconds ago.
                grant.until = grant.until.max(self.now + BELIEF - 40);
                Step::Renewed { until: grant.until * TICK }
            }
            false => failed("Lost"),
        };
        self.write(process, op, answer);
        self.soon(process, Turn::Holding(grant));
    }

    fn released(&mut self, process: u64, _grant: HeldGrant, op: u64, released: bool) {
        let answer = match released {
            _ if self.chance(self.config.lost_answers) => unknown(),
            true => Step::Released,
            false => failed("Lost"),
        };
        self.write(process, op, answer);
        self.soon(process, Turn::Idle);
    }

    /// A counter that looks at tokens, read and written in one step here; by a reader only read.
    fn update(&mut self, process: u64, grant: &HeldGrant) {
        let mode = grant.want.mode;
        let entry = self.store.entry((grant.want.name, grant.slot)).or_default();
        // Late writers are refused: a newer grant was made, and has been shown. So are readers after a newer write.
        let accepted =
            if mode.is_shared() { entry.last_write < grant.token } else { entry.token == grant.token };
        if accepted && !mode.is_shared() {
            (entry.written, entry.last_write) = (entry.written + 1, grant.token);
        }
        let written = Written {
            token: grant.token,
            resource: format!("counter{}/{}", grant.want.name, grant.slot),
            fenced: true,
            wrote: accepted.then_some(entry.written),
            mode,
        };
        self.note(process, Step::Write(written));
    }

    fn owned(&mut self, grant: &HeldGrant, effect: impl FnOnce(&mut Entry, usize, u64)) -> bool {
        let now = self.now;
        let entry = self.store.entry((grant.want.name, grant.slot)).or_default();
        let owned = |owner: &Owner| owner.op == grant.want.op && owner.ends_at > now;
        let place = entry.owners.iter().position(owned);
        place.map(|place| effect(entry, place, now)).is_some()
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
        self.events.push(HistoryEvent { at: self.now * TICK, process, op, step });
    }
}

fn failed(why: &str) -> Step {
    Step::Failed { why: why.to_owned() }
}

fn unknown() -> Step {
    Step::Unknown { why: "Indeterminate".to_owned() }
}

#[test]
fn random_histories_use_the_lease_of_all_tests() {
    assert_eq!(u128::from(LEASE * TICK), TTL.as_nanos());
    assert_eq!(u128::from(BELIEF * TICK) + 12_000_000, TTL.as_nanos());
}
