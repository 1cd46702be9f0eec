//! The properties of owners, of readers and of writers too: the cases of other families, in which those that hold, or wait, do so in a
//! mode.
//! Attempts that find out whether the lock is held stay exclusive.

use super::modes::sharing;
use crate::case::Case;
use crate::cases::prelude::*;
use crate::cases::{by_id, run};
use leasehold_core::LockMode;

/// `T25 property of the same with the id C02, …`.
macro_rules! cases_in_a_mode {
    ($mode:ident: $($id:ident $property:ident $of:ident),+ $(,)?) => {
        &[$((
            Case { in_a_mode: Some(stringify!($of)), ..Case::new(stringify!($id), stringify!($property)) },
            |cx| Box::pin(in_a_mode(cx, LockMode::$mode, stringify!($of))),
        )),+]
    };
}

async fn in_a_mode(cx: &Context, mode: LockMode, id: &str) -> Verdict {
    sharing(cx).await?;
    cx.hold_in(mode);
    let case = by_id(id).ok_or_else(|| Stop::Failed(format!("there is no case {id}")))?;
    run(case, cx).await
}

pub(super) const OF_READERS: CaseTable = cases_in_a_mode![Shared:
    T05 late_or_repeated_release_of_a_reader_frees_no_other C16,
    T06 reader_recognises_a_grant_whose_reply_was_lost G09,
    T07 crashed_reader_is_gone_at_its_own_end I01,
    T25 late_release_of_a_reader_frees_no_successor C02,
    T26 late_release_of_a_reader_through_the_same_client_frees_no_successor C03,
    T27 stale_renewal_of_a_reader_touches_no_successor C04,
    T28 late_renewal_revives_no_ended_lease_of_a_reader C05,
    T29 late_renewal_revives_no_lease_of_a_reader_that_ended_unnoticed C14,
    T30 stranded_renewal_shortens_no_extension_of_a_reader C15,
    T31 release_of_a_reader_delayed_on_the_wire_frees_no_successor C12,
    T33 fixed_lease_of_a_reader_ends_on_time D01,
    T34 reader_that_was_dropped_is_renewed_no_longer D04,
    T35 lost_reply_to_a_renewal_of_a_reader_is_survived D07,
    T36 loss_of_a_reader_comes_before_the_store_lets_a_writer_in D08,
    T37 max_hold_ends_a_healthy_hold_of_a_reader D12,
    T38 extension_of_a_reader_sets_the_time_that_is_left D13,
    T39 extended_length_is_used_by_the_next_renewals_of_a_reader D14,
    T40 grant_of_a_reader_that_arrives_after_its_lease_is_not_held D18,
    T41 store_keeps_each_lease_of_a_reader_for_as_long_as_was_asked D19,
    T42 renewals_of_readers_in_one_batch_keep_their_own_ttls D20,
    T43 lost_reader_of_a_batch_is_told_alone D21,
    T44 renewals_of_a_reader_shorten_no_extension_in_the_store D23,
    T62 restart_with_data_keeps_a_reader_and_without_data_loses_it D09,
    T45 least_time_of_a_reader_of_a_day_is_a_day D24,
    T64 hold_at_least_of_a_reader_keeps_writers_out D17,
    T50 hold_at_least_of_a_reader_outlasts_a_dropped_guard D22,
    T100 deleted_record_of_a_reader_is_a_loss_within_its_bound E01,
    T46 unreachable_store_is_a_loss_of_a_reader_by_the_deadline E02,
    T47 late_reply_to_a_renewal_of_a_reader_is_counted_from_its_request E13,
    T48 read_attempt_dropped_at_any_await_frees_the_lock G02,
    T49 read_attempt_dropped_between_grant_and_reply_is_undone G03,
    T51 only_read_attempt_whose_reply_is_lost_is_indeterminate G12,
    T52 release_of_a_reader_whose_request_is_lost_is_made_again G13,
    T53 grant_of_a_reader_recognised_late_lasts_a_whole_lease G14,
    T67 fifty_refused_attempts_of_readers_leave_nothing G15,
    T68 tokens_of_readers_grow_over_expiry_force_deletion_and_restart F02,
    T69 renewal_does_not_change_the_token_of_a_reader F06,
    T70 tokens_of_readers_grow_over_several_idle_leases F14,
    T71 reader_killed_between_grant_and_reply_is_replaced I05,
    T72 wall_clock_of_a_reader_decides_nothing J14,
    T74 release_lets_a_waiting_reader_in_within_its_bound A07,
    T75 idle_waiting_reader_sends_no_more_requests_than_declared H07,
];

/// Those in which a store that keeps its writers apart from exclusive owners may differ.
pub(super) const OF_WRITERS: CaseTable = cases_in_a_mode![Write:
    T63 hold_at_least_of_a_writer_keeps_others_out D17,
    T54 late_release_of_a_writer_frees_no_successor C02,
    T55 late_renewal_revives_no_lease_of_a_writer_that_ended_unnoticed C14,
    T56 stranded_renewal_shortens_no_extension_of_a_writer C15,
    T57 repeated_release_of_a_writer_frees_no_successor C16,
    T58 store_keeps_each_lease_of_a_writer_for_as_long_as_was_asked D19,
    T59 grant_of_a_writer_whose_reply_is_lost_is_recognised G09,
    T60 grant_of_a_writer_recognised_late_lasts_a_whole_lease G14,
    T76 release_lets_a_waiting_writer_in_within_its_bound A07,
    T77 idle_waiting_writer_sends_no_more_requests_than_declared H07,
    T78 stale_renewal_of_a_writer_touches_no_successor C04,
    T79 release_of_a_writer_delayed_on_the_wire_frees_no_successor C12,
    T92 tokens_of_writers_grow_over_expiry_force_deletion_and_restart F02,
    T93 tokens_of_writers_grow_over_several_idle_leases F14,
    T94 only_write_attempt_whose_reply_is_lost_is_indeterminate G12,
    T95 release_of_a_writer_whose_request_is_lost_is_made_again G13,
    T96 writer_killed_between_grant_and_reply_is_replaced I05,
    T97 wall_clock_of_a_writer_decides_nothing J14,
];
