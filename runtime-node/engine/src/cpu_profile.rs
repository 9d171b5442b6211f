//! Replaces the positions in a CPU profile with positions in the author's files. This module is
//! pure.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use tenon_proto::failure::Place;

/// Maximum size of a profile whose positions are replaced, in bytes, because a profile takes
/// several times its size while it is parsed. A typical profile has a few hundred KiB.
const MAX_PROFILE: usize = 16 << 20;

/// A profile, as the inspector protocol defines it (`Profiler.Profile`).
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    nodes: Vec<Node>,
    start_time: Number,
    end_time: Number,
    #[serde(default)]
    samples: Vec<i32>,
    #[serde(default)]
    time_deltas: Vec<i32>,
}

/// A function in the tree of calls. Its children are the functions that it called.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: i32,
    call_frame: CallFrame,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    children: Vec<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deopt_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    position_ticks: Vec<PositionTick>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame {
    function_name: String,
    script_id: String,
    url: String,
    /// The position of the function, counted from zero, or -1 for a function without a position.
    line_number: i32,
    column_number: i32,
}

/// The number of samples in a line.
#[derive(Serialize, Deserialize)]
struct PositionTick {
    line: i32,
    ticks: i32,
}

/// Returns the profile with the position of each function in the author's file. Returns `None` if
/// the profile is too large, or not in V8's format.
///
/// # Arguments
/// * `place` - returns the position in the author's file for a module, a line and a column, counted
///   from one.
pub(crate) fn with_places(
    profile: &str,
    mut place: impl FnMut(&str, u32, u32) -> Option<Place>,
) -> Option<String> {
    if profile.len() > MAX_PROFILE {
        return None;
    }
    let mut profile: Profile = serde_json::from_str(profile).ok()?;
    for Node { call_frame, position_ticks, .. } in &mut profile.nodes {
        if call_frame.move_to(&mut place).is_some() {
            // The ticks have no columns, without which a line of generated code has no position in
            // the author's file.
            position_ticks.clear();
        }
    }
    serde_json::to_string(&profile).ok()
}

impl CallFrame {
    /// Replaces the position with that in the author's file. Returns `None` if there is none.
    fn move_to(&mut self, place: impl FnOnce(&str, u32, u32) -> Option<Place>) -> Option<()> {
        let from_one = |number: i32| u32::try_from(number).ok()?.checked_add(1);
        let from_zero = |number: u32| i32::try_from(number.checked_sub(1)?).ok();
        let (line, column) = (from_one(self.line_number)?, from_one(self.column_number)?);
        let Place { file, line, column } = place(&self.url, line, column)?;
        (self.line_number, self.column_number) = (from_zero(line)?, from_zero(column)?);
        self.url = file;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn profile() -> Value {
        let frame = |name: &str, url: &str, line: i32, column: i32| {
            json!({
                "functionName": name, "scriptId": "7", "url": url,
                "lineNumber": line, "columnNumber": column,
            })
        };
        json!({
            "nodes": [
                {
                    "id": 1, "callFrame": frame("(root)", "", -1, -1), "hitCount": 0,
                    "children": [2, 3],
                },
                {
                    "id": 2, "callFrame": frame("busy", "worker.ts", 4, 9), "hitCount": 5,
                    "positionTicks": [{"line": 5, "ticks": 5}],
                },
                {
                    "id": 3, "callFrame": frame("plain", "lib.js", 1, 0), "hitCount": 1,
                    "positionTicks": [{"line": 2, "ticks": 1}], "deoptReason": "wrong map",
                },
            ],
            "startTime": 1000.5, "endTime": 9_000_000_000_u64,
            "samples": [2, 3], "timeDeltas": [10, -3],
        })
    }

    #[test]
    fn functions_get_the_positions_of_the_authors_file_and_others_stay() {
        let place = |module: &str, line, column| {
            assert_ne!(module, "", "a function without a position was looked up");
            let file = "src/cart.ts".to_owned();
            ((module, line, column) == ("worker.ts", 5, 10)).then_some(Place {
                file,
                line: 12,
                column: 3,
            })
        };
        let placed = with_places(&profile().to_string(), place).unwrap();
        let mut expected = profile();
        let busy = expected["nodes"][1].as_object_mut().unwrap();
        busy.remove("positionTicks");
        busy["callFrame"] = json!({
            "functionName": "busy", "scriptId": "7", "url": "src/cart.ts",
            "lineNumber": 11, "columnNumber": 2,
        });
        assert_eq!(serde_json::from_str::<Value>(&placed).unwrap(), expected);
    }

    #[test]
    fn profiles_in_another_format_and_very_large_ones_are_left_alone() {
        let place = |_: &str, _, _| None;
        assert!(with_places("{}", place).is_none() && with_places("", place).is_none());
        let large = format!("{}{}", profile(), " ".repeat(MAX_PROFILE));
        assert!(with_places(&large, place).is_none());
    }
}
