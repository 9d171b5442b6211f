//! The function with which `modules.js` formats an error's stack.

use tenon_engine::source_maps;
use tenon_engine::string::beginning;

crate::ops::native! {
    "sourceFrame(frame: string): string" => source_frame,
}

/// The longest frame that is mapped, in characters. A longer one has a generated function name, and
/// is shown as it is.
const LONGEST: usize = 4096;

/// `sourceFrame(frame)`: returns a frame in V8's format, with the position in the author's file.
pub(crate) fn source_frame<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    args: v8::FunctionCallbackArguments<'s>,
    mut rv: v8::ReturnValue<'_>,
) {
    let frame = args.get(0);
    rv.set(frame);
    let Ok(text) = frame.try_cast::<v8::String>() else { return };
    if text.length() > LONGEST {
        return;
    }
    let text = beginning(scope, text, 3 * LONGEST);
    let mapped =
        source_maps::frame(scope, &text).and_then(|mapped| v8::String::new(scope, &mapped));
    if let Some(mapped) = mapped {
        rv.set(mapped.into());
    }
}
