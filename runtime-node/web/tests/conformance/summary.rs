//! Reports how much of each interface conforms to its specification, as a table and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// The results of the checks, by the interface or other subject of a check.
#[derive(Default, Serialize)]
pub(crate) struct Summary {
    subjects: BTreeMap<String, Subject>,
}

#[derive(Default, Serialize)]
struct Subject {
    passed: usize,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    check: String,
    why: String,
}

impl Summary {
    pub(crate) fn add(&mut self, subject: &str, check: &str, verdict: &Result<(), String>) {
        let subject = self.subjects.entry(subject.to_owned()).or_default();
        match verdict {
            Ok(()) => subject.passed += 1,
            Err(why) => subject.failed.push(Failed { check: check.to_owned(), why: why.clone() }),
        }
    }

    /// Prints the table, and writes `conformance.json` to `CARGO_TARGET_TMPDIR`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(crate) fn publish(&self) -> std::io::Result<()> {
        println!("\nconformance{:>32}", "passed");
        for (name, Subject { passed, failed }) in &self.subjects {
            println!("  {name:<32}{:>9}", format!("{passed}/{}", passed + failed.len()));
        }
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("conformance.json");
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        println!("as JSON: {}\n", path.display());
        Ok(())
    }
}
