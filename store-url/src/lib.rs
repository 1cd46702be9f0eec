//! Store URLs, and passwords that are read when they are needed.
//!
//! `scheme://[user[:password]@]host[:port]{,host[:port]}[/path][?key=value{&key=value}]`, or `scheme:path` for stores
//! that are files. The common parsers are not used: they refuse several hosts with ports, and read the first directory of
//! `sqlite://dir/file` as a host.

mod authority;
mod nearest;
mod part;
mod query;
mod redact;
mod secret;

pub use authority::{Authority, Endpoint, is_this_host};
pub use nearest::{did_you_mean, nearest};
pub use part::slip_at_ends;
pub use query::Query;
pub use secret::Secret;

use leasehold_core::Result;
use part::{decode, invalid};
use std::borrow::Cow;
use std::fmt;

/// The address of a store, split at its scheme and its query. The scheme defines the meaning of the part between them.
///
/// `Debug` and `Display` show no password.
///
/// # Errors
///
/// Of every method: [`Invalid`](leasehold_core::ErrorKind::Invalid), naming the part, without any secret in it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    scheme: String,
    /// The text between `scheme:` and `?`, with its slashes, as it was written.
    body: String,
    query: Vec<(String, String)>,
    password: Option<Secret>,
}

impl StoreUrl {
    /// Splits a URL.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let url = Self::parse_trimmed(trimmed)?;
        let shown = || text.replacen(trimmed, &url.to_string(), 1);
        if trimmed != text {
            return Err(invalid(format_args!("there is white space around it: {:?}", shown()), "remove it"));
        }
        let rest = url.body.strip_prefix("//").unwrap_or(&url.body);
        let login = rest.split('/').next().and_then(|first| first.rfind('@')).map_or(0, |at| at + 1);
        let hosts = rest.split_once('/').filter(|(hosts, _)| url.body.starts_with("//") && !hosts.is_empty());
        let path = hosts.map_or("", |(_, path)| path);
        let slip = |part: &str| slip_at_ends("its host or path", part.trim_end_matches('/'));
        let last = rest[login..].trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if let Some(slip) = slip(&rest[login..]).or_else(|| slip(path)).or_else(|| slip(last)) {
            return Err(invalid(format_args!("{slip}: {:?}", shown()), "remove it, or percent-encode it"));
        }
        Ok(url)
    }

    fn parse_trimmed(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| {
            invalid("it has no scheme", "write it like redis://host:6379/0 or sqlite:/path/to/file")
        })?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        if !is_scheme {
            // Not echoed: the text before the first colon of a URL without a scheme may be half a password.
            return Err(invalid("it does not begin with a scheme", "begin it with redis:// or sqlite:"));
        }
        redact::check(rest)?;
        if let Some(odd) = text.chars().find(|c| c.is_control()) {
            return Err(invalid(format_args!("it has the control character {odd:?}"), "percent-encode it"));
        }
        let (body, query) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            body: body.to_owned(),
            query: query::split(query)?,
            password: None,
        })
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Sets the password, or the file or the variable that has it. Refused if the URL has a password of its own.
    pub fn with_password(mut self, password: Secret) -> Result<Self> {
        let authority =
            self.body.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
        if authority.rsplit_once('@').is_some_and(|(login, _)| login.contains(':')) {
            let problem = "it has a password, and another one is given beside it";
            return Err(invalid(problem, "leave one of them out"));
        }
        self.password = Some(password);
        Ok(self)
    }

    /// The password that was [given beside](Self::with_password) the URL. [`authority`](Self::authority) has it too; this
    /// is for a scheme whose URL has no authority.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// Adds a parameter to those of the query. The value is taken as it is, without percent-decoding. Refused if the key is there
    /// already, or if the value of a key that is no secret has a [slip at its ends](slip_at_ends).
    pub fn with_parameter(mut self, key: impl Into<String>, value: impl Into<String>) -> Result<Self> {
        let (key, value) = (key.into(), value.into());
        query::check(&self.query, &key, &value)?;
        self.query.push((key, value));
        Ok(self)
    }

    /// True if it has a secret, which `Display` does not show.
    pub fn has_secret(&self) -> bool {
        let secret = |(key, value): &(String, String)| redact::is_secret(key) && !value.is_empty();
        self.password.is_some()
            || matches!(redact::body(&self.body), Cow::Owned(_))
            || self.query.iter().any(secret)
    }

    /// The value of a parameter as `Display` shows it: `***`, if its key says that it is a secret and it is not empty.
    pub fn shown_parameter<'a>(key: &str, value: &'a str) -> &'a str {
        if redact::is_secret(key) && !value.is_empty() { redact::HIDDEN } else { value }
    }

    /// The parameters, to be taken one by one; [`finish`](Query::finish) refuses those that are left.
    pub fn query(&self) -> Query {
        Query { left: self.query.clone(), known: Vec::new() }
    }

    /// The URL as that of servers: user, hosts and path.
    pub fn authority(&self) -> Result<Authority> {
        Authority::parse(&self.scheme, &self.body, self.password.clone())
    }

    /// The URL as that of a file or directory: `scheme:path`, or `scheme:///absolute`, or `scheme://relative`, which
    /// sqlx reads likewise. Empty if there is none.
    pub fn path(&self) -> Result<String> {
        decode("path", self.body.strip_prefix("//").unwrap_or(&self.body))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, redact::body(&self.body))?;
        for (index, (key, value)) in self.query.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(f, "{mark}{key}={}", Self::shown_parameter(key, value))?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests;
