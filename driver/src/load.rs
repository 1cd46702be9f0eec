//! The load of a measurement: that of `bench`, told by a line of the input when to begin.

use crate::arguments::{Arguments, Work};
use crate::by_hand::{self, by_hand};
use crate::{Outcome, read_line};
use leasehold::{Config, DistributedLock, DistributedLockExt, LockName};
use leasehold_lab::load::{self, Load, LoadKind, Turn, Window, options, resident_bytes, run};
use std::sync::Arc;

/// What tells the tasks of one process from those of another.
const TASKS_A_PROCESS: u64 = 100_000;

pub(crate) async fn run_load(arguments: &Arguments) -> Outcome<()> {
    if arguments.work == Work::ByHand {
        return run_by_hand(arguments).await;
    }
    let locks = leasehold::connect(&arguments.url).await?;
    refuse_unserved(arguments, &locks)?;
    first_pair(arguments, &locks).await?;
    let before = resident_bytes();
    let load = Load {
        kind: arguments.kind,
        names: arguments.task_names(),
        tasks: arguments.tasks,
        first: arguments.process * TASKS_A_PROCESS,
        hold: arguments.hold,
        holds_in_warm_up: false,
        drops: arguments.drops,
        ramp: arguments.ramp,
        grace: Some(arguments.grace),
        window: ready().await?,
    };
    let window = load.window;
    let outcome = run(load, &locks).await?;
    report(arguments, &arguments.kind.to_string(), before, window, outcome)?;
    let _ = locks.close().await;
    Ok(())
}

async fn run_by_hand(arguments: &Arguments) -> Outcome<()> {
    let store = by_hand(&Config::new(&arguments.url)?)?;
    let locks = leasehold::connect(&arguments.url).await?;
    first_pair(arguments, &locks).await?;
    let _ = locks.close().await;
    store.pair(&LockName::new(format!("ready-{}", arguments.process))?).await?;
    let (before, window) = (resident_bytes(), ready().await?);
    let outcome = by_hand::run(store, arguments.task_names(), window).await?;
    report(arguments, "by-hand", before, window, outcome)
}

/// Connects, and makes what the store needs.
async fn first_pair(arguments: &Arguments, locks: &Arc<dyn DistributedLock>) -> Outcome<()> {
    let name = format!("ready-{}", arguments.process);
    Ok(locks.acquire_with(name, &options()).await?.release().await?)
}

/// Writes the rows, and the last line.
fn report(
    arguments: &Arguments,
    kind: &str,
    before: Option<u64>,
    window: Window,
    mut seen: load::Outcome,
) -> Outcome<()> {
    seen.turns.retain(|turn| window.covers(turn.acquired));
    if let Some(file) = &arguments.rows {
        std::fs::write(file, seen.turns.iter().flat_map(row).collect::<Vec<u8>>())?;
    }
    let kib = |bytes: Option<u64>| bytes.unwrap_or_default() / 1024;
    let done = serde_json::json!({
        "n": seen.turns.len(), "cpu_s": seen.cpu, "kind": kind,
        "rss0_kb": kib(before), "rss1_kb": kib(seen.resident_bytes), "errors": seen.errors,
        "first_error": seen.first_error.map(|error| error.to_string()).unwrap_or_default(),
    });
    println!("DONE {done}");
    Ok(())
}

/// Before any request: a load that the store does not serve, and a number of permits that no semaphore has.
fn refuse_unserved(arguments: &Arguments, locks: &Arc<dyn DistributedLock>) -> Outcome<()> {
    if let Some(why) = arguments.kind.refusal(locks.semantics()) {
        return Err(format!("kind={}: {why}", arguments.kind).into());
    }
    if let LoadKind::Permits(permits) = arguments.kind {
        locks.semaphore("ready", permits)?;
    }
    Ok(())
}

fn row(turn: &Turn) -> impl Iterator<Item = u8> + use<> {
    [turn.task, turn.asked, turn.acquired, turn.ends, turn.released].into_iter().flat_map(u64::to_le_bytes)
}

/// Says that it is ready, and hears when to begin.
async fn ready() -> Outcome<Window> {
    println!("READY");
    let line = read_line().await?;
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("GO"), Some(from), Some(until)) => Ok(Window { from: from.parse()?, until: until.parse()? }),
        _ => Err("GO and two moments were expected".into()),
    }
}
