//! Finds the connection id to which a datagram is addressed (RFC 8999, section 5). This module is
//! pure.

use crate::connection_id::LENGTH;

/// The bit of the first byte that distinguishes the two forms of headers.
const LONG: u8 = 0x80;
/// The position of the connection id's length in a long header, after the first byte and the
/// version.
const LENGTH_AT: usize = 5;

/// Returns the connection id of a datagram's first packet, if the id has the length of those that
/// this router issues. All packets of a datagram belong to one connection.
///
/// The first packets of a connection have an id that their client has chosen, which may have the
/// same length.
pub(crate) fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let at = if datagram.first()? & LONG == 0 {
        1
    } else if usize::from(*datagram.get(LENGTH_AT)?) == LENGTH {
        LENGTH_AT + 1
    } else {
        return None;
    };
    datagram.get(at..at + LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; LENGTH] = *b"12345678";

    fn long(length: u8) -> Vec<u8> {
        [&[0xc3, 0, 0, 0, 1, length], &ID[..], &[0; 40]].concat()
    }

    #[test]
    fn both_forms_of_headers_have_the_id_of_their_connection() {
        assert_eq!(destination(&[&[0x41], &ID[..], b"rest"].concat()), Some(&ID[..]));
        assert_eq!(destination(&long(8)), Some(&ID[..]));
    }

    #[test]
    fn an_id_of_another_length_was_not_issued_by_the_router() {
        assert_eq!(destination(&long(20)), None);
        assert_eq!(destination(&long(0)), None);
    }

    #[test]
    fn a_datagram_that_is_too_short_has_no_id() {
        for datagram in [&[][..], &[0x41], &[0x41, 1, 2], &[0xc0, 0, 0, 0, 1], &long(8)[..13]] {
            assert_eq!(destination(datagram), None, "{datagram:?}");
        }
    }
}
