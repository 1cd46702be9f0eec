//! A URL that names several independent servers.

use super::{Defaults, Target, unknown_scheme};
use leasehold_core::{Error, Result};
use leasehold_store_url::StoreUrl;
use std::time::Duration;

/// Fewer nodes cannot lose one and still be a majority.
const FEWEST: usize = 3;
/// Far below any usual ttl: a node that is slow must not use up what is left of a lease that others have granted.
const TIMEOUT: Duration = Duration::from_millis(500);

impl Target {
    /// Reads a URL with several hosts, `redlock://` or `redlock+tls://`. Login, database and parameters are for all of
    /// them.
    pub(crate) fn nodes(url: &StoreUrl) -> Result<Vec<Self>> {
        let encrypted = match url.scheme() {
            "redlock" => false,
            "redlock+tls" => true,
            other => return Err(unknown_scheme(other)),
        };
        let authority = url.authority()?;
        check_number(authority.endpoints.len())?;
        let defaults = Defaults { timeout: TIMEOUT, ..Defaults::SERVER };
        let mut query = url.query();
        let (_, nodes) = Self::servers(url, authority, &mut query, encrypted, defaults)?;
        query.finish()?;
        Ok(nodes)
    }
}

fn check_number(nodes: usize) -> Result<()> {
    if nodes >= FEWEST {
        return Ok(());
    }
    let problem = format_args!("{nodes} of the {FEWEST} nodes that a majority needs at least");
    let fix = "name three independent servers, or five; for one server write redis://";
    Err(Error::invalid("store URL", problem, fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::ErrorKind;

    fn nodes(url: &str) -> Result<Vec<Target>> {
        Target::nodes(&StoreUrl::parse(url).unwrap())
    }

    fn problem(url: &str) -> String {
        let error = nodes(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        format!("{error}; {}", error.help().unwrap_or_default())
    }

    #[test]
    fn login_database_and_parameters_are_for_all_nodes() {
        let nodes = nodes("redlock://ada:pw@a:1,b,[::1]:3/2?timeout=50ms&protocol=resp2").unwrap();
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
        assert_eq!(addresses, ["a:1", "b:6379", "[::1]:3"]);
        for node in nodes {
            assert_eq!(node.login.unwrap().user.as_deref(), Some("ada"));
            assert_eq!((node.database, node.timeouts.request), (2, Duration::from_millis(50)));
            assert_eq!(node.timeouts.connect, TIMEOUT);
            assert!(node.protocol.is_some() && node.tls.is_none());
        }
    }

    #[test]
    fn too_few_nodes_and_twins_are_refused_before_anything_is_asked() {
        let few = |n| {
            format!(
                "invalid store URL: {n} of the 3 nodes that a majority needs at least; \
                 name three independent servers, or five; for one server write redis://"
            )
        };
        assert_eq!(problem("redlock://a"), few(1));
        assert_eq!(problem("redlock://a,b"), few(2));
        let twins = "invalid store URL: its hosts 1 and 3 are the same, A; name each server once";
        assert_eq!(problem("redlock://a:6379,b,A"), twins);
        assert!(nodes("redlock://a:1,a:2,a:3,b").is_ok());
    }

    #[test]
    fn mistakes_are_named_with_the_way_out() {
        assert!(problem("redlock://a,b,c?timout=1s").contains("did you mean \"timeout\"?"));
        assert!(problem("redlock://a,b,c/x").contains("\"x\" is no index"));
        let tls = "invalid tls_ca: redlock:// is not encrypted; write redlock+tls://, or leave it out";
        assert_eq!(problem("redlock://a,b,c?tls_ca=/ca.pem"), tls);
    }
}
