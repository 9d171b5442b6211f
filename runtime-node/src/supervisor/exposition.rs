//! Merges the metrics of a node's processes into one page. This module is pure.
//!
//! Each process writes Prometheus' text format. A family that several processes have appears once
//! in the merged page, with the samples of all of them. A shard's or lane's sample without the
//! label `shard` gets this label, so that no two samples collide and a process that restarts resets
//! only its own counters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tenon_proto::id::ShardId;

#[derive(Default)]
struct Family<'a> {
    /// The lines that begin with `# HELP` and `# TYPE`.
    head: Vec<&'a str>,
    samples: String,
}

/// Merges metrics pages.
///
/// # Arguments
/// * `own` - the supervisor's page.
/// * `shards` - the page of each shard and lane.
pub(super) fn merge(own: &str, shards: &[(ShardId, String)]) -> String {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    add(&mut families, own, None);
    for (shard, page) in shards {
        add(&mut families, page, Some(*shard));
    }
    let mut merged = String::new();
    for family in families.values() {
        family.head.iter().for_each(|line| _ = writeln!(merged, "{line}"));
        merged.push_str(&family.samples);
    }
    merged
}

fn add<'a>(families: &mut BTreeMap<&'a str, Family<'a>>, page: &'a str, shard: Option<ShardId>) {
    let mut name = "";
    let mut is_first = true;
    for line in page.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            // HELP comes before TYPE, and both before the samples.
            let described = about.split(' ').nth(1).unwrap_or_default();
            if described != name {
                name = described;
                is_first = families.entry(name).or_default().head.is_empty();
            }
            if is_first {
                families.entry(name).or_default().head.push(line);
            }
        } else if !line.is_empty() {
            let samples = &mut families.entry(name).or_default().samples;
            match shard {
                Some(shard) => label(samples, line, shard),
                None => samples.push_str(line),
            }
            samples.push('\n');
        }
    }
}

/// Writes a sample, and adds the label `shard` if the sample does not have this label.
fn label(samples: &mut String, line: &str, shard: ShardId) {
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    // Within a label's value, each quotation mark follows a backslash.
    let is_labeled = rest.starts_with("{shard=\"") || rest.contains(",shard=\"");
    // Writing to a `String` cannot fail.
    _ = match rest.strip_prefix('{') {
        _ if is_labeled => write!(samples, "{line}"),
        Some(labels) => write!(samples, "{name}{{shard=\"{shard}\",{labels}"),
        None => write!(samples, "{name}{{shard=\"{shard}\"}}{rest}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_family_appears_once_with_all_samples() {
        let own = "# HELP up Up.\n# TYPE up gauge\nup 1\n";
        let shard = "# HELP busy Busy.\n# TYPE busy counter\nbusy{shard=\"0\",kind=\"a\"} 2\n\
            # HELP up Up.\n# TYPE up gauge\nup 1\n";
        let lane = "# HELP up Up.\n# TYPE up gauge\nup{of=\"x,shard=\\\"1\"} 3\n";
        let merged = merge(own, &[(ShardId(0), shard.into()), (ShardId::lane(0), lane.into())]);
        let expected = "# HELP busy Busy.\n# TYPE busy counter\nbusy{shard=\"0\",kind=\"a\"} 2\n\
            # HELP up Up.\n# TYPE up gauge\nup 1\nup{shard=\"0\"} 1\nup{shard=\"lane-0\",of=\"x,shard=\\\"1\"} 3\n";
        assert_eq!(merged, expected);
    }
}
