//! The op with which `modules.js` maps the frames of an error's stack to the original source.

use tenon_engine::source_maps;
use tenon_engine::string::beginning;
use tenon_op::op;

/// The maximum length of a frame that is mapped, in UTF-16 code units. A longer frame has a
/// generated function name, and is shown unchanged.
const MAX_FRAME: usize = 4096;

/// Returns a frame in V8's format, with the position in the author's file. Returns the frame
/// unchanged if that position is unknown.
#[op]
pub(crate) fn source_frame<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    frame: v8::Local<'s, v8::String>,
) -> v8::Local<'s, v8::String> {
    if frame.length() > MAX_FRAME {
        return frame;
    }
    // A code unit becomes three bytes at most.
    let text = beginning(scope, frame, 3 * MAX_FRAME);
    let mapped = source_maps::frame(scope, &text);
    mapped.and_then(|mapped| v8::String::new(scope, &mapped)).unwrap_or(frame)
}
