use super::invalid;
use crate::Result;
use std::borrow::Cow;

const HIDDEN: &str = "***";

/// The body of a URL without its password, which reaches from the first colon of the login up to the last `@`. An empty
/// password is no secret.
pub(super) fn body(body: &str) -> Cow<'_, str> {
    let slashes = if body.starts_with("//") { 2 } else { 0 };
    let (lead, rest) = body.split_at(slashes);
    let split = rest.rsplit_once('@').and_then(|(login, hosts)| Some((login.split_once(':')?, hosts)));
    match split {
        Some(((user, password), hosts)) if !password.is_empty() => {
            format!("{lead}{user}:{HIDDEN}@{hosts}").into()
        }
        None if slashes > 0 => hide_port_that_is_no_number(body),
        _ => body.into(),
    }
}

/// Hides the text behind the first colon of the hosts if a port is no number: it may be the password of `user:password`, whose
/// `@host` was forgotten.
fn hide_port_that_is_no_number(body: &str) -> Cow<'_, str> {
    let hosts = body[2..].split('/').next().unwrap_or_default();
    let is_port = |host: &str| {
        let behind_brackets = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        let port = behind_brackets.split_once(':').map_or("", |(_, port)| port);
        port.bytes().all(|byte| byte.is_ascii_digit())
    };
    if hosts.split(',').all(is_port) {
        return body.into();
    }
    let user = hosts.split(':').next().unwrap_or_default();
    format!("//{user}:{HIDDEN}").into()
}

/// True if [`body`] hides something.
pub(super) fn has_password(text: &str) -> bool {
    matches!(body(text), Cow::Owned(_))
}

/// The value of a parameter, unless its key says that it is a secret.
pub(super) fn value<'a>(key: &str, value: &'a str) -> &'a str {
    if is_secret(key) && !value.is_empty() { HIDDEN } else { value }
}

pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "pw", "secret", "token", "auth"].iter().any(|word| key.contains(word))
}

/// Refuses two slips that would hide a password in a part that is shown: a missing scheme in `ada:password@host`, and a `?`
/// in place of an `&` in `?timeout=1s?password=…`.
pub(super) fn check_shape(rest: &str) -> Result<()> {
    // An `@` behind a slash counts too, because passwords contain slashes; but not in a text that can only be a path.
    let (before, is_path) = (rest.split('?').next().unwrap_or_default(), rest.starts_with(['/', '.']));
    if before.contains('@') && !is_path {
        let fix = "write it like redis://user:password@host:6379/0, or with ./ in front of a file";
        return Err(invalid("it has no scheme", fix));
    }
    if rest.matches('?').count() > 1 {
        return Err(invalid(
            "it has more than one ?",
            "put an & between parameters, and write a plain ? as %3F",
        ));
    }
    Ok(())
}

/// Refuses a password that was written without percent-encoding and would end the host part early. The error does not show
/// the parts that the URL would be split into.
pub(super) fn check_unescaped_password(rest: &str) -> Result<()> {
    let Some(rest) = rest.strip_prefix("//") else {
        return check_fragment(rest);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let encoded = match behind.chars().next() {
        Some('/') => "%2F",
        Some('?') => "%3F",
        _ => "%23",
    };
    // A colon before the odd character and an @ behind it: a login was cut in two.
    if behind.contains('@') && authority.contains(':') && !authority.contains('@') {
        let odd = behind.chars().next().unwrap_or('#');
        let problem = format_args!("its password seems to contain {odd:?}");
        return Err(invalid(problem, format!("write it as {encoded}")));
    }
    // A login with an @ of its own, cut in two at a slash: the rest of the password would be a host, or a path.
    let login = authority.split_once('@').is_some_and(|(login, _)| login.contains(':'));
    let path = behind.split('?').next().unwrap_or_default();
    if login && path.contains('@') {
        let help = "write them as %40 and %2F; also an @ of the path as %40";
        return Err(invalid("its password seems to contain '@' and '/'", help));
    }
    check_fragment(rest)
}

fn check_fragment(rest: &str) -> Result<()> {
    if rest.contains('#') {
        return Err(invalid("it contains '#'", "write it as %23"));
    }
    Ok(())
}
