//! The table of faults in docs/semantics.md: what each store promises under each of them.

use crate::agrees;
use crate::stores::kinds;
use leasehold::semantics::{Fault, Outcome, Semantics};

const BEGIN: &str = "<!-- faults: begin. Rendered from the code by tests/tables -->\n";
const END: &str = "<!-- faults: end -->";

#[tokio::test]
async fn table_of_faults_agrees_with_semantics() {
    let kinds = kinds().await;
    let faults = Fault::ALL.into_iter().filter(|fault| *fault != Fault::None);
    let (harmless, harmful): (Vec<_>, Vec<_>) = faults.partition(|fault| is_harmless(*fault, &kinds));
    let harmless: Vec<&str> = harmless.into_iter().map(described).collect();
    let mut table = "| fault | one owner | two possible, tokens grow | two possible, tokens may repeat | none until it is \
                     healed |\n|---|---|---|---|---|\n"
        .to_owned();
    table += &format!("| {} | every store | | | |\n", harmless.join("; "));
    for fault in harmful {
        table += &format!("| {} |", described(fault));
        for outcome in [Outcome::Holds, Outcome::FencedOnly, Outcome::MayBreak, Outcome::Unavailable] {
            let stores = kinds.iter().filter(|(_, semantics)| semantics.promises.under(fault) == outcome);
            let stores: Vec<&str> = stores.map(|(name, _)| *name).collect();
            table += &if stores.is_empty() { " |".to_owned() } else { format!(" {} |", stores.join(", ")) };
        }
        table.push('\n');
    }
    agrees("docs/semantics.md", BEGIN, END, &table);
}

/// True if no store to which the fault can happen promises less under it.
fn is_harmless(fault: Fault, kinds: &[(&str, Semantics)]) -> bool {
    let outcomes = kinds.iter().map(|(_, semantics)| semantics.promises.under(fault));
    outcomes.into_iter().all(|outcome| matches!(outcome, Outcome::Holds | Outcome::NotApplicable))
}

fn described(fault: Fault) -> &'static str {
    match fault {
        Fault::None => "none",
        Fault::HolderKilled => "the holder's process is killed",
        Fault::HolderPaused => "the holder's process is stopped for longer than its lease",
        Fault::ExecutorStarved => "the holder's executor is blocked for as long",
        Fault::HolderPartitioned => "the network between holder and store is cut for as long",
        Fault::AcquireReplyLost => "the reply to an acquisition is lost",
        Fault::StorePaused => "the store is stopped and goes on",
        Fault::StoreRestarted => "the store is killed and restarted with what it had written",
        Fault::PowerLost => "the store's machine loses power",
        Fault::RecordDeleted => "a lock's record is deleted by hand",
        Fault::DataLost => "all data of the store are deleted",
        Fault::FailOver => "a replica takes over that lacks the last writes",
        Fault::SplitBrain => "a client still talks to a primary that was replaced",
        Fault::MinorityDown => "a minority of the store's servers is down",
        Fault::QuorumLost => "a majority of the store's servers is down",
        Fault::StoreClockForward => "the store's clock jumps ahead by more than the lease",
        Fault::StoreClockBack => "the store's clock jumps back",
        Fault::ClientClockJumps => "a client's wall clock jumps",
        Fault::ClientSuspended => "the client's host sleeps for longer than the lease",
        Fault::MemoryFull => "the store is out of memory and evicts what it may",
        Fault::DiskFull => "the store's disk is full",
        Fault::ConnectionKilled => "an administrator ends the client's connections",
        Fault::Pooler => "a pooler lends connections to the store",
        Fault::NetworkFileSystem => "the store's files are on a network file system",
    }
}
