//! No output shows a password: every place of a password, times every mistake around it, times every output.

use crate::host::TestHost;
use leasehold::backend::{LockBackend, MemoryBackend};
use leasehold::{
    AcquireOptions, Config, ConfigSources, DistributedLock, DistributedLockExt, Error, Registry, Wait,
};
use secrecy::ExposeSecret;
use std::sync::Arc;
use tracing::Level;

const CANARY: &str = "S3CR3T-CANARY";

/// A place of a password. No server listens at the host.
#[derive(Clone)]
struct Slot {
    name: &'static str,
    /// The lines of the profile.
    profile: String,
    variables: Vec<(&'static str, String)>,
    password_file: String,
    given_url: Option<String>,
    /// True if the store gets it as its password.
    is_login: bool,
}

fn slots() -> Vec<Slot> {
    let plain = "redis://ada@127.0.0.1:1";
    let with_password = format!("redis://ada:{CANARY}@127.0.0.1:1");
    let slot = |name, profile: String| Slot {
        name,
        profile,
        variables: vec![("PW", CANARY.to_owned())],
        password_file: format!("{CANARY}\n"),
        given_url: None,
        is_login: true,
    };
    let mut given = slot("a URL in code", "url = 'memory:'\n".to_owned());
    given.given_url = Some(with_password.clone());
    let mut environment = slot("a URL in the environment", "url = 'memory:'\n".to_owned());
    environment.variables.push(("LEASEHOLD_URL", with_password.clone()));
    let mut file_by_variable = slot("a file that the environment names", format!("url = '{plain}'\n"));
    file_by_variable.variables.push(("LEASEHOLD_PASSWORD_FILE", "~/pw".to_owned()));
    let mut in_place_of_a_name = slot(
        "the password where its variable is to be named, and a file that counts",
        format!("url = '{plain}'\npassword_env = '{CANARY}'\n"),
    );
    in_place_of_a_name.variables.push(("LEASEHOLD_PASSWORD_FILE", "~/pw".to_owned()));
    let parameter = |name, profile| Slot { is_login: false, ..slot(name, profile) };
    vec![
        given,
        environment,
        file_by_variable,
        in_place_of_a_name,
        slot("a URL in a file", format!("url = '{with_password}'\n")),
        slot("a URL with a variable", "url = 'redis://ada:${PW}@127.0.0.1:1'\n".to_owned()),
        slot("a URL with a default", format!("url = 'redis://ada:${{NO:-{CANARY}}}@127.0.0.1:1'\n")),
        slot("a file that a profile names", format!("url = '{plain}'\npassword_file = '~/pw'\n")),
        slot("a variable that a profile names", format!("url = '{plain}'\npassword_env = 'PW'\n")),
        parameter("a parameter in a URL", format!("url = '{plain}?sentinel_password={CANARY}'\n")),
        parameter("a parameter in a profile", format!("url = '{plain}'\nsentinel_password = '{CANARY}'\n")),
        parameter(
            "a parameter in a table",
            format!("url = '{plain}'\nsentinel = {{ password = '{CANARY}' }}\n"),
        ),
    ]
}

/// Mistakes: a text, and its replacement in every input.
const MISTAKES: [(&str, &str); 27] = [
    ("redis:", "reddis:"),
    ("redis://", "redis:"),
    ("redis://", ""),
    ("redis://", "re dis://"),
    ("redis://ada", "redis://:x@ada"),
    ("@127", "#@127"),
    ("@127", "/@127"),
    ("@127", "?@127"),
    ("@127", "@@127"),
    ("@127", "%zz@127"),
    ("@127", "%ff@127"),
    (":1", ":99999"),
    (":1", ":one"),
    (":1", ":1,,"),
    (":1", ":1?timout=1s"),
    (":1", ":1?timeout=1"),
    ("'\n", "' junk\n"),
    ("'\n", "\n"),
    ("'\n", "'\nurl = 'redis://:S3CR3T-CANARY@again'\n"),
    ("'\n", "'\npassword = 'S3CR3T-CANARY'\n"),
    ("'\n", "'\npassword_file = '~/pw'\npassword_env = 'PW'\n"),
    ("'\n", "'\nttl = '30'\n"),
    ("~/pw", "S3CR3T-CANARY"),
    ("~/pw", "~/pw "),
    ("'\n", " '\n"),
    ("redis://", " redis://"),
    ("CANARY\n", "CANARY\nCANARY\n"),
];

impl Slot {
    fn with_mistake(&self, (from, to): (&str, &str)) -> Self {
        let spoil = |text: &String| text.replace(from, to);
        Self {
            profile: spoil(&self.profile),
            variables: self.variables.iter().map(|(name, value)| (*name, spoil(value))).collect(),
            password_file: spoil(&self.password_file),
            given_url: self.given_url.as_ref().map(spoil),
            ..self.clone()
        }
    }

    fn sources(&self, host: &mut TestHost) -> ConfigSources {
        let password_file = host.write("pw", &self.password_file);
        let placed = |text: &str| text.replace("~/pw", &password_file);
        let file = format!("default = 'p'\n[profile.p]\n{}", placed(&self.profile));
        host.write("etc.toml", file);
        for (variable, value) in &self.variables {
            host.set(variable, placed(value));
        }
        let sources = host.sources();
        match &self.given_url {
            Some(url) => sources.with_url(url),
            None => sources,
        }
    }
}

/// All outputs, and the number of errors among them.
#[derive(Default)]
struct Seen {
    text: String,
    errors: usize,
}

impl Seen {
    fn error(&mut self, error: &Error) {
        self.errors += 1;
        self.text += &format!("{error} {error:#} {error:?} {error:#?} {:?}", error.help());
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            self.text += &format!(" {inner} {inner:?} {inner:#?}");
            cause = inner.source();
        }
    }

    fn config(&mut self, config: &Config) {
        let (url, rows) = (config.url(), config.show());
        self.text += &format!("{config} {config:?} {config:#?} {url} {url:?} {:?}", url.authority());
        self.text += &format!("{rows:?} {} {:?}", serde_json::to_string(&rows).unwrap(), config.warnings());
        self.text += &format!("{:?} {:?} {:?}", url.query(), config.options(), config.password_variable());
    }

    async fn locks(&mut self, registry: &Registry, config: &Config) {
        match registry.connect(config).await {
            Ok(locks) => {
                self.text += &format!("{locks:?} {locks:#?} {:?}", locks.semantics());
                self.attempt(&*locks).await;
            }
            Err(error) => self.error(&error),
        }
    }

    async fn attempt(&mut self, locks: &dyn DistributedLock) {
        let options = AcquireOptions::new().with_wait(Wait::No);
        match locks.acquire_with("canary", &options).await {
            Ok(guard) => self.text += &format!("{guard:?}"),
            Err(error) => self.error(&error),
        }
    }
}

/// A registry for the URLs of these tests, independent of the features.
fn own_registry() -> Registry {
    let mut registry = Registry::empty();
    let add = registry.register("redis", |url, _| async move {
        url.authority()?;
        let mut query = url.query();
        query.take_duration("timeout")?;
        query.take("sentinel_password");
        query.finish()?;
        Ok(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>)
    });
    add.unwrap();
    registry
}

async fn everything(slot: &Slot) -> Seen {
    let mut seen = Seen::default();
    let mut host = TestHost::new();
    let sources = slot.sources(&mut host);
    seen.text += &format!("{sources:?} {sources:#?}");
    match sources.load() {
        Ok(config) => {
            seen.config(&config);
            for registry in [own_registry(), Registry::default()] {
                seen.text += &format!("{registry:?}");
                seen.locks(&registry, &config).await;
            }
        }
        Err(error) => seen.error(&error),
    }
    if let Some(url) = &slot.given_url {
        let embedded = serde_json::from_value::<Config>(serde_json::json!({ "url": url, "ttl": "30" }));
        seen.text += &format!("{:?}", embedded.unwrap_err());
    }
    seen
}

#[tokio::test]
async fn password_is_in_no_output() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_writer(Arc::new(log.reopen().unwrap()))
        .finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log is seen");

    let mut errors = vec![0; MISTAKES.len()];
    for slot in slots() {
        check(&slot, &everything(&slot).await, "no mistake");
        for (count, mistake) in errors.iter_mut().zip(MISTAKES) {
            let seen = everything(&slot.with_mistake(mistake)).await;
            check(&slot, &seen, mistake.1);
            *count += seen.errors;
        }
    }
    let idle: Vec<_> = errors.iter().zip(MISTAKES).filter(|(count, _)| **count == 0).collect();
    assert!(idle.is_empty(), "mistakes that were none: {idle:?}");

    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("the log is seen"));
    assert!(!logged.contains(CANARY), "{logged}");
}

fn check(slot: &Slot, seen: &Seen, mistake: &str) {
    assert!(!seen.text.contains(CANARY), "{} with {mistake:?}: {}", slot.name, seen.text);
}

#[test]
fn url_in_place_of_a_name_is_not_shown() {
    for url in [format!("redis://ada:{CANARY}@127.0.0.1:1"), format!("redis:ada:{CANARY}@127.0.0.1")] {
        let default = format!("default = '{url}'\n[profile.p]\nurl = 'memory:'\n");
        let file = "default = 'p'\n[profile.p]\nurl = 'memory:'\n";
        let nothing = |_: &mut TestHost| {};
        let profile = |host: &mut TestHost| host.set("LEASEHOLD_PROFILE", url.as_str());
        let config = |host: &mut TestHost| host.set("LEASEHOLD_CONFIG", url.as_str());
        let as_it_is = |sources: ConfigSources| sources;
        check_name(&url, "a default", TestHost::with_system_file(&default), nothing, as_it_is);
        check_name(&url, "LEASEHOLD_PROFILE", TestHost::with_system_file(file), profile, as_it_is);
        check_name(&url, "a profile", TestHost::with_system_file(file), nothing, |it| it.with_profile(&url));
        check_name(&url, "LEASEHOLD_PROFILE, and no file", TestHost::new(), profile, as_it_is);
        check_name(&url, "LEASEHOLD_CONFIG", TestHost::new(), config, as_it_is);
        check_name(&url, "a file", TestHost::new(), nothing, |it| it.with_file(&url));
    }
}

fn check_name(
    url: &str,
    place: &str,
    mut host: TestHost,
    change: impl FnOnce(&mut TestHost),
    give: impl FnOnce(ConfigSources) -> ConfigSources,
) {
    change(&mut host);
    let mut seen = Seen::default();
    seen.error(&give(host.sources()).load().unwrap_err());
    assert!(!seen.text.contains(CANARY), "{url} as {place}: {}", seen.text);
    assert!(seen.text.contains("URL") || place.ends_with("no file"), "{place}: {}", seen.text);
}

#[test]
fn password_reaches_the_store_from_every_place() {
    for slot in slots() {
        let mut host = TestHost::new();
        let url = slot.sources(&mut host).load().unwrap().url().clone();
        let found = if slot.is_login {
            url.authority()
                .unwrap()
                .password
                .map(|password| password.read().unwrap().expose_secret().to_owned())
        } else {
            url.query().take("sentinel_password")
        };
        assert_eq!(found.as_deref(), Some(CANARY), "{}", slot.name);
    }
}
