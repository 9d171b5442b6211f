//! Tests which addresses and ports Workers may reach.

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn judge(text: &str) -> Result<IpAddr, AddressRefused> {
    Policy::default().judge(ip(text)).map(Allowed::address)
}

#[test]
fn the_public_internet_is_open() {
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.0.1",
        "172.32.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "2620:fe::fe",
    ] {
        assert_eq!(judge(public), Ok(ip(public)), "{public}");
    }
}

#[test]
fn internal_addresses_are_refused() {
    for (inside, why) in [
        ("127.0.0.1", AddressRefused::Loopback),
        ("127.255.255.254", AddressRefused::Loopback),
        ("0.0.0.0", AddressRefused::Loopback),
        ("::1", AddressRefused::Loopback),
        ("::", AddressRefused::Loopback),
        ("10.96.0.1", AddressRefused::Private),
        ("172.16.0.1", AddressRefused::Private),
        ("172.31.255.255", AddressRefused::Private),
        ("192.168.1.1", AddressRefused::Private),
        ("100.64.0.1", AddressRefused::Private),
        ("198.19.0.1", AddressRefused::Private),
        ("fd12:3456::1", AddressRefused::Private),
        ("fec0::1", AddressRefused::Private),
        ("169.254.1.1", AddressRefused::LinkLocal),
        ("fe80::1", AddressRefused::LinkLocal),
        ("224.0.0.1", AddressRefused::Multicast),
        ("ff02::1", AddressRefused::Multicast),
        ("192.0.2.1", AddressRefused::Reserved),
        ("255.255.255.255", AddressRefused::Reserved),
        ("240.0.0.1", AddressRefused::Reserved),
        ("2001:db8::1", AddressRefused::Reserved),
        ("100::1", AddressRefused::Reserved),
        ("5f00::1", AddressRefused::Reserved),
        ("4000::1", AddressRefused::Reserved),
    ] {
        assert_eq!(judge(inside), Err(why), "{inside}");
    }
}

#[test]
fn metadata_services_are_refused_even_in_an_allowed_range() {
    let open = Policy::new(vec![net("0.0.0.0/0"), net("::/0"), net("169.254.0.0/16")], vec![]);
    for address in METADATA {
        assert_eq!(Policy::default().judge(address), Err(AddressRefused::Metadata), "{address}");
        assert_eq!(open.judge(address), Err(AddressRefused::Metadata), "{address}");
        let named = Policy::new(vec![IpNet::from(address)], vec![]);
        assert_eq!(named.judge(address), Ok(Allowed(address)), "{address}");
    }
    assert_eq!(judge("::ffff:169.254.169.254"), Err(AddressRefused::Metadata));
    assert_eq!(judge("64:ff9b::169.254.169.254"), Err(AddressRefused::Metadata));
    assert_eq!(judge("::ffff:168.63.129.16"), Err(AddressRefused::Metadata));
}

#[test]
fn embedding_an_ipv4_address_in_ipv6_does_not_evade_the_policy() {
    assert_eq!(judge("::ffff:127.0.0.1"), Err(AddressRefused::Loopback));
    assert_eq!(judge("::ffff:10.0.0.1"), Err(AddressRefused::Private));
    assert_eq!(judge("::ffff:1.1.1.1"), Ok(ip("1.1.1.1")));
    assert_eq!(judge("64:ff9b::10.0.0.1"), Err(AddressRefused::Private));
    assert_eq!(judge("64:ff9b::1.1.1.1"), Ok(ip("64:ff9b::1.1.1.1")));
    assert_eq!(judge("64:ff9b:1::10.0.0.1"), Err(AddressRefused::Tunnel));
    assert_eq!(judge("::127.0.0.1"), Err(AddressRefused::Tunnel));
    assert_eq!(judge("::1.1.1.1"), Err(AddressRefused::Tunnel));
    assert_eq!(judge("2002:7f00:1::1"), Err(AddressRefused::Tunnel));
    assert_eq!(judge("2001:0:7f00:1::1"), Err(AddressRefused::Tunnel));
}

#[test]
fn loopback_addresses_are_allowed_only_by_a_network_of_their_own() {
    let open = Policy::new(vec![net("0.0.0.0/0"), net("::/0"), net("0.0.0.0/1")], vec![]);
    let own = Policy::new(vec![net("127.0.0.0/8"), net("::1/128")], vec![]);
    for address in ["127.0.0.1", "127.1.2.3", "::ffff:127.0.0.1", "::1", "64:ff9b::127.0.0.1"] {
        assert_eq!(open.judge(ip(address)), Err(AddressRefused::Loopback), "{address}");
        assert!(own.judge(ip(address)).is_ok(), "{address}");
    }
    assert_eq!(own.judge(ip("0.0.0.0")), Err(AddressRefused::Loopback));
    assert_eq!(own.judge(ip("10.0.0.1")), Err(AddressRefused::Private));
    assert!(open.judge(ip("10.0.0.1")).is_ok());
}

#[test]
fn refused_networks_are_unreachable_even_if_public_or_allowed() {
    let policy = Policy::new(vec![net("10.0.0.0/8")], vec![net("10.0.0.0/24"), net("8.8.0.0/16")]);
    assert_eq!(policy.judge(ip("10.1.0.1")), Ok(Allowed(ip("10.1.0.1"))));
    assert_eq!(policy.judge(ip("64:ff9b::10.1.0.1")), Ok(Allowed(ip("64:ff9b::10.1.0.1"))));
    for refused in ["10.0.0.7", "8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"] {
        assert_eq!(policy.judge(ip(refused)), Err(AddressRefused::Listed), "{refused}");
    }
}

#[test]
fn the_ports_of_other_protocols_are_bad() {
    assert!(BAD_PORTS.is_sorted());
    for bad in [0, 22, 25, 53, 6667, 10080] {
        assert!(is_bad_port(bad), "{bad}");
    }
    for good in [80, 443, 8080, 8443, 5432, 65535] {
        assert!(!is_bad_port(good), "{good}");
    }
}

/// Generates any address. Special addresses are more frequent than in a uniform distribution.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let inside = prop::sample::select(vec![
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "100.64.0.0/10",
    ]);
    let special = (inside, any::<u32>()).prop_map(|(inside, host)| {
        let IpNet::V4(net) = inside.parse().unwrap() else {
            unreachable!("{inside} is not an IPv4 network")
        };
        Ipv4Addr::from_bits(net.network().to_bits() | (host & net.hostmask().to_bits()))
    });
    let v4 = prop_oneof![any::<u32>().prop_map(Ipv4Addr::from_bits), special];
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
    prop_oneof![3 => v4.prop_map(IpAddr::V4), 1 => v6]
}

proptest! {
    /// Compares the policy with the standard library's classification of addresses.
    #[test]
    fn no_local_address_is_allowed(address in addresses()) {
        if Policy::default().judge(address).is_ok() {
            match translated(unmapped(address)) {
                IpAddr::V4(v4) => prop_assert!(
                    !(v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_multicast()
                        || v4.is_broadcast() || v4.is_unspecified() || v4.is_documentation())
                ),
                IpAddr::V6(v6) => prop_assert!(
                    !(v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unique_local()
                        || v6.is_multicast() || v6.is_unspecified()
                        || v6.to_ipv4_mapped().is_some())
                        && v6.segments()[0] & 0xe000 == 0x2000
                ),
            }
        }
    }

    #[test]
    fn no_ipv6_form_of_an_ipv4_address_reaches_more_than_the_address_itself(bits in any::<u32>()) {
        let v4 = Ipv4Addr::from_bits(bits);
        let [high, low] = [(bits >> 16) as u16, bits as u16];
        let plain = Policy::default().judge(IpAddr::V4(v4));
        let mapped = IpAddr::V6(v4.to_ipv6_mapped());
        prop_assert_eq!(Policy::default().judge(mapped), plain);
        let nat64 = IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low));
        prop_assert_eq!(Policy::default().judge(nat64).err(), plain.err());
        let compatible = IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low));
        let six_to_four = IpAddr::V6(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1));
        prop_assert!(Policy::default().judge(compatible).is_err());
        prop_assert!(Policy::default().judge(six_to_four).is_err());
    }

    #[test]
    fn the_allowed_address_is_the_judged_address(address in addresses()) {
        let open = Policy::new(vec![net("0.0.0.0/0"), net("::/0")], vec![]);
        if let Ok(allowed) = open.judge(address) {
            prop_assert_eq!(allowed.address(), unmapped(address));
        }
    }

    #[test]
    fn a_refused_network_overrides_every_allowed_network(
        address in addresses(),
        length in 0_u8..=32,
    ) {
        let IpAddr::V4(v4) = address else { return Ok(()) };
        let listed = IpNet::new(address, length).unwrap();
        let policy = Policy::new(vec![net("0.0.0.0/0"), IpNet::from(address)], vec![listed]);
        prop_assert_eq!(policy.judge(address), Err(AddressRefused::Listed));
        prop_assert_eq!(policy.judge(IpAddr::V6(v4.to_ipv6_mapped())), Err(AddressRefused::Listed));
    }
}
