//! `docs/generated/broken-locks.md`: every lock of this program, its mistake, and the case that catches it. This program writes it
//! with `LEASEHOLD_WRITE_DOCS=1`, and otherwise compares it.

use crate::controls::Control;
use leasehold_conformance::by_id;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const WRITE: &str = "LEASEHOLD_WRITE_DOCS";

const HEAD: &str = "\
# Broken locks

A suite that passes everything proves nothing. These locks are broken on purpose, each by one classic mistake, on the real
store where the mistake lives. Each is caught by the case that is named for it, with a message that fits the mistake, by a
forced order and not by luck: a gate, a held reply, a stopped process. The same lock without the mistake passes that case. The
broken one passes the plainest cases, A01 to A03, unless one of them is the case that catches it: somebody would have trusted
it. A number is never given again, so there are gaps.

```sh
cargo test -p leasehold-conformance --test broken_locks
```

";

/// The mistakes, in a sentence each, by their numbers in [`controls`](crate::controls).
const MISTAKES: &[(u8, &str)] = &[
    (1, "`SETNX` without an end: a crashed holder keeps the lock for ever."),
    (2, "`SETNX`, then `EXPIRE`: a holder that dies between the two keeps it for ever."),
    (
        3,
        "The value has the end of the lease, and `GETSET` takes an ended one over: the loser of the race overwrites the winner.",
    ),
    (4, "The lease ends by the clock of the client that took it."),
    (5, "`DEL` without a look at the owner: a late release frees the next holder."),
    (6, "`GET`, then `DEL`: the lock may change hands between the two."),
    (8, "`PEXPIRE` without a look at the owner: a late renewal shortens the next holder's lease."),
    (10, "Renewal begins before there is a guard: a dropped acquire is renewed for ever."),
    (11, "A guard that is dropped by a panic stops nothing: its lock is renewed for ever."),
    (12, "A renewal without an answer counts as renewed: a holder that is cut off never hears of it."),
    (13, "\"Held\" is a flag that some task sets: a busy executor holds on to a lost lock."),
    (14, "The lease counts from the reply, not from the request."),
    (15, "The lease counts from the first try of a long wait."),
    (16, "The lease is measured by the wall clock."),
    (18, "A new owner for each try: a grant whose reply was lost is in its own way."),
    (19, "Redlock: half of the nodes are a majority."),
    (20, "Redlock: nodes that did not answer are not released."),
    (21, "Redlock: the time that the nodes took is not subtracted from the lease."),
    (22, "Redlock: one node after the other, each with a time-out of its own."),
    (23, "Redlock: the fencing token is the maximum of the nodes' counters."),
    (25, "The fencing token is the time, by the clock of the client."),
    (26, "The counter of tokens is deleted with the record of the lock."),
    (
        28,
        "Waiters ask only when they are told, and Redis tells of an expired key only when it comes across it.",
    ),
    (29, "The lock's name is the hash tag: a name with braces sends its keys to different nodes."),
    (30, "A replica is asked whether the lock is free."),
    (31, "One node that all watch: every release wakes the herd."),
    (32, "A queue that all watch: every change of it wakes the herd."),
    (33, "The queue is sorted by the whole name, which begins with something random."),
    (
        35,
        "A place does not name its owner: one whose reply was lost is not found again, and blocks the queue.",
    ),
    (36, "Persistent nodes: a crashed holder keeps its place for ever."),
    (
        37,
        "Only the server's word that the session is over counts as a loss, and it comes when the network is back.",
    ),
    (
        38,
        "A place is known by its number alone, which begins anew with the queue: a late release frees the next holder.",
    ),
    (39, "Whoever is woken holds the lock, whatever has become of its own place."),
    (40, "A row without a lease: a crashed holder keeps the lock for ever."),
    (41, "`SELECT`, then `UPDATE`: two find it free."),
    (42, "`FOR UPDATE` outside a transaction: the lock ends with the statement."),
    (43, "`FOR UPDATE` of a row that is not there: it locks nothing."),
    (44, "The lease ends by the clock of the client."),
    (45, "The end of the lease is kept in the time zone of the session."),
    (46, "Names are compared by collation: `a` is `A`, and `á`."),
    (47, "Names are cut short: two long ones are one."),
    (49, "A lock wait that timed out is taken for a rollback: the transaction goes on, and holds."),
    (50, "A connection goes back to its pool with its lock: the next user holds it."),
    (51, "A pool reconnects behind the guard's back, and the guard asks only whether the connection lives."),
    (52, "Release deletes the row, and the tokens begin again."),
    (54, "A deferred transaction: it reads, and then cannot write what it has decided."),
    (55, "A second release frees the next holder."),
    (57, "The deadline begins again with every try."),
    (58, "Dropping a guard waits for the store."),
    (59, "The password is in what `Debug` prints."),
    (60, "An attempt without an answer counts as busy: nobody takes back what it was granted."),
    (61, "A release without an answer counts as done: nobody makes it again."),
    (62, "A renewal that comes late begins the lease anew, for a holder who has given up."),
    (63, "Waiters are to be told, and nobody tells them: each hand-over lasts until they ask anyway."),
    (64, "The queue is served from the end at which one joins it: who comes last is first."),
    (65, "Shared: a count of readers without their owners: a repeated release frees another's hold."),
    (
        66,
        "Shared: one end for all readers, which each of them renews: a crashed reader stays as long as another reads.",
    ),
    (67, "Shared: a look for holders, then an entry, in two steps: a reader and a writer hold together."),
    (69, "Shared: a writer looks for writers in front of it, and not for readers: it holds beside them."),
    (
        71,
        "Shared: the last reader deletes the record without another look: a reader that came meanwhile is gone.",
    ),
    (
        72,
        "Semaphore: permits are counted on each node, and a majority decides: three majorities of five fit into two permits.",
    ),
    (74, "Semaphore: a permit ends by the clock of the client that took it."),
    (
        75,
        "Semaphore: the token is the number of permits in use: a slot is given again with a token that is not larger.",
    ),
    (76, "Set: the locks are taken in the order of the caller, and kept while the next one is waited for."),
    (78, "Set: when one lock cannot be had, the others stay held."),
    (79, "Set: only the loss of the first lock is told."),
    (
        80,
        "Scope: its identity is the task: `join!` shares a lock that it should not, and `spawn` does not share what it should.",
    ),
    (82, "Scope: an inner release frees the lock of the outer guard."),
    (84, "Blocking: dropping a guard waits for the store."),
    (85, "Names are trimmed: `a` is ` a`."),
    (86, "A name that looks like a number is one: `7` is `007`, and `7.0`."),
    (
        88,
        "The lock is a number, a hash of 32 bits of its name: two names in a hundred thousand are one lock.",
    ),
    (89, "A lock's companion key has a name that another lock can have."),
    (90, "A renewal sets the end of the lease, whatever it is: one that comes late shortens an extension."),
    (91, "Claims that are renewed together get the lease of the first."),
    (92, "The answer to a batch has the losses first: another holder than the loser is told."),
    (93, "The lease is counted in microseconds, in 32 bits: a day is eight minutes."),
    (94, "The lease is counted in whole seconds, rounded down: the holder believes for longer."),
    (95, "A grant that is recognised after a lost reply is not extended, and believed in as a new one."),
    (96, "A renewal counts from its reply, not from its request."),
    (97, "A lock that was handed over counts from the moment in which its holder hears of it."),
    (98, "A release without an answer is made again without a look at the owner: it frees the next holder."),
    (99, "The least time of a hold is waited for by a release, and by no drop."),
    (100, "A refused attempt leaves a key, and nobody removes it."),
    (101, "Waiters stand in line within their process, and between processes luck decides."),
    (102, "The counter of tokens of a free name is kept for two leases, and begins again."),
    (103, "Holders are to be told of a loss, and hear of it from a renewal."),
    (104, "Of a long name, the end is kept: two that differ at the front are one."),
    (105, "The token is read from a replica, which may have the last one: two grants have one token."),
    (106, "Waiters are shown from the end of the queue: the one that is shown first is served last."),
    (
        107,
        "The owner is the process id and a number from the boot clock: the first process of each container is one owner.",
    ),
    (108, "The lease ends by the boot clock of the client that took it."),
    (109, "The mode of a hold is not kept, and an exclusive one is shown as shared."),
    (110, "Shared: the grant of a reader that is recognised after a lost reply is not extended."),
    (111, "Shared: the grant of a reader that is recognised after a lost reply gets another token."),
    (
        112,
        "Shared: a renewal sets the end of a reader, whatever it is: one that comes late shortens an extension.",
    ),
    (113, "Shared: the least time of a reader is forgotten."),
    (
        114,
        "Shared: a reader that is released early keeps writers out for a whole lease, not for its least time.",
    ),
    (115, "Shared: the least time of a reader replaces the other readers."),
    (116, "Shared: the least time is kept for exclusive owners, and not for writers."),
    (117, "Shared: a writer that is released early keeps out writers for its least time, and no readers."),
    (118, "A lock that is released, and kept for its least time, is shown as held."),
    (
        119,
        "Shared: each reader sets the end of the record: one with a short lease ends those with long ones.",
    ),
    (
        120,
        "Shared: the first reader sets the end of the record: a later one with a longer lease ends with it.",
    ),
    (
        121,
        "Shared: the answers to a batch are kept by name: of two readers of one client, both are told of the loss of one, or neither.",
    ),
    (123, "Shared: an attempt of a reader without an answer counts as busy: a reader stays that nobody is."),
    (124, "Shared: a release of a reader without an answer counts as done."),
    (125, "Shared: a reader is known by its token, which outlasts its lease: a late renewal brings it back."),
    (126, "Shared: the same while another reads: a late renewal brings a reader back beside another."),
    (127, "Shared: the lease of a reader is a minute at most, and believed in for longer."),
    (128, "Shared: the first ten readers are shown, and no others."),
    (129, "Shared: the grant of a writer that is recognised after a lost reply is not extended."),
    (
        130,
        "Shared: a renewal sets the end of a writer, whatever it is: one that comes late shortens an extension.",
    ),
    (131, "Shared: a renewal of a writer that comes late begins the lease anew."),
    (
        132,
        "Shared: the grant of a reader that is recognised after a lost reply is answered with the last token, of another.",
    ),
    (133, "Shared: a reader is not renewed while a writer waits."),
    (134, "Shared: the lease of a reader ends by the clock of the client that asks."),
    (
        135,
        "Shared: the end of a reader's lease is set in a second step: one that dies between the two stays for ever.",
    ),
    (136, "Shared: the counter of tokens is deleted when the lease of the last reader has ended."),
    (170, "A renewal counts from its reply, and its script is run by its hash."),
    (171, "A waiter is told that it was given the lock, and counts its lease from the message."),
    (
        172,
        "A renewal names the number of the one before: one whose reply was lost is refused when it is made again.",
    ),
    (
        173,
        "A release that finds nothing to end is a loss: one whose reply was lost is reported as such when it is made again.",
    ),
    (
        174,
        "A script, by its hash, checks the owner, and then `DEL`: the lock may change hands between the two.",
    ),
    (175, "Waiters are told all the time: each asks as often as it may."),
    (185, "Grants are rounded up to whole seconds, as is declared, and renewals down."),
    (
        186,
        "Leases are kept in whole seconds, as is declared, and a renewal for one second less than a grant.",
    ),
    (187, "Renewals are rounded down to whole seconds, and the store shows no lease."),
    (188, "The least time of a hold is rounded down to whole seconds."),
    (189, "The watchdog renews all the time."),
    (
        220,
        "Any error but \"busy\" ends a wait: a waiter dies when its password is changed, and the holder lives on.",
    ),
    (221, "A wait without an end has one: a standby ends while another leads."),
    (
        222,
        "A lease that was extended is believed in, whichever member has extended it: one that was replaced still does.",
    ),
    (223, "Waiters watch all keys of the lock: every release wakes the herd."),
    (
        224,
        "Some clients take the revision of the store at the answer for the token, as `$ETCD_LOCK_REV` is: it may be larger than that of the next holder.",
    ),
    (140, "Shared: the mark of a waiting writer has no end: one that was killed keeps readers out for ever."),
    (141, "Shared: a writer that asks once leaves a mark."),
    (142, "Shared: a writer's mark outlives its grant, and keeps readers out when it has released."),
    (143, "Shared: a writer that stops waiting removes the marks of all."),
    (144, "Shared: a reader that waits passes the writers that wait; only one that asks once does not."),
    (145, "Shared: a writer's mark keeps readers out of all names in the folder of its own."),
    (146, "Shared: an exclusive owner that waits leaves no mark, and readers pass it."),
    (147, "Shared: a writer that gives up leaves its mark."),
    (148, "Shared: a line that says it is in order serves writers before readers."),
    (149, "Shared: a reader that was killed keeps its place in line, and blocks those behind it."),
    (150, "Shared: a line that says it is in order lets readers pass."),
    (151, "Shared: a writer that asks once leaves a place in line."),
    (152, "Shared: a reader that is cut off keeps its place in line, and blocks those behind it."),
    (
        190,
        "Shared: a waiter that leaves a line in order takes the place of the next one with it, which comes again at the end.",
    ),
    (
        191,
        "Shared: a writer that waits for another writer keeps readers out, and a stream of writers starves them.",
    ),
    (192, "Shared: an attempt of a writer without an answer counts as busy."),
    (193, "Shared: a release of a writer without an answer counts as done."),
    (194, "Shared: the end of a writer's lease is set in a second step."),
    (195, "Shared: the lease of a writer ends by the clock of the client that asks."),
    (196, "Shared: a release looks at the owner, and then deletes the writer, whoever that is by then."),
    (197, "Shared: a renewal of a writer sets the end of whichever writer holds the lock."),
    (198, "Shared: the lost grant of a reader is not recognised while a writer waits."),
    (199, "Shared: a lost grant is not recognised while others stand in line."),
    (200, "A forced release ends each hold whose token has the given one in it: 1 ends 11."),
    (201, "Shared: a forced release removes the marks of writers that wait."),
    (202, "A place in line ends after six seconds, however often its owner asks."),
    (203, "A place in line ends with the first lease of its owner, however often that asks."),
    (204, "Shared: readers that were released have one least time, that of the last."),
    (205, "Of claims that are renewed together, the first eight are, and the others are told so."),
    (206, "Of claims that are lost together, the first is told."),
    (207, "Shared: a writer that is refused is told to ask at once, again and again."),
    (208, "Shared: the counter of tokens is deleted when the lease of a writer has ended."),
    (209, "A forced release of one hold forgets those that stand in line."),
    (225, "Shared: the mark of a waiting writer is not renewed, and readers come in when it ends."),
    (226, "Shared: of many readers, the first hundred are shown."),
    (227, "A list leaves out the permits of semaphores."),
    (228, "Of claims that are renewed together, readers are answered before owners, whatever their order."),
    (229, "Shared: the mark of a waiting writer is the record of another lock."),
    (230, "Shared: waiters behind readers are not told of their release, as is declared."),
    (231, "Shared: readers are not told of their loss, as is declared."),
    (232, "Every error of the server is an outage: a refused client goes on asking."),
    (233, "A look at a store that does not answer shows no holder."),
    (234, "`forget` ends the least time of a hold that was released."),
    (235, "Holders are told of their loss, as is declared, until they are renewed once."),
    (153, "A forced release of all ends the first hold."),
    (154, "A forced release of one reader ends all."),
    (155, "A forced release answers the first hold, whichever it has ended."),
    (156, "A forced release forgets those that wait."),
    (157, "`forget` deletes the record of a name that is held."),
    (158, "`forget` deletes the token of a name that is held."),
    (159, "`forget` takes a name for a prefix: names that begin with it lose their tokens."),
    (160, "`forget` does nothing, and what is kept of free names stays."),
    (161, "A list ends with the first page of the store's cursor."),
    (
        162,
        "A list removes what stands there twice page by page: a name whose keys are on two pages stays twice.",
    ),
    (163, "A list shows holds that have ended."),
    (165, "A look removes holds that have ended by the clock of the client that looks."),
    (166, "A look lengthens the leases of readers."),
    (167, "A purge forgets names that were in use a moment ago."),
    (169, "A purge takes any time, and gives tokens again when a clock is set back."),
];

/// Compares the table with the file, or writes it anew.
pub(crate) fn check(controls: &[Arc<Control>]) -> Result<(), String> {
    let (text, file) = (table(controls)?, of_workspace("docs/generated/broken-locks.md"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    } else if read(&file)? != text {
        return Err(format!(
            "docs/generated/broken-locks.md is not what these locks are: run this with {WRITE}=1"
        ));
    }
    let (readme, told) = (read(&of_workspace("README.md"))?, told(controls));
    if readme.contains(&told) { Ok(()) } else { Err(format!("README.md does not say {told:?}")) }
}

/// The words of the README about them.
fn told(controls: &[Arc<Control>]) -> String {
    format!("[{} classic broken locks](docs/generated/broken-locks.md)", numbers(controls).len())
}

fn table(controls: &[Arc<Control>]) -> Result<String, String> {
    let sentences: BTreeMap<u8, &str> = MISTAKES.iter().copied().collect();
    if !sentences.keys().eq(numbers(controls).iter()) {
        return Err("a broken lock without a sentence, or a sentence without a lock".to_owned());
    }
    let mut out = HEAD.to_owned();
    out.push_str("| # | mistake | store | caught by |\n|---:|---|---|---|\n");
    for (number, sentence) in &sentences {
        let of_this: Vec<_> = controls.iter().filter(|control| control.number == *number).collect();
        let cases: Vec<String> = of_this.iter().map(|control| case(control.case)).collect();
        let store = of_this.first().map_or("", |control| control.store());
        let _ = writeln!(out, "| {number} | {sentence} | {store} | {} |", cases.join("<br>"));
    }
    let _ = writeln!(out, "\n{} broken locks, all caught.", sentences.len());
    Ok(out)
}

fn case(id: &str) -> String {
    let property = by_id(id).map_or("", |case| case.property);
    format!("{id} {}", property.replace('_', " "))
}

fn numbers(controls: &[Arc<Control>]) -> BTreeSet<u8> {
    controls.iter().map(|control| control.number).collect()
}

fn of_workspace(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
