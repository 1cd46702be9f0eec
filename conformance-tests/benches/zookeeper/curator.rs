use crate::{Figures, MEASURED_FOR};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Debian's Curator and what it needs.
const JARS: &str = "/usr/share/java/curator-recipes.jar:/usr/share/java/curator-framework.jar:\
/usr/share/java/curator-client.jar:/usr/share/java/zookeeper.jar:/usr/share/java/guava.jar:\
/usr/share/java/slf4j-nop.jar";

/// A virtual machine needs a while to reach its speed.
const WARM_UP_MILLIS: &str = "4000";

pub(crate) fn curator(
    servers: &str,
    path: &str,
    players: usize,
    packets: &mut dyn FnMut() -> u64,
) -> (Figures, u64) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/zookeeper/CuratorBench.java");
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp", JARS]).arg(program);
    java.args([servers, path, &players.to_string(), WARM_UP_MILLIS]);
    let mut child = java.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(answers.next().unwrap().unwrap(), "ready");
    packets();
    let mut requests = child.stdin.take().unwrap();
    writeln!(requests, "{}", MEASURED_FOR.as_millis()).unwrap();
    let answer = answers.next().unwrap().unwrap();
    let packets = packets();
    drop(requests);
    child.wait().unwrap();
    let mut numbers = answer.split(' ').map(|number| number.parse::<u64>().unwrap());
    let mut next = || numbers.next().unwrap();
    let hand_overs = usize::try_from(next()).unwrap();
    let (median, p99) = (Duration::from_nanos(next()), Duration::from_nanos(next()));
    (Figures { hand_overs, median, p99 }, packets)
}
