//! Creation of keys, and access to their parts.
//!
//! | function | returns |
//! | --- | --- |
//! | `secretGenerate(bits)` | a handle to a new secret |
//! | `secretImport(bytes or handle, bits?)` | a handle to these bytes, or to their first bits |
//! | `curveGenerate(curve)` | a handle to a new private key |
//! | `curveImport(curve, x, y?, d?)` | a handle to the key of these numbers; private with `d` |
//! | `keyImport(kind, format, bytes)` | a handle to a key serialized as `raw`, `spki` or `pkcs8` |
//! | `keyPublic(handle)` | a handle to the public key |
//! | `keyPart(handle, name)` | an `ArrayBuffer` of a part, or of the serialized key |
//! | `keyBits(handle)` | the length of the key in bits |
//! | `keyTake(ticket)` | the promised handle |

use tenon_engine::thrown::Thrown;
use zeroize::Zeroizing;

use super::answer::{buffer, failed};
use super::arguments::{bytes, key, name, number};
use super::curve::{Curve, CurveKey};
use super::encoding::{self, data};
use super::keys::{self, Key, LONGEST_SECRET, Secret};

crate::ops::native! {
    "secretGenerate(bits: number): Handle" => secret_generate,
    "secretImport(secret: View | Handle, bits?: number): Handle" => secret_import,
    "curveGenerate(curve: string): Handle" => curve_generate,
    "curveImport(curve: string, x: View, y: View | undefined, d: View | undefined): Handle" => curve_import,
    "keyImport(kind: string, format: string, data: View): Handle" => import,
    "keyPublic(key: Handle): Handle" => public,
    "keyPart(key: Handle, name: string): ArrayBuffer" => part,
    "keyBits(key: Handle): number" => bits,
    "keyTake(ticket: Ticket): Handle" => take,
}

type Args<'s> = v8::FunctionCallbackArguments<'s>;
type Answer<'s> = Result<v8::Local<'s, v8::Value>, Thrown>;

/// Returns to JavaScript the value made, or throws.
fn reply<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    mut result: v8::ReturnValue<'_>,
    make: impl FnOnce(&mut v8::PinScope<'s, '_>) -> Answer<'s>,
) {
    match make(scope) {
        Ok(value) => result.set(value),
        Err(thrown) => thrown.throw(scope),
    }
}

fn handle<'s>(scope: &mut v8::PinScope<'s, '_>, key: Key) -> Answer<'s> {
    keys::hold(scope, key).map(Into::into)
}

pub(crate) fn secret_generate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let bits = number(scope, args.get(0)) as usize;
    reply(scope, result, |scope| {
        let mut random = Zeroizing::new(vec![0; bits.div_ceil(8).min(LONGEST_SECRET)]);
        getrandom::fill(&mut random).map_err(|_none| failed())?;
        handle(scope, Key::Secret(Secret::of_bits(&random, bits.min(random.len() * 8))))
    });
}

pub(crate) fn secret_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let bits = (!args.get(1).is_undefined()).then(|| number(scope, args.get(1)) as usize);
    let known = key(scope, args.get(0));
    let Some(given) = bytes(scope, args.get(0)) else { return };
    reply(scope, result, |scope| {
        let (bytes, there) = match known.as_deref() {
            Some(Key::Secret(secret)) => (secret.bytes(), secret.bits()),
            _ => (&given[..], given.len() * 8),
        };
        if bytes.len() > LONGEST_SECRET {
            let limit =
                format!("A secret may have at most {LONGEST_SECRET} bytes, not {}", bytes.len());
            return Err(Thrown::dom("DataError", limit));
        }
        handle(scope, Key::Secret(Secret::of_bits(bytes, bits.unwrap_or(there).min(there))))
    });
}

pub(crate) fn curve_generate<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let curve = Curve::named(&name(scope, args.get(0)));
    reply(scope, result, |scope| {
        let key = curve.and_then(CurveKey::generate).ok_or_else(failed)?;
        handle(scope, Key::Curve(key))
    });
}

pub(crate) fn curve_import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let curve = Curve::named(&name(scope, args.get(0)));
    let is_private = !args.get(3).is_undefined();
    let Some(x) = bytes(scope, args.get(1)) else { return };
    let Some(y) = bytes(scope, args.get(2)) else { return };
    let Some(d) = bytes(scope, args.get(3)) else { return };
    reply(scope, result, |scope| {
        let curve = curve.ok_or_else(failed)?;
        let public = if curve.has_points() { CurveKey::point(&x, &y) } else { x.to_vec() };
        if x.len() != curve.len() || (curve.has_points() && y.len() != curve.len()) {
            return Err(data("The coordinates do not have the length that the curve requires"));
        }
        let mut key = encoding::curve_from_raw(curve, &public)?;
        if is_private {
            key = CurveKey::from_private(curve, &d)
                .ok_or_else(|| data("'d' is not a private key of the curve"))?;
            if key.public() != public {
                return Err(data("The public key does not match the private key"));
            }
        }
        handle(scope, Key::Curve(key))
    });
}

pub(crate) fn import<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let (kind, format) = (name(scope, args.get(0)), name(scope, args.get(1)));
    let Some(bytes) = bytes(scope, args.get(2)) else { return };
    reply(scope, result, |scope| {
        let key = match (Curve::named(&kind), format.as_str()) {
            (Some(curve), "raw") => Key::Curve(encoding::curve_from_raw(curve, &bytes)?),
            (Some(curve), "spki") => Key::Curve(encoding::curve_from_spki(curve, &bytes)?),
            (Some(curve), "pkcs8") => Key::Curve(encoding::curve_from_pkcs8(curve, &bytes)?),
            (None, "spki") => Key::Rsa(encoding::rsa_from_spki(&bytes)?),
            (None, "pkcs8") => Key::Rsa(encoding::rsa_from_pkcs8(&bytes)?),
            _ => return Err(failed()),
        };
        handle(scope, key)
    });
}

pub(crate) fn public<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let key = key(scope, args.get(0));
    reply(scope, result, |scope| {
        let public = match key.as_deref() {
            Some(Key::Rsa(key)) => key.to_public().map(Key::Rsa),
            Some(Key::Curve(key)) => Some(Key::Curve(key.to_public())),
            Some(Key::Secret(_)) | None => None,
        };
        handle(scope, public.ok_or_else(failed)?)
    });
}

pub(crate) fn part<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    result: v8::ReturnValue<'s>,
) {
    let key = key(scope, args.get(0));
    let name = name(scope, args.get(1));
    reply(scope, result, |scope| {
        let part = key.as_deref().and_then(|key| named_part(key, &name)).ok_or_else(failed)?;
        buffer(scope, part).map(Into::into)
    });
}

fn named_part(key: &Key, name: &str) -> Option<Vec<u8>> {
    match (key, name) {
        (Key::Secret(secret), "raw") => Some(secret.bytes().to_vec()),
        (Key::Rsa(key), "spki") => encoding::rsa_to_spki(key),
        (Key::Rsa(key), "pkcs8") => encoding::rsa_to_pkcs8(key),
        (Key::Rsa(key), name) => key.named_part(name),
        (Key::Curve(key), "raw") => Some(key.public().to_vec()),
        (Key::Curve(key), "spki") => encoding::curve_to_spki(key),
        (Key::Curve(key), "pkcs8") => encoding::curve_to_pkcs8(key),
        (Key::Curve(key), "x") => key.coordinates().map(|(x, _)| x.to_vec()),
        (Key::Curve(key), "y") => key.coordinates().map(|(_, y)| y.to_vec()),
        (Key::Curve(key), "d") => key.private().map(<[u8]>::to_vec),
        _ => None,
    }
}

pub(crate) fn bits<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    mut result: v8::ReturnValue<'s>,
) {
    let bits = match key(scope, args.get(0)).as_deref() {
        Some(Key::Secret(secret)) => secret.bits(),
        Some(Key::Rsa(key)) => key.rsa.bits() as usize,
        Some(Key::Curve(key)) => key.curve.len() * 8,
        None => return,
    };
    result.set_double(bits as f64);
}

pub(crate) fn take<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: Args<'s>,
    mut result: v8::ReturnValue<'s>,
) {
    let ticket = args.get(0).number_value(scope).unwrap_or_default();
    if let Some(handle) = keys::take(scope, ticket) {
        result.set(handle.into());
    }
}
