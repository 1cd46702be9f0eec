//! The table: number, mistake, and the case that is named for it.

use crate::by_hand::{Mistake as Hand, by_hand};
use crate::guards::{Mistake as Guard, chatty, discreet, on_the_wall_clock, wrapped};
use crate::plain::{SOUND, lock};
use crate::sql;
use crate::steps;
use crate::subject::{Made, Make, On};
use leasehold_conformance::Subject;
use std::sync::Arc;

/// A broken lock, the same lock without the mistake, and the case that tells them apart.
pub(crate) struct Control {
    /// Its number in the list of classic mistakes.
    number: u8,
    mistake: &'static str,
    pub(crate) case: &'static str,
    broken: Make,
    mended: Make,
    on: On,
}

impl Control {
    pub(crate) fn name(&self) -> String {
        format!("{:02}_{}", self.number, self.mistake)
    }

    pub(crate) fn broken(&self) -> Arc<dyn Subject> {
        Arc::new(Made { name: self.name(), make: self.broken, on: self.on })
    }

    pub(crate) fn mended(&self) -> Arc<dyn Subject> {
        Arc::new(Made { name: format!("{}_mended", self.name()), make: self.mended, on: self.on })
    }
}

macro_rules! control {
    ($number:literal $mistake:ident $case:ident, $broken:expr, $mended:expr) => {
        control!($number $mistake $case, $broken, $mended, On::Redis)
    };
    ($number:literal $mistake:ident $case:ident, sql $steps:ident) => {
        control!(
            $number $mistake $case,
            |address| sql::lock(sql::$steps, address),
            |address| sql::lock(sql::SOUND, address),
            On::MariaDb
        )
    };
    ($number:literal $mistake:ident $case:ident, $broken:expr, $mended:expr, $on:expr) => {
        Control {
            number: $number,
            mistake: stringify!($mistake),
            case: stringify!($case),
            broken: |address| Ok($broken(address)),
            mended: |address| Ok($mended(address)),
            on: $on,
        }
    };
    ($number:literal $mistake:ident $case:ident, steps $steps:ident) => {
        control!($number $mistake $case, |address| lock(steps::$steps, address), |address| lock(SOUND, address))
    };
    ($number:literal $mistake:ident $case:ident, guard $wrong:ident) => {
        control!($number $mistake $case, |address| wrapped(Guard::$wrong, address), |address| wrapped(Guard::Nothing, address))
    };
    ($number:literal $mistake:ident $case:ident, hand $wrong:ident) => {
        control!($number $mistake $case, |address| by_hand(Hand::$wrong, address), |address| by_hand(Hand::Nothing, address))
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
        control!(26 token_counter_goes_with_the_record F02, steps FENCE_GOES_WITH_THE_RECORD),
        control!(40 unique_row_without_lease I01, sql UNIQUE_ROW),
        control!(41 select_then_update C11, sql SELECT_THEN_UPDATE),
        control!(46 names_in_a_collation K01, sql COLLATED),
        control!(47 names_cut_short K03, sql TRUNCATED),
        control!(52 release_deletes_the_row F01, sql ROW_DELETED),
        control!(55 second_release_frees_the_next_owner A06, guard ReleasedTwice),
        control!(58 drop_blocks G06, guard DropBlocks),
        control!(59 password_in_debug R06, chatty, discreet),
    ]
}
