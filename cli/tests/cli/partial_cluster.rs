//! A Redis cluster of which some nodes are down: what the others have is shown, then the error.

use crate::support::{CommandOutput, Place, Running};
use leasehold_test_stores::servers::RedisCluster;

const NODES: usize = 3;

/// A cluster, and a held lock on each of its nodes, by the number of the node.
struct Store {
    cluster: RedisCluster,
    place: Place,
    names: Vec<String>,
    _holders: Vec<Running>,
}

impl Store {
    fn new() -> Self {
        let cluster = RedisCluster::start(false).unwrap();
        // For longer than a test takes, the nodes that live go on as if the others did.
        for [setting, value] in [["cluster-require-full-coverage", "no"], ["cluster-node-timeout", "600000"]]
        {
            for node in cluster.nodes() {
                assert_eq!(node.command(&["CONFIG", "SET", setting, value]).unwrap(), "+OK");
            }
        }
        let place = Place::with_store(cluster.url());
        let is_on = |name: &String, node| cluster.owner_of(&format!("leasehold:{name}")).unwrap() == node;
        let name_on = |node| (0..).map(|n| format!("job/{n}")).find(|name| is_on(name, node)).unwrap();
        let names: Vec<String> = (0..NODES).map(name_on).collect();
        let holders = names.iter().map(|name| place.hold(name)).collect();
        Self { cluster, place, names, _holders: holders }
    }

    /// Ends the first nodes, and answers their addresses.
    fn kill(&mut self, nodes: usize) -> Vec<String> {
        self.cluster.nodes_mut()[..nodes].iter_mut().for_each(|node| node.kill());
        self.cluster.nodes()[..nodes].iter().map(|node| format!("127.0.0.1:{}", node.port())).collect()
    }

    fn say(&self, words: &[&str]) -> CommandOutput {
        self.place.say(words)
    }
}

/// With one node down, then with two of the three.
#[test]
fn ls_of_a_partial_cluster_lists_the_nodes_that_answer_and_fails() {
    let mut store = Store::new();
    for down in 1..NODES {
        let gone = store.kill(down);
        let mut there = store.names[down..].to_vec();
        there.sort();
        for words in [["ls", "--names"].as_slice(), &["ls", "--names", "job/"]] {
            let said = store.say(words);
            assert_eq!(said.code(69).out.lines().collect::<Vec<_>>(), there, "{said:?}");
            // One error ends the command; the other nodes are warned of before it.
            let told =
                ["warning: Redis at ", "error[E_SERVER]: "].map(|words| said.err.matches(words).count());
            assert_eq!(told, [down - 1, 1], "{said:?}");
            assert!(gone.iter().all(|address| said.err.contains(address)), "{gone:?}: {said:?}");
        }
        let said = store.say(&["ls", "--json"]);
        let listed: Vec<serde_json::Value> = serde_json::from_str(&said.code(69).out).unwrap();
        assert_eq!(listed.len(), there.len(), "{said:?}");
    }
}

#[test]
fn inspect_of_a_lock_on_a_node_that_is_down_fails_and_on_another_shows_its_holder() {
    let mut store = Store::new();
    let gone = store.kill(2);
    for (name, address) in store.names.iter().zip(&gone) {
        let said = store.say(&["inspect", name]);
        assert_eq!(said.code(69).out, "", "{said:?}");
        assert!(said.err.contains("error[E_UNAVAILABLE]") && said.err.contains(address), "{said:?}");
    }
    let said = store.say(&["inspect", &store.names[2]]);
    assert!(said.code(0).out.contains(" is held by ada@"), "{said:?}");
    assert_eq!(said.err, "");
}

#[test]
fn config_check_of_a_partial_cluster_names_each_node_that_is_down() {
    let mut store = Store::new();
    for down in 1..NODES {
        let gone = store.kill(down);
        let said = store.say(&["config", "check"]);
        let all = format!("{}{}", said.code(78).out, said.err);
        assert_eq!(all.matches("error[E_SERVER]").count(), down, "{all}");
        assert!(gone.iter().all(|address| all.contains(address)), "{gone:?}: {all}");
        let said = store.say(&["config", "check", "--json"]);
        let findings: Vec<serde_json::Value> = serde_json::from_str(&said.code(78).out).unwrap();
        let of = |code: &str| findings.iter().filter(|finding| finding["code"] == code).count();
        assert_eq!((of("E_SERVER"), of("I_SERVER")), (down, NODES - down), "{said:?}");
    }
}

/// Nothing answers, so nothing is shown but the error.
#[test]
fn ls_inspect_and_config_check_of_a_cluster_that_is_down_fail_alike() {
    let mut store = Store::new();
    store.kill(NODES);
    for words in [["ls"].as_slice(), &["inspect", &store.names[0]], &["config", "check"]] {
        let said = store.say(words);
        assert_eq!(said.code(69).out, "", "{said:?}");
        assert!(said.err.contains("error[E_UNAVAILABLE]"), "{said:?}");
    }
}
