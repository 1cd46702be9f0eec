//! Files that cannot be read, or should not be: each is an error or a warning.

use crate::host::TestHost;
use secrecy::ExposeSecret;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::process::Command;
use std::time::Duration;

const SAYS_MEMORY: &str = "default = 'p'\n[profile.p]\nurl = 'memory:'\n";

fn chmod(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn named_file_that_is_missing_is_refused() {
    let mut host = TestHost::with_system_file(SAYS_MEMORY);
    let missing = host.path("missing.toml");
    let error = host.sources().with_file(&missing).load().unwrap_err();
    let said = "invalid configuration file ~/missing.toml: it cannot be read <- No such file or directory (os error 2); \
                create it, or name another";
    assert_eq!(host.said(&error), format!("Misconfigured: {said}"));
    host.set("LEASEHOLD_CONFIG", missing.to_str().unwrap());
    assert_eq!(host.problem(), format!("Misconfigured: env LEASEHOLD_CONFIG: {said}"));
}

#[test]
fn file_in_place_that_cannot_be_read_is_refused() {
    let host = TestHost::with_system_file(SAYS_MEMORY);
    fs::create_dir_all(host.path("work")).unwrap();
    let here = host.path("work/leasehold.toml");
    symlink("/nowhere", &here).unwrap();
    assert_eq!(
        host.problem(),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it cannot be read <- No such file or \
         directory (os error 2); create it, or name another"
    );
    fs::remove_file(&here).unwrap();
    fs::create_dir(&here).unwrap();
    assert_eq!(
        host.problem(),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it is a directory; name a file in it"
    );
    fs::remove_dir(&here).unwrap();
    host.write_here(SAYS_MEMORY);
    chmod(here.to_str().unwrap(), 0o000);
    if fs::read(&here).is_err() {
        assert_eq!(
            host.problem(),
            "Misconfigured: invalid configuration file ~/work/leasehold.toml: it cannot be read <- Permission denied \
             (os error 13); fix its permissions, or name another file with LEASEHOLD_CONFIG"
        );
    }
}

#[test]
fn place_without_a_directory_has_no_file() {
    let host = TestHost::with_system_file(SAYS_MEMORY);
    host.write("home", "a file, not a directory");
    assert_eq!(host.load().url().to_string(), "memory:");
}

#[test]
fn file_that_is_not_text_is_refused_with_the_line() {
    let host = TestHost::new();
    host.write("etc.toml", b"default = 'p'\n# naive \xe9\n");
    assert_eq!(host.problem(), "Misconfigured: ~/etc.toml:2: it is not UTF-8; save the file as UTF-8");
    host.write("etc.toml", vec![b'#'; 1024 * 1024 + 1]);
    assert_eq!(
        host.problem(),
        "Misconfigured: invalid configuration file ~/etc.toml: it is longer than 1048576 bytes; name a configuration file"
    );
}

#[test]
fn file_of_another_user_in_the_working_directory_must_be_named() {
    let mut host = TestHost::new();
    let here = host.write("work/leasehold.toml", SAYS_MEMORY);
    assert_eq!(host.load().url().to_string(), "memory:");
    chmod(&here, 0o646);
    let fix = "if you trust it, name it with LEASEHOLD_CONFIG";
    let refused = "Misconfigured: invalid configuration file ~/work/leasehold.toml: ";
    assert_eq!(host.problem(), format!("{refused}everybody may write to it; {fix}"));
    chmod(&here, 0o644);
    // Only root can give a file away.
    if chown(&here, Some(4_000_000), None).is_ok() {
        assert_eq!(host.problem(), format!("{refused}it belongs to another user, 4000000; {fix}"));
    } else {
        chmod(&here, 0o646);
    }
    host.set("LEASEHOLD_CONFIG", here);
    assert_eq!(host.load().url().to_string(), "memory:");
}

/// The link could lead to any file of this user or of root, and so to another store.
#[test]
fn link_of_another_user_in_the_working_directory_must_be_named() {
    let mut host = TestHost::new();
    let target = host.write("mine.toml", SAYS_MEMORY);
    let here = host.path("work/leasehold.toml");
    fs::create_dir_all(host.path("work")).unwrap();
    symlink(&target, &here).unwrap();
    assert_eq!(host.load().url().to_string(), "memory:");
    // Only root can give a link away.
    if lchown(&here, Some(4_000_000), None).is_ok() {
        assert_eq!(
            host.problem(),
            "Misconfigured: invalid configuration file ~/work/leasehold.toml: the link to it belongs to another user, \
             4000000; if you trust it, name it with LEASEHOLD_CONFIG"
        );
    }
    host.set("LEASEHOLD_CONFIG", here.to_str().unwrap());
    assert_eq!(host.load().url().to_string(), "memory:");
}

/// Like a template that came out empty, or a pipe that was read before.
#[test]
fn named_file_without_a_value_does_not_mean_the_default_store() {
    let mut host = TestHost::new();
    for nothing in ["", "# a comment\n"] {
        let file = host.write("mine.toml", nothing);
        host.set("LEASEHOLD_CONFIG", file);
        assert_eq!(
            host.problem(),
            "Misconfigured: invalid configuration file ~/mine.toml: it is empty, and no store is named; \
             write a profile into it"
        );
    }
    host.set("LEASEHOLD_URL", "memory:");
    assert_eq!(host.load().url().to_string(), "memory:");
}

#[cfg(feature = "sqlite")]
#[test]
fn named_file_without_profiles_may_mean_the_default_store() {
    let mut host = TestHost::new();
    let file = host.write("mine.toml", "[defaults]\nttl = '10s'\n");
    for meant in [file.as_str(), "/dev/null"] {
        host.set("LEASEHOLD_CONFIG", meant);
        assert_eq!(host.load().url().scheme(), "sqlite", "{meant}");
    }
}

#[test]
fn pipe_in_the_working_directory_is_refused_without_waiting_for_its_writer() {
    let host = TestHost::new();
    let here = host.write("work/leasehold.toml", SAYS_MEMORY);
    fs::remove_file(&here).unwrap();
    assert!(Command::new("mkfifo").arg(&here).status().unwrap().success());
    let sources = host.sources();
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || answer.send(sources.load().unwrap_err()));
    let error = answered.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(
        host.said(&error),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it is not a regular file; \
         if you trust it, name it with LEASEHOLD_CONFIG"
    );
}

#[test]
fn password_that_everybody_may_read_is_warned_of() {
    let warned = |profile: &str, mode| {
        let host = TestHost::with_system_file(&format!(
            "default = 'q'\n[profile.p]\n{profile}\n[profile.q]\nurl = 'memory:'\n"
        ));
        chmod(host.path("etc.toml").to_str().unwrap(), mode);
        let config = host.load();
        let said = config.warnings().iter().map(|finding| {
            host.shortened(&format!("{}: {}; {}", finding.code, finding.message, finding.help))
        });
        said.collect::<Vec<_>>()
    };
    let expected = "W_READABLE: everybody may read ~/etc.toml, and there is a password in it; \
                    chmod o-r ~/etc.toml, or move the password into a file of its own: password_file";
    for exposed in [
        "url = 'redis://:pw@h'",
        "url = 'redis://h?sentinel_password=pw'",
        "url = 'redis://h'\nsentinel = { password = 'pw' }",
        "url = 'redis://:${PW:-pw}@h'",
    ] {
        assert_eq!(warned(exposed, 0o644), [expected], "{exposed}");
        assert_eq!(warned(exposed, 0o640), [""; 0], "{exposed}");
    }
    for safe in [
        "url = 'redis://:${PW}@h'",
        "url = 'redis://ada:${PW}@h?timeout=1s&sentinel_password=${PW}'",
        "url = 'redis://h'\npassword_file = '/run/secrets/redis'",
        "url = 'redis://h'\npassword_env = 'PW'",
        "url = 'redis://h'\ntimeout = '1s'",
        "url = 'redis://h'\nsentinel_password = '${PW}'",
    ] {
        assert_eq!(warned(safe, 0o644), [""; 0], "{safe}");
    }
}

#[test]
fn misspelt_variable_is_warned_of() {
    let mut host = TestHost::with_system_file(SAYS_MEMORY);
    host.set("LEASEHOLD_TLL", "1s");
    host.set("LEASEHOLD_TOKEN", "7");
    let config = host.load();
    let said: Vec<String> = config
        .warnings()
        .iter()
        .map(|finding| format!("{}: {}; {}", finding.code, finding.message, finding.help))
        .collect();
    let expected = "W_ENV: the environment variable LEASEHOLD_TLL is not read; did you mean LEASEHOLD_TTL?";
    assert_eq!(said, [expected]);
}

#[test]
fn password_file_is_one_line_without_its_end() {
    let host = TestHost::with_system_file(
        "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '${HOME}/pw'\n",
    );
    for (text, password) in [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), (" p w ", " p w "), ("é", "é")]
    {
        host.write("home/pw", text);
        let found = host.load().url().authority().unwrap().password.unwrap();
        assert_eq!(found.read().unwrap().expose_secret(), password, "{text:?}");
    }
    let too_long = vec![b'x'; 64 * 1024 + 1];
    let cases: [(&[u8], &str); 5] = [
        (b"", "it is empty; write the password into it"),
        (b"\n", "it is empty; write the password into it"),
        (b"one\ntwo\n", "it has several lines; leave only the password in it"),
        (b"\xff\n", "it is not UTF-8; write the password as UTF-8"),
        (&too_long, "it is longer than 65536 bytes; name the file of the password"),
    ];
    for (text, expected) in cases {
        host.write("home/pw", text);
        assert_eq!(
            host.problem(),
            format!("Misconfigured: ~/etc.toml:4: invalid password_file \"~/home/pw\": {expected}")
        );
    }
    fs::remove_file(host.path("home/pw")).unwrap();
    assert_eq!(
        host.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_file \"~/home/pw\": it cannot be read <- No such file or \
         directory (os error 2); fix its path or its permissions"
    );
}

#[test]
fn password_file_is_read_again_after_loading() {
    let host = TestHost::with_system_file(
        "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '${HOME}/pw'\n",
    );
    host.write("home/pw", "one\n");
    let password = host.load().url().authority().unwrap().password.unwrap();
    host.write("home/pw", "two\n");
    assert_eq!(password.read().unwrap().expose_secret(), "two");
}

/// `LEASEHOLD_PASSWORD_FILE=<(command)`: a second read would find the end, or wait for ever.
#[test]
fn password_pipe_is_read_once() {
    let host = TestHost::with_system_file(
        "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '${HOME}/pw'\n",
    );
    let pipe = host.write("home/pw", "");
    fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn(move || fs::write(&pipe, "one\n").unwrap());
    let password = host.load().url().authority().unwrap().password.unwrap();
    writer.join().unwrap();
    for _ in 0..2 {
        assert_eq!(password.read().unwrap().expose_secret(), "one");
    }
}

#[test]
fn password_in_place_of_its_name_is_not_shown() {
    let mut host = TestHost::with_system_file(
        "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_env = 'hunter2'\n",
    );
    assert_eq!(
        host.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_env: the variable that it names is not set; \
         set that variable to the password"
    );
    host.set("hunter2", "");
    assert_eq!(
        host.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_env: the variable that it names is empty; \
         set that variable to the password"
    );
    host.set("LEASEHOLD_PASSWORD_FILE", "hunter2");
    assert_eq!(
        host.problem(),
        "Misconfigured: env LEASEHOLD_PASSWORD_FILE: invalid password_file: it cannot be read <- No such file or \
         directory (os error 2); fix its path or its permissions"
    );
}
