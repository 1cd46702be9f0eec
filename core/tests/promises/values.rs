//! What the plain values say of themselves, and what they keep to themselves.

use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Busy, Claim, DistributedLock, DistributedLockExt, Error, ErrorKind, Fault, FencingToken,
    HoldKind, HolderInfo, LockBackend, LockClient, LockName, LockStatus, Loss, LossCause, Namespace, Outcome,
    OwnerId, Purge, StoreUrl, Wait,
};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn name() -> LockName {
    LockName::new("job").unwrap()
}

#[test]
fn an_error_says_what_to_do_about_it() {
    let told = |kind| {
        let error = Error::new(kind, "words");
        (error.is_contended(), error.is_retryable())
    };
    for kind in [ErrorKind::Busy, ErrorKind::TimedOut] {
        assert_eq!(told(kind), (true, true), "{kind:?}");
    }
    for kind in [ErrorKind::Unavailable, ErrorKind::Indeterminate] {
        assert_eq!(told(kind), (false, true), "{kind:?}");
    }
    for kind in [ErrorKind::Lost, ErrorKind::Invalid, ErrorKind::Denied, ErrorKind::Closed] {
        assert_eq!(told(kind), (false, false), "{kind:?}");
    }
}

/// Scripts look for them: they are for good.
#[test]
fn kinds_have_codes_and_losses_have_words() {
    let kinds = [
        (ErrorKind::Busy, "E_BUSY"),
        (ErrorKind::TimedOut, "E_TIMED_OUT"),
        (ErrorKind::Lost, "E_LOST"),
        (ErrorKind::Indeterminate, "E_INDETERMINATE"),
        (ErrorKind::Unavailable, "E_UNAVAILABLE"),
        (ErrorKind::Denied, "E_DENIED"),
        (ErrorKind::Misconfigured, "E_MISCONFIGURED"),
        (ErrorKind::Invalid, "E_INVALID"),
        (ErrorKind::Unsupported, "E_UNSUPPORTED"),
        (ErrorKind::Closed, "E_CLOSED"),
    ];
    assert!(kinds.iter().all(|(kind, code)| kind.code() == *code));
    let told = |cause| Loss::new(cause).to_string();
    assert_eq!(told(LossCause::Gone), "the store no longer has it");
    assert_eq!(told(LossCause::MaxHold), "it was held for as long as its holder allowed");
    assert_eq!(LossCause::Taken.to_string(), "another owner holds it");
}

#[test]
fn what_is_logged_of_an_error_is_its_kind_its_words_and_the_next_step() {
    let cause = std::io::Error::other("the cause");
    let error = Error::new(ErrorKind::Busy, "it is held").with_help("wait").with_source(cause);
    let logged = format!("{error:?}");
    for part in ["Busy", "it is held", "wait", "the cause"] {
        assert!(logged.contains(part), "{logged}");
    }
}

#[test]
fn a_claim_says_what_it_asks_for_and_its_log_line_not_what_its_holder_says() {
    let claim = Claim::new(name(), OwnerId::from_u128(7), SECOND, Arc::from("of the holder"));
    assert_eq!((claim.ttl_millis(), claim.waits()), (1_000, false));
    assert!(claim.clone().with_waiting(true).waits());
    let logged = format!("{claim:?}");
    assert!(logged.contains("job") && logged.contains("1s"), "{logged}");
    assert!(!logged.contains("of the holder"), "{logged}");
}

#[test]
fn a_busy_answer_says_when_the_lease_ends() {
    let busy = Busy::new().with_end(SECOND);
    assert_eq!((busy.ends_in, busy.queued), (Some(SECOND), false));
    assert!(busy.with_place_in_queue().queued);
}

/// A hold of another program has no token on Redis, and no end on ZooKeeper: both look like a lock that lingers.
#[test]
fn a_released_lock_is_told_from_one_that_another_program_holds() {
    let (owner, token) = (Some(OwnerId::from_u128(7)), Some(FencingToken::new(1)));
    let is_released = |owner, token, ends_in| {
        let mut status = LockStatus::new(name());
        (status.owner, status.token, status.ends_in) = (owner, token, ends_in);
        status.is_released()
    };
    assert!(is_released(None, token, Some(SECOND)));
    assert!(!is_released(owner, token, Some(SECOND)));
    assert!(!is_released(None, None, Some(SECOND)));
    assert!(!is_released(None, token, None));
    assert!(!is_released(None, None, None));
}

#[test]
fn a_holder_is_named_with_what_is_known_of_it() {
    let mut holder = HolderInfo::default();
    assert_eq!(holder.to_string(), "an unnamed holder");
    holder.pid = 7;
    assert_eq!(holder.to_string(), "@:7");
    holder.user = "ada".to_owned();
    holder.host = "db1".to_owned();
    assert_eq!(holder.to_string(), "ada@db1:7");
    holder.pid = 0;
    assert_eq!(holder.to_string(), "ada@db1:0");
    holder.user.clear();
    assert_eq!(holder.to_string(), "@db1:0");
    let this = HolderInfo::this_process();
    assert_eq!(this.pid, std::process::id());
    assert!(!this.user.is_empty() && !this.host.is_empty() && this.doing.starts_with("promises"), "{this:?}");
    assert_eq!(this.clone().with_label("k", "v").labels["k"], "v");
    assert_eq!(this.clone().with_label("k", "v").pid, this.pid);
}

#[test]
fn names_tokens_and_addresses_are_shown_as_they_are() {
    assert_eq!((format!("{}", name()), format!("{:?}", name())), ("job".to_owned(), "\"job\"".to_owned()));
    assert_eq!(FencingToken::new(7).to_string(), "7");
    assert_eq!(FencingToken::MAX_COUNTED, 9_007_199_254_740_991);
    assert_eq!(OwnerId::from_u128(7).as_u128(), 7);
    assert_eq!(Namespace::new("shop/").unwrap().prefix(), "shop/");
    let bare = StoreUrl::parse("redis://[::1]").unwrap().authority().unwrap();
    assert_eq!((bare.endpoints[0].host.as_str(), bare.endpoints[0].port), ("::1", None));
    let url = StoreUrl::parse("redis://u:hidden@h/?a=1&b=2").unwrap();
    assert_eq!(url.scheme(), "redis");
    let logged = format!("{url:?}");
    assert!(logged.starts_with("StoreUrl(redis:") && !logged.contains("hidden"), "{logged}");
}

#[test]
fn options_say_what_was_asked_for_up_to_the_limits_and_with_them() {
    let options = AcquireOptions::new().with_wait(SECOND).with_max_hold(SECOND);
    assert_eq!((options.wait(), options.max_hold()), (Wait::UpTo(SECOND), SECOND));
    assert!(options.with_hold_at_least(SECOND).checked().is_ok());
    let longest = AcquireOptions::new().with_hold_at_least(AcquireOptions::MAX_TTL);
    assert!(longest.checked().is_ok());
    let fixed = HolderInfo::default().with_doing("").to_json().len();
    let described = |bytes: usize| {
        let holder = HolderInfo::default().with_doing("x".repeat(bytes));
        (holder.to_json().len(), AcquireOptions::new().with_holder(&holder).checked().is_ok())
    };
    let overhead = described(1).0 - 1;
    assert!(fixed <= overhead);
    assert_eq!(described(HolderInfo::MAX_BYTES - overhead), (HolderInfo::MAX_BYTES, true));
    assert_eq!(described(HolderInfo::MAX_BYTES - overhead + 1), (HolderInfo::MAX_BYTES + 1, false));
}

#[test]
fn a_longer_word_may_be_further_off() {
    use leasehold_core::nearest;
    assert_eq!(nearest("potgrs", ["postgres"]), Some("postgres"));
    assert_eq!(nearest("potgr", ["postgres"]), Some("postgres"));
    assert_eq!(nearest("potg", ["postgres"]), None);
    assert_eq!(nearest("zk", ["redis"]), None);
    assert_eq!(nearest("rdi", ["redis"]), Some("redis"));
}

#[tokio::test]
async fn memory_declares_what_can_happen_to_it() {
    let memory = MemoryBackend::new();
    let promises = memory.semantics().promises;
    for fault in [
        Fault::None,
        Fault::HolderPaused,
        Fault::ExecutorStarved,
        Fault::ClientClockJumps,
        Fault::ClientSuspended,
    ] {
        assert_eq!(promises.under(fault), Outcome::Holds, "{fault:?}");
    }
    assert_eq!(promises.under(Fault::RecordDeleted), Outcome::FencedOnly);
    assert_eq!(promises.under(Fault::SplitBrain), Outcome::NotApplicable);
    assert!(futures_util::poll!(std::pin::pin!(memory.suspects())).is_pending(), "it suspects somebody");
}

#[test]
fn a_promise_is_made_for_every_fault() {
    let promises = MemoryBackend::new().semantics().promises;
    let told: Vec<Fault> = promises.iter().map(|(fault, _)| fault).collect();
    assert!(told.contains(&Fault::None) && told.contains(&Fault::NetworkFileSystem));
    assert!(promises.iter().all(|(fault, outcome)| promises.under(fault) == outcome));
}

#[tokio::test]
async fn memory_is_looked_into_and_forced_open_with_the_right_token_only() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    let (first, _other) = (client.acquire("a/1").await.unwrap(), client.acquire("b/1").await.unwrap());
    let (admin, name, token) =
        (client.admin().unwrap(), LockName::new("a/1").unwrap(), first.token().unwrap());
    let listed = admin.list("a/").await.unwrap();
    assert_eq!(listed.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["a/1"]);
    assert_eq!(admin.list("").await.unwrap().len(), 2);
    assert!(admin.force_release(&name, Some(FencingToken::new(1))).await.unwrap().is_none());
    assert!(admin.inspect(&name).await.unwrap().is_some(), "forced open with another token");
    let forced = admin.force_release(&name, Some(token)).await.unwrap();
    assert_eq!(forced.and_then(|status| status.token), Some(token));
    assert!(admin.list("a/").await.unwrap().is_empty());
    assert_eq!(admin.init_script(), None);
}

#[tokio::test]
async fn a_store_that_keeps_nothing_has_nothing_to_forget() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    let admin = client.admin().unwrap();
    assert_eq!(admin.purge(SECOND * 3600, Purge::Delete).await.unwrap(), None);
}

/// What is wrong for one store is wrong for all: a script that is tried on one may be run on another.
#[tokio::test]
async fn an_idle_time_that_is_too_short_is_refused_also_where_there_is_nothing_to_forget() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    for what in [Purge::Count, Purge::Delete] {
        for idle in [Duration::ZERO, SECOND * 3600 - Duration::from_nanos(1)] {
            let error = client.admin().unwrap().purge(idle, what).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().starts_with("invalid idle: ") && error.help().is_some(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn what_is_logged_of_clients_and_guards_names_the_store_and_the_lock() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    assert!(format!("{client:?}").contains("MemoryBackend"), "{client:?}");
    let guard = client.acquire("job").await.unwrap();
    let token = guard.token().unwrap();
    for logged in [format!("{guard:?}"), format!("{:?}", guard.lease())] {
        assert!(logged.contains("\"job\"") && logged.contains(&token.to_string()), "{logged}");
    }
    assert_eq!(client.semantics().hold, HoldKind::Lease);
}
