//! How much of each interface behaves as its specification says: a table to read, and the same as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// By group of interfaces: a file of checks each.
#[derive(Default, Serialize)]
pub(crate) struct Summary {
    groups: BTreeMap<String, Group>,
}

#[derive(Default, Serialize)]
struct Group {
    passed: usize,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    check: String,
    why: String,
}

impl Summary {
    pub(crate) fn add(&mut self, group: &str, check: &str, verdict: &Result<(), String>) {
        let group = self.groups.entry(group.to_owned()).or_default();
        match verdict {
            Ok(()) => group.passed += 1,
            Err(why) => group.failed.push(Failed { check: check.to_owned(), why: why.clone() }),
        }
    }

    /// Prints the table, and writes the JSON to where cargo has room for what tests write.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn publish(&self) -> std::io::Result<()> {
        println!("\nconformance{:>32}", "passed");
        for (name, Group { passed, failed }) in &self.groups {
            println!("  {name:<32}{:>9}", format!("{passed}/{}", passed + failed.len()));
        }
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("conformance.json");
        std::fs::write(&path, serde_json::to_vec_pretty(self)?)?;
        println!("as JSON: {}\n", path.display());
        Ok(())
    }
}
