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

    fn on_terminal(place: &Place, columns: u16, program: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let stdio = || terminal.try_clone().unwrap();
        // A session of its own, whose controlling terminal this is (util-linux).
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(program);
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
