use super::part::invalid;
use leasehold_core::Result;
use std::borrow::Cow;
use std::net::Ipv6Addr;

pub(super) const HIDDEN: &str = "***";

/// The body of a URL without its password, which reaches from the first colon of the login up to the last `@`. An empty
/// password is no secret.
pub(super) fn body(body: &str) -> Cow<'_, str> {
    let (lead, rest) = body.split_at(if body.starts_with("//") { 2 } else { 0 });
    let split = rest.rsplit_once('@').and_then(|(login, hosts)| Some((login.split_once(':')?, hosts)));
    match split {
        Some(((user, password), hosts)) if !password.is_empty() => {
            format!("{lead}{user}:{HIDDEN}@{hosts}").into()
        }
        None if !lead.is_empty() => hide_port_that_is_no_number(body),
        _ => body.into(),
    }
}

/// Hides what may be the password of `user:password`, whose `@host` was forgotten.
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

/// With a port or without: in `::1:6379` nothing tells them apart.
fn is_bare_ipv6(host: &str) -> bool {
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    is_address(host) || host.rsplit_once(':').is_some_and(|(address, _)| is_address(address))
}

pub(super) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["pass", "pw", "secret", "token", "auth"].iter().any(|word| key.contains(word))
}

/// Refuses slips that would hide a password in a part that is shown, and a `#`. The errors do not show the parts that the URL
/// would be split into. `rest` is the text behind the scheme.
pub(super) fn check(rest: &str) -> Result<()> {
    // `ada:password@host` without a scheme. An @ behind a slash counts too, because passwords contain slashes; but not in a
    // text that can only be a path.
    let before_query = rest.split('?').next().unwrap_or_default();
    if before_query.contains('@') && !rest.starts_with(['/', '.']) {
        let fix = "write it like redis://user:password@host:6379/0, or with ./ in front of a file";
        return Err(invalid("it has no scheme", fix));
    }
    // A ? in place of an & in `?timeout=1s?password=…`.
    if rest.matches('?').count() > 1 {
        let fix = "put an & between parameters, and write a plain ? as %3F";
        return Err(invalid("it has more than one ?", fix));
    }
    // A password that was written without percent-encoding, and ends the host part early.
    let hosts = rest.strip_prefix("//").unwrap_or_default();
    let (authority, behind) = hosts.split_at(hosts.find(['/', '?', '#']).unwrap_or(hosts.len()));
    let path = behind.split('?').next().unwrap_or_default();
    match authority.split_once('@') {
        None if authority.contains(':') && behind.contains('@') => {
            let odd = behind.chars().next().unwrap_or('#');
            let problem = format_args!("its password seems to contain {odd:?}");
            return Err(invalid(problem, format!("write it as %{:02X}", u32::from(odd))));
        }
        Some((login, _)) if login.contains(':') && path.contains('@') => {
            let fix = "write them as %40 and %2F; also an @ of the path as %40";
            return Err(invalid("its password seems to contain '@' and '/'", fix));
        }
        _ => {}
    }
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    if let Some(at) = hosts.split(',').position(is_bare_ipv6) {
        let problem = format_args!("its host {} has several colons", at + 1);
        return Err(invalid(problem, "put an IPv6 address in brackets: [::1]:6379"));
    }
    if rest.contains('#') {
        return Err(invalid("it contains '#'", "write it as %23"));
    }
    Ok(())
}
