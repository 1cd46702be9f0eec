//! The table: number, mistake, and the case that is named for it.

use crate::by_hand::{Mistake as Hand, by_hand, by_hand_and_hash};
use crate::control::Control;
use crate::guards::{Mistake as Guard, chatty, discreet, on_the_wall_clock, wrapped};
use crate::line_controls;
use crate::locks::cluster;
use crate::locks::etcd::{self, Mistake as Etcd};
use crate::locks::redlock::{self, Mistake as Redlock};
use crate::locks::replica;
use crate::locks::sql::{self, advisory, deferred, held, row};
use crate::locks::zookeeper::{self, Mistake as Zk};
use crate::permits::{CountedByNodes, ENDS_BY_BOOT_CLOCKS, ENDS_BY_CLIENTS_CLOCKS, TokenIsACount};
use crate::plain::{SOUND, Times, lock, lock_by_hash};
use crate::plain_admin::{Mistake as Admin, administrated};
use crate::scopes::{IdentityOfTheTask, InnerReleaseFrees};
use crate::sets::{CallersOrder, FirstLockOnly, KeptAfterFailure};
use crate::shared::shared;
use crate::shared_hints::{Mistake as Hints, telling};
use crate::shared_mistakes::Mistake as Sharing;
use crate::steps;
use crate::subject::redis;
use crate::values;
use crate::waiters;
use leasehold_core::LossSignal;
use leasehold_test_stores::stores;
use std::time::Duration;

macro_rules! control {
    ($number:literal $mistake:ident $case:ident $words:literal, $broken:expr, $mended:expr) => {
        control!($number $mistake $case $words on redis, $broken, $mended)
    };
    ($number:literal $mistake:ident $case:ident $words:literal on $start:expr, $broken:expr, $mended:expr) => {
        Control {
            number: $number,
            mistake: stringify!($mistake),
            case: stringify!($case),
            words: $words,
            store: stringify!($start),
            start: $start,
            broken: |address| Ok($broken(address)),
            mended: |address| Ok($mended(address)),
            broken_kinds: &stores::FacadeKinds,
            lease: |ttl| ttl,
        }
    };
    ($number:literal $mistake:ident $case:ident $words:literal, kinds $wrong:expr) => {
        Control {
            broken_kinds: &$wrong,
            ..control!($number $mistake $case $words, |address| lock(SOUND, address), |address| lock(SOUND, address))
        }
    };
    ($number:literal $mistake:ident $case:ident $words:literal, steps $steps:path) => {
        control!($number $mistake $case $words, |address| lock($steps, address), |address| lock(SOUND, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, by_hash $steps:path) => {
        control!($number $mistake $case $words,
            |address| lock_by_hash($steps, address), |address| lock_by_hash(SOUND, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, seconds $field:ident $wrong:path, admin $admin:literal) => {
        Control {
            lease: values::SECONDS,
            ..control!($number $mistake $case $words,
                |address| values::in_times(Times { $field: $wrong, ..Times::all(values::SECONDS) }, $admin, address),
                |address| values::in_times(Times::all(values::SECONDS), $admin, address))
        }
    };
    ($number:literal $mistake:ident $case:ident $words:literal, $lock:ident($mistakes:ident::$wrong:ident)) => {
        control!($number $mistake $case $words,
            |address| $lock($mistakes::$wrong, address), |address| $lock($mistakes::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, row $wrong:ident) => {
        control!($number $mistake $case $words on sql::mariadb,
            |address| row::lock(row::Mistake::$wrong, address), |address| row::lock(row::Mistake::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, held $wrong:ident) => {
        control!($number $mistake $case $words on sql::mariadb,
            |address| held::lock(held::Mistake::$wrong, address), |address| held::lock(held::Mistake::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, redlock $wrong:ident on $start:ident) => {
        control!($number $mistake $case $words on redlock::$start,
            |address| redlock::lock(Redlock::$wrong, address), |address| redlock::lock(Redlock::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, zookeeper $wrong:ident) => {
        control!($number $mistake $case $words on zookeeper::start,
            |address| zookeeper::lock(Zk::$wrong, address), |address| zookeeper::lock(Zk::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident $words:literal, etcd $wrong:ident on $start:ident) => {
        control!($number $mistake $case $words on etcd::$start,
            |address| etcd::lock(Etcd::$wrong, address), |address| etcd::lock(Etcd::Nothing, address))
    };
}

pub(crate) use control;

const TWO_SECONDS: Duration = Duration::from_secs(2);

pub(crate) fn controls() -> Vec<Control> {
    let mut controls = vec![
        control!(1 setnx_without_expiry I01 "not free within", steps steps::SETNX_WITHOUT_EXPIRY),
        control!(2 setnx_then_expire I05 "not free within", steps steps::SETNX_THEN_EXPIRE),
        control!(3 timestamp_and_getset C11 "another attempt overwrote it", steps steps::GETSET),
        control!(4 client_clock_expiry J14 "whose clock is an hour ahead", steps steps::CLIENT_CLOCK_EXPIRY),
        control!(5 del_without_owner_check C02 "after the late release", steps steps::DEL_WITHOUT_OWNER_CHECK),
        control!(6 get_then_del C12 "after the delayed release went on", steps steps::GET_THEN_DEL),
        control!(8 pexpire_without_owner_check C04 "after the stale renewal arrived", steps steps::PEXPIRE_WITHOUT_OWNER_CHECK),
        control!(10 watchdog_outlives_a_dropped_acquire D05 "the lock is not free", by_hand(Hand::WatchdogBeforeGuard)),
        control!(11 watchdog_outlives_a_panic G08 "after a panic in the critical section", wrapped(Guard::RenewedAfterPanic)),
        control!(12 inconclusive_renewal_carries_on E02 "still held after", steps steps::INCONCLUSIVE_IS_RENEWED),
        control!(13 validity_is_a_flag_set_by_a_task E12 "is believed in after a pause", wrapped(Guard::FlagSetByATask)),
        control!(14 validity_from_the_reply D18 "taken for a hold", by_hand(Hand::ValidFromReply)),
        control!(15 validity_from_the_first_attempt B07 "of a new lease", by_hand(Hand::ValidFromFirstAttempt)),
        control!(16 validity_by_the_wall_clock J14 "after its wall clock stepped",
            on_the_wall_clock, |address| lock(SOUND, address)),
        control!(18 new_owner_for_each_try G09 "it waits for its own ghost", steps steps::NEW_OWNER_EACH_TRY),
        control!(19 half_is_a_majority J32 "each half of 4 nodes has granted", redlock HalfIsAMajority on four),
        control!(20 silent_nodes_are_not_released J07 "still has the lock as taken", redlock ForgetsTheSilent on five),
        control!(21 no_time_is_subtracted J09 "granted late by the nodes", redlock NoTimeIsSubtracted on five),
        control!(22 one_node_after_the_other J06 "did not answer within", redlock OneAfterTheOther on five),
        control!(23 token_is_the_maximum_of_counts F12 "of a majority that differs", redlock MaximumOfCounts on five),
        control!(25 fence_is_the_clients_time F13 "of a client whose clock is right", steps steps::FENCE_IS_THE_CLIENTS_TIME),
        control!(26 token_counter_goes_with_the_record F02 "after a lease that ended: token 1",
            steps steps::FENCE_GOES_WITH_THE_RECORD),
        control!(28 asks_only_when_told H02 "whose wake-up was lost", by_hand(Hand::AsksWhenToldOnly)),
        control!(29 name_is_the_hash_tag K02 "CrossSlot" on cluster::start,
            |address| lock(cluster::NAME_IS_THE_TAG, address), |address| lock(cluster::NO_BRACES_IN_NAMES, address)),
        control!(30 asks_a_replica J24 "taken while a replica lags behind" on replica::start,
            |address| lock(replica::ASKS_THE_REPLICA, address), |address| lock(SOUND, address)),
        control!(31 one_node_that_all_watch Q01 "a release told", zookeeper OneNodeThatAllWatch),
        control!(32 all_watch_the_queue Q01 "a release told", zookeeper AllWatchTheQueue),
        control!(33 sorted_by_name Q09 "a newcomer took a lock that is held", zookeeper SortedByName),
        control!(35 no_owner_in_the_name G09 "it waits for its own ghost", zookeeper NoOwnerInTheName),
        control!(36 persistent_nodes I01 "not free within", zookeeper PersistentNodes),
        control!(37 waits_for_the_word_expired E02 "still held after", zookeeper WaitsForExpired),
        control!(38 number_that_begins_anew C13 "the late release", zookeeper OwnerInTheData),
        control!(39 woken_is_taken_for_granted H10 "got a lock that another holds", zookeeper TrustsTheWatch),
        control!(40 row_without_a_lease I01 "not free within", row WithoutLease),
        control!(41 looks_then_takes C11 "2 holders of one lock", row LooksThenTakes),
        control!(42 for_update_in_autocommit A02 "somebody else got the lock", held InAutocommit),
        control!(43 for_update_of_a_missing_row P04 "Lock wait timeout exceeded", held MissingRow),
        control!(44 expiry_by_the_clients_clock J14 "whose clock is an hour ahead", row ClientsClock),
        control!(45 expiry_in_the_sessions_time_zone P15 "of a holder at +00:00: somebody else got", row SessionsTimeZone),
        control!(46 names_that_collate K07 "is blocked by another of", row NamesThatCollate),
        control!(47 names_cut_short K10 "is blocked by another of", row NamesCutShort),
        control!(49 lock_wait_time_out_taken_for_a_rollback P03 "transactions are left", held TimeOutTakenForRollback),
        control!(50 connection_goes_back_with_its_lock G03 "dropped between grant and reply" on sql::postgres,
            |address| advisory::lock(true, address), |address| advisory::lock(false, address)),
        control!(51 pool_reconnects_behind_the_guard J11 "the holder was not told", held HeartbeatThroughThePool),
        control!(54 deferred_transaction P04 "database is locked" on sql::sqlite,
            |address| deferred::lock("BEGIN", address), |address| deferred::lock("BEGIN IMMEDIATE", address)),
        control!(55 second_release_frees_the_next_owner A06 "the successor lost its lock", wrapped(Guard::ReleasedTwice)),
        control!(57 deadline_begins_again_with_every_try B04 "it gave up only after", wrapped(Guard::DeadlineForEachTry)),
        control!(58 drop_blocks G06 "a drop blocked its thread", wrapped(Guard::DropBlocks)),
        control!(59 password_in_debug R06 "a password appears", chatty, discreet),
        control!(60 busy_for_unknown G12 "Busy instead of Indeterminate", steps steps::BUSY_FOR_UNKNOWN),
        control!(61 released_for_unknown G13 "after a release that was lost", steps steps::RELEASED_FOR_UNKNOWN),
        control!(62 renewal_begins_anew C14 "after the late renewal arrived", steps steps::RENEWAL_BEGINS_ANEW),
        control!(63 told_of_nothing A07 "waiters are not told",
            |address| waiters::told(TWO_SECONDS, false, address), |address| waiters::told(TWO_SECONDS, true, address)),
        control!(64 last_come_first_served H09 "it so often",
            |address| waiters::in_line("-1", address), |address| waiters::in_line("0", address)),
        control!(72 permits_counted_on_a_majority U01 "hold a permit, of 2 | Exclusion broken", kinds CountedByNodes),
        control!(74 permits_end_by_the_clients_clocks J14 "whose clock is an hour ahead",
            |address| lock(ENDS_BY_CLIENTS_CLOCKS, address), |address| lock(SOUND, address)),
        control!(75 slot_given_again_with_an_older_token U01 "TokenOrder", kinds TokenIsACount),
        control!(76 set_in_the_callers_order V02 "two sets wait for each other", kinds CallersOrder),
        control!(78 set_keeps_what_it_got V04 "after the set has failed", kinds KeptAfterFailure),
        control!(79 loss_is_told_of_one_name V05 "was not told of the loss of one name", kinds FirstLockOnly),
        control!(80 scope_is_the_task W02 "by another scope of the same task", kinds IdentityOfTheTask),
        control!(82 inner_release_frees W03 "an inner release", kinds InnerReleaseFrees),
        control!(85 names_trimmed K07 "is blocked by another of", steps values::NAMES_TRIMMED),
        control!(86 names_that_count K07 "is blocked by another of", steps values::NAMES_THAT_COUNT),
        control!(88 name_hashed_to_32_bits K08 "is blocked by another of" on sql::postgres,
            |address| advisory::hashed("hashtext($1)", address),
            |address| advisory::hashed("hashtextextended($1, 0)", address)),
        control!(89 name_of_another_ones_token K09 "is blocked by another of",
            |address| lock(SOUND, address), |address| lock(values::NO_COLONS_IN_NAMES, address)),
        control!(90 renewal_sets_the_end C15 "sent before the extension", steps values::RENEWAL_SETS_THE_END),
        control!(91 ttl_of_the_first_in_a_batch D20 "a lease of",
            |address| values::in_batches(Some(values::TTL_OF_THE_FIRST), address),
            |address| values::in_batches(None, address)),
        control!(92 losses_first_in_the_answer D21 "beside lost ones",
            |address| values::in_batches(Some(values::LOSSES_FIRST), address),
            |address| values::in_batches(None, address)),
        control!(205 eight_are_renewed_at_a_time D21 "beside lost ones",
            |address| values::in_batches(Some(values::EIGHT_AT_A_TIME), address),
            |address| values::in_batches(None, address)),
        control!(206 first_loss_of_a_batch_is_told_alone D21 "was lost with others",
            |address| values::in_batches(Some(values::FIRST_LOSS_ONLY), address),
            |address| values::in_batches(None, address)),
        control!(93 lease_in_32_bits D19 "the store keeps", steps values::LEASE_IN_32_BITS),
        control!(94 whole_seconds_rounded_down D19 "the store keeps",
            |address| lock(values::WHOLE_SECONDS, address), |address| lock(values::WHOLE_SECONDS_AT_LEAST, address)),
        control!(95 recognised_and_not_extended G14 "recognised late", steps values::RECOGNISED_AS_IT_IS),
        control!(96 renewed_from_the_reply E13 "after a late reply to a renewal", by_hand(Hand::RenewedFromReply)),
        control!(97 hand_over_counts_from_its_arrival H13 "heard of late",
            |address| waiters::handed_over(false, address), |address| waiters::handed_over(true, address)),
        control!(98 released_again_by_name C16 "after a release that was made again", steps values::RELEASED_AGAIN_BY_NAME),
        control!(99 least_time_of_releases_only D22 "a dropped guard held for", wrapped(Guard::LeastTimeOfReleasesOnly)),
        control!(100 refused_attempts_leave_a_key G15 "refused attempts of each kind", steps values::REFUSED_LEAVE_A_KEY),
        control!(101 order_within_a_process H14 "was not served in its turn",
            waiters::in_line_of_a_process, |address| waiters::in_line("0", address)),
        control!(102 token_of_a_free_name_is_forgotten F14 "four leases after a release", steps values::FENCE_OF_A_FREE_NAME_ENDS),
        control!(103 losses_are_not_told E01 "was not told within",
            |address| values::telling(LossSignal::Push, address), |address| values::telling(LossSignal::Renewal, address)),
        control!(104 names_cut_at_the_front K10 "is blocked by another of", steps values::NAMES_CUT_AT_THE_FRONT),
        control!(105 token_of_the_replica J24 "with replication held back" on replica::start,
            |address| lock(replica::TOKEN_OF_THE_REPLICA, address), |address| lock(SOUND, address)),
        control!(106 waiters_are_shown_from_the_end H15 "and one more waiter",
            waiters::shown_from_the_end, |address| waiters::in_line("0", address)),
        control!(107 owner_of_pid_and_boot_clock C17 "whose boot clock is 0ns ahead, got", steps steps::OWNER_OF_PID_AND_BOOT_CLOCK),
        control!(108 expiry_by_the_boot_clock_of_the_client C17 "whose boot clock is 86400s ahead, got",
            |address| lock(ENDS_BY_BOOT_CLOCKS, address), |address| lock(SOUND, address)),
        control!(109 exclusive_hold_is_shown_as_shared C08 "is shown as shared",
            values::shown_as_shared, |address| lock(SOUND, address)),
        control!(170 renewed_from_the_reply_by_hash E13 "after a late reply to a renewal",
            |address| by_hand_and_hash(Hand::RenewedFromReply, address), |address| by_hand_and_hash(Hand::Nothing, address)),
        control!(171 turn_counts_from_its_message H13 "heard of late",
            |address| waiters::told_of_its_turn(true, address), |address| waiters::told_of_its_turn(false, address)),
        control!(172 renewals_by_number D07 "lost by one lost reply", by_hash steps::RENEWALS_BY_NUMBER),
        control!(173 nothing_to_end_is_lost G10 "another owner has had it", by_hash steps::NOTHING_TO_END_IS_LOST),
        control!(174 check_by_hash_then_del C12 "after the delayed release went on", by_hash steps::CHECK_THEN_DEL),
        control!(175 waiter_is_always_told H07 "requests of an idle waiter",
            waiters::always_told, |address| waiters::told(TWO_SECONDS, true, address)),
        control!(189 renewed_all_the_time E14 "requests of a holder", by_hand(Hand::RenewedAllTheTime)),
        control!(185 renewals_are_rounded_down D19 "the store keeps", seconds renewed_for values::ROUNDED_DOWN, admin true),
        control!(186 renewals_keep_a_second_less D23 "the store keeps", seconds renewed_for values::A_SECOND_LESS, admin true),
        control!(187 renewals_nobody_sees_are_rounded_down D25 "after a renewal", seconds renewed_for values::ROUNDED_DOWN, admin false),
        control!(220 refusal_ends_the_wait B10 "gave up when the store refused it", wrapped(Guard::RefusalEndsTheWait)),
        control!(221 endless_wait_ends X08 "a standby ended while another led", wrapped(Guard::EndlessWaitEnds)),
        control!(188 least_time_is_rounded_down D17 "guard held for", seconds lingers_for values::ROUNDED_DOWN, admin true),
        control!(222 keep_alive_alone_is_believed J38 "renewed by a leader that was replaced", etcd TrustsTheKeepAlive on three),
        control!(223 all_watch_the_keys Q01 "a release told", etcd AllWatchTheQueue on one),
        control!(224 token_is_the_revision_of_the_answer S01 "TokenUnique broken | TokenOrder", etcd TokenOfTheAnswer on one),
        // These are caught once more by the history alone, of clients that know nothing of the mistake.
        control!(42 for_update_in_autocommit S01 "Exclusion broken", held InAutocommit),
        control!(52 release_deletes_the_row S01 "TokenUnique broken", row ReleaseDeletes),
        // These are caught once more when a waiter leaves the queue.
        control!(39 woken_is_taken_for_granted H05 "got a lock that is held", zookeeper TrustsTheWatch),
        control!(64 last_come_first_served H05 "were served in the order",
            |address| waiters::in_line("-1", address), |address| waiters::in_line("0", address)),
        control!(65 readers_are_counted T05 "after a release that was made again", shared(Sharing::CountsReaders)),
        control!(66 one_end_for_all_readers T61 "is free: false", shared(Sharing::ONE_END_FOR_ALL)),
        control!(67 looks_for_a_writer_then_enters T04 "hold together", shared(Sharing::LooksThenEnters)),
        control!(69 writer_ignores_readers T04 "hold together", zookeeper WriterIgnoresReaders),
        control!(71 last_reader_deletes_without_looking T20 "under a reader that came", shared(Sharing::DeletesWithoutLooking)),
        control!(110 recognised_reader_keeps_its_old_end T53 "recognised late", shared(Sharing::RECOGNISED_AS_IT_IS)),
        control!(111 recognised_reader_has_a_new_token T06 "for the lost grant of", shared(Sharing::RECOGNISED_WITH_A_NEW_TOKEN)),
        control!(112 renewal_of_a_reader_sets_the_end T30 "sent before the extension", shared(Sharing::RENEWAL_SETS_THE_END)),
        control!(113 readers_do_not_linger T64 "a released guard lets a write lock in", shared(Sharing::READERS_DO_NOT_LINGER)),
        control!(114 readers_linger_for_a_lease T64 "not free within", shared(Sharing::READERS_LINGER_FOR_A_LEASE)),
        control!(115 lingering_reader_ends_others T17 " told", shared(Sharing::LINGERING_READER_ENDS_OTHERS)),
        control!(116 writers_do_not_linger T63 "a released guard lets a", shared(Sharing::WRITERS_DO_NOT_LINGER)),
        control!(117 lingering_writer_lets_readers_in T63 "a released guard lets a shared lock in", shared(Sharing::LINGERING_WRITER_LETS_READERS_IN)),
        control!(118 lingering_hold_is_shown_as_held S04 "is shown as", shared(Sharing::LINGERING_HOLD_IS_SHOWN_AS_HELD)),
        control!(119 record_ends_with_the_latest_reader T61 "is free: true", shared(Sharing::RECORD_ENDS_WITH_THE_LATEST_READER)),
        control!(120 record_ends_with_the_first_reader T61 "is free: true", shared(Sharing::RECORD_ENDS_WITH_THE_FIRST_READER)),
        control!(121 renewals_are_answered_by_name T17 " told", shared(Sharing::AnswersByName)),
        control!(123 reader_is_refused_for_unknown T51 "Busy instead of Indeterminate", shared(Sharing::READER_REFUSED_FOR_UNKNOWN)),
        control!(124 reader_is_released_for_unknown T52 "after a release that was lost", shared(Sharing::READER_RELEASED_FOR_UNKNOWN)),
        control!(125 reader_is_known_by_its_token T29 "after the late renewal arrived", shared(Sharing::KNOWN_BY_ITS_TOKEN)),
        control!(126 reader_is_known_by_its_token_beside_another T65 "is shown of one reader", shared(Sharing::KNOWN_BY_ITS_TOKEN_WHILE_ANY_READS)),
        control!(127 leases_of_readers_of_a_minute T41 "the store keeps", shared(Sharing::LEASES_OF_READERS_OF_A_MINUTE)),
        control!(128 ten_readers_are_shown T16 "is shown of", shared(Sharing::SHOWS_TEN_READERS)),
        control!(129 recognised_writer_keeps_its_old_end T60 "recognised late", shared(Sharing::WRITER_RECOGNISED_AS_IT_IS)),
        control!(130 renewal_of_a_writer_sets_the_end T56 "sent before the extension", shared(Sharing::RENEWAL_SETS_THE_END_OF_A_WRITER)),
        control!(131 renewal_of_a_writer_begins_anew T55 "after the late renewal arrived", shared(Sharing::RENEWAL_OF_A_WRITER_BEGINS_ANEW)),
        control!(132 recognised_reader_has_the_last_token T24 "token ", shared(Sharing::RECOGNISED_WITH_THE_LAST_TOKEN)),
        control!(133 renewal_gives_way_to_a_waiting_writer T08 "while a writer waits", shared(Sharing::RENEWAL_GIVES_WAY_TO_A_WRITER)),
        control!(134 readers_end_by_the_clocks_of_clients T72 "whose clock is an hour ahead", shared(Sharing::ENDS_BY_THE_CLOCKS_OF_CLIENTS)),
        control!(135 end_of_a_reader_is_a_second_step T71 "not free within", shared(Sharing::READER_ENDS_BY_A_SECOND_STEP)),
        control!(136 tokens_begin_again_after_a_reader_that_ended T68 "after a lease that ended", shared(Sharing::TOKENS_BEGIN_AGAIN)),
        control!(192 writer_is_refused_for_unknown T94 "Busy instead of Indeterminate", shared(Sharing::WRITER_REFUSED_FOR_UNKNOWN)),
        control!(193 writer_is_released_for_unknown T95 "after a release that was lost", shared(Sharing::WRITER_RELEASED_FOR_UNKNOWN)),
        control!(194 end_of_a_writer_is_a_second_step T96 "not free within", shared(Sharing::WRITER_ENDS_BY_A_SECOND_STEP)),
        control!(196 looks_then_deletes_the_writer T79 "after the delayed release went on", shared(Sharing::LooksThenDeletesTheWriter)),
        control!(197 renewal_is_of_any_writer T78 "after the stale renewal arrived", shared(Sharing::RENEWAL_IS_OF_ANY_WRITER)),
        control!(204 one_least_time_for_all_readers T98 "kept others out for", shared(Sharing::ONE_LEAST_TIME)),
        control!(207 refused_writer_asks_all_the_time T77 "requests of an idle waiter", shared(Sharing::HintsToWriters)),
        control!(228 answers_by_mode T43 "beside lost ones", shared(Sharing::AnswersByMode)),
        control!(229 mark_of_another_name K09 "a name that is held", shared(Sharing::MarkOfAnotherName)),
        control!(230 releases_of_readers_are_not_told T76 "waiters are not told", telling(Hints::ReleasesOfReaders)),
        control!(231 losses_of_readers_are_not_told T100 "was not told within", telling(Hints::LossesOfReaders)),
        control!(235 losses_after_a_renewal_are_not_told E01 "was not told within", telling(Hints::LossesAfterARenewal)),
        control!(232 refusals_are_outages B10 "a client that the store refuses is told", steps values::REFUSALS_ARE_OUTAGES),
        control!(233 looks_never_fail B08 "a look at a dead store", administrated(Admin::LooksNeverFail)),
        control!(234 least_time_is_forgotten D17 "guard held for", administrated(Admin::ForgetsLeastTimes)),
        control!(84 blocking_drop_waits_for_the_store Y01 "a drop blocked its thread", wrapped(Guard::DropBlocks)),
    ];
    controls.extend(line_controls::controls());
    controls
}
