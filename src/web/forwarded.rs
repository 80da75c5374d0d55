//! What a reverse proxy says of who asked.
//!
//! Owns when that is believed: only if the configuration says that there is a proxy, and only from this
//! machine itself. Anybody else may write into `X-Forwarded-*` what they like.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName};

use super::connection::Peer;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Headers by which a proxy shows that it is one.
const MARKS: [HeaderName; 4] = [
    FOR,
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("via"),
];
/// An address that is nobody's: of who can't be told.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Is there a proxy on this machine?
#[derive(Debug, Clone, Copy)]
pub struct Forwarded {
    believed: bool,
}

impl Forwarded {
    /// `http.forwarded`
    pub fn new(believed: bool) -> Forwarded {
        Forwarded { believed }
    }

    /// Where a request comes from: of a proxy's, what the proxy itself says; it writes that last.
    pub fn address(self, headers: &HeaderMap, peer: Option<&Peer>) -> IpAddr {
        let Some(peer) = peer.map(|peer| peer.0.ip()) else { return UNKNOWN };
        match last(headers, &FOR).filter(|_| self.believes(peer)) {
            None => peer,
            Some(text) => read(text).unwrap_or(UNKNOWN),
        }
    }

    /// Did the browser come by TLS, as far as a proxy says it?
    pub fn is_tls(self, headers: &HeaderMap, peer: Option<&Peer>) -> bool {
        peer.is_some_and(|peer| self.believes(peer.0.ip()))
            && last(headers, &PROTO).is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
    }

    /// Was it asked on this machine itself? What shows any sign of a proxy that nobody configured is not.
    pub fn is_local(self, headers: &HeaderMap, peer: Option<&Peer>) -> bool {
        let by_proxy = MARKS.iter().any(|mark| headers.contains_key(mark));
        self.address(headers, peer).to_canonical().is_loopback() && (self.believed || !by_proxy)
    }

    fn believes(self, peer: IpAddr) -> bool {
        self.believed && peer.to_canonical().is_loopback()
    }
}

/// The last entry of a list header, over all its lines.
fn last<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let line = headers.get_all(name).iter().next_back()?;
    // One that is no text is an entry that can't be read.
    let line = line.to_str().unwrap_or_default();
    Some(line.rsplit(',').next().unwrap_or_default().trim())
}

/// An address, with or without a port.
fn read(text: &str) -> Option<IpAddr> {
    text.parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn peer(address: &str) -> Peer {
        Peer(SocketAddr::new(address.parse().unwrap(), 4711))
    }

    #[test]
    fn only_a_configured_proxy_on_this_machine_is_believed() {
        let says = headers(&[("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https")]);
        for (believed, from, address, tls) in [
            (true, "127.0.0.1", "203.0.113.9", true),
            (true, "::1", "203.0.113.9", true),
            (true, "::ffff:127.0.0.1", "203.0.113.9", true),
            (true, "192.0.2.1", "192.0.2.1", false),
            (false, "127.0.0.1", "127.0.0.1", false),
            (false, "192.0.2.1", "192.0.2.1", false),
        ] {
            let (forwarded, peer) = (Forwarded::new(believed), peer(from));
            let wanted: IpAddr = address.parse().unwrap();
            assert_eq!(forwarded.address(&says, Some(&peer)), wanted, "{believed} {from}");
            assert_eq!(forwarded.is_tls(&says, Some(&peer)), tls, "{believed} {from}");
        }
    }

    #[test]
    fn what_the_proxy_wrote_is_the_last_entry_and_rubbish_is_nobody() {
        for (lines, address) in [
            (&["198.51.100.1, 203.0.113.9"][..], "203.0.113.9"),
            (&["127.0.0.1", "203.0.113.9"], "203.0.113.9"),
            (&["203.0.113.9:4711"], "203.0.113.9"),
            (&["[2001:db8::1]:80"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["unknown"], "0.0.0.0"),
            (&["127.0.0.1,"], "0.0.0.0"),
            (&[""], "0.0.0.0"),
            (&[], "127.0.0.1"),
        ] {
            let pairs: Vec<(&str, &str)> =
                lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
            let found = Forwarded::new(true).address(&headers(&pairs), Some(&peer("127.0.0.1")));
            assert_eq!(found, address.parse::<IpAddr>().unwrap(), "{lines:?}");
        }
        let last_says = headers(&[("x-forwarded-proto", "https, http")]);
        assert!(!Forwarded::new(true).is_tls(&last_says, Some(&peer("127.0.0.1"))));
    }

    #[test]
    fn nobody_behind_a_proxy_is_local() {
        for (believed, from, mark, local) in [
            (false, "127.0.0.1", None, true),
            (false, "::1", None, true),
            (false, "192.0.2.1", None, false),
            (false, "127.0.0.1", Some(("x-forwarded-for", "127.0.0.1")), false),
            (false, "127.0.0.1", Some(("via", "1.1 proxy")), false),
            (true, "127.0.0.1", None, true),
            (true, "127.0.0.1", Some(("x-forwarded-for", "203.0.113.9")), false),
            (true, "127.0.0.1", Some(("x-forwarded-for", "rubbish")), false),
            (true, "192.0.2.1", Some(("x-forwarded-for", "127.0.0.1")), false),
        ] {
            let headers = headers(mark.as_slice());
            let found = Forwarded::new(believed).is_local(&headers, Some(&peer(from)));
            assert_eq!(found, local, "{believed} {from} {mark:?}");
        }
        assert!(!Forwarded::new(true).is_local(&HeaderMap::new(), None));
    }
}
