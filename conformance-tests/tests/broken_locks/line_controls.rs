//! The table of the shared lock in `shared_queue.rs`: number, mistake, the case that is named for it, and the change in its scripts.

use crate::control::Control;
use crate::controls::control;
use crate::shared_queue::line;
use crate::subject::{redis, redis_with_a_clock};
use leasehold_core::Sharing;
use leasehold_test_stores::stores;

macro_rules! edited {
    ($number:literal $mistake:ident $case:ident $words:literal, $order:ident $($edit:expr),+) => {
        control!($number $mistake $case $words,
            |address| line(Sharing::$order, &[$($edit),+], address), |address| line(Sharing::$order, &[], address))
    };
}

pub(crate) fn controls() -> Vec<Control> {
    vec![
        edited!(140 mark_of_a_writer_has_no_end T83 "Killed, a write lock that waited for a shared one",
            WriterFirst ("+ 1000 < now", "< 0")),
        edited!(141 attempt_of_a_writer_leaves_a_mark T80 "a reader was kept out",
            WriterFirst ("waits == 'true' and joins", "joins")),
        edited!(142 mark_outlives_the_grant_of_its_writer T85 "was served and released, and keeps readers out",
            WriterFirst ("leave(owner)\n        if is_writer and order ~= 'fifo' then redis.call('DEL', k.line, k.seen, k.wants) end", ""),
            ("leave(owner) -- who goes", "if not held then leave(owner) end")),
        edited!(143 leaving_writer_removes_all_marks T86 "when one of two waiting writers had left",
            WriterFirst ("leave(owner) -- who goes", "leave(owner) redis.call('DEL', k.line, k.seen, k.wants)")),
        edited!(144 waiting_reader_passes_writers T08 "a reader that waits was let in before",
            WriterFirst ("not is_writer and other_writes", "not is_writer and other_writes and waits == 'false'")),
        edited!(145 mark_covers_the_folder_of_its_name T87 "and keeps readers out of",
            WriterFirst ("local marks = name", "local marks = string.gsub(name, '/[^/]*$', '')")),
        edited!(146 exclusive_waiter_leaves_no_mark T08 "before a exclusive lock that waits",
            WriterFirst ("is_writer and beside_readers", "mode == 'write' and beside_readers")),
        edited!(147 writer_that_gives_up_leaves_its_mark T81 "GivesUp, a write lock that waited for a shared one",
            WriterFirst ("leave(owner) -- who goes", "if held then leave(owner) end"), ("+ 1000 < now", "+ 5000 < now")),
        edited!(148 writers_first_in_a_line H12 "a write lock overtook a shared one",
            Fifo ("in_front and (is_writer or other_writes)", "in_front and other_writes")),
        edited!(149 dead_reader_keeps_its_place T83 "Killed, a shared lock that waited for",
            Fifo ("+ 1000 < now", "+ 1000 < now and redis.call('HGET', k.wants, waiter) ~= 'shared'")),
        edited!(150 readers_first_in_a_line H12 "a shared lock overtook a write one",
            Fifo ("in_front and (is_writer or other_writes)", "in_front and is_writer")),
        edited!(150 readers_first_in_a_line T89 "were served in the order",
            Fifo ("in_front and (is_writer or other_writes)", "in_front and is_writer")),
        edited!(151 attempt_of_a_writer_leaves_a_place_in_line T80 "a reader was kept out",
            Fifo ("waits == 'true' and joins", "(waits == 'true' or mode == 'write') and joins")),
        edited!(152 reader_cut_off_keeps_its_place_for_ever T84 "CutOff, a shared lock that waited for",
            Fifo ("+ 1000 < now", "+ 1000 < now and redis.call('HGET', k.wants, waiter) ~= 'shared'")),
        edited!(190 leaving_waiter_sends_the_next_to_the_end T89 "were served in the order",
            Fifo ("leave(owner) -- who goes", "local place = redis.call('ZSCORE', k.line, owner)
                leave(owner)
                local behind = place and not held and redis.call('ZRANGEBYSCORE', k.line, place, '+inf', 'LIMIT', 0, 1)[1]
                if behind then leave(behind) end")),
        edited!(191 writers_behind_writers_keep_readers_out T09 "starve a shared lock",
            WriterFirst ("is_writer and beside_readers", "is_writer")),
        edited!(153 forced_release_of_all_ends_the_first T91 "holds ended by force",
            WriterFirst ("argument == ''", "(argument == '' and #ended == 0)")),
        edited!(154 forced_release_of_one_ends_all T91 "of 4 shared holds ended by force, then",
            WriterFirst ("drop(hold[1])", "redis.call('DEL', k.ends)")),
        edited!(155 forced_release_answers_another_hold T91 "of 4 shared holds ended by force: of the holds",
            WriterFirst ("ended[#ended + 1] = hold", "ended[#ended + 1] = all[1]")),
        edited!(156 forced_release_forgets_the_waiters C19 "waiters were shown",
            Fifo ("redis.call('SET', k.used, now) -- by force", "redis.call('DEL', k.line, k.seen, k.wants)")),
        edited!(195 writers_end_by_the_clocks_of_clients T97 "after its wall clock stepped",
            WriterFirst ("local now = time[1] * 1000 + math.floor(time[2] / 1000)",
                "local now = mode == 'write' and clients_now or time[1] * 1000 + math.floor(time[2] / 1000)")),
        edited!(198 waiting_writer_hides_a_lost_grant T06 "beside a lost grant",
            WriterFirst ("if redis.call('ZSCORE', k.ends, owner) then",
                "if redis.call('ZSCORE', k.ends, owner) and (mode ~= 'shared' or redis.call('ZCARD', k.line) == 0) then")),
        edited!(199 line_hides_a_lost_grant G09 "beside a lost grant",
            Fifo ("if redis.call('ZSCORE', k.ends, owner) then", "if redis.call('ZSCORE', k.ends, owner) and redis.call('ZCARD', k.line) == 0 then")),
        edited!(199 line_hides_a_lost_grant T59 "beside a lost grant",
            Fifo ("if redis.call('ZSCORE', k.ends, owner) then", "if redis.call('ZSCORE', k.ends, owner) and redis.call('ZCARD', k.line) == 0 then")),
        edited!(200 token_is_looked_for_in_others T91 "the lock of another token was broken",
            WriterFirst ("tostring(hold[3]) == argument", "string.find(tostring(hold[3]), argument, 1, true)")),
        edited!(201 forced_release_forgets_the_marks C19 "and others waited",
            WriterFirst ("redis.call('SET', k.used, now) -- by force", "redis.call('DEL', k.line, k.seen, k.wants)")),
        edited!(202 place_in_line_ends_after_six_seconds H05 "were served in the order",
            Fifo ("redis.call('HSET', k.seen, owner, now)", "redis.call('HSETNX', k.seen, owner, now)"), ("+ 1000 < now", "+ 6000 < now")),
        edited!(203 place_in_line_ends_with_a_lease H05 "were served in the order",
            Fifo ("redis.call('HSET', k.seen, owner, now)", "redis.call('HSETNX', k.seen, owner, now + math.max(ttl, 2000) - 1000)")),
        edited!(208 tokens_begin_again_after_a_writer_that_ended T92 "after a lease that ended",
            WriterFirst ("'-inf', now)) do drop(ended)", "'-inf', now)) do
                if redis.call('HGET', k.modes, ended) == 'write' then redis.call('DEL', k.fence) end
                drop(ended)")),
        edited!(208 tokens_begin_again_after_a_writer_that_ended T93 "after the end of a lease",
            WriterFirst ("'-inf', now)) do drop(ended)", "'-inf', now)) do
                if redis.call('HGET', k.modes, ended) == 'write' then redis.call('DEL', k.fence) end
                drop(ended)")),
        edited!(209 forced_release_of_one_forgets_the_line C19 "waiters were shown",
            Fifo ("redis.call('SET', k.used, now) -- by force",
                "if argument ~= '' then redis.call('DEL', k.line, k.seen, k.wants) end")),
        edited!(225 mark_of_a_writer_is_not_renewed T08 "lock waits",
            WriterFirst ("redis.call('HSET', k.seen, owner, now)", "redis.call('HSETNX', k.seen, owner, now)")),
        edited!(226 hundred_readers_are_shown T16 "is shown of",
            WriterFirst ("local seen = holds(k)", "local seen = { unpack(holds(k), 1, 100) }")),
        edited!(227 list_leaves_out_the_permits U04 "are listed as held", Fifo ("slots too", "")),
        edited!(157 forget_ends_a_hold C21 "name that was to be forgotten",
            WriterFirst ("is_free and all_of(k)", "all_of(k)")),
        edited!(158 forget_deletes_the_token_of_a_held_name C21 "over what was to forget a held name",
            WriterFirst ("all_of(k) or {}", "all_of(k) or {k.fence}")),
        edited!(159 forget_takes_a_name_for_a_prefix C21 "when a name like it was forgotten",
            WriterFirst ("{ KEYS[1] }", "names('used', KEYS[1])")),
        edited!(160 forget_does_nothing C22 "free names were to be forgotten",
            WriterFirst ("if #all > 0", "if false")),
        edited!(161 list_is_one_page C24 "held names are not listed",
            WriterFirst ("until cursor == '0'", "until true")),
        edited!(162 list_is_deduplicated_page_by_page C24 "of them are different",
            WriterFirst ("local page", "found = {} local page"), ("'^(.*):' .. suffix", "'^(.*):[mt][a-z]+'")),
        edited!(163 list_shows_ended_holds C20 "or after its end",
            WriterFirst ("holds(keys(of))", "holds(keys(of), true)")),
        edited!(165 look_ends_holds_by_the_clients_clock C25 "after a look of a client whose clock is",
            WriterFirst ("local seen = holds(k)", "redis.call('ZREMRANGEBYSCORE', k.ends, '-inf', clients_now) local seen = holds(k)")),
        edited!(166 look_lengthens_the_leases_of_readers C20 "has moved its end",
            WriterFirst ("local seen = holds(k)", "local seen = holds(k)
                for _, hold in ipairs(seen) do
                    if hold[4] == 'shared' then redis.call('ZADD', k.ends, 'GT', now + 900, hold[1]) end
                end")),
        edited!(167 purge_forgets_names_in_use P12 "were idle for an hour",
            WriterFirst ("idle >= tonumber(argument)", "true")),
        control!(236 purge_forgets_the_tokens J15 "when the clock had gone forward" on redis_with_a_clock,
            |address| line(Sharing::WriterFirst, &[("k.wants, k.used) end", "k.wants, k.used, k.fence) end")], address),
            |address| line(Sharing::WriterFirst, &[], address)),
        edited!(169 purge_takes_any_time P12 "succeeded instead of being Invalid",
            WriterFirst ("any idle time", "")),
    ]
}
