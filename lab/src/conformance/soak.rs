use super::interrupt::{Interrupts, WaitResult};
use super::reporter;
use super::suite_result::code_of;
use crate::args::{ConformanceArgs, Lines};
use crate::private_stores;
use leasehold_conformance::{CaseOutcome, Round, Soak, Tally};
use leasehold_console::exit::{self, Code};
use leasehold_console::signals::Signals;
use leasehold_console::{Failure, unprinted};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{Receiver, channel};

/// Round after round for as long as told, one at least: random faults under random clients on private servers.
pub(super) async fn soak(args: &ConformanceArgs, time: Duration) -> Result<Code, Failure> {
    let soak = Soak::new(private_stores::named(&args.stores)?, args.seed, std::env::temp_dir());
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    let soak = Arc::new(soak);
    if args.format == Lines::Plain {
        reporter::line(format_args!("soak of {} s, seed {}", time.as_secs(), soak.seed()))
            .map_err(unprinted)?;
    }
    let (mut rounds, playing) = begin(Arc::clone(&soak), time);
    let (mut outcomes, mut interrupts, mut said) = (Vec::<CaseOutcome>::new(), Interrupts::default(), Ok(()));
    loop {
        match interrupts.next(&mut signals, rounds.recv()).await {
            WaitResult::Done(Some(round)) => {
                outcomes.push(round.outcome.clone());
                said = said.and_then(|()| reporter::round(&round, args.format));
                if said.is_err() {
                    soak.interrupt().cancel();
                }
            }
            WaitResult::Stop => soak.interrupt().cancel(),
            WaitResult::Done(None) | WaitResult::Abort => break,
        }
    }
    // The servers of the last round end with it; and what a signal has ended may end by that signal.
    drop(soak);
    if !interrupts.is_aborted() && playing.join().is_err() {
        return Err(Failure::internal("the soak ended", io::Error::other("it panicked")));
    }
    said.map_err(unprinted)?;
    let sum: Tally = outcomes.iter().collect();
    reporter::rounds(sum, args.format, interrupts.signal().is_some()).map_err(unprinted)?;
    Ok(match interrupts.signal() {
        Some(signal) => exit::ended_by(signal),
        None => code_of(sum),
    })
}

/// On a thread of its own, which blocks. Ends when the time is over, or when it is interrupted.
fn begin(soak: Arc<Soak>, time: Duration) -> (Receiver<Round>, JoinHandle<()>) {
    let (tell, told) = channel(1);
    let playing = std::thread::spawn(move || {
        let start = Instant::now();
        for number in 0.. {
            let Some(round) = soak.round(number) else { break };
            if tell.blocking_send(round).is_err() || start.elapsed() >= time {
                break;
            }
        }
    });
    (told, playing)
}
