//! Generates the table of the failures that a client can receive.

use tenon_proto::failure::FailureCode;

/// Returns the table, with a row for each code: its HTTP status and its meaning.
pub(crate) fn table() -> String {
    let codes = FailureCode::ALL.iter().filter(|code| code.reaches_clients());
    let row = |code: &FailureCode| {
        let meaning = code.meaning().trim_end_matches('.');
        format!("| `{code}` | {} | {meaning} |\n", code.http_status())
    };
    let rows = codes.map(row).collect::<String>();
    format!("| code | status | meaning |\n| --- | --- | --- |\n{rows}")
}
