//! The scripts of a Redlock node, branch by branch, each alone on one server.

use crate::kit::{Look, server};
use leasehold_test_stores::servers::RedisServer;

const LIB: &str = include_str!("../../src/scripts/lib.lua");
const NODE: &str = include_str!("../../src/redlock/scripts/node.lua");
const CLAIM: &str = include_str!("../../src/redlock/scripts/claim.lua");
const WRITE_TOKEN: &str = include_str!("../../src/redlock/scripts/write_token.lua");
const WITHDRAW: &str = include_str!("../../src/redlock/scripts/withdraw.lua");
const RENEW: &str = include_str!("../../src/redlock/scripts/renew.lua");

const REPAIR: &str = include_str!("../../src/redlock/scripts/repair.lua");

const LOCK: &str = "leasehold:job";
const HOLDER: &str = "{leasehold:job}:holder";
const TOKEN: &str = "{leasehold:job}:token";
const ADA: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const BOB: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// One node, and what its scripts answer, in the words of the protocol with a space between.
struct Node(RedisServer);

impl Node {
    fn run(&self, script: &str, arguments: &[&str]) -> String {
        let script = whole(script);
        let words = [&["EVAL", &script, "3", LOCK, HOLDER, TOKEN], arguments].concat();
        let reply = self.0.command(&words).unwrap();
        let lines = reply.lines().filter(|line| !line.starts_with(['*', '$']));
        lines.collect::<Vec<_>>().join(" ")
    }

    fn claim(&self, owner: &str, attempt: &str) -> String {
        self.run(CLAIM, &[owner, attempt, "0", "60000"])
    }

    fn write(&self, owner: &str, attempt: &str, token: &str) -> String {
        self.run(WRITE_TOKEN, &[&format!("{owner}:{attempt}:0"), token, "60000", "{} of words"])
    }

    fn renew(&self, owner: &str, ttl: &str) -> String {
        let words = ["EVAL", &whole(RENEW), "2", LOCK, HOLDER, "0", "9", owner, ttl];
        self.0.command(&words).unwrap().replace(':', "")
    }

    fn repair(&self, owner: &str) -> String {
        self.run(REPAIR, &[&format!("{owner}:1:0"), "50", "60000", "1 {}"])
    }
}

fn whole(script: &str) -> String {
    script.replace("-- include lib.lua", LIB).replace("-- include node.lua", NODE)
}

fn node() -> Node {
    Node(server())
}

#[test]
fn free_name_is_claimed_and_its_last_token_told() {
    let node = node();
    assert!(node.claim(ADA, "1").starts_with("mine 0 1"), "with the clock");
    assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:1:0")));
    assert!((50_000..=60_000).contains(&node.0.pttl(LOCK)));
    assert_eq!(node.0.keys(), [LOCK], "no token before a majority agrees");
    assert!(node.claim(BOB, "1").starts_with("busy :"));
}

#[test]
fn owner_that_asks_again_keeps_its_latest_attempt_only() {
    let node = node();
    node.claim(ADA, "1");
    assert_eq!(node.write(ADA, "1", "77"), ":1");
    let again = node.claim(ADA, "2");
    assert!(again.starts_with("mine 77 ") && again.ends_with(" 77"), "{again}");
    assert!(node.0.get(HOLDER).unwrap().starts_with(&format!("{ADA}:2:0 77 ")));
    assert_eq!(node.claim(ADA, "1"), "late");
    assert_eq!(node.run(WITHDRAW, &[ADA, "1", "0"]), ":0", "what is late takes nothing from its successor");
    assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:2:0")));
}

#[test]
fn server_that_is_named_twice_is_recognised() {
    let node = node();
    node.claim(ADA, "1");
    assert_eq!(node.run(CLAIM, &[ADA, "1", "3", "60000"]), "twice 0");
    assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:1:0")));
}

#[test]
fn foreign_lock_is_respected_and_a_vanished_one_kept_for_its_holder() {
    let node = node();
    node.0.set(LOCK, "a foreign value");
    assert_eq!(node.claim(ADA, "1"), "busy :-1");
    node.0.del(LOCK);
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    node.0.del(LOCK);
    assert!(node.claim(BOB, "1").starts_with("busy :"));
    assert!(node.claim(ADA, "2").starts_with("mine 77 "));
    node.0.del(LOCK);
    assert_eq!(node.run(WITHDRAW, &[ADA, "", "0"]), ":0");
    assert!(node.claim(BOB, "1").starts_with("mine 77 "), "its holder gave it up");
}

#[test]
fn claim_that_fails_leaves_nothing() {
    let node = node();
    node.0.command(&["HSET", TOKEN, "a", "b"]).unwrap();
    assert!(node.claim(ADA, "1").contains("WRONGTYPE"));
    assert_eq!(node.0.keys(), [TOKEN]);
}

#[test]
fn token_is_written_only_for_the_holder_and_only_if_larger() {
    let node = node();
    assert_eq!(node.write(ADA, "1", "77"), ":0", "not held");
    node.claim(ADA, "1");
    assert_eq!(node.write(ADA, "2", "77"), ":0", "held for another attempt");
    assert_eq!(node.write(BOB, "1", "77"), ":0", "held for another owner");
    assert!(!node.0.keys().contains(&TOKEN.to_owned()));
    assert_eq!(node.write(ADA, "1", "77"), ":1");
    assert_eq!(node.write(ADA, "1", "77"), ":0", "once");
    assert_eq!(node.write(ADA, "1", "76"), ":0");
    assert_eq!(node.0.get(TOKEN).as_deref(), Some("77"));
    assert!(node.0.get(HOLDER).unwrap().ends_with(" {} of words"));
    assert!(node.0.end_together(LOCK, HOLDER));
    assert!((50_000..=86_400_000).contains(&node.0.pttl(TOKEN)), "a day past the token");
}

#[test]
fn token_ahead_of_the_clock_is_kept_until_a_day_past_it() {
    let node = node();
    node.claim(ADA, "1");
    assert_eq!(node.write(ADA, "1", "9007199254740991"), ":1");
    assert!(node.0.pttl(TOKEN) > 86_400_000);
    node.run(WITHDRAW, &[ADA, "", "0"]);
    node.0.set(TOKEN, "nonsense");
    assert!(node.claim(BOB, "1").starts_with("mine 0 "));
}

#[test]
fn withdrawal_ends_the_hold_of_its_owner_and_no_other() {
    let node = node();
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    assert_eq!(node.run(WITHDRAW, &[BOB, "", "0"]), ":0");
    assert_eq!(node.run(WITHDRAW, &[ADA, "1", "0"]), ":1");
    assert_eq!(node.0.keys(), [TOKEN]);
    node.claim(ADA, "2");
    node.write(ADA, "2", "78");
    assert_eq!(node.run(WITHDRAW, &[ADA, "", "20000"]), ":1");
    assert_eq!(node.0.get(LOCK).as_deref(), Some("released"));
    assert!(node.0.get(HOLDER).unwrap().starts_with("released 78 "));
    assert!((10_000..=20_000).contains(&node.0.pttl(LOCK)) && node.0.pttl(HOLDER) <= 20_000);
    assert!(node.claim(ADA, "3").starts_with("busy :"), "nobody holds it, its last owner neither");
}

/// The word of an attempt that comes late, when the lock key of a later one has vanished: its record is what keeps others out.
#[test]
fn withdrawal_of_an_attempt_leaves_the_record_of_a_later_one() {
    let node = node();
    node.claim(ADA, "1");
    node.claim(ADA, "2");
    node.write(ADA, "2", "77");
    node.0.del(LOCK);
    assert_eq!(node.run(WITHDRAW, &[ADA, "1", "0"]), ":0");
    assert!(node.claim(BOB, "1").starts_with("busy :"), "it is kept for its holder");
    // That of the attempt itself goes, and so does all that its owner has.
    assert_eq!(node.run(WITHDRAW, &[ADA, "2", "0"]), ":0");
    assert_eq!(node.0.keys(), [TOKEN]);
    node.claim(ADA, "3");
    node.write(ADA, "3", "78");
    node.0.del(LOCK);
    assert_eq!(node.run(WITHDRAW, &[ADA, "", "0"]), ":0");
    assert_eq!(node.0.keys(), [TOKEN]);
}

#[test]
fn replica_tells_no_owner_that_it_holds_nothing() {
    let node = node();
    assert!(node.0.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap().starts_with("+OK"));
    for reply in [node.renew(ADA, "60000"), node.run(WITHDRAW, &[ADA, "", "0"])] {
        assert!(reply.starts_with("-READONLY"), "{reply}");
    }
}

#[test]
fn lingering_withdrawal_needs_no_memory() {
    let node = node();
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    assert_eq!(node.0.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    assert_eq!(node.run(WITHDRAW, &[ADA, "", "90000"]), ":1");
    assert_eq!(node.0.get(LOCK).as_deref(), Some("released"));
    assert!(node.0.pttl(LOCK) > 80_000 && node.0.pttl(HOLDER) > 80_000);
}

#[test]
fn renewal_extends_a_hold_and_brings_none_back() {
    let node = node();
    assert_eq!(node.renew(ADA, "90000"), "0");
    assert!(node.0.keys().is_empty());
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    assert_eq!(node.renew(ADA, "90000"), "1");
    assert!(node.0.pttl(LOCK) > 80_000 && node.0.pttl(HOLDER) > 80_000);
    assert_eq!(node.renew(ADA, "1000"), "1");
    assert!(node.0.pttl(LOCK) > 80_000, "never shortened");
    assert_eq!(node.renew(BOB, "90000"), "2");
    for key in [LOCK, HOLDER] {
        node.0.command(&["PERSIST", key]).unwrap();
        assert_eq!(node.renew(ADA, "90000"), "1");
        assert!((80_000..=90_000).contains(&node.0.pttl(key)), "no end would be for ever: {key}");
    }
    node.run(WITHDRAW, &[ADA, "", "20000"]);
    assert_eq!(node.renew(ADA, "90000"), "0");
    node.0.del(LOCK);
    node.0.command(&["HSET", LOCK, "a", "b"]).unwrap();
    assert_eq!(node.renew(ADA, "90000"), "2");
}

/// A hold may rest on what an attempt has left here that was refused elsewhere.
#[test]
fn renewed_hold_is_taken_back_by_no_earlier_attempt_and_granted_to_a_later_one() {
    let node = node();
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    for _ in 0..2 {
        assert_eq!(node.renew(ADA, "90000"), "1");
        assert_eq!(node.claim(ADA, "1"), "late");
        assert_eq!(node.run(WITHDRAW, &[ADA, "1", "0"]), ":0");
        assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:09:0")));
        assert!(node.0.get(HOLDER).unwrap().starts_with(&format!("{ADA}:09:0 77 ")));
        assert!(node.0.pttl(LOCK) > 80_000 && node.0.pttl(HOLDER) > 80_000);
    }
    let again = node.claim(ADA, "10");
    assert!(again.starts_with("mine 77 ") && again.ends_with(" 77"), "{again}");
    assert_eq!(node.run(WITHDRAW, &[ADA, "10", "0"]), ":1");
    assert_eq!(node.0.keys(), [TOKEN]);
}

/// The node was so late with its answer to the claim. Without a record, no other node could be repaired from this one.
#[test]
fn token_after_the_first_renewal_finds_no_record_and_is_written_once() {
    let node = node();
    node.claim(ADA, "1");
    assert_eq!(node.renew(ADA, "90000"), "1");
    assert_eq!(node.write(BOB, "1", "77"), ":0");
    assert_eq!(node.write(ADA, "10", "77"), ":0", "a later attempt has taken nothing here");
    assert_eq!(node.write(ADA, "1", "77"), ":1");
    assert!(node.0.get(HOLDER).unwrap().starts_with(&format!("{ADA}:09:0 77 ")));
    assert_eq!(node.write(ADA, "1", "78"), ":0");
    assert_eq!(node.0.get(TOKEN).as_deref(), Some("77"));
}

#[test]
fn renewal_needs_no_memory() {
    let node = node();
    node.claim(ADA, "1");
    node.write(ADA, "1", "77");
    assert_eq!(node.0.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap(), "+OK");
    assert_eq!(node.renew(ADA, "90000"), "1");
    assert!(node.0.pttl(LOCK) > 80_000 && node.0.pttl(HOLDER) > 80_000);
    assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:09:0")));
}

#[test]
fn repair_takes_a_free_node_only_and_turns_no_token_back() {
    let node = node();
    assert_eq!(node.repair(ADA), ":1");
    assert_eq!(node.0.get(LOCK), Some(format!("{ADA}:1:0")));
    assert_eq!(node.0.get(HOLDER), Some(format!("{ADA}:1:0 50 1 {{}}")));
    assert_eq!(node.0.get(TOKEN).as_deref(), Some("50"));
    assert_eq!(node.repair(BOB), ":0", "held");
    node.0.del(LOCK);
    assert_eq!(node.repair(BOB), ":0", "kept for its holder");
    node.0.del(HOLDER);
    node.0.set(TOKEN, "60");
    assert_eq!(node.repair(BOB), ":1");
    assert_eq!(node.0.get(TOKEN).as_deref(), Some("60"));
}
