//! Keeps the steps of a debugger out of the built-in JavaScript. This module is pure.
//!
//! ```text
//!  a step ─► paused in a built-in script? ─ yes ─► hide it from the client, and step on ─┐
//!                     ▲    └─ no ─► the client                                           │
//!                     └──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! V8 can step over scripts whose URLs match a pattern, but not over the scripts of a snapshot,
//! because V8 does not know the context of such a script.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Prefix of the URLs of the built-in scripts.
const BUILT_IN: &str = "tenon:";

/// The id of the calls that this module makes. It is the largest id that V8 accepts, because
/// clients count their ids from one.
const OUR_ID: i32 = i32::MAX;

/// Maximum number of consecutive steps into built-in code. After these steps, the debugger steps
/// out of the function, because further steps may never reach the Worker's code if that code did
/// not call the function.
const MAX_HIDDEN_STEPS: u32 = 500;

/// The treatment of a message from V8.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The client receives the message.
    Pass,
    /// The client does not receive the message.
    Hide,
    /// The client does not receive the message, and V8 receives this call.
    Call(String),
}

/// The state of one client.
#[derive(Default)]
pub(super) struct Stepping {
    /// The ids of the built-in scripts.
    built_in: BTreeSet<String>,
    /// Number of consecutive steps that have been hidden from the client.
    hidden: u32,
}

impl Stepping {
    /// Judges a message from V8.
    pub(super) fn judge(&mut self, message: &str) -> Verdict {
        let is = |method| message.starts_with(&format!("{{\"method\":\"Debugger.{method}\""));
        if is("scriptParsed") {
            self.built_in.extend(params(message).as_ref().and_then(built_in));
            Verdict::Pass
        } else if is("paused") {
            self.paused(params(message).unwrap_or_default())
        } else if is("resumed") && self.hidden > 0 || is_answer(message) {
            Verdict::Hide
        } else {
            Verdict::Pass
        }
    }

    fn paused(&mut self, paused: Value) -> Verdict {
        let is_step = matches!(paused["reason"].as_str(), Some("step" | "other"));
        let has_hit = paused["hitBreakpoints"].as_array().is_some_and(|hit| !hit.is_empty());
        let script = paused["callFrames"][0]["location"]["scriptId"].as_str();
        if !is_step || has_hit || !script.is_some_and(|script| self.built_in.contains(script)) {
            self.hidden = 0;
            return Verdict::Pass;
        }
        self.hidden += 1;
        let step =
            if self.hidden <= MAX_HIDDEN_STEPS { "Debugger.stepInto" } else { "Debugger.stepOut" };
        Verdict::Call(json!({ "id": OUR_ID, "method": step }).to_string())
    }
}

/// Returns whether a message from V8 answers a call of this module.
fn is_answer(message: &str) -> bool {
    message.starts_with(&format!("{{\"id\":{OUR_ID},"))
}

fn params(message: &str) -> Option<Value> {
    serde_json::from_str::<Value>(message).ok()?.get_mut("params").map(Value::take)
}

/// Returns the id of a script if the script is built in.
fn built_in(script: &Value) -> Option<String> {
    let name = script["url"].as_str()?.strip_prefix(BUILT_IN)?;
    // The URLs of Workers' modules have the same scheme, but they have an authority.
    (!name.starts_with("//")).then(|| script["scriptId"].as_str().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(id: &str, url: &str) -> String {
        format!(
            r#"{{"method":"Debugger.scriptParsed","params":{{"scriptId":"{id}","url":"{url}"}}}}"#
        )
    }

    fn paused(script: &str, reason: &str, hit: &str) -> String {
        format!(
            r#"{{"method":"Debugger.paused","params":{{"callFrames":[{{"location":{{"scriptId":"{script}"}}}}],"reason":"{reason}","hitBreakpoints":[{hit}]}}}}"#
        )
    }

    fn stepping() -> Stepping {
        let mut stepping = Stepping::default();
        for (id, url) in [("1", "tenon:url.js"), ("2", "tenon://default/hello/worker.js")] {
            assert_eq!(stepping.judge(&parsed(id, url)), Verdict::Pass);
        }
        stepping
    }

    fn step(method: &str) -> Verdict {
        Verdict::Call(format!(r#"{{"id":2147483647,"method":"Debugger.{method}"}}"#))
    }

    const RESUMED: &str = r#"{"method":"Debugger.resumed","params":{}}"#;

    #[test]
    fn a_step_into_built_in_code_continues_to_the_workers_code() {
        let mut stepping = stepping();
        assert_eq!(stepping.judge(RESUMED), Verdict::Pass);
        for _ in 0..3 {
            assert_eq!(stepping.judge(&paused("1", "step", "")), step("stepInto"));
            assert_eq!(stepping.judge(r#"{"id":2147483647,"result":{}}"#), Verdict::Hide);
            assert_eq!(stepping.judge(RESUMED), Verdict::Hide);
        }
        assert_eq!(stepping.judge(&paused("2", "step", "")), Verdict::Pass);
        assert_eq!(stepping.judge(RESUMED), Verdict::Pass);
    }

    #[test]
    fn after_too_many_steps_the_debugger_steps_out_of_the_function() {
        let mut stepping = stepping();
        for _ in 0..MAX_HIDDEN_STEPS {
            assert_eq!(stepping.judge(&paused("1", "other", "")), step("stepInto"));
        }
        assert_eq!(stepping.judge(&paused("1", "step", "")), step("stepOut"));
    }

    #[test]
    fn breakpoints_exceptions_and_other_messages_reach_the_client() {
        let mut stepping = stepping();
        let answer = r#"{"id":1,"result":{}}"#.to_owned();
        for message in [
            paused("1", "other", r#""1:2:3""#),
            paused("1", "exception", ""),
            answer,
            String::new(),
        ] {
            assert_eq!(stepping.judge(&message), Verdict::Pass, "{message}");
        }
    }
}
