//! Which addresses are of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is one that anybody can reach and that means the same host to all. Those made for examples are taken for public:
/// nobody has them, and nothing can be reached there.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // This network; private use; loopback; link-local, metadata of clouds among it.
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => false,
        [172, second, ..] => !(16..=31).contains(&second),
        // Shared by the customers of a provider, metadata of a cloud among it.
        [100, second, ..] => !(64..=127).contains(&second),
        // Assigned to protocols, and to metadata of a cloud; relays of 6to4; name servers of nobody.
        [192, 0, 0, _] | [192, 88, 99, _] | [192, 31, 196, _] | [192, 52, 193, _] | [192, 175, 48, _] => {
            false
        }
        // Measurements between networks.
        [198, 18 | 19, ..] => false,
        // An address that a cloud answers on for every machine in it.
        [168, 63, 129, 16] => false,
        // Multicast, reserved, broadcast.
        [224..=255, ..] => false,
        _ => true,
    }
}

/// Only what is global unicast is public, and of that nothing that stands for an address of the older kind.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Teredo, benchmarks, overlays and whatever else is assigned to protocols.
        [0x2001, second, ..] if second < 0x200 => false,
        // 6to4.
        [0x2002, ..] => false,
        // Global unicast. Loopback, unspecified, mapped and translated addresses, local and multicast ones are not in there.
        [first, ..] => (0x2000..=0x3fff).contains(&first) && !(0x3ff0..=0x3fff).contains(&first),
    }
}
