//! Several tokens in a row: how the scripts reserve them for one who waits for a whole process.

use crate::kit::{
    HOLDER, Look, MICROS_OF_AN_HOUR, answered, backend, claim, handed_over, hold, holder_info, keys,
    micros_within_an_hour, name, queue, release, server, waiter,
};
use leasehold_conformance::servers::RedisServer;
use leasehold_core::{Attempt, Claim, FencingToken, Grant, LockAdmin, LockBackend};
use leasehold_redis::RedisBackend;
use std::sync::Arc;

const TOKENS: u32 = 64;

/// A lock that is held, and one who will want several tokens.
struct Scene {
    server: RedisServer,
    backend: Arc<RedisBackend>,
    holder: Claim,
    token: FencingToken,
    waiter: Claim,
}

async fn scene() -> Scene {
    let server = server();
    let backend = backend(&server.url());
    let holder = claim("job");
    let token = hold(&backend, &holder).await;
    Scene { server, backend, holder, token, waiter: waiter("job").with_tokens(TOKENS) }
}

impl Scene {
    async fn granted(&self, claim: &Claim) -> Grant {
        match answered(self.backend.try_acquire(claim)).await.unwrap() {
            Attempt::Granted(grant) => grant,
            Attempt::Busy(busy) => panic!("busy: {busy:?}"),
        }
    }

    fn last(&self) -> String {
        let stored = self.server.get(&keys("job").token).unwrap();
        stored.trim_end_matches(" queue").to_owned()
    }
}

#[tokio::test]
async fn they_are_reserved_whichever_way_the_lock_is_granted() {
    for way in ["free", "handed over", "found free"] {
        let scene = scene().await;
        let (backend, waiter) = (&scene.backend, &scene.waiter);
        if way != "free" {
            queue(backend, waiter).await;
        }
        match way {
            "found free" => {
                let keys = keys("job");
                scene.server.command(&["DEL", &keys.lock, &keys.holder]).unwrap();
            }
            _ => drop(release(backend, &scene.holder).await),
        }
        if way == "handed over" {
            answered(backend.changed(waiter)).await;
        }

        let grant = scene.granted(waiter).await;
        assert_eq!((grant.tokens, grant.handed_over), (TOKENS, way == "handed over"), "{way}");
        assert!(grant.token > scene.token, "{way}");
        assert_eq!(scene.last(), grant.token.last_of(TOKENS).to_string(), "{way}");
        let record = scene.server.get(&keys("job").holder).unwrap();
        assert!(
            record.starts_with(&format!("{} {} ", waiter.owner().to_hex(), grant.token)),
            "{way}: {record}"
        );

        let again = scene.granted(waiter).await;
        assert_eq!(
            (again.token, again.tokens),
            (grant.token, 1),
            "{way}: it is not stored how many they were"
        );
        release(backend, waiter).await;
        assert!(hold(backend, &claim("job")).await > grant.token.last_of(TOKENS), "{way}");
    }
}

/// Or a name that is used faster than the clock counts would be led away from it, and a store that forgets begin behind.
#[tokio::test]
async fn none_are_reserved_ahead_of_the_clock() {
    let scene = scene().await;
    queue(&scene.backend, &scene.waiter).await;
    let far = FencingToken::new(FencingToken::MAX_COUNTED / 2);
    scene.server.command(&["SET", &keys("job").token, &format!("{far} queue")]).unwrap();
    release(&scene.backend, &scene.holder).await;
    let token = handed_over(&scene.backend, &scene.waiter).await;
    assert_eq!((token.get(), scene.last()), (far.get() + 1, token.to_string()));
    release(&scene.backend, &scene.waiter).await;
    for asked_for in 2..4 {
        let free = waiter("job").with_tokens(TOKENS);
        let grant = scene.granted(&free).await;
        assert_eq!((grant.token.get(), grant.tokens), (far.get() + asked_for, 1));
        assert_eq!(scene.last(), grant.token.to_string());
        release(&scene.backend, &free).await;
    }
}

/// It is the first of its hour then, and those that are granted in that hour leave its end as it is.
#[tokio::test]
async fn the_last_of_those_that_reach_into_the_next_hour_is_kept_from_now_on() {
    micros_within_an_hour().await;
    let scene = scene().await;
    release(&scene.backend, &scene.holder).await;
    let token = keys("job").token;
    scene.server.command(&["PEXPIRE", &token, "88000000"]).unwrap();
    let tokens = u32::try_from(MICROS_OF_AN_HOUR).unwrap();
    assert_eq!(scene.granted(&waiter("job").with_tokens(tokens)).await.tokens, tokens);
    let ends_in = scene.server.pttl(&token);
    assert!((89_000_000..=90_000_000).contains(&ends_in), "{ends_in}");
}

#[tokio::test]
async fn one_who_wants_several_is_shown_as_any_other() {
    let scene = scene().await;
    queue(&scene.backend, &scene.waiter).await;
    let waiters = scene.backend.waiters(&name("job")).await.unwrap();
    let shown: Vec<_> = waiters.iter().map(|waiter| (waiter.owner, &waiter.holder)).collect();
    assert_eq!(shown, [(Some(scene.waiter.owner()), &holder_info())], "{HOLDER}");
}
