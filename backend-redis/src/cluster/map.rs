//! In which of the 16384 slots of a cluster a key lies (redis.io, *Redis cluster specification*, key distribution model), and
//! which node has which slots.

use crate::reply::text;
use crate::target::Address;
use redis::Value;
use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

const SLOTS: u16 = 16_384;

/// The slot of a key: what stands between its first braces decides, or the whole key if there are none, or nothing between
/// them.
pub(crate) fn hash_slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

fn crc16(text: &str) -> u16 {
    text.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

/// What one node said of all.
#[derive(Debug, Default)]
pub(super) struct SlotMap {
    /// Ranges of slots and their primaries. The first one counts: slots that have moved since stand before the others.
    ranges: Vec<(RangeInclusive<u16>, Address)>,
    /// All nodes, replicas too: one of them may be a primary when they are asked next.
    nodes: Vec<Address>,
}

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS`: for each range its ends, its primary and its replicas, each a host and a port
    /// and more. `None` if the reply has another form, or names no primary.
    pub(super) fn read(reply: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut map = Self::default();
        let mut nodes = Vec::new();
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice() else {
                return None;
            };
            let range = slot(*first)?..=slot(*last)?;
            if let Some(primary) = node(primary, asked) {
                nodes.push(primary.clone());
                map.ranges.push((range, primary));
            }
            nodes.extend(replicas.iter().filter_map(|replica| node(replica, asked)));
        }
        let mut seen = HashSet::new();
        map.nodes = nodes.into_iter().filter(|node| seen.insert(node.clone())).collect();
        (!map.ranges.is_empty()).then_some(map)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        self.ranges.iter().find(|(range, _)| range.contains(&slot)).map(|(_, owner)| owner)
    }

    pub(super) fn move_slot(&mut self, slot: u16, to: Address) {
        self.ranges.retain(|(range, _)| *range != (slot..=slot));
        self.ranges.insert(0, (slot..=slot, to));
    }

    /// The ranges that have another primary in a newer map, each with both: a replica took over, which may lack grants.
    pub(super) fn fail_overs(&self, newer: &Self) -> Vec<[String; 3]> {
        let changed = newer.ranges.iter().filter_map(|(range, now)| {
            let (_, before) = self.ranges.iter().find(|(known, before)| known == range && before != now)?;
            let place = format!("slots {}-{}", range.start(), range.end());
            Some([place, before.to_string(), now.to_string()])
        });
        changed.collect()
    }

    /// The nodes that have slots, each once.
    pub(super) fn primaries(&self) -> Vec<Address> {
        let owners = self.ranges.iter().map(|(_, owner)| (owner.to_string(), owner));
        owners.collect::<BTreeMap<_, _>>().into_values().cloned().collect()
    }

    /// The slots that no node has, as ranges.
    pub(super) fn unassigned(&self) -> Vec<String> {
        let free: Vec<u16> = (0..SLOTS).filter(|slot| self.owner(*slot).is_none()).collect();
        let range = |slots: &[u16]| Some(format!("{}-{}", slots.first()?, slots.last()?));
        free.chunk_by(|slot, next| slot + 1 == *next).filter_map(range).collect()
    }

    pub(super) fn nodes(&self) -> &[Address] {
        &self.nodes
    }
}

fn slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

fn node(value: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = value else { return None };
    let [host, Value::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Value::Nil => String::new(),
        host => text(host)?,
    };
    named(&host, u16::try_from(*port).ok()?, asked)
}

/// The address of a node as another one names it, `?` if it does not know; an empty host is its own.
pub(super) fn named(host: &str, port: u16, asked: &Address) -> Option<Address> {
    let host = match (host, asked) {
        ("?", _) => return None,
        ("", Address::Tcp { host, .. }) => host,
        (host, _) => host,
    };
    (!host.is_empty() && port != 0).then(|| Address::Tcp { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Address {
        Address::Tcp { host: "asked".to_owned(), port: 1 }
    }

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), Value::BulkString("id".into()), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
    }

    fn owner(map: &SlotMap, slot: u16) -> Option<String> {
        map.owner(slot).map(ToString::to_string)
    }

    #[test]
    fn slot_is_found_with_its_primary_also_after_a_move() {
        let word = |text: &str| Value::BulkString(text.into());
        let reply = Value::Array(vec![
            range(0, 99, vec![node(word("a"), 7), node(word("c"), 9)]),
            range(200, 200, vec![node(Value::Nil, 8)]),
            range(300, 400, vec![node(word("?"), 8)]),
        ]);
        let mut map = SlotMap::read(&reply, &asked()).unwrap();
        assert_eq!(owner(&map, 99).as_deref(), Some("a:7"));
        assert_eq!(owner(&map, 200).as_deref(), Some("asked:8"), "its own address, which it does not know");
        assert_eq!((owner(&map, 100), owner(&map, 300)), (None, None));
        map.move_slot(99, Address::Tcp { host: "b".to_owned(), port: 7 });
        assert_eq!(owner(&map, 99).as_deref(), Some("b:7"));
        assert_eq!(owner(&map, 98).as_deref(), Some("a:7"));
        let names = |nodes: &[Address]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&map.primaries()), ["a:7", "asked:8", "b:7"]);
        assert_eq!(names(map.nodes()), ["a:7", "c:9", "asked:8"]);
        assert_eq!(map.unassigned(), ["100-199", "201-16383"]);
    }

    #[test]
    fn fail_over_is_another_primary_of_the_same_slots() {
        let map = |ranges: &[(i64, i64, &str)]| {
            let node_of = |host: &str| node(Value::BulkString(host.into()), 7);
            let ranges = ranges.iter().map(|(first, last, host)| range(*first, *last, vec![node_of(host)]));
            SlotMap::read(&Value::Array(ranges.collect()), &asked()).unwrap()
        };
        let known = map(&[(0, 99, "a"), (100, 199, "b")]);
        assert_eq!(known.fail_overs(&map(&[(0, 99, "c"), (100, 199, "b")])), [["slots 0-99", "a:7", "c:7"]]);
        // A slot moves with its keys.
        let moved = map(&[(0, 98, "a"), (99, 199, "b")]);
        assert!(known.fail_overs(&moved).is_empty() && SlotMap::default().fail_overs(&known).is_empty());
    }

    #[test]
    fn reply_without_nodes_is_no_map() {
        for reply in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![Value::Int(1)])] {
            assert!(SlotMap::read(&reply, &asked()).is_none());
        }
        let beyond = Value::Array(vec![range(0, 16_384, vec![node(Value::Nil, 8)])]);
        assert!(SlotMap::read(&beyond, &asked()).is_none());
    }

    #[test]
    fn keys_lie_where_the_specification_puts_them() {
        assert_eq!(crc16("123456789"), 0x31C3);
        // As `CLUSTER KEYSLOT` answers.
        for (key, slot) in [("somekey", 11058), ("foo{hash_tag}", 2515), ("bar{hash_tag}", 2515), ("", 0)] {
            assert_eq!(hash_slot(key), slot, "{key}");
        }
    }

    #[test]
    fn first_braces_decide_the_slot_unless_they_are_empty() {
        assert_eq!(hash_slot("{user1000}.following"), hash_slot("user1000"));
        assert_eq!(hash_slot("foo{{bar}}zap"), hash_slot("{bar"));
        assert_eq!(hash_slot("foo{bar}{zap}"), hash_slot("bar"));
        assert_eq!(hash_slot("foo{}{bar}"), crc16("foo{}{bar}") % SLOTS);
    }
}
