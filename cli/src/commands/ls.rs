use super::lock_table::{self, Row};
use super::unless_unseen;
use crate::args::LsArgs;
use leasehold::LockMode;
use leasehold::admin::LockStatus;
use leasehold_console::exit::Code;
use leasehold_console::{
    Console, Failure, Invocation, Poller, ago, brief, in_one_line, print_json, safe, unprinted,
};
use serde::Serialize;
use std::io::Write;
use std::time::SystemTime;

/// A hold as `--json` has it: of a semaphore, also the name for people.
#[derive(Debug, Serialize)]
struct Held<'a> {
    #[serde(flatten)]
    lock: &'a LockStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    semaphore: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
}

/// Moves the cursor of a terminal to its first line, and clears what is below.
const CLEAR: &str = "\u{1b}[H\u{1b}[J";

/// Lists the locks that are held; with `--watch`, again and again.
pub(super) async fn ls(args: &LsArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let (store, console) = (invocation.open().await?, invocation.console);
    let admin = store.admin()?;
    if !args.watch {
        let (locks, unseen) = admin.list_reachable(&args.prefix).await?;
        print(args, locks, !unseen.is_empty(), console)?;
        unless_unseen(unseen, console)?;
        return Ok(Code::SUCCESS);
    }
    let mut poller = Poller::new(console, "still listing the locks".to_owned(), false)?;
    loop {
        let list = poller.next(admin.list_reachable(&args.prefix)).await?;
        let Some((locks, unseen)) = list else { continue };
        if width().is_some() && !args.json {
            write!(std::io::stdout(), "{CLEAR}").map_err(unprinted)?;
        }
        print(args, locks, !unseen.is_empty(), console)?;
        unseen.iter().for_each(|why| console.warn(in_one_line(why), why.help()));
    }
}

/// Prints the locks.
fn print(
    args: &LsArgs,
    mut locks: Vec<LockStatus>,
    is_partial: bool,
    console: Console,
) -> Result<(), Failure> {
    // The holder of a gate waits for a permit.
    locks.retain(|lock| lock.name.slot().is_some() || lock.name.semaphore().is_none());
    if args.json {
        let held = |lock| Held { lock, semaphore: lock.name.semaphore(), slot: lock.name.slot() };
        print_json(&locks.iter().map(held).collect::<Vec<_>>()).map_err(unprinted)?;
    } else if args.names {
        let mut names: Vec<&str> = locks.iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().try_for_each(|name| writeln!(std::io::stdout(), "{}", safe(name))).map_err(unprinted)?;
    } else if !locks.is_empty() {
        let mut out = anstream::stdout();
        writeln!(out, "{}", table(&locks, width())).map_err(unprinted)?;
    } else if !args.prefix.is_empty() && !is_partial {
        console.note(format_args!("no lock whose name begins with {:?} is held", args.prefix));
    }
    Ok(())
}

/// How wide the terminal is, if there is one.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

fn table(locks: &[LockStatus], width: Option<u16>) -> String {
    let mut sorted: Vec<&LockStatus> = locks.iter().collect();
    sorted.sort_by_key(|lock| (name(lock), lock.name.slot()));
    let under_one_name = |one: &&LockStatus, next: &&LockStatus| {
        name(one) == name(next) && is_one_of_several(one) && is_one_of_several(next)
    };
    lock_table::table(sorted.chunk_by(under_one_name).flat_map(rows).collect(), width.map(usize::from))
}

/// The name for people: a slot stands under the name of its semaphore.
fn name(lock: &LockStatus) -> &str {
    lock.name.semaphore().unwrap_or(lock.name.as_str())
}

fn is_one_of_several(lock: &LockStatus) -> bool {
    lock.name.slot().is_some() || lock.mode == LockMode::Shared
}

/// One row for a hold; for readers and for a semaphore, one for the name, and under it one for each.
fn rows(holds: &[&LockStatus]) -> Vec<Row> {
    let [first, ..] = holds else { return Vec::new() };
    if !is_one_of_several(first) {
        return vec![row(safe(name(first)), first)];
    }
    let (kind, kinds) =
        if first.name.slot().is_some() { ("permit", "permits") } else { ("reader", "readers") };
    let count = match holds.len() {
        1 => format!("1 {kind}"),
        several => format!("{several} {kinds}"),
    };
    let empty = String::new;
    let heading = [safe(name(first)), count, empty(), empty(), empty(), empty()];
    let label = |hold: &LockStatus| match hold.name.slot() {
        Some(slot) => format!("  slot {slot}"),
        None => "  reader".to_owned(),
    };
    [heading].into_iter().chain(holds.iter().map(|hold| row(label(hold), hold))).collect()
}

fn row(name: String, lock: &LockStatus) -> Row {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (doing, held) = (&lock.holder.doing, !lock.is_released());
    [
        name,
        if held { safe(&lock.holder.to_string()) } else { "(released)".to_owned() },
        or_dash((held && !doing.is_empty()).then(|| safe(doing))),
        or_dash(lock.acquired_at.filter(|_| held).map(|since| ago(since, SystemTime::now()))),
        or_dash(lock.ends_in.map(brief)),
        or_dash(lock.token.map(|token| token.to_string())),
    ]
}
