//! Selects the content coding of a response by `Accept-Encoding`. This module is pure.

use http::{HeaderMap, header};
use tenon_compression::Coding;

use crate::front::fields::members;

/// Returns the coding that a client prefers (RFC 9110, section 12.5.3), or `None` if the client
/// accepts no coding or prefers uncompressed content.
///
/// # Arguments
/// * `order` - the codings by the router's preference, which decides between codings that the
///   client accepts equally.
pub(crate) fn preferred(request: &HeaderMap, order: [Coding; 3]) -> Option<Coding> {
    let mut listed = [None; Coding::ALL.len()];
    let (mut identity, mut others) = (0, 0);
    for member in members(request, &header::ACCEPT_ENCODING) {
        let (name, weight) = member.split_once(';').unwrap_or((member, ""));
        let (name, weight) = (name.trim_end(), per_mille(weight.trim_start()));
        match named(name) {
            Some(coding) => listed[coding as usize] = Some(weight),
            None if name == "*" => others = weight,
            None if name.eq_ignore_ascii_case("identity") => identity = weight,
            None => {}
        }
    }
    let mut best = (0, None);
    for coding in order {
        let weight = listed[coding as usize].unwrap_or(others);
        if weight > best.0 {
            best = (weight, Some(coding));
        }
    }
    best.1.filter(|_| best.0 >= identity)
}

/// Returns the coding of this name. `x-gzip` is an old name of gzip (section 8.4.1.3).
fn named(name: &str) -> Option<Coding> {
    let is_named = |coding: &Coding| name.eq_ignore_ascii_case(coding.as_str());
    let old_name = || name.eq_ignore_ascii_case("x-gzip").then_some(Coding::Gzip);
    Coding::ALL.into_iter().find(is_named).or_else(old_name)
}

/// Returns the weight that a parameter such as `q=0.5` states, in thousandths. A parameter without
/// a weight yields 1000, and an invalid weight yields 0.
fn per_mille(parameter: &str) -> u16 {
    let Some(weight) = parameter.strip_prefix("q=").or(parameter.strip_prefix("Q=")) else {
        return 1000;
    };
    let weight: f32 = weight.trim().parse().unwrap_or(0.0);
    if (0.0..=1.0).contains(&weight) { (weight * 1000.0).round() as u16 } else { 0 }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const ORDER: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    fn coding(accepted: &str) -> Option<Coding> {
        let value = HeaderValue::from_str(accepted).unwrap();
        preferred(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]), ORDER)
    }

    #[test]
    fn the_coding_is_the_one_that_the_client_prefers() {
        for (accepted, expected) in [
            ("", None),
            ("gzip", Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Coding::Brotli)),
            ("GZIP;q=1.0, br;q=0.5", Some(Coding::Gzip)),
            ("br ; Q=0.3, zstd; q=0.301", Some(Coding::Zstd)),
            ("x-gzip", Some(Coding::Gzip)),
            ("deflate, compress", None),
        ] {
            assert_eq!(coding(accepted), expected, "{accepted}");
        }
        assert_eq!(preferred(&HeaderMap::new(), ORDER), None);
    }

    #[test]
    fn a_coding_with_the_weight_zero_or_an_invalid_weight_is_not_used() {
        for (accepted, expected) in [
            ("br;q=0, zstd; q=0.1", Some(Coding::Zstd)),
            ("br;q=0.000", None),
            ("br;q=2, gzip;q=x, zstd;q=nan", None),
            ("br;q=-1, gzip;q=", None),
        ] {
            assert_eq!(coding(accepted), expected, "{accepted}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_the_codings_that_are_not_listed() {
        for (accepted, expected) in [
            ("*", Some(Coding::Brotli)),
            ("br;q=0, *", Some(Coding::Zstd)),
            ("*, br;q=0.5", Some(Coding::Zstd)),
            ("gzip, *;q=0", Some(Coding::Gzip)),
            ("*;q=0", None),
        ] {
            assert_eq!(coding(accepted), expected, "{accepted}");
        }
    }

    #[test]
    fn a_client_may_prefer_uncompressed_content() {
        for (accepted, expected) in [
            ("identity", None),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip;q=0.5", Some(Coding::Gzip)),
            ("identity;q=0, br", Some(Coding::Brotli)),
            ("identity;q=0", None),
        ] {
            assert_eq!(coding(accepted), expected, "{accepted}");
        }
    }

    #[test]
    fn the_routers_order_decides_between_codings_of_equal_weight() {
        let value = HeaderValue::from_static("br, gzip, zstd");
        let request = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]);
        let order = [Coding::Gzip, Coding::Zstd, Coding::Brotli];
        assert_eq!(preferred(&request, order), Some(Coding::Gzip));
    }

    #[test]
    fn the_codings_may_be_spread_over_several_headers() {
        let mut request = HeaderMap::new();
        request.append(header::ACCEPT_ENCODING, HeaderValue::from_static("br;q=0.5"));
        request.append(header::ACCEPT_ENCODING, HeaderValue::from_static("zstd, gzip;q=0.1"));
        assert_eq!(preferred(&request, ORDER), Some(Coding::Zstd));
    }
}
