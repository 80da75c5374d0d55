//! Which `Host` and `Origin` values are ours.
//!
//! Owns the exact lists. A page elsewhere that points its name at this address (DNS rebinding) arrives
//! with its own name in `Host` and is refused before anything is looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

/// The accepted `Host` values.
#[derive(Debug, Clone)]
pub struct Hosts {
    own: Vec<String>,
    configured: Vec<String>,
}

impl Hosts {
    /// From the address that is really bound, and the configuration's further values. On loopback and on
    /// the wildcard address the loopback names are ours; on one address that address is.
    pub fn new(listening: SocketAddr, configured: &[String]) -> Hosts {
        let port = listening.port();
        let mut names = Vec::new();
        let ip = listening.ip();
        if ip.is_loopback() || ip.is_unspecified() {
            names.extend([
                IpAddr::V4(Ipv4Addr::LOCALHOST).to_string(),
                "localhost".to_owned(),
                format!("[{}]", Ipv6Addr::LOCALHOST),
            ]);
        }
        if !ip.is_unspecified() {
            names.push(match ip {
                IpAddr::V4(v4) => v4.to_string(),
                IpAddr::V6(v6) => format!("[{v6}]"),
            });
        }
        let mut own: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            // A browser leaves the port of http out.
            own.extend(names);
        }
        let configured = configured.iter().map(|host| host.to_ascii_lowercase()).collect();
        Hosts { own, configured }
    }

    /// The request's host, when it is exactly one of ours and named only once.
    pub fn of<'a>(&self, uri: &Uri, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut all = headers.get_all(header::HOST).iter();
        let (host, None) = (all.next()?.to_str().ok()?, all.next()) else { return None };
        // An address in the request line would otherwise be a second, unchecked name.
        if uri.authority().is_some_and(|authority| authority.as_str() != host) {
            return None;
        }
        self.accepts(host).then_some(host)
    }

    /// May a page of `origin` call us under `host`? Only our own page; of configured hosts also by TLS,
    /// which the operator's proxy then ends.
    pub fn same_origin(&self, origin: &str, host: &str) -> bool {
        let of_scheme = |scheme: &str| {
            origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        };
        of_scheme("http://") || (is_in(&self.configured, host) && of_scheme("https://"))
    }

    fn accepts(&self, host: &str) -> bool {
        is_in(&self.own, host) || is_in(&self.configured, host)
    }
}

fn is_in(list: &[String], host: &str) -> bool {
    list.iter().any(|ours| ours.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn hosts(listening: &str) -> Hosts {
        Hosts::new(listening.parse().unwrap(), &["Node.local:7373".to_owned()])
    }

    fn passes(hosts: &Hosts, uri: &str, values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::HOST, HeaderValue::from_str(value).unwrap());
        }
        hosts.of(&uri.parse().unwrap(), &headers).is_some()
    }

    #[test]
    fn only_exact_names_with_the_port_are_ours() {
        let loopback = hosts("127.0.0.1:7373");
        for right in
            ["127.0.0.1:7373", "localhost:7373", "LOCALHOST:7373", "[::1]:7373", "node.local:7373"]
        {
            assert!(passes(&loopback, "/", &[right]), "{right}");
        }
        for wrong in [
            "",
            "localhost",
            "localhost:80",
            "localhost:73730",
            "localhost.:7373",
            "127.0.0.1",
            "127.0.0.2:7373",
            "127.1:7373",
            "2130706433:7373",
            "0.0.0.0:7373",
            "[::]:7373",
            "[::ffff:127.0.0.1]:7373",
            "::1:7373",
            "evil.example:7373",
            "localhost:7373.evil.example",
            "evil@localhost:7373",
            "localhost:7373/",
            "node.local",
        ] {
            assert!(!passes(&loopback, "/", &[wrong]), "{wrong}");
        }
        assert!(!passes(&loopback, "/", &[]));
        assert!(!passes(&loopback, "/", &["localhost:7373", "localhost:7373"]));
        assert!(!passes(&loopback, "http://evil.example/", &["localhost:7373"]));
        assert!(passes(&loopback, "http://localhost:7373/", &["localhost:7373"]));
    }

    #[test]
    fn another_address_has_other_names() {
        for (listening, right, wrong) in [
            ("192.0.2.7:7373", "192.0.2.7:7373", "127.0.0.1:7373"),
            ("0.0.0.0:7373", "localhost:7373", "0.0.0.0:7373"),
            ("[::]:7373", "[::1]:7373", "[::]:7373"),
            ("[2001:db8::1]:7373", "[2001:db8::1]:7373", "localhost:7373"),
            ("127.0.0.1:80", "localhost", "localhost:8080"),
        ] {
            let hosts = hosts(listening);
            assert!(passes(&hosts, "/", &[right]), "{listening} {right}");
            assert!(!passes(&hosts, "/", &[wrong]), "{listening} {wrong}");
        }
    }

    #[test]
    fn only_the_page_of_the_same_host_is_our_origin() {
        let hosts = hosts("127.0.0.1:7373");
        for (origin, host, ours) in [
            ("http://localhost:7373", "localhost:7373", true),
            ("http://127.0.0.1:7373", "localhost:7373", false),
            ("http://localhost:7374", "localhost:7373", false),
            ("https://localhost:7373", "localhost:7373", false),
            ("https://node.local:7373", "node.local:7373", true),
            ("http://node.local:7373", "node.local:7373", true),
            ("http://localhost:7373.evil.example", "localhost:7373", false),
            ("http://localhost:7373/", "localhost:7373", false),
            ("null", "localhost:7373", false),
            ("", "localhost:7373", false),
            ("localhost:7373", "localhost:7373", false),
        ] {
            assert_eq!(hosts.same_origin(origin, host), ours, "{origin} {host}");
        }
    }
}
