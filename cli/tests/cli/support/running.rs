use super::{CommandOutput, Process, until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A process that runs. Dropped, it is killed, and with it whatever it looks after.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let out = collect(child.stdout.take().unwrap(), move |line| {
            let _ = sender.send(line.to_owned());
        });
        let err = collect(child.stderr.take().unwrap(), |_| {});
        Self { child, lines, out, err }
    }

    pub(crate) fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// The process that stands between it and its command.
    pub(crate) fn watchdog(&self) -> Process {
        let mut watchdog = None;
        until("the watchdog is there", || {
            watchdog = self.process().child();
            watchdog.is_some()
        });
        watchdog.unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    /// Waits for a line on standard output that begins so, and answers the rest of it.
    #[track_caller]
    pub(crate) fn line(&mut self, beginning: &str) -> String {
        loop {
            match self.lines.recv_timeout(Duration::from_secs(30)) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(beginning) {
                        return rest.trim().to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line {beginning:?}; it said {:?} and {:?}", self.out.lock(), self.err.lock())
                }
            }
        }
    }

    /// The process whose number stands on such a line.
    #[track_caller]
    pub(crate) fn process_line(&mut self, beginning: &str) -> Process {
        Process::parse(&self.line(beginning))
    }

    /// Waits until it has said this on standard error.
    #[track_caller]
    pub(crate) fn warned(&self, text: &str) {
        until(&format!("it says {text:?}"), || self.has_warned(text));
    }

    /// True if it has printed this on standard output by now.
    pub(crate) fn has_printed(&self, text: &str) -> bool {
        self.out.lock().unwrap().contains(text)
    }

    /// True if it has said this on standard error by now.
    pub(crate) fn has_warned(&self, text: &str) -> bool {
        self.err.lock().unwrap().contains(text)
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Ends its standard input.
    pub(crate) fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// Waits until nobody can write to its standard output any more.
    #[track_caller]
    pub(crate) fn output_has_ended(&self) {
        until("its output ends", || Arc::strong_count(&self.out) == 1);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> CommandOutput {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        // The readers end when the last process that could write has ended, which may be one that was left.
        let code = status.unwrap().code();
        until("its output ends", || Arc::strong_count(&self.out) == 1 && Arc::strong_count(&self.err) == 1);
        let text = |text: &Arc<Mutex<String>>| text.lock().unwrap().clone();
        CommandOutput { code, out: text(&self.out), err: text(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(
    from: impl Read + Send + 'static,
    mut tell: impl FnMut(&str) + Send + 'static,
) -> Arc<Mutex<String>> {
    let collected = Arc::new(Mutex::new(String::new()));
    let here = Arc::clone(&collected);
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).into_owned();
            here.lock().unwrap().push_str(&text);
            tell(&text);
            line.clear();
        }
    });
    collected
}
