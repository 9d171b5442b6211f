//! Private keys that are encrypted with a passphrase: `EncryptedPrivateKeyInfo` (RFC 5208 §6) with
//! PBES2 (RFC 8018 §6.2).
//!
//! JavaScript derives the key and decrypts the content: the author of the key chose the cost of the
//! derivation, and V8 can terminate only JavaScript.

use pkcs5::EncryptionScheme;
use pkcs5::pbes2::{self, Kdf, Pbkdf2Params, Pbkdf2Prf};
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::{self, Decode as _, Encode as _, Reader as _, SliceReader};
use tenon_engine::thrown::Thrown;
use tenon_op::{Record, op};

use crate::crypto::arguments::Data;
use crate::crypto::operation::{buffer, data_error, failed};

/// An encrypted key and the parameters of its encryption.
#[derive(Record)]
pub(crate) struct EncryptedKey<'s> {
    /// The hash of PBKDF2, or `scrypt`.
    derivation: &'static str,
    salt: v8::Local<'s, v8::ArrayBuffer>,
    /// The number of iterations, or N of scrypt.
    iterations: f64,
    /// The block size of scrypt; 0 for PBKDF2.
    r: u32,
    /// The parallelization of scrypt; 0 for PBKDF2.
    p: u32,
    cipher: &'static str,
    iv: v8::Local<'s, v8::ArrayBuffer>,
    content: v8::Local<'s, v8::ArrayBuffer>,
}

/// Reads an encrypted key.
///
/// # Errors
/// Returns a `DataError` if the key is malformed or its encryption is not supported, and a
/// `RangeError` if there is not enough memory.
#[op]
pub(crate) fn encrypted_read<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    encrypted: Data,
) -> Result<EncryptedKey<'s>, Thrown> {
    let (scheme, content) =
        read(&encrypted).map_err(|_| data_error("The encrypted key is not valid in its format"))?;
    let EncryptionScheme::Pbes2(parameters) = scheme else { return Err(unsupported()) };
    let (cipher, iv) = match &parameters.encryption {
        pbes2::EncryptionScheme::Aes128Cbc { iv } => ("aes-128-cbc", iv),
        pbes2::EncryptionScheme::Aes192Cbc { iv } => ("aes-192-cbc", iv),
        pbes2::EncryptionScheme::Aes256Cbc { iv } => ("aes-256-cbc", iv),
        _ => return Err(unsupported()),
    };
    let (derivation, salt, iterations, r, p) = match &parameters.kdf {
        Kdf::Pbkdf2(kdf) => {
            let hash = match kdf.prf {
                Pbkdf2Prf::HmacWithSha1 => "sha1",
                Pbkdf2Prf::HmacWithSha224 => "sha224",
                Pbkdf2Prf::HmacWithSha256 => "sha256",
                Pbkdf2Prf::HmacWithSha384 => "sha384",
                Pbkdf2Prf::HmacWithSha512 => "sha512",
                _ => return Err(unsupported()),
            };
            (hash, &kdf.salt, f64::from(kdf.iteration_count), 0, 0)
        }
        Kdf::Scrypt(kdf) => {
            let n = kdf.cost_parameter as f64;
            ("scrypt", &kdf.salt, n, kdf.block_size.into(), kdf.parallelization.into())
        }
        _ => return Err(unsupported()),
    };
    Ok(EncryptedKey {
        derivation,
        salt: buffer(scope, salt.as_bytes().to_vec())?,
        iterations,
        r,
        p,
        cipher,
        iv: buffer(scope, iv.to_vec())?,
        content: buffer(scope, content.to_vec())?,
    })
}

fn unsupported() -> Thrown {
    data_error(
        "An encrypted key is supported only if it uses PBKDF2 or scrypt, and AES in CBC mode",
    )
}

fn read(encrypted: &[u8]) -> der::Result<(EncryptionScheme, &[u8])> {
    let mut reader = SliceReader::new(encrypted)?;
    let parts = reader.sequence(|reader| -> der::Result<_> {
        let scheme = EncryptionScheme::decode(reader)?;
        Ok((scheme, <&OctetStringRef>::decode(reader)?.as_bytes()))
    })?;
    reader.finish()?;
    Ok(parts)
}

/// Encodes an encrypted private key.
///
/// # Arguments
/// * `cipher` - AES in CBC mode: `aes-128-cbc`, `aes-192-cbc` or `aes-256-cbc`.
/// * `content` - the private key, encrypted with a key that was derived by PBKDF2 with SHA-256.
///
/// # Errors
/// Returns an error if the cipher is another one, a parameter cannot be encoded, or there is not
/// enough memory.
#[op]
pub(crate) fn encrypted_write<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    cipher: String,
    iv: Data,
    salt: Data,
    iterations: u32,
    content: Data,
) -> Result<v8::Local<'s, v8::ArrayBuffer>, Thrown> {
    let iv = (&iv[..]).try_into().map_err(|_| failed())?;
    let encryption = match cipher.as_str() {
        "aes-128-cbc" => pbes2::EncryptionScheme::Aes128Cbc { iv },
        "aes-192-cbc" => pbes2::EncryptionScheme::Aes192Cbc { iv },
        "aes-256-cbc" => pbes2::EncryptionScheme::Aes256Cbc { iv },
        _ => return Err(unsupported()),
    };
    let kdf = Pbkdf2Params::hmac_sha256(iterations, &salt).map_err(|_| failed())?.into();
    let written = write(pbes2::Parameters { kdf, encryption }.into(), &content);
    buffer(scope, written.map_err(|_| failed())?)
}

fn write(scheme: EncryptionScheme, content: &[u8]) -> der::Result<Vec<u8>> {
    let content = OctetStringRef::new(content)?;
    let mut out = Vec::new();
    let len = (scheme.encoded_len()? + content.encoded_len()?)?;
    der::Header::new(der::Tag::Sequence, len).encode_to_vec(&mut out)?;
    scheme.encode_to_vec(&mut out)?;
    content.encode_to_vec(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_key_is_read_as_it_was_written() {
        let parameters =
            pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(1000, b"salt", [7; 16]).unwrap();
        let written = write(parameters.clone().into(), b"content").unwrap();
        let (scheme, content) = read(&written).unwrap();
        assert_eq!(scheme, EncryptionScheme::from(parameters));
        assert_eq!(content, b"content");
        for end in 0..written.len() {
            assert!(read(&written[..end]).is_err(), "{end}");
        }
    }
}
