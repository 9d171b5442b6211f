//! Fuzzes redirects, and the policy for outbound connections. A redirect leads to an HTTP URL
//! without credentials, and headers for one origin are not sent to another. An address that the
//! policy allows is in none of the networks that are closed to Workers, even if it is an IPv6
//! address that contains an IPv4 address.

#![no_main]

use std::net::IpAddr;

use arbitrary::Arbitrary;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use libfuzzer_sys::fuzz_target;
use tenon_egress::policy::Policy;
use tenon_egress::redirect::{self, MAX_REDIRECTS, Next};
use url::{Host, Url};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    status: u16,
    post: bool,
    redirects: u8,
    replayable: bool,
    address: IpAddr,
    from: &'a str,
    location: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let policy = Policy::default();
    check_allowed(&policy, input.address);

    let (Ok(status), Ok(location)) =
        (StatusCode::from_u16(300 + input.status % 16), HeaderValue::from_bytes(input.location))
    else {
        return;
    };
    let from = Url::parse(input.from)
        .unwrap_or_else(|_| Url::parse("https://origin.test/a?b#c").expect("the URL is valid"));
    if !matches!(from.scheme(), "http" | "https") {
        return;
    }
    let method = if input.post { Method::POST } else { Method::PUT };
    let response = HeaderMap::from_iter([(LOCATION, location)]);
    let redirects = u32::from(input.redirects);
    if redirects > MAX_REDIRECTS {
        return;
    }
    let next = redirect::next(status, &response, &method, &from, redirects, input.replayable);
    let Ok(Next::Go { url, as_get, is_cross_origin }) = next else { return };
    assert!(matches!(url.scheme(), "http" | "https") && url.host().is_some());
    assert!(url.username().is_empty() && url.password().is_none());
    assert!(redirects < MAX_REDIRECTS && (as_get || input.replayable));
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));

    let sent =
        [AUTHORIZATION, COOKIE, CONTENT_TYPE].map(|name| (name, HeaderValue::from_static("x")));
    let mut headers = HeaderMap::from_iter(sent);
    redirect::drop_headers(&mut headers, as_get, is_cross_origin);
    assert_eq!(
        headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE),
        url.origin() == from.origin()
    );
    assert_eq!(headers.contains_key(CONTENT_TYPE), !as_get);

    match url.host() {
        Some(Host::Ipv4(address)) => check_allowed(&policy, address.into()),
        Some(Host::Ipv6(address)) => check_allowed(&policy, address.into()),
        _ => {}
    }
});

/// Checks that an address is refused, or is public according to the classification of the standard
/// library.
fn check_allowed(policy: &Policy, address: IpAddr) {
    let Ok(allowed) = policy.judge(address) else { return };
    assert_eq!(allowed.address(), address.to_canonical());
    // The whole IPv4 Internet is also reachable through NAT64 addresses (64:ff9b::/96), for nodes
    // without IPv4.
    let target = match allowed.address() {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            IpAddr::V4((v6.to_bits() as u32).into())
        }
        other => other,
    };
    assert!(
        !target.is_loopback() && !target.is_unspecified() && !target.is_multicast(),
        "the policy allows {address}"
    );
    match target {
        IpAddr::V4(v4) => {
            assert!(
                !v4.is_private()
                    && !v4.is_link_local()
                    && !v4.is_broadcast()
                    && !v4.is_documentation(),
                "the policy allows {address}"
            );
            assert!(v4.octets()[0] != 0 && v4.octets()[0] < 224, "the policy allows {address}");
        }
        IpAddr::V6(v6) => {
            assert!(
                !v6.is_unique_local() && !v6.is_unicast_link_local() && v6.to_ipv4().is_none(),
                "the policy allows {address}"
            );
        }
    }
}
