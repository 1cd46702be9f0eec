//! Which node has which slots.

use super::redirect::named;
use super::slot::Slot;
use crate::reply::text;
use crate::target::Address;
use redis::Value;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// What one node said of all.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// Ranges of slots and their primaries.
    ranges: Vec<(RangeInclusive<Slot>, Address)>,
    /// Slots that have moved since.
    moved: HashMap<Slot, Address>,
    /// All nodes, replicas too: one of them may be a primary when they are asked next.
    nodes: Vec<Address>,
}

impl Map {
    /// Reads the reply to `CLUSTER SLOTS`: for each range its ends, its primary and its replicas, each a host and a port
    /// and more. `None` if it is none, or names nobody.
    pub(super) fn read(reply: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let mut map = Self::default();
        let mut nodes = Vec::new();
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice() else {
                return None;
            };
            let range = Slot::numbered(*first)?..=Slot::numbered(*last)?;
            if let Some(primary) = node(primary, asked) {
                nodes.push(primary.clone());
                map.ranges.push((range, primary));
            }
            nodes.extend(replicas.iter().filter_map(|replica| node(replica, asked)));
        }
        let mut seen = std::collections::HashSet::new();
        map.nodes = nodes.into_iter().filter(|node| seen.insert(node.clone())).collect();
        (!map.ranges.is_empty()).then_some(map)
    }

    /// The primary that has the slot.
    pub(super) fn owner(&self, slot: Slot) -> Option<&Address> {
        let of_range = || self.ranges.iter().find(|(range, _)| range.contains(&slot));
        self.moved.get(&slot).or_else(|| of_range().map(|(_, owner)| owner))
    }

    pub(super) fn move_slot(&mut self, slot: Slot, to: Address) {
        self.moved.insert(slot, to);
    }

    /// The nodes that have slots, each once.
    pub(super) fn primaries(&self) -> Vec<Address> {
        let owners = self.ranges.iter().map(|(_, owner)| owner).chain(self.moved.values());
        let unique: BTreeSet<String> = owners.clone().map(ToString::to_string).collect();
        unique
            .into_iter()
            .filter_map(|name| owners.clone().find(|owner| owner.to_string() == name).cloned())
            .collect()
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> &[Address] {
        &self.nodes
    }
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

    fn owner(map: &Map, slot: i64) -> Option<String> {
        map.owner(Slot::numbered(slot).unwrap()).map(ToString::to_string)
    }

    #[test]
    fn a_slot_is_found_with_its_primary() {
        let word = |text: &str| Value::BulkString(text.into());
        let reply = Value::Array(vec![
            range(0, 99, vec![node(word("a"), 7), node(word("c"), 9)]),
            range(200, 200, vec![node(Value::Nil, 8)]),
            range(300, 400, vec![node(word("?"), 8)]),
        ]);
        let mut map = Map::read(&reply, &asked()).unwrap();
        assert_eq!(owner(&map, 99).as_deref(), Some("a:7"));
        assert_eq!(owner(&map, 200).as_deref(), Some("asked:8"), "its own address, which it does not know");
        assert_eq!((owner(&map, 100), owner(&map, 300)), (None, None));
        map.move_slot(Slot::numbered(99).unwrap(), Address::Tcp { host: "b".to_owned(), port: 7 });
        assert_eq!(owner(&map, 99).as_deref(), Some("b:7"));
        assert_eq!(owner(&map, 98).as_deref(), Some("a:7"));
        let names = |nodes: &[Address]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&map.primaries()), ["a:7", "asked:8", "b:7"]);
        assert_eq!(names(map.nodes()), ["a:7", "c:9", "asked:8"]);
    }

    #[test]
    fn reply_without_nodes_is_no_map() {
        for reply in [Value::Nil, Value::Array(Vec::new()), Value::Array(vec![Value::Int(1)])] {
            assert!(Map::read(&reply, &asked()).is_none());
        }
        let beyond = Value::Array(vec![range(0, 16_384, vec![node(Value::Nil, 8)])]);
        assert!(Map::read(&beyond, &asked()).is_none());
    }
}
