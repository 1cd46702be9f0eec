//! The table: number, mistake, and the case that is named for it.

use crate::by_hand::{Mistake as Hand, by_hand};
use crate::guards::{Mistake as Guard, chatty, discreet, on_the_wall_clock, wrapped};
use crate::locks::cluster;
use crate::locks::redlock::{self, Mistake as Redlock};
use crate::locks::replica;
use crate::locks::sql::{self, advisory, deferred, held, row};
use crate::locks::zookeeper::{self, Mistake as Zk};
use crate::plain::{SOUND, lock};
use crate::steps;
use crate::subject::{Made, Make, Start, redis};
use leasehold_conformance::Subject;
use std::sync::Arc;

/// A broken lock, the same lock without the mistake, and the case that tells them apart.
pub(crate) struct Control {
    /// Its number in the list of classic mistakes.
    pub(crate) number: u8,
    mistake: &'static str,
    pub(crate) case: &'static str,
    /// The path of `start`.
    store: &'static str,
    start: Start,
    broken: Make,
    mended: Make,
}

impl Control {
    pub(crate) fn name(&self) -> String {
        format!("{:02}_{}", self.number, self.mistake)
    }

    /// What people call the store that it stands on.
    pub(crate) fn store(&self) -> &'static str {
        const STORES: [(&str, &str); 7] = [
            ("redlock", "five Redis nodes"),
            ("cluster", "Redis Cluster"),
            ("replica", "Redis with a replica"),
            ("zookeeper", "ZooKeeper"),
            ("mariadb", "MariaDB"),
            ("postgres", "PostgreSQL"),
            ("sqlite", "SQLite"),
        ];
        let known = STORES.iter().find(|(path, _)| self.store.contains(path));
        known.map_or("Redis", |(_, name)| name)
    }

    pub(crate) fn broken(&self) -> Arc<dyn Subject> {
        Arc::new(Made { name: self.name(), start: self.start, make: self.broken })
    }

    pub(crate) fn mended(&self) -> Arc<dyn Subject> {
        Arc::new(Made { name: format!("{}_mended", self.name()), start: self.start, make: self.mended })
    }
}

macro_rules! control {
    ($number:literal $mistake:ident $case:ident, $broken:expr, $mended:expr) => {
        control!($number $mistake $case on redis, $broken, $mended)
    };
    ($number:literal $mistake:ident $case:ident on $start:expr, $broken:expr, $mended:expr) => {
        Control {
            number: $number,
            mistake: stringify!($mistake),
            case: stringify!($case),
            store: stringify!($start),
            start: $start,
            broken: |address| Ok($broken(address)),
            mended: |address| Ok($mended(address)),
        }
    };
    ($number:literal $mistake:ident $case:ident, steps $steps:ident) => {
        control!($number $mistake $case, |address| lock(steps::$steps, address), |address| lock(SOUND, address))
    };
    ($number:literal $mistake:ident $case:ident, guard $wrong:ident) => {
        control!($number $mistake $case, |address| wrapped(Guard::$wrong, address), |address| wrapped(Guard::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, row $wrong:ident) => {
        control!($number $mistake $case on sql::mariadb,
            |address| row::lock(row::Mistake::$wrong, address), |address| row::lock(row::Mistake::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, held $wrong:ident) => {
        control!($number $mistake $case on sql::mariadb,
            |address| held::lock(held::Mistake::$wrong, address), |address| held::lock(held::Mistake::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, hand $wrong:ident) => {
        control!($number $mistake $case, |address| by_hand(Hand::$wrong, address), |address| by_hand(Hand::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, redlock $wrong:ident on $start:ident) => {
        control!($number $mistake $case on redlock::$start,
            |address| redlock::lock(Redlock::$wrong, address), |address| redlock::lock(Redlock::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, zookeeper $wrong:ident) => {
        control!($number $mistake $case on zookeeper::start,
            |address| zookeeper::lock(Zk::$wrong, address), |address| zookeeper::lock(Zk::Nothing, address))
    };
}

pub(crate) fn controls() -> Vec<Control> {
    vec![
        control!(1 setnx_without_expiry I01, steps SETNX_WITHOUT_EXPIRY),
        control!(2 setnx_then_expire I05, steps SETNX_THEN_EXPIRE),
        control!(3 timestamp_and_getset C11, steps GETSET),
        control!(4 client_clock_expiry J14, steps CLIENT_CLOCK_EXPIRY),
        control!(5 del_without_owner_check C02, steps DEL_WITHOUT_OWNER_CHECK),
        control!(6 get_then_del C12, steps GET_THEN_DEL),
        control!(8 pexpire_without_owner_check C04, steps PEXPIRE_WITHOUT_OWNER_CHECK),
        control!(10 watchdog_outlives_a_dropped_acquire D05, hand WatchdogBeforeGuard),
        control!(11 watchdog_outlives_a_panic G08, guard RenewedAfterPanic),
        control!(12 inconclusive_renewal_carries_on E02, steps INCONCLUSIVE_IS_RENEWED),
        control!(13 validity_is_a_flag_set_by_a_task E12, guard FlagSetByATask),
        control!(14 validity_from_the_reply D18, hand ValidFromReply),
        control!(15 validity_from_the_first_attempt B07, hand ValidFromFirstAttempt),
        control!(16 validity_by_the_wall_clock J14, on_the_wall_clock, |address| lock(SOUND, address)),
        control!(18 new_owner_for_each_try G09, steps NEW_OWNER_EACH_TRY),
        control!(19 half_is_a_majority J32, redlock HalfIsAMajority on four),
        control!(20 silent_nodes_are_not_released J07, redlock ForgetsTheSilent on five),
        control!(21 no_time_is_subtracted J09, redlock NoTimeIsSubtracted on five),
        control!(22 one_node_after_the_other J06, redlock OneAfterTheOther on five),
        control!(23 token_is_the_maximum_of_counts F12, redlock MaximumOfCounts on five),
        control!(25 fence_is_the_clients_time F13, steps FENCE_IS_THE_CLIENTS_TIME),
        control!(26 token_counter_goes_with_the_record F02, steps FENCE_GOES_WITH_THE_RECORD),
        control!(28 asks_only_when_told H02, |address| by_hand(Hand::AsksWhenToldOnly, address), |address| lock(SOUND, address)),
        control!(29 name_is_the_hash_tag K02 on cluster::start,
            |address| lock(cluster::NAME_IS_THE_TAG, address), |address| lock(cluster::NO_BRACES_IN_NAMES, address)),
        control!(30 asks_a_replica J24 on replica::start,
            |address| lock(replica::ASKS_THE_REPLICA, address), |address| lock(SOUND, address)),
        control!(31 one_node_that_all_watch Q01, zookeeper OneNodeThatAllWatch),
        control!(32 all_watch_the_queue Q01, zookeeper AllWatchTheQueue),
        control!(33 sorted_by_name Q09, zookeeper SortedByName),
        control!(35 no_owner_in_the_name G09, zookeeper NoOwnerInTheName),
        control!(36 persistent_nodes I01, zookeeper PersistentNodes),
        control!(37 waits_for_the_word_expired E02, zookeeper WaitsForExpired),
        control!(38 number_that_begins_anew C13, zookeeper OwnerInTheData),
        control!(39 woken_is_taken_for_granted H10, zookeeper TrustsTheWatch),
        control!(40 row_without_a_lease I01, row WithoutLease),
        control!(41 looks_then_takes C11, row LooksThenTakes),
        control!(42 for_update_in_autocommit A02, held InAutocommit),
        control!(43 for_update_of_a_missing_row P04, held MissingRow),
        control!(44 expiry_by_the_clients_clock J14, row ClientsClock),
        control!(45 expiry_in_the_sessions_time_zone P15, row SessionsTimeZone),
        control!(46 names_that_collate K01, row NamesThatCollate),
        control!(47 names_cut_short K03, row NamesCutShort),
        control!(49 lock_wait_time_out_taken_for_a_rollback P03, held TimeOutTakenForRollback),
        control!(50 connection_goes_back_with_its_lock G03 on sql::postgres,
            |address| advisory::lock(true, address), |address| advisory::lock(false, address)),
        control!(51 pool_reconnects_behind_the_guard J11, held HeartbeatThroughThePool),
        control!(52 release_deletes_the_row F01, row ReleaseDeletes),
        control!(54 deferred_transaction P04 on sql::sqlite,
            |address| deferred::lock("BEGIN", address), |address| deferred::lock("BEGIN IMMEDIATE", address)),
        control!(55 second_release_frees_the_next_owner A06, guard ReleasedTwice),
        control!(57 deadline_begins_again_with_every_try B04, guard DeadlineForEachTry),
        control!(58 drop_blocks G06, guard DropBlocks),
        control!(59 password_in_debug R06, chatty, discreet),
        // Once more, by nothing but the history of clients that know nothing of the mistake.
        control!(42 for_update_in_autocommit S01, held InAutocommit),
        control!(52 release_deletes_the_row S01, row ReleaseDeletes),
    ]
}
