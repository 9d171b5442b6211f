//! The native half of `console.js`: the op that writes a line to the log.

pub(crate) mod inspect;

use tenon_engine::log::{BUDGET, Severity};
use tenon_engine::state::State;
use tenon_engine::string::beginning;
use tenon_op::op;

/// The maximum length of a line, in bytes of UTF-8: one more than an invocation may log in total,
/// so that a longer line still exceeds the budget.
const MAX_LINE: usize = BUDGET + 1;

/// Logs a line of the current invocation.
///
/// # Arguments
/// * `level` - the name of a method of `console`.
#[op]
pub(crate) fn log(
    scope: &mut v8::PinScope<'_, '_>,
    level: String,
    text: v8::Local<'_, v8::String>,
) {
    let state = State::of(scope);
    let text = beginning(scope, text, MAX_LINE);
    state.log(state.current(scope), Severity::of_method(&level), &text);
}
