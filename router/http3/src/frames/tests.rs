//! Tests which bytes of a stream pass, and which streams are refused.

use proptest::prelude::*;

use super::*;

/// Returns a frame, whose header states this length.
fn frame(kind: u8, length: u64, payload: &[u8]) -> Vec<u8> {
    let length = (length | 0xc000_0000_0000_0000).to_be_bytes();
    [&[kind], &length[..], payload].concat()
}

fn whole(kind: u8, payload: &[u8]) -> Vec<u8> {
    frame(kind, payload.len() as u64, payload)
}

/// Pushes bytes in pieces of this size. Returns the bytes that are passed on.
fn passed(frames: &mut Frames, bytes: &[u8], size: usize) -> Result<Vec<u8>, FrameError> {
    let mut passed = VecDeque::new();
    for piece in bytes.chunks(size.max(1)) {
        frames.push(Bytes::copy_from_slice(piece), &mut passed)?;
    }
    Ok(passed.into_iter().flatten().collect())
}

#[test]
fn heads_data_and_trailers_pass_unchanged() {
    let message =
        [whole(1, b"head"), whole(0, b"some data"), whole(0, b"more"), whole(1, b"trailers")]
            .concat();
    for size in [1, 2, 7, 1000] {
        let mut frames = Frames::of_request();
        assert_eq!(passed(&mut frames, &message, size).as_ref(), Ok(&message), "{size}");
        assert_eq!(frames.end(), Ok(()));
    }
}

#[test]
fn unknown_frames_and_empty_data_are_dropped_at_any_length() {
    let grease = whole(0x21, &[7; 300_000]);
    let message = [grease.clone(), whole(1, b"head"), whole(0, b""), grease, whole(0, b"data")];
    let expected = [whole(1, b"head"), whole(0, b"data")].concat();
    for size in [1, 1000, 1_000_000] {
        let mut frames = Frames::of_request();
        assert_eq!(passed(&mut frames, &message.concat(), size).as_ref(), Ok(&expected), "{size}");
        assert_eq!(frames.end(), Ok(()));
    }
}

#[test]
fn a_frame_that_the_parser_would_keep_is_bounded() {
    let mut frames = Frames::of_request();
    let error = passed(&mut frames, &frame(1, MAX_HEADERS + 1, b""), 1).unwrap_err();
    assert_eq!(error, FrameError::TooLong { kind: 1, length: MAX_HEADERS + 1 });
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0xd] {
        let refused = passed(&mut Frames::of_request(), &frame(kind, u64::MAX >> 2, b""), 100);
        assert!(matches!(refused, Err(FrameError::TooLong { .. })), "{kind}");
    }
    // The control stream has the same bounds.
    let mut control = Frames::of_unidirectional();
    let settings = [&[0][..], &frame(4, MAX_CONTROL + 1, b"")].concat();
    assert!(passed(&mut control, &settings, 3).is_err());
}

#[test]
fn the_length_of_a_frame_that_is_kept_is_known_until_the_frame_is_complete() {
    let mut frames = Frames::of_request();
    passed(&mut frames, &frame(1, 50_000, &[0; 100]), 100).unwrap();
    assert_eq!(frames.kept(), 50_000);
    passed(&mut frames, &[0; 49_900], 1000).unwrap();
    assert_eq!(frames.kept(), 0);
    passed(&mut frames, &frame(0, 50_000, b"data"), 100).unwrap();
    assert_eq!(frames.kept(), 0, "data is kept");
}

#[test]
fn a_stream_that_ends_within_a_frame_is_refused() {
    for cut in [1, 5, 12] {
        let mut frames = Frames::of_request();
        passed(&mut frames, &whole(0, b"data")[..cut], 100).unwrap();
        assert_eq!(frames.end(), Err(FrameError::Truncated), "{cut}");
    }
    assert_eq!(Frames::of_request().end(), Ok(()));
}

#[test]
fn streams_without_frames_pass_unchanged() {
    let encoder = [&[2][..], b"instructions"].concat();
    assert_eq!(passed(&mut Frames::of_unidirectional(), &encoder, 1), Ok(encoder));
    let control = [&[0][..], &whole(4, b"settings"), &whole(0x21, b"unknown")].concat();
    let expected = [&[0][..], &whole(4, b"settings")].concat();
    assert_eq!(passed(&mut Frames::of_unidirectional(), &control, 2), Ok(expected));
}

#[test]
fn webtransport_is_refused() {
    let refused = passed(&mut Frames::of_request(), &[0x40, 0x41, 0], 1);
    assert_eq!(refused, Err(FrameError::Unsupported(0x41)));
}

proptest! {
    #[test]
    fn the_division_into_pieces_does_not_matter(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        size in 1_usize..40,
        unidirectional in any::<bool>(),
    ) {
        let new = || match unidirectional {
            true => Frames::of_unidirectional(),
            false => Frames::of_request(),
        };
        let (mut at_once, mut in_pieces) = (new(), new());
        let expected = passed(&mut at_once, &bytes, usize::MAX);
        prop_assert_eq!(passed(&mut in_pieces, &bytes, size), expected.clone());
        if expected.is_ok() {
            prop_assert_eq!(at_once.end(), in_pieces.end());
        }
    }
}
