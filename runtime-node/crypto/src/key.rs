//! A key of any kind. The key's material is overwritten when the key is dropped.

use zeroize::Zeroizing;

use crate::curve::CurveKey;
use crate::rsa::RsaKey;

/// A key's material. Which uses of the key are permitted is not part of it.
pub enum Key {
    Secret(Secret),
    Rsa(RsaKey),
    Curve(CurveKey),
}

/// The bytes of a symmetric key, or of a derived secret.
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
    /// The number of bits of the secret; the other bits of the last byte are zero.
    bits: usize,
}

impl Secret {
    /// Creates a secret of all bits of the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        let bits = bytes.len() * 8;
        Self { bytes: Zeroizing::new(bytes), bits }
    }

    /// Creates a secret of the first `bits` bits of the bytes.
    ///
    /// # Panics
    /// Panics if the bytes have fewer bits.
    pub fn of_bits(bytes: &[u8], bits: usize) -> Self {
        let mut bytes = Zeroizing::new(bytes[..bits.div_ceil(8)].to_vec());
        if let Some(last) = bytes.last_mut().filter(|_| !bits.is_multiple_of(8)) {
            *last &= !(0xFF >> (bits % 8));
        }
        Self { bytes, bits }
    }

    /// Returns the bytes of the secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bits of the secret.
    pub fn bits(&self) -> usize {
        self.bits
    }
}

impl Key {
    /// Returns the key's approximate memory, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Secret(secret) => secret.bytes.len(),
            Self::Rsa(rsa) => rsa.size(),
            Self::Curve(_) => CurveKey::SIZE,
        }
    }

    /// Returns the bytes of a secret; `None` for an asymmetric key.
    pub fn secret(&self) -> Option<&[u8]> {
        match self {
            Self::Secret(secret) => Some(secret.bytes()),
            Self::Rsa(_) | Self::Curve(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_bits_of_the_last_byte_are_cleared() {
        let secret = Secret::of_bits(&[0xFF, 0xFF, 0xFF], 11);
        assert_eq!((secret.bytes(), secret.bits()), (&[0xFF, 0b1110_0000][..], 11));
        assert_eq!(Secret::of_bits(&[0xFF, 0xFF], 16).bytes(), [0xFF, 0xFF]);
        assert!(Secret::of_bits(&[0xFF], 0).bytes().is_empty());
    }
}
