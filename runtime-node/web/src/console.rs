//! `log(level, text)`.

pub(crate) mod inspect;

use tenon_engine::log::{self, Severity};
use tenon_engine::state::State;
use tenon_engine::string::beginning;

crate::ops::native! {
    "log(level: string, text: string): void" => log,
}

/// The longest line, in UTF-16 units: one more than an invocation may log in total.
const LINE: usize = log::BUDGET + 1;

pub(crate) fn log(
    scope: &mut v8::PinScope<'_, '_>,
    args: v8::FunctionCallbackArguments<'_>,
    _: v8::ReturnValue<'_>,
) {
    let state = State::of(scope);
    let (Ok(level), Ok(text)) =
        (args.get(0).try_cast::<v8::String>(), args.get(1).try_cast::<v8::String>())
    else {
        return;
    };
    let severity = Severity::of_method(&level.to_rust_string_lossy(scope));
    let text = beginning(scope, text, LINE);
    state.log(state.current(scope), severity, &text);
}
