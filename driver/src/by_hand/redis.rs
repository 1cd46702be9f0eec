//! Redis and Valkey, by two small scripts.

use super::{ByHand, broken, unexpected};
use async_trait::async_trait;
use leasehold::backend::OwnerId;
use leasehold::{Config, LockName, Registry, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    Script, Value,
};
use secrecy::ExposeSecret;
use tokio::sync::OnceCell;

/// A lease that outlasts every measurement.
const LEASE_MILLIS: u32 = 30_000;
/// The least that grants a lease with a token: no queue, no holder record. Replies the token, or nil if it is held.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end \
                       return false";
/// The least that ends a lease, if it is still its owner's. Replies 1, or 0 if it is not held.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A server, by a connection with no time limit.
pub(super) struct RawRedis {
    config: Config,
    prefix: String,
    owner: String,
    acquire: Script,
    release: Script,
    requests: OnceCell<MultiplexedConnection>,
}

impl RawRedis {
    pub(super) fn new(config: &Config) -> Result<Self> {
        let prefix = Registry::default().namespace(config).prefix().to_owned();
        let owner = OwnerId::random()?.to_hex();
        let (acquire, release) = (Script::new(ACQUIRE), Script::new(RELEASE));
        Ok(Self { config: config.clone(), prefix, owner, acquire, release, requests: OnceCell::new() })
    }

    async fn connect(&self) -> Result<MultiplexedConnection> {
        let authority = self.config.url().authority()?;
        let endpoint = authority.only_endpoint()?;
        let address = ConnectionAddr::Tcp(endpoint.host.clone(), endpoint.port.unwrap_or(6379));
        // The backend has refused a path that is no index.
        let database = authority.path.parse().unwrap_or_default();
        let mut settings =
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(database);
        if let Some(user) = &authority.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &authority.password {
            settings = settings.set_password(password.read()?.expose_secret());
        }
        let info = address.into_connection_info().map_err(broken)?.set_redis_settings(settings);
        let limits = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = Client::open(info).map_err(broken)?;
        client.get_multiplexed_async_connection_with_config(&limits).await.map_err(broken)
    }

    async fn requests(&self) -> Result<MultiplexedConnection> {
        self.requests.get_or_try_init(|| self.connect()).await.cloned()
    }

    async fn run(&self, script: &Script, keys: &[String], lease: Option<u32>) -> Result<()> {
        let mut call = script.prepare_invoke();
        keys.iter().for_each(|key| _ = call.key(key));
        call.arg(&self.owner).arg(lease);
        match call.invoke_async(&mut self.requests().await?).await.map_err(broken)? {
            Value::Int(1..) => Ok(()),
            other => Err(unexpected(format!("a script for measuring answered {other:?}"))),
        }
    }
}

#[async_trait]
impl ByHand for RawRedis {
    async fn pair(&self, name: &LockName) -> Result<()> {
        let [lock, token] = keys(&self.prefix, name);
        self.run(&self.acquire, &[lock.clone(), token], Some(LEASE_MILLIS)).await?;
        self.run(&self.release, &[lock], None).await
    }
}

/// The keys of a lock and of its last token, as `docs/redis.md` has them.
fn keys(prefix: &str, name: &LockName) -> [String; 2] {
    let name = name.as_str().replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
    let braced =
        if prefix.contains('{') { format!("{prefix}{{{name}}}") } else { format!("{{{prefix}{name}}}") };
    [format!("{prefix}{name}"), format!("{braced}:token")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_backend() {
        let name = LockName::new("a{b}").unwrap();
        assert_eq!(keys("leasehold:", &name), ["leasehold:a%7Bb%7D", "{leasehold:a%7Bb%7D}:token"]);
        assert_eq!(keys("{shop}:", &name)[1], "{shop}:{a%7Bb%7D}:token");
    }
}
