//! Decides which addresses Workers' requests may reach, after names have been resolved.
//!
//! ```text
//!  address ─► unmap, translate ─► refused? ─► metadata service? ─► allowed? ─► public? ─► Allowed
//! ```
//!
//! `refused?` and `allowed?` look the address up in the node's own lists; `translate` finds an IPv4
//! address inside an IPv6 one.
//!
//! A name cannot be the basis of the decision: the owner of a name decides to which addresses the
//! name resolves, and may answer each query differently. The addresses are therefore judged for
//! each connection, and connections are made only to an [`Allowed`], unless the platform's
//! administrator delegates the decision to a proxy ([`super::proxy`]). This module is pure: it does
//! not resolve names, connect or read a clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address that the policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allowed(IpAddr);

impl Allowed {
    pub fn address(self) -> IpAddr {
        self.0
    }
}

/// The reason why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefused {
    Loopback,
    LinkLocal,
    /// An address of a private network, such as the address of a Pod or Service.
    Private,
    Multicast,
    /// A service from which a cloud's machines get their credentials.
    Metadata,
    /// An address that is not routed on the Internet.
    Reserved,
    /// An address of a tunnel, which may lead to any other address.
    Tunnel,
    /// An address on the node's own list of refused networks.
    Listed,
}

impl AddressRefused {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "an address of a private network",
            Self::Multicast => "a multicast address",
            Self::Metadata => "the address of a metadata service",
            Self::Reserved => "a reserved address",
            Self::Tunnel => "an address of a tunnel",
            Self::Listed => "an address that the node refuses",
        }
    }
}

/// A node's policy on the networks that Workers may reach.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    allow: Vec<IpNet>,
    refuse: Vec<IpNet>,
}

impl Policy {
    /// Creates a policy.
    ///
    /// # Arguments
    /// * `allow` - networks that would be refused otherwise. A metadata service must be listed as a
    ///   single address, and loopback addresses by a network that has no others.
    /// * `refuse` - networks that would be allowed otherwise. This list overrides `allow`.
    pub fn new(allow: Vec<IpNet>, refuse: Vec<IpNet>) -> Self {
        Self { allow, refuse }
    }

    /// Judges an address.
    ///
    /// # Errors
    /// Returns the reason for a refusal.
    pub fn judge(&self, address: IpAddr) -> Result<Allowed, AddressRefused> {
        let address = unmapped(address);
        let target = translated(address);
        let covers = |net: &IpNet| net.contains(&address) || net.contains(&target);
        if self.refuse.iter().any(covers) {
            return Err(AddressRefused::Listed);
        }
        if METADATA.contains(&target) {
            let is_named =
                |net: &IpNet| net.prefix_len() == net.max_prefix_len() && net.contains(&target);
            return if self.allow.iter().any(is_named) {
                Ok(Allowed(address))
            } else {
                Err(AddressRefused::Metadata)
            };
        }
        let refused = refusal(target);
        let allow = |net: &IpNet| {
            // The node's own listeners are on the loopback interface. A wide network, such as
            // 0.0.0.0/0, therefore does not allow loopback addresses.
            (refused != Some(AddressRefused::Loopback) || is_loopback(net)) && covers(net)
        };
        match refused {
            Some(refused) if !self.allow.iter().any(allow) => Err(refused),
            _ => Ok(Allowed(address)),
        }
    }
}

/// Returns why an address is refused unless it is allowed explicitly.
fn refusal(address: IpAddr) -> Option<AddressRefused> {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

/// Returns whether a network has only loopback addresses.
fn is_loopback(net: &IpNet) -> bool {
    let is_narrow = match net {
        IpNet::V4(net) => net.prefix_len() >= 8,
        IpNet::V6(net) => net.prefix_len() >= 127,
    };
    is_narrow && refusal(net.network()) == Some(AddressRefused::Loopback)
}

/// Addresses of the metadata services of the large clouds. Most of them are in ranges that are
/// refused anyway, but they stay refused on a node that allows such a range.
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    // The next two are Amazon's, for tasks and for Pods.
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    // The next three are Alibaba's, Oracle's and Azure's.
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// IPv4 networks that are not routed on the Internet (IANA's registry of special-purpose
/// addresses).
const V4: [(Ipv4Addr, u8, AddressRefused); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, AddressRefused::Loopback), // 0.0.0.0 is this machine on Linux
    (Ipv4Addr::new(10, 0, 0, 0), 8, AddressRefused::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, AddressRefused::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, AddressRefused::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, AddressRefused::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, AddressRefused::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, AddressRefused::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, AddressRefused::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, AddressRefused::Tunnel),
    (Ipv4Addr::new(192, 168, 0, 0), 16, AddressRefused::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, AddressRefused::Private),
    (Ipv4Addr::new(198, 51, 100, 0), 24, AddressRefused::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, AddressRefused::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 4, AddressRefused::Multicast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, AddressRefused::Reserved),
    (Ipv4Addr::new(255, 255, 255, 255), 32, AddressRefused::Reserved),
];

/// IPv6 networks that are refused, with the reasons; the first match counts. An address in none of
/// these networks is refused unless it is in 2000::/3.
const V6: [(Ipv6Addr, u8, AddressRefused); 11] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 127, AddressRefused::Loopback), // :: and ::1
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 96, AddressRefused::Tunnel),    // IPv4-compatible
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, AddressRefused::Tunnel), // a network's own NAT64
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, AddressRefused::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, AddressRefused::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, AddressRefused::Private),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, AddressRefused::Multicast),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, AddressRefused::Tunnel), // Teredo, ORCHID and others
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, AddressRefused::Reserved),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, AddressRefused::Tunnel), // 6to4
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, AddressRefused::Reserved),
];

fn v4(address: Ipv4Addr) -> Option<AddressRefused> {
    let bits = address.to_bits();
    let is_in = |net: Ipv4Addr, length: u8| (bits ^ net.to_bits()) >> (32 - u32::from(length)) == 0;
    V4.iter().find(|(net, length, _)| is_in(*net, *length)).map(|(_, _, refused)| *refused)
}

fn v6(address: Ipv6Addr) -> Option<AddressRefused> {
    let bits = address.to_bits();
    let is_in =
        |net: Ipv6Addr, length: u8| (bits ^ net.to_bits()) >> (128 - u32::from(length)) == 0;
    let is_public = bits >> 125 == 1;
    let listed =
        V6.iter().find(|(net, length, _)| is_in(*net, *length)).map(|(_, _, refused)| *refused);
    listed.or((!is_public).then_some(AddressRefused::Reserved))
}

/// Maps `::ffff:a.b.c.d` to `a.b.c.d`, the address to which the operating system would connect.
fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Returns the address to which a NAT64 gateway connects: `64:ff9b::a.b.c.d` (RFC 6052) leads to
/// `a.b.c.d`. In an IPv6-only network, the whole IPv4 Internet has such addresses. The address
/// must be unmapped. An address of any other IPv6 network that embeds an IPv4 address, such as that
/// of 6to4, is judged by its own network.
fn translated(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.to_bits() >> 32 == 0x0064_ff9b_0000_0000_0000_0000 => {
            IpAddr::V4(Ipv4Addr::from_bits(v6.to_bits() as u32))
        }
        other => other,
    }
}

/// Returns whether requests to the port are refused at any address: the service on the port might
/// mistake an HTTP request for a message of its own protocol (Fetch, "port blocking").
pub fn is_bad_port(port: u16) -> bool {
    BAD_PORTS.binary_search(&port).is_ok()
}

const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];

#[cfg(test)]
mod tests;
