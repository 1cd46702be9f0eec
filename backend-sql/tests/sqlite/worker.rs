//! Worker processes: this very test program, executed again, taking locks on command.

use super::store::{claim, name, open};
use leasehold_core::{
    AcquireOptions, Attempt, DistributedLockExt as _, LockBackend, LockClient, LockGuard, Namespace, Wait,
};
use leasehold_store_url::StoreUrl;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Tells the program that it is a worker, and at which store.
const STORE: &str = "LEASEHOLD_SQL_WORKER";
/// What an answer begins with: the test harness writes to the same output.
const MARK: &str = "> ";
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A worker, seen from the test that drives it. Killed when dropped.
pub(crate) struct Worker {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(url: &str) -> Self {
        Self::start_under(&[], url)
    }

    /// Starts one by another program, such as `setpriv --reuid 1`.
    pub(crate) fn start_under(wrapper: &[&str], url: &str) -> Self {
        Self::start_program(wrapper, &std::env::current_exe().unwrap(), url)
    }

    pub(crate) fn start_program(wrapper: &[&str], program: &Path, url: &str) -> Self {
        let mut words = wrapper.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        words.push(program.into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["--exact", "worker::process", "--ignored", "--nocapture"])
            .env(STORE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
        Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    pub(crate) async fn send(&mut self, command: &str) {
        let line = format!("{command}\n");
        self.commands.write_all(line.as_bytes()).await.unwrap();
        self.commands.flush().await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> String {
        let answer = async {
            loop {
                let line = self.answers.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("the worker has ended"));
                // The harness does not end its own line before the worker writes.
                if let Some((_, answer)) = line.split_once(MARK) {
                    return answer.to_owned();
                }
            }
        };
        tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap()
    }

    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.answer().await
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) async fn kill(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        self.child.wait().await.unwrap();
    }
}

#[test]
#[ignore = "a worker process of other tests, which start it themselves"]
fn process() {
    let Ok(url) = std::env::var(STORE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(&url));
    // A killed driver thread is what a process leaves behind anyway; do not wait for it.
    std::process::exit(0);
}

async fn work(url: &str) {
    let mut worker = Work { backend: open(url), url: url.to_owned(), held: Vec::new() };
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(command)) = commands.next_line().await {
        let words: Vec<&str> = command.split(' ').collect();
        let answer = worker.obey(&words).await;
        println!("{MARK}{answer}");
    }
}

struct Work {
    url: String,
    backend: leasehold_core::Result<Arc<dyn LockBackend>>,
    held: Vec<LockGuard>,
}

impl Work {
    async fn obey(&mut self, words: &[&str]) -> String {
        match words {
            ["init"] => self.init().await,
            ["try", lock] => self.try_once(lock).await,
            ["check"] => self.check().await,
            ["hold", lock, ttl] => self.hold(lock, ttl).await,
            ["count", times, file, lock] => self.count(times, file, lock).await,
            ["churn"] => self.churn().await,
            ["files"] => open_files(),
            ["fill", file] => fill(file),
            ["remove", file] => {
                std::fs::remove_file(file).map_or_else(|e| e.to_string(), |()| "removed".into())
            }
            other => panic!("no such command: {other:?}"),
        }
    }

    fn client(&self) -> LockClient {
        let url = StoreUrl::parse(&self.url).unwrap();
        LockClient::new(leasehold_sql::open(&url, &Namespace::default()).unwrap())
    }

    async fn init(&self) -> String {
        let backend = match &self.backend {
            Ok(backend) => backend,
            Err(error) => return format!("error {error}"),
        };
        match backend.admin().unwrap().init().await {
            Ok(()) => "made".to_owned(),
            Err(error) => format!("{:?} {error}", error.kind()),
        }
    }

    /// The codes of what is found.
    async fn check(&self) -> String {
        let findings = self.backend.as_ref().unwrap().admin().unwrap().check().await.unwrap();
        findings.iter().map(|finding| finding.code).collect::<Vec<_>>().join(" ")
    }

    async fn try_once(&self, lock: &str) -> String {
        match self.backend.as_ref().unwrap().try_acquire(&claim(lock)).await {
            Ok(Attempt::Granted(grant)) => format!("granted {}", grant.token),
            Ok(Attempt::Busy(busy)) => format!("busy {}", busy.ends_in.unwrap_or_default().as_millis()),
            Err(error) => format!("{:?} {error}", error.kind()),
        }
    }

    /// Takes a lease that nobody renews.
    async fn hold(&mut self, lock: &str, ttl: &str) -> String {
        let options =
            AcquireOptions::new().with_ttl(Duration::from_millis(ttl.parse().unwrap())).with_fixed_lease();
        let guard = self.client().acquire_with(&name(lock), &options).await.unwrap();
        let token = guard.token().unwrap();
        self.held.push(guard);
        format!("token {token}")
    }

    /// Adds one to the number in a file, so many times, each time under the lock; and every token must be larger than
    /// the one that stands beside the number.
    async fn count(&self, times: &str, file: &str, lock: &str) -> String {
        let client = self.client();
        let options = AcquireOptions::new().with_wait(Wait::Forever);
        for _ in 0..times.parse::<u32>().unwrap() {
            let guard = client.acquire_with(&name(lock), &options).await.unwrap();
            let token = guard.token().unwrap().get();
            let text = std::fs::read_to_string(file).unwrap();
            let (count, last) = text.split_once(' ').unwrap();
            let last: u64 = last.parse().unwrap();
            assert!(token > last, "{token} after {last}");
            let count = count.parse::<u64>().unwrap() + 1;
            std::fs::write(file, format!("{count} {token}")).unwrap();
            guard.release().await.unwrap();
        }
        "counted".to_owned()
    }

    /// Acquires and releases, in two tasks, until it is killed. Says so once it is at it.
    async fn churn(&self) -> String {
        for task in 0..2 {
            let client = self.client();
            tokio::spawn(async move {
                for number in 0_u64.. {
                    let lock = name(&format!("churn/{task}/{}", number % 50));
                    let guard = client.acquire_with(&lock, &AcquireOptions::new()).await.unwrap();
                    guard.release().await.unwrap();
                }
            });
        }
        "at it".to_owned()
    }
}

/// Writes until there is no room.
fn fill(file: &str) -> String {
    use std::io::Write as _;
    let mut file = std::fs::File::create(file).unwrap();
    loop {
        match file.write(&[0; 512]) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return "full".to_owned(),
            Err(error) => return error.to_string(),
        }
    }
}

/// The files that a program started from here would find open.
fn open_files() -> String {
    let list = Command::new("ls").args(["-l", "/proc/self/fd"]).output().unwrap();
    String::from_utf8_lossy(&list.stdout).replace('\n', ";")
}
