use super::Secret;
use super::part::{decode, invalid};
use leasehold_core::Result;
use std::fmt;
use std::net::IpAddr;

/// The part of a [`StoreUrl`](crate::StoreUrl) that names servers: the login, the hosts and the path.
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
        let ((user, own_password), hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (parse_login(login)?, hosts),
            None => ((None, None), authority),
        };
        if hosts.is_empty() {
            return Err(invalid("it names no host", "name at least one"));
        }
        let endpoints = hosts.split(',').zip(1..).map(|(host, number)| parse_endpoint(number, host));
        Ok(Self {
            user,
            password: password.or(own_password),
            endpoints: endpoints.collect::<Result<_>>()?,
            path: decode("path", path)?,
        })
    }

    /// The only server. Several are [`Invalid`](leasehold_core::ErrorKind::Invalid).
    pub fn only_endpoint(&self) -> Result<&Endpoint> {
        let [only] = self.endpoints.as_slice() else {
            let problem = format_args!("{} hosts, this scheme takes one", self.endpoints.len());
            return Err(invalid(problem, "name one host"));
        };
        Ok(only)
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

/// True if connections to this name or address stay on this host.
pub fn is_this_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn parse_login(login: &str) -> Result<(Option<String>, Option<Secret>)> {
    if login.contains('@') {
        return Err(invalid("there are two @ before its host", "write the @ of a user or password as %40"));
    }
    let (user, password) = login.split_once(':').map_or((login, None), |(user, rest)| (user, Some(rest)));
    let user = Some(decode("user", user)?).filter(|user| !user.is_empty());
    let password = password.map(|password| decode("password", password)).transpose()?;
    Ok((user, password.map(Secret::from)))
}

fn parse_endpoint(number: usize, text: &str) -> Result<Endpoint> {
    let fail =
        |problem: &str, fix: &'static str| Err(invalid(format_args!("its host {number} {problem}"), fix));
    let is_address = text.starts_with('[');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !is_address || !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let host = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        None if host.contains(':') => {
            return fail("has several colons", "put an IPv6 address in brackets: [::1]:6379");
        }
        None => host,
        Some(None) => return fail("has no closing bracket", "write it as [::1]:6379"),
        Some(Some((address, ""))) => address,
        Some(Some(_)) => return fail("goes on after its bracket", "write a : before the port"),
    };
    if host.is_empty() {
        return fail("is empty", "name it, or take the comma or colon out");
    }
    let is_odd = |c: &char| match is_address {
        true => !c.is_ascii_hexdigit() && !":.%".contains(*c),
        false => !c.is_ascii_alphanumeric() && !"-._".contains(*c),
    };
    if let Some(odd) = host.chars().find(is_odd) {
        return fail(&format!("has the character {odd:?}"), "write a name or an address");
    }
    Ok(Endpoint { host: host.to_owned(), port: port.map(|port| parse_port(number, port)).transpose()? })
}

fn parse_port(number: usize, text: &str) -> Result<u16> {
    let problem = match text.parse() {
        // Only digits are echoed: letters here may be a password whose @ was forgotten.
        _ if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("the port of its host {number} is no number")
        }
        Ok(port) if port != 0 => return Ok(port),
        _ => format!("the port {text} of its host {number}"),
    };
    Err(invalid(problem, "take one from 1 to 65535"))
}
