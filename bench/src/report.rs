//! Prints the report, which consists of tables, ratios within the run, and the verdicts on the
//! objectives.

use std::fmt;
use std::time::Duration;

use crate::apply::{self, Stage};
use crate::objective::{self, Objective};
use crate::table::Table;
use crate::tenon::COLOCATED;
use crate::unit::{human, micros};
use crate::{
    assets, containment, contest, engine, fairness, fleet, front, hop, hostile, import, isolates,
    rollback, soak, spread, streams, web,
};

/// Name of the contender that bounds Tenon: a request must not cost Tenon more CPU time than it
/// costs this contender.
const REFERENCE: &str = "Envoy + deno";

/// Maximum ratio of the CPU time of a request at a node with a front to that of deno alone.
const COLOCATED_RATIO: f64 = 1.4;

/// Maximum p99 of the time from apply to the first response with status 200.
const FIRST_200_WITHIN: Duration = Duration::from_secs(1);

/// The measurements of all parts.
#[derive(Debug, Default)]
pub struct Report {
    pub apply: Option<apply::Record>,
    pub rollback: Option<rollback::Record>,
    pub import: Option<import::Record>,
    pub contest: Vec<contest::Record>,
    pub hop: Option<hop::Record>,
    pub engine: Option<engine::Record>,
    pub isolates: Option<isolates::Record>,
    pub fleet: Option<fleet::Record>,
    pub fairness: Option<fairness::Record>,
    pub spread: Option<spread::Record>,
    pub front: Option<front::Record>,
    pub streams: Option<streams::Record>,
    pub web: Option<web::Record>,
    pub assets: Option<assets::Record>,
    pub hostile: Option<hostile::Record>,
    pub soak: Option<soak::Record>,
    pub containment: Option<containment::Record>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(apply) = &self.apply {
            writeln!(
                f,
                "Time from the apply of a new Worker ({} Workers, one after another)\n",
                apply.count()
            )?;
            writeln!(f, "{}", apply_table(apply))?;
        }
        if let Some(rollback) = &self.rollback {
            writeln!(f, "{rollback}")?;
        }
        if let Some(import) = &self.import {
            writeln!(f, "{import}")?;
        }
        if !self.contest.is_empty() {
            writeln!(
                f,
                "The hello Worker; the median of {} rounds\n",
                self.contest[0].samples.len()
            )?;
            writeln!(f, "{}", contest_table(&self.contest))?;
        }
        if let Some(hop) = &self.hop {
            writeln!(f, "{hop}")?;
        }
        if let Some(engine) = &self.engine {
            writeln!(f, "{engine}")?;
        }
        if let Some(isolates) = &self.isolates {
            writeln!(f, "{isolates}")?;
        }
        if let Some(fleet) = &self.fleet {
            writeln!(f, "{fleet}")?;
        }
        if let Some(fairness) = &self.fairness {
            writeln!(f, "{fairness}")?;
        }
        if let Some(spread) = &self.spread {
            writeln!(f, "{spread}")?;
        }
        if let Some(front) = &self.front {
            writeln!(f, "{front}")?;
        }
        if let Some(streams) = &self.streams {
            writeln!(f, "{streams}")?;
        }
        if let Some(web) = &self.web {
            writeln!(f, "{web}")?;
        }
        if let Some(assets) = &self.assets {
            writeln!(f, "{assets}")?;
        }
        if let Some(hostile) = &self.hostile {
            writeln!(f, "{hostile}")?;
        }
        if let Some(soak) = &self.soak {
            writeln!(f, "{soak}")?;
        }
        if let Some(containment) = &self.containment {
            writeln!(f, "{containment}")?;
        }
        writeln!(f, "{}", objective::table(&self.objectives()))
    }
}

impl Report {
    fn objectives(&self) -> Vec<Objective> {
        let cpu =
            |name| self.contest.iter().find(|record| record.name == name).map(contest::Record::cpu);
        let first_200 = self.apply.as_ref().map(|apply| apply.p99(Stage::FIRST_200));
        let beside = format!("CPU time per request, router + node compared with {REFERENCE}");
        let mut objectives = vec![
            Objective::time("apply → first 200, p99", first_200, Some(FIRST_200_WITHIN)),
            Objective::time(beside, cpu("Tenon"), cpu(REFERENCE)),
            Objective::time(
                format!(
                    "CPU time per request, node with a front, at most {COLOCATED_RATIO} × deno"
                ),
                cpu(COLOCATED),
                cpu("deno").map(|deno| deno.mul_f64(COLOCATED_RATIO)),
            ),
        ];
        objectives.extend(rollback::objectives(self.rollback.as_ref()));
        objectives.extend(import::objectives(self.import.as_ref()));
        objectives.extend(hop::objectives(self.hop.as_ref()));
        objectives.extend(engine::objectives(self.engine.as_ref()));
        objectives.extend(isolates::objectives(self.isolates.as_ref()));
        objectives.extend(fleet::objectives(self.fleet.as_ref()));
        objectives.extend(fairness::objectives(self.fairness.as_ref()));
        objectives.extend(spread::objectives(self.spread.as_ref()));
        objectives.extend(front::objectives(self.front.as_ref()));
        objectives.push(streams::objective(self.streams.as_ref()));
        objectives.extend(web::objectives(self.web.as_ref()));
        objectives.push(assets::objective(self.assets.as_ref()));
        objectives.extend(hostile::objectives(self.hostile.as_ref()));
        objectives.extend(soak::objectives(self.soak.as_ref()));
        objectives.extend(containment::objectives(self.containment.as_ref()));
        objectives
    }
}

fn apply_table(record: &apply::Record) -> Table {
    let mut table = Table::new(["until", "p50", "p99", "worst"]);
    for (what, stage) in
        [("stored by the API server", Stage::STORED), ("first 200", Stage::FIRST_200)]
    {
        let [p50, p99, max] = [record.p50(stage), record.p99(stage), record.max(stage)].map(human);
        table.row([what.to_owned(), p50, p99, max]);
    }
    table
}

fn contest_table(records: &[contest::Record]) -> Table {
    let reference = records.iter().find(|record| record.name == REFERENCE);
    let ratio = |record: &contest::Record, of: fn(&contest::Record) -> f64| match reference.map(of)
    {
        Some(to) if to > 0.0 => format!("× {:.2}", of(record) / to),
        _ => "-".to_owned(),
    };
    let mut table =
        Table::new(["", "requests/s", "", "p50", "p99", "CPU µs/request", "", "of which"]);
    for record in records {
        let by_process =
            record.cpu_by_process().map(|(name, cpu)| format!("{name} {}", micros(cpu)));
        table.row([
            record.name.clone(),
            format!("{:.0}", record.requests_per_second()),
            ratio(record, contest::Record::requests_per_second),
            human(record.p50()),
            human(record.p99()),
            micros(record.cpu()),
            ratio(record, |record| record.cpu().as_secs_f64()),
            by_process.collect::<Vec<_>>().join(" + "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_report_lists_every_objective_as_not_measured() {
        let report = Report::default();
        assert_eq!(
            report.to_string().matches("not measured").count(),
            report.objectives().len(),
            "{report}"
        );
    }
}
