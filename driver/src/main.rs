//! One process of a measurement that compares locks of several libraries and languages. It takes Leasehold's, as an
//! application would, and says when it had them; who starts it has the clock, the servers and the other libraries.
//!
//! ```text
//! leasehold-driver URL WORK [KEY=VALUE …]
//! ```
//!
//! | `WORK` | what it does |
//! |---|---|
//! | `unc` | each of `conc` tasks takes and gives back a name of its own |
//! | `con` | all of them take turns with one name |
//! | `hand` | as `unc`, by two requests by hand for each pair, without a lock library |
//! | `hold` | holds `n` names, and is idle for six seconds |
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `kind` | what they take: `exclusive`; `read`; `mixed`, where the first task of each process writes and the others read; `permits:N`, a semaphore | `exclusive` |
//! | `conc` | how many tasks | 1 |
//! | `id` | the number of this process among those of one measurement | 0 |
//! | `prefix` | what names begin with | `k` |
//! | `out` | where the rows go | nowhere |
//! | `hold_us` | how long each hold lasts, in microseconds | 0 |
//! | `drop` | 1: gives back by dropping the guard, and waits for no answer | 0 |
//! | `ramp` | how long it takes until all tasks have begun, in milliseconds | 0 |
//! | `grace` | how long tasks have to end after the window, in milliseconds | 300 |
//! | `n` | how many names `hold` holds | 10000 |
//!
//! Other keys are for other drivers, and are ignored. Every parameter of the URL can be measured.
//!
//! For `unc`, `con` and `hand` it connects, prints `READY`, and reads a line `GO T0 T1`: nanoseconds of `CLOCK_MONOTONIC`, which
//! all processes of a host share. It begins at once; what is acquired from T0 to T1 is a row of five numbers of 64 bits,
//! lowest byte first: task (100 000 × `id` + its number), asked, acquired, release begun, released. At the end it writes
//! the rows, and prints `DONE` and an object of JSON: `n`, `kind`, `cpu_s` within the window, `rss0_kb` and `rss1_kb` before and
//! after it, `errors` and `first_error`.
//!
//! `hold` prints `MARK start`, `MARK held` and `MARK idle6s`, waits for a line after each, so that the server can be looked
//! at in between, and then prints `DONE` with `acquire_s`, `client_bytes_per_lock` and `idle6s_client_cpu_s`.
//!
//! What fails before the window is one line `ERR …`, and exit code 1. One thread does it all.

#![allow(clippy::print_stdout, reason = "the protocol is on the standard output")]

mod arguments;
mod by_hand;
mod holding;
mod load;

use arguments::{Arguments, Work};
use std::process::ExitCode;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match drive() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("ERR {error}");
            ExitCode::FAILURE
        }
    }
}

fn drive() -> Outcome<()> {
    let arguments = Arguments::of(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match arguments.work {
            Work::Uncontended | Work::Contended | Work::ByHand => load::run_load(&arguments).await,
            Work::Hold => holding::hold(&arguments).await,
        }
    });
    // A task that waits for a lock, or for its input, would be waited for.
    runtime.shutdown_background();
    done
}

/// The next line of the input; it is read by nobody else.
async fn read_line() -> Outcome<String> {
    let mut line = String::new();
    BufReader::new(stdin()).read_line(&mut line).await?;
    Ok(line)
}
