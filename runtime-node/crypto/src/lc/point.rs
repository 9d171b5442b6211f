//! The encodings of points on curves (SEC 1 §2.3.3).

#![allow(unsafe_code)] // Calls a C library.

use std::ptr::{self, NonNull};

use aws_lc_sys as lc;

use super::worked;
use crate::curve::Curve;

struct Point(NonNull<lc::EC_POINT>);

impl Drop for Point {
    fn drop(&mut self) {
        // SAFETY: the point is ours, and is freed once.
        unsafe { lc::EC_POINT_free(self.0.as_ptr()) };
    }
}

/// Converts the encoding of a point. Returns `None` if the bytes do not encode a point of the
/// curve, if they encode the neutral element, and for Ed25519 and X25519.
///
/// # Arguments
/// * `compresses` - whether the result has one coordinate and a bit of the other one.
pub fn convert_point(curve: Curve, bytes: &[u8], compresses: bool) -> Option<Vec<u8>> {
    let form = if compresses {
        lc::point_conversion_form_t::POINT_CONVERSION_COMPRESSED
    } else {
        lc::point_conversion_form_t::POINT_CONVERSION_UNCOMPRESSED
    };
    // SAFETY: the group is a static; the point belongs to it and is ours. The first call of
    // `EC_POINT_point2oct` writes nothing, and the second one as many bytes as there is room for.
    unsafe {
        let group = match curve {
            Curve::P256 => lc::EC_group_p256(),
            Curve::P384 => lc::EC_group_p384(),
            Curve::P521 => lc::EC_group_p521(),
            Curve::Ed25519 | Curve::X25519 => return None,
        };
        let point = Point(NonNull::new(lc::EC_POINT_new(group))?);
        let (at, none) = (point.0.as_ptr(), ptr::null_mut());
        let read = lc::EC_POINT_oct2point(group, at, bytes.as_ptr(), bytes.len(), none);
        // The neutral element, which is a single zero byte, is not a public key.
        if !worked(read) || bytes.len() == 1 {
            return None;
        }
        let len = lc::EC_POINT_point2oct(group, at, form, ptr::null_mut(), 0, none);
        let mut out = vec![0; len];
        let written = lc::EC_POINT_point2oct(group, at, form, out.as_mut_ptr(), len, none);
        (len > 0 && worked((written == len).into())).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::CurveKey;

    #[test]
    fn a_compressed_point_is_the_same_point() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            let key = CurveKey::generate(curve).unwrap();
            let short = convert_point(curve, key.public(), true).unwrap();
            assert_eq!(short.len(), 1 + curve.key_len());
            assert_eq!(convert_point(curve, &short, false).unwrap(), key.public());
        }
    }

    #[test]
    fn bytes_that_do_not_encode_a_point_are_refused() {
        for bytes in [&[][..], &[0], &[2; 33], &[4; 65], &[0xFF; 65]] {
            let point = convert_point(Curve::P256, bytes, false);
            // About half of all coordinates belong to a point.
            assert!(point.is_none() || bytes[0] == 2, "{bytes:?}");
        }
        assert!(convert_point(Curve::X25519, &[9; 32], false).is_none());
    }
}
