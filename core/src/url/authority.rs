use super::{Secret, decode, invalid};
use crate::Result;
use std::fmt;

/// The part of a URL that names servers: the login, the hosts and the path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Authority {
    /// The user, decoded.
    pub user: Option<String>,
    /// The password: that of the URL, decoded, or the one that was given beside it. To be read for every connection.
    pub password: Option<Secret>,
    /// The servers; at least one.
    pub endpoints: Vec<Endpoint>,
    /// The text behind the first slash after them, decoded; empty if there is none.
    pub path: String,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Endpoint {
    /// Its name or address; an IPv6 address without brackets.
    pub host: String,
    /// Its port, if it is written.
    pub port: Option<u16>,
}

impl Authority {
    pub(super) fn parse(scheme: &str, body: &str, password: Option<Secret>) -> Result<Self> {
        let Some(rest) = body.strip_prefix("//") else {
            let form = format!("write it as {scheme}://host:port");
            return Err(invalid("there is no // after its scheme", form));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = split_login(authority);
        let (user, own_password) = login.map_or(Ok((None, None)), parse_login)?;
        Ok(Self {
            user,
            password: password.or(own_password),
            endpoints: parse_endpoints(hosts)?,
            path: decode("path", path)?,
        })
    }

    /// The only server.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if there are several.
    pub fn only_endpoint(&self) -> Result<&Endpoint> {
        match self.endpoints.as_slice() {
            [only] => Ok(only),
            several => {
                Err(invalid(format_args!("{} hosts, this scheme takes one", several.len()), "name one host"))
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// True if the body of a URL has a password of its own.
pub(super) fn has_password(body: &str) -> bool {
    let authority = body.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    split_login(authority).0.is_some_and(|login| login.contains(':'))
}

fn split_login(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    }
}

fn parse_login(login: &str) -> Result<(Option<String>, Option<Secret>)> {
    if login.contains('@') {
        return Err(invalid("there are two @ before its host", "write the @ of a user or password as %40"));
    }
    let (user, password) =
        login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let user = Some(decode("user", user)?).filter(|user| !user.is_empty());
    let password = password.map(|password| decode("password", password)).transpose()?;
    Ok((user, password.map(Secret::from)))
}

fn parse_endpoints(hosts: &str) -> Result<Vec<Endpoint>> {
    if hosts.is_empty() {
        return Err(invalid("it names no host", "name at least one"));
    }
    hosts.split(',').enumerate().map(|(index, host)| parse_endpoint(index + 1, host)).collect()
}

fn parse_endpoint(number: usize, text: &str) -> Result<Endpoint> {
    let (host, port) = split_port(number, text)?;
    if host.is_empty() {
        return Err(invalid(
            format_args!("its host {number} is empty"),
            "name it, or take the comma or colon out",
        ));
    }
    let address = text.starts_with('[');
    let odd = |c: char| {
        if address { !(c.is_ascii_hexdigit() || ":.%".contains(c)) } else { odd_in_host(c) }
    };
    if let Some(odd) = host.chars().find(|c| odd(*c)) {
        return Err(invalid(
            format_args!("its host {number} has the character {odd:?}"),
            "write a name or an address",
        ));
    }
    Ok(Endpoint { host: host.to_owned(), port: port.map(|port| parse_port(number, port)).transpose()? })
}

fn split_port(number: usize, text: &str) -> Result<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else {
            return Err(invalid(
                format_args!("its host {number} has no closing bracket"),
                "write it as [::1]:6379",
            ));
        };
        return match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok((host, None)),
            Some(port) => Ok((host, Some(port))),
            None => Err(invalid(
                format_args!("its host {number} goes on after its bracket"),
                "write a : before the port",
            )),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, rest)) if rest.contains(':') => {
            let problem = format_args!("its host {number} has several colons");
            Err(invalid(problem, "put an IPv6 address in brackets: [::1]:6379"))
        }
        Some((host, port)) => Ok((host, Some(port))),
    }
}

fn parse_port(number: usize, text: &str) -> Result<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port != 0 => Ok(port),
        // Only figures are echoed: letters here may be a password whose @ was forgotten.
        _ if digits => {
            Err(invalid(format_args!("the port {text} of its host {number}"), "take one from 1 to 65535"))
        }
        _ => Err(invalid(
            format_args!("the port of its host {number} is no number"),
            "take one from 1 to 65535",
        )),
    }
}

fn odd_in_host(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || "-._".contains(c))
}
