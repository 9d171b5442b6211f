//! Finds the causes of libraries' errors.

/// Returns the message of an error's innermost cause, because the outer errors of the libraries add
/// nothing useful.
pub(super) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
