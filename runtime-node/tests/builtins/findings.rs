//! The findings of a run, grouped by function.

use std::collections::BTreeMap;
use std::fmt;

use crate::watch::Fault;

#[derive(Default)]
pub(crate) struct Findings(BTreeMap<String, Vec<Finding>>);

struct Finding {
    call: u32,
    text: String,
    fault: Fault,
}

impl Findings {
    pub(crate) fn add(&mut self, call: u32, text: String, fault: Fault) {
        let function = text
            .split([')', '('])
            .find(|part| !part.is_empty() && *part != "new ")
            .unwrap_or_default();
        self.0.entry(function.to_owned()).or_default().push(Finding { call, text, fault });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.0.values().map(Vec::len).sum();
        write!(f, "{all} findings in {} functions", self.0.len())?;
        for (function, found) in &self.0 {
            write!(f, "\n  {function}: {}", found.len())?;
            for Finding { call, text, fault } in found {
                write!(f, "\n    call {call} {fault}: {text}")?;
            }
        }
        Ok(())
    }
}
