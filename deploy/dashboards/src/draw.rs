//! Draws a dashboard as a picture in SVG. The panels have Grafana's layout, and each, except a
//! row's title, has a plot of the results of its queries.
//!
//! ```text
//!  panel ─► queries ─► lines, each with its legend ─► plot ─► SVG
//! ```

mod plot;
mod svg;

use std::collections::BTreeMap;

use crate::check::Settings;
use crate::model::{COLUMNS, Dashboard, GridPos, Panel, PanelKind};
use crate::prometheus::{QueryError, Series, Transport};
use crate::variables::{self, Values};
use svg::{Svg, Weight};

/// Width of a column of the grid, in pixels.
const COLUMN: f64 = 60.0;

/// Height of a row of the grid, in pixels.
const ROW: f64 = 34.0;

/// Width of the margin around the picture, in pixels.
const MARGIN: f64 = 16.0;

/// Height of the title, in pixels.
const TITLE: f64 = 56.0;

/// The gap between panels, in pixels.
const GAP: f64 = 8.0;

/// A part of the picture, in pixels.
#[derive(Clone, Copy, Debug)]
struct Area {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
}

/// A series as it is drawn.
#[derive(Debug)]
struct Line {
    legend: String,
    /// Times in Unix seconds, with their values.
    points: Vec<(f64, f64)>,
}

/// Draws a dashboard.
///
/// # Errors
/// Fails if Prometheus cannot be reached, refuses a query, or sends an invalid response.
pub async fn draw(
    dashboard: &Dashboard,
    prometheus: &impl Transport,
    settings: &Settings,
) -> Result<String, QueryError> {
    let Settings { window, interval, set } = settings;
    let values = variables::choose(dashboard, prometheus, *window, *interval, set).await?;
    let rows =
        dashboard.panels.iter().map(|panel| panel.grid_pos.y + panel.grid_pos.h).max().unwrap_or(0);
    let (width, height) =
        (f64::from(COLUMNS) * COLUMN + 2.0 * MARGIN, f64::from(rows) * ROW + TITLE + MARGIN);
    let mut svg = Svg::new(width, height);
    svg.text(MARGIN, 26.0, 18.0, Weight::Bold, svg::INK, &dashboard.title);
    svg.text(MARGIN, 44.0, 12.0, Weight::Normal, svg::FAINT, &subtitle(dashboard, &values));
    for panel in &dashboard.panels {
        let area = area(panel.grid_pos);
        if panel.kind == PanelKind::Row {
            svg.text(area.x, area.y + 20.0, 14.0, Weight::Bold, svg::INK, &panel.title);
            continue;
        }
        let mut lines = Vec::new();
        for target in &panel.targets {
            let found = prometheus.range(&variables::fill(&target.expr, &values), *window).await?;
            lines.extend(found.into_iter().map(|series| line(&target.legend_format, series)));
        }
        frame(&mut svg, panel, area);
        let inside =
            Area { x: area.x + 10.0, y: area.y + 28.0, w: area.w - 20.0, h: area.h - 36.0 };
        match panel.kind {
            _ if lines.is_empty() => plot::nothing(&mut svg, inside),
            PanelKind::Stat => plot::number(&mut svg, inside, panel, &lines),
            PanelKind::BarGauge => plot::bars(&mut svg, inside, panel, lines),
            PanelKind::TimeSeries | PanelKind::Row => {
                plot::lines(&mut svg, inside, panel, lines, *window)
            }
        }
    }
    Ok(svg.finish())
}

/// Returns a string with the values of the dashboard's variables, without the variables that
/// Grafana defines.
fn subtitle(dashboard: &Dashboard, values: &Values) -> String {
    let chosen = dashboard.templating.list.iter().filter_map(|variable| {
        let value = values
            .get(&variable.name)
            .map(|value| if value == ".*" { "all" } else { value.as_str() })?;
        Some(format!("{}: {value}", variable.label))
    });
    chosen.collect::<Vec<_>>().join("   ")
}

fn area(place: GridPos) -> Area {
    let GridPos { x, y, w, h } = place;
    Area {
        x: MARGIN + f64::from(x) * COLUMN + GAP / 2.0,
        y: TITLE + f64::from(y) * ROW + GAP / 2.0,
        w: f64::from(w) * COLUMN - GAP,
        h: f64::from(h) * ROW - GAP,
    }
}

fn frame(svg: &mut Svg, panel: &Panel, area: Area) {
    svg.frame(area);
    svg.text(area.x + 10.0, area.y + 18.0, 12.0, Weight::Bold, svg::INK, &panel.title);
}

fn line(legend: &str, series: Series) -> Line {
    Line { legend: fill(legend, &series.labels), points: series.points }
}

/// Replaces `{{label}}` in a legend with the value of the label.
fn fill(legend: &str, labels: &BTreeMap<String, String>) -> String {
    let mut parts = legend.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once("}}").unwrap_or((part, ""));
        filled.push_str(labels.get(label.trim()).map_or("", String::as_str));
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::Window;
    use crate::unit::Unit;

    #[test]
    fn a_legend_is_filled_with_the_labels_of_its_series() {
        let labels = BTreeMap::from([
            ("pod".to_owned(), "node-1".to_owned()),
            ("shard".to_owned(), "0".to_owned()),
        ]);
        assert_eq!(fill("{{pod}} shard {{shard}}{{none}}", &labels), "node-1 shard 0");
        assert_eq!(fill("p99", &labels), "p99");
    }

    /// Returns two series for every query except `nothing`.
    struct Canned;

    impl Transport for Canned {
        async fn get(&self, path: &str) -> Result<String, QueryError> {
            let result = if path.contains("query=nothing") {
                "[]"
            } else {
                r#"[{"metric":{"pod":"a<b"},"values":[[0,"1"],[30,"3"],[60,"2"]]},
                    {"metric":{"pod":"c"},"values":[[0,"0"],[30,"+Inf"],[60,"1"]]}]"#
            };
            Ok(format!(r#"{{"status":"success","data":{{"result":{result}}}}}"#))
        }
    }

    #[test]
    fn every_kind_of_panel_is_drawn() {
        let query = ("up", "{{pod}}");
        let dashboard = Dashboard::new("test", "Test", "A test.").row(
            "Row",
            [
                Panel::stat("Stat", Unit::Seconds, "", query),
                Panel::bars("Bars", Unit::Share, "", query),
                Panel::lines("Lines", Unit::Bytes, "", &[query]),
                Panel::areas("Areas", Unit::Requests, "", &[query]).up_to(1.0),
                Panel::lines("Empty", Unit::Count, "", &[("nothing", "")]),
            ],
        );
        let window = Window { start: 0, end: 60, step: 30 };
        let settings = Settings { window, interval: 60, set: Values::new() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let picture = runtime.block_on(draw(&dashboard, &Canned, &settings)).unwrap();
        for part in ["Stat", "2 s", "Bars", "Lines", "Areas", "a&lt;b", "no data", "</svg>"] {
            assert!(picture.contains(part), "{part} is not in {picture}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    }
}
