use super::{Place, until};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// An interactive bash, or another program, on a terminal of its own, with somebody who types.
pub(crate) struct Shell {
    keyboard: File,
    shell: Child,
    screen: Arc<Mutex<String>>,
    /// How far the screen was read.
    read: usize,
}

/// What bash prints when it waits for a command.
const PROMPT: &str = "ready> ";

impl Shell {
    pub(crate) fn start(place: &Place) -> Self {
        Self::with_columns(place, 200)
    }

    pub(crate) fn with_columns(place: &Place, columns: u16) -> Self {
        let mut shell = Self::on_terminal(place, columns, &["bash", "--norc", "--noprofile", "-i"]);
        shell.sees(PROMPT);
        shell
    }

    /// `leasehold` alone, with nobody who could continue it.
    pub(crate) fn of(place: &Place, words: &[&str]) -> Self {
        Self::on_terminal(place, 200, &[&[env!("CARGO_BIN_EXE_leasehold")], words].concat())
    }

    /// `leasehold` as the first process of a container.
    pub(crate) fn of_container(place: &Place, words: &[&str]) -> Self {
        let leasehold = env!("CARGO_BIN_EXE_leasehold");
        let container = Command::new("unshare");
        Self::with_terminal(
            container,
            place,
            200,
            &[&["-U", "-r", "-p", "-f", "--mount-proc", "setsid", "--ctty", leasehold], words].concat(),
        )
    }

    fn on_terminal(place: &Place, columns: u16, program: &[&str]) -> Self {
        // A session of its own, whose controlling terminal this is (util-linux).
        Self::with_terminal(Command::new("setsid"), place, columns, &[&["--ctty"], program].concat())
    }

    fn with_terminal(mut command: Command, place: &Place, columns: u16, words: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let stdio = || terminal.try_clone().unwrap();
        command.args(words);
        place.settle(&mut command);
        command.env("TERM", "dumb").env("PS1", PROMPT).env("LH", env!("CARGO_BIN_EXE_leasehold"));
        let shell = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let screen = watch(master.try_clone().unwrap());
        Self { keyboard: File::from(master), shell, screen, read: 0 }
    }

    /// Types a line. The terminal shows it.
    pub(crate) fn types(&mut self, line: &str) {
        self.presses(&format!("{line}\n"));
        self.sees("\n");
    }

    pub(crate) fn presses(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and waits for the next prompt. Answers what was on the screen in between.
    #[track_caller]
    pub(crate) fn runs(&mut self, line: &str) -> String {
        self.types(line);
        self.prompted()
    }

    /// Waits for the prompt. Answers what was on the screen before it.
    #[track_caller]
    pub(crate) fn prompted(&mut self) -> String {
        self.sees(PROMPT)
    }

    /// Waits until this is on the screen, after what was seen already. Answers what stood before it.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> String {
        let mut before = None;
        until(&format!("the terminal shows {text:?}, after {:?}", self.rest()), || {
            before = self.rest().find(text);
            before.is_some()
        });
        let before = before.unwrap();
        let seen = self.rest()[..before].to_owned();
        self.read += before + text.len();
        seen
    }

    /// Waits for its end, and answers the exit code.
    #[track_caller]
    pub(crate) fn code(&mut self) -> Option<i32> {
        let mut status = None;
        until("it ends", || {
            status = self.shell.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    fn rest(&self) -> String {
        self.screen.lock().unwrap()[self.read..].to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the terminal shows:\n{}", self.screen.lock().unwrap());
        }
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn watch(master: OwnedFd) -> Arc<Mutex<String>> {
    let screen = Arc::new(Mutex::new(String::new()));
    let here = Arc::clone(&screen);
    std::thread::spawn(move || {
        let mut master = File::from(master);
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = master.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).replace("\r\n", "\n");
            here.lock().unwrap().push_str(&text);
        }
    });
    screen
}
