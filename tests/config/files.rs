//! Files that cannot be read, or should not be: each is an error or a warning, and none is passed over.

use crate::scene::Scene;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::process::Command;
use std::time::Duration;

const SAYS_MEMORY: &str = "default = 'p'\n[profile.p]\nurl = 'memory:'\n";

fn chmod(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let mut scene = Scene::with_system_file(SAYS_MEMORY);
    let missing = scene.path("missing.toml");
    let error = scene.sources().with_file(&missing).load().unwrap_err();
    let said = "invalid configuration file ~/missing.toml: it cannot be read <- No such file or directory (os error 2); \
                create it, or name another";
    assert_eq!(scene.said(&error), format!("Misconfigured: {said}"));
    scene.set("LEASEHOLD_CONFIG", missing.to_str().unwrap());
    assert_eq!(scene.problem(), format!("Misconfigured: env LEASEHOLD_CONFIG: {said}"));
}

#[test]
fn a_file_that_lies_there_and_cannot_be_read_is_not_passed_over() {
    let scene = Scene::with_system_file(SAYS_MEMORY);
    fs::create_dir_all(scene.path("work")).unwrap();
    let here = scene.path("work/leasehold.toml");
    symlink("/nowhere", &here).unwrap();
    assert_eq!(
        scene.problem(),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it cannot be read <- No such file or \
         directory (os error 2); create it, or name another"
    );
    fs::remove_file(&here).unwrap();
    fs::create_dir(&here).unwrap();
    assert_eq!(
        scene.problem(),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it is a directory; name a file in it"
    );
    fs::remove_dir(&here).unwrap();
    scene.write_here(SAYS_MEMORY);
    chmod(here.to_str().unwrap(), 0o000);
    if fs::read(&here).is_err() {
        assert_eq!(
            scene.problem(),
            "Misconfigured: invalid configuration file ~/work/leasehold.toml: it cannot be read <- Permission denied \
             (os error 13); fix its permissions, or name another file with LEASEHOLD_CONFIG"
        );
    }
}

#[test]
fn a_place_without_a_directory_has_no_file() {
    let scene = Scene::with_system_file(SAYS_MEMORY);
    scene.write("home", "a file, not a directory");
    assert_eq!(scene.load().url().to_string(), "memory:");
}

#[test]
fn a_file_that_is_no_text_says_where() {
    let scene = Scene::new();
    scene.write("etc.toml", b"default = 'p'\n# naive \xe9\n");
    assert_eq!(scene.problem(), "Misconfigured: ~/etc.toml:2: it is not UTF-8; save the file as UTF-8");
    scene.write("etc.toml", vec![b'#'; 1024 * 1024 + 1]);
    assert_eq!(
        scene.problem(),
        "Misconfigured: invalid configuration file ~/etc.toml: it is longer than 1048576 bytes; name a configuration file"
    );
}

#[test]
fn a_file_of_strangers_in_the_working_directory_must_be_named() {
    let mut scene = Scene::new();
    let here = scene.write("work/leasehold.toml", SAYS_MEMORY);
    assert_eq!(scene.load().url().to_string(), "memory:");
    chmod(&here, 0o646);
    let fix = "if you trust it, name it with LEASEHOLD_CONFIG";
    let refused = "Misconfigured: invalid configuration file ~/work/leasehold.toml: ";
    assert_eq!(scene.problem(), format!("{refused}everybody may write to it; {fix}"));
    chmod(&here, 0o644);
    // Only root can give a file away.
    if chown(&here, Some(4_000_000), None).is_ok() {
        assert_eq!(scene.problem(), format!("{refused}it belongs to another user, 4000000; {fix}"));
    } else {
        chmod(&here, 0o646);
    }
    scene.set("LEASEHOLD_CONFIG", here);
    assert_eq!(scene.load().url().to_string(), "memory:");
}

/// It would lead to any file of ours or of root's, and with it to another store.
#[test]
fn a_link_of_strangers_in_the_working_directory_must_be_named() {
    let mut scene = Scene::new();
    let target = scene.write("mine.toml", SAYS_MEMORY);
    let here = scene.path("work/leasehold.toml");
    fs::create_dir_all(scene.path("work")).unwrap();
    symlink(&target, &here).unwrap();
    assert_eq!(scene.load().url().to_string(), "memory:");
    // Only root can give a link away.
    if lchown(&here, Some(4_000_000), None).is_ok() {
        assert_eq!(
            scene.problem(),
            "Misconfigured: invalid configuration file ~/work/leasehold.toml: the link to it belongs to another user, \
             4000000; if you trust it, name it with LEASEHOLD_CONFIG"
        );
    }
    scene.set("LEASEHOLD_CONFIG", here.to_str().unwrap());
    assert_eq!(scene.load().url().to_string(), "memory:");
}

/// As a template that came out empty, or a pipe that was read before.
#[test]
fn a_file_that_is_named_and_says_nothing_is_not_the_built_in_store() {
    let mut scene = Scene::new();
    for nothing in ["", "# a comment\n"] {
        let file = scene.write("mine.toml", nothing);
        scene.set("LEASEHOLD_CONFIG", file);
        assert_eq!(
            scene.problem(),
            "Misconfigured: invalid configuration file ~/mine.toml: it is empty, and nobody names a store; \
             write a profile into it"
        );
    }
    scene.set("LEASEHOLD_URL", "memory:");
    assert_eq!(scene.load().url().to_string(), "memory:");
}

/// By its defaults, or because it is no file at all.
#[test]
fn a_file_without_profiles_may_be_meant() {
    let mut scene = Scene::new();
    let file = scene.write("mine.toml", "[defaults]\nttl = '10s'\n");
    for meant in [file.as_str(), "/dev/null"] {
        scene.set("LEASEHOLD_CONFIG", meant);
        assert_eq!(scene.load().url().scheme(), "sqlite", "{meant}");
    }
}

/// Somebody else may have made it in the working directory, and nobody ever writes to it.
#[test]
fn a_pipe_in_the_working_directory_is_refused_and_not_waited_for() {
    let scene = Scene::new();
    let here = scene.write("work/leasehold.toml", SAYS_MEMORY);
    fs::remove_file(&here).unwrap();
    assert!(Command::new("mkfifo").arg(&here).status().unwrap().success());
    let sources = scene.sources();
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || answer.send(sources.load().unwrap_err()));
    let error = answered.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(
        scene.said(&error),
        "Misconfigured: invalid configuration file ~/work/leasehold.toml: it is not a regular file; \
         if you trust it, name it with LEASEHOLD_CONFIG"
    );
}

#[test]
fn a_password_that_everybody_may_read_is_warned_of() {
    let warned = |profile: &str, mode| {
        let scene = Scene::with_system_file(&format!(
            "default = 'q'\n[profile.p]\n{profile}\n[profile.q]\nurl = 'memory:'\n"
        ));
        chmod(scene.path("etc.toml").to_str().unwrap(), mode);
        let config = scene.load();
        let said = config.warnings().iter().map(|finding| {
            scene.shortened(&format!("{}: {}; {}", finding.code, finding.message, finding.help))
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
    ] {
        assert_eq!(warned(safe, 0o644), [""; 0], "{safe}");
    }
}

#[test]
fn a_variable_that_is_almost_ours_is_warned_of() {
    let mut scene = Scene::with_system_file(SAYS_MEMORY);
    scene.set("LEASEHOLD_TLL", "1s");
    scene.set("LEASEHOLD_TOKEN", "7");
    let config = scene.load();
    let said: Vec<String> = config
        .warnings()
        .iter()
        .map(|finding| format!("{}: {}; {}", finding.code, finding.message, finding.help))
        .collect();
    let expected = "W_ENV: nobody reads the environment variable LEASEHOLD_TLL; did you mean LEASEHOLD_TTL?";
    assert_eq!(said, [expected]);
}

#[test]
fn password_files_are_one_line() {
    let scene = Scene::with_system_file(
        "default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_file = '${HOME}/pw'\n",
    );
    for (text, password) in [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), (" p w ", " p w "), ("é", "é")]
    {
        scene.write("home/pw", text);
        let found = scene.load().url().authority().unwrap().password.unwrap();
        assert_eq!(secrecy::ExposeSecret::expose_secret(&found), password, "{text:?}");
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
        scene.write("home/pw", text);
        assert_eq!(
            scene.problem(),
            format!("Misconfigured: ~/etc.toml:4: invalid password_file ~/home/pw: {expected}")
        );
    }
    fs::remove_file(scene.path("home/pw")).unwrap();
    assert_eq!(
        scene.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_file ~/home/pw: it cannot be read <- No such file or \
         directory (os error 2); fix its path or its permissions"
    );
}

#[test]
fn a_password_in_the_place_of_its_name_is_not_echoed() {
    let mut scene =
        Scene::with_system_file("default = 'p'\n[profile.p]\nurl = 'redis://h'\npassword_env = 'hunter2'\n");
    assert_eq!(
        scene.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_env: the variable that it names is not set; \
         set that variable to the password"
    );
    scene.set("hunter2", "");
    assert_eq!(
        scene.problem(),
        "Misconfigured: ~/etc.toml:4: invalid password_env: the variable that it names is empty; \
         set that variable to the password"
    );
    scene.set("LEASEHOLD_PASSWORD_FILE", "hunter2");
    assert_eq!(
        scene.problem(),
        "Misconfigured: env LEASEHOLD_PASSWORD_FILE: invalid password_file: it cannot be read <- No such file or \
         directory (os error 2); fix its path or its permissions"
    );
}
