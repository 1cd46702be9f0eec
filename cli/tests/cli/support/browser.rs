//! Chromium without a window, driven by two pipes (`--remote-debugging-pipe`): it can say what a page measures, wants and
//! complains of, without a script in the page.

use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A browser that ends with the value.
pub(crate) struct Browser {
    child: Child,
    requests: File,
    answers: BufReader<File>,
    session: String,
    next: u64,
    /// What it said without being asked.
    pub(crate) events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts one with an empty page; `None` if there is no Chromium and `LEASEHOLD_SKIP_MISSING` is set.
    pub(crate) fn start() -> Option<Self> {
        let binary = ["/usr/bin/chromium", "/usr/bin/chromium-browser"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let Some(binary) = binary else {
            assert!(
                std::env::var_os("LEASEHOLD_SKIP_MISSING").is_some(),
                "no chromium; scripts/test installs it, LEASEHOLD_SKIP_MISSING=1 skips what needs it"
            );
            eprintln!("NOT RUN: no chromium");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let (requests, answers) = (profile.path().join("requests"), profile.path().join("answers"));
        assert!(Command::new("mkfifo").args([&requests, &answers]).status().unwrap().success());
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir=\"$1\" --remote-debugging-pipe about:blank 3<\"$2\" 4>\"$3\""])
            .arg(binary)
            .args([profile.path(), &requests, &answers])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            child,
            requests: OpenOptions::new().write(true).open(requests).unwrap(),
            answers: BufReader::new(File::open(answers).unwrap()),
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Shows a file in a window of this width.
    pub(crate) fn show(&mut self, file: &Path, width: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &features);
        self.ask("Page.navigate", &json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.message();
            self.events.push(message);
        }
    }

    /// The value of an expression in the page. The page's own policy forbids scripts; this is asked from outside.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut request = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        let mut line = serde_json::to_vec(&request).unwrap();
        line.push(0);
        self.requests.write_all(&line).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        let read = self.answers.read_until(0, &mut bytes).unwrap();
        assert!(read > 0, "chromium has ended");
        bytes.pop();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
