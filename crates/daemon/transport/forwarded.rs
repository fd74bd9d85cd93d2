//! Who asked, when a proxy stands in between. Only a proxy that the operator trusts is believed (security 24).

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the nearest one that is no trusted proxy. What stands further left in `X-Forwarded-For` was
/// written by strangers.
pub(crate) fn client(headers: &HeaderMap, peer: SocketAddr, trusted: &[IpNet]) -> SocketAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|net| net.contains(&address.to_canonical()));
    if !trusts(peer.ip()) {
        return peer;
    }
    let mut nearest = peer;
    let lines: Vec<&str> = headers.get_all(FOR).iter().filter_map(|line| line.to_str().ok()).collect();
    for hop in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        if !trusts(nearest.ip()) {
            break;
        }
        // A proxy that does not say it in a way we know is where the trail ends.
        let Some(before) = read(hop.trim()) else { break };
        nearest = before;
    }
    nearest
}

/// An address, with or without a port; 0 stands for none.
fn read(text: &str) -> Option<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let alone = bare.parse().ok().map(|address: IpAddr| SocketAddr::new(address, 0));
    alone.or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_proxy_says_who_asked_and_nobody_else_does() {
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).into();
        for (peer, lines, client_is) in [
            ("10.0.0.1:5", &[][..], "10.0.0.1:5"),
            ("10.0.0.1:5", &["198.51.100.7"], "198.51.100.7:0"),
            ("[::ffff:10.0.0.1]:5", &["198.51.100.7:99"], "198.51.100.7:99"),
            ("10.0.0.1:5", &["203.0.113.9, 198.51.100.7, 10.9.9.9"], "198.51.100.7:0"),
            ("10.0.0.1:5", &["203.0.113.9", "198.51.100.7,10.9.9.9"], "198.51.100.7:0"),
            ("10.0.0.1:5", &["10.1.1.1, 10.2.2.2"], "10.1.1.1:0"),
            ("10.0.0.1:5", &["[2001:db8::1]"], "[2001:db8::1]:0"),
            ("10.0.0.1:5", &["[2001:db8::1]:7, fd00::2"], "[2001:db8::1]:7"),
            ("10.0.0.1:5", &["198.51.100.7, unknown"], "10.0.0.1:5"),
            ("10.0.0.1:5", &[""], "10.0.0.1:5"),
            ("203.0.113.9:5", &["198.51.100.7"], "203.0.113.9:5"),
        ] {
            let headers = lines.iter().map(|line| (FOR, line.parse().unwrap())).collect();
            let client = client(&headers, peer.parse().unwrap(), &trusted);
            assert_eq!(client, client_is.parse().unwrap(), "{peer} {lines:?}");
        }
    }
}
