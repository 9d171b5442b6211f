//! The native half of `crypto.js`: randomness from the operating system.

use tenon_engine::bytes;
use tenon_engine::thrown::Thrown;
use tenon_op::op;

use crate::ops::View;

/// Fills a view with random bytes.
#[op]
pub(crate) fn random_fill(view: View<'_>) -> Result<(), Thrown> {
    let mut random = vec![0; view.byte_length()];
    fill(&mut random)?;
    bytes::cells(view, |cells| cells.iter().zip(random).for_each(|(cell, byte)| cell.set(byte)));
    Ok(())
}

/// Returns a version 4 UUID (RFC 9562 §5.4).
#[op]
pub(crate) fn random_uuid() -> Result<String, Thrown> {
    let mut random = [0; 16];
    fill(&mut random)?;
    Ok(uuid(random))
}

fn uuid(mut random: [u8; 16]) -> String {
    random[6] = random[6] & 0x0F | 0x40; // version 4
    random[8] = random[8] & 0x3F | 0x80; // variant 0b10
    let hex = format!("{:032x}", u128::from_be_bytes(random));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Fills the slice with random bytes. Fails if the operating system provides none.
fn fill(random: &mut [u8]) -> Result<(), Thrown> {
    let none = "The operating system provided no random bytes";
    getrandom::fill(random).map_err(|_| Thrown::dom("OperationError", none))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_carries_its_version_and_variant() {
        assert_eq!(uuid([0xFF; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
