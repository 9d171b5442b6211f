//! The part of Grafana's dashboard schema that these dashboards use. Dashboards can be written and
//! read back, so that the dashboards that are checked and drawn are those that users install.
//!
//! - [`panel`]: a panel with its queries.
//! - [`variable`]: a variable at the top of a dashboard.
//! - `datasource`: the reference of panels and variables to Prometheus.

mod datasource;
pub mod panel;
pub mod variable;

use serde::{Deserialize, Serialize};

pub use self::panel::{GridPos, Panel, PanelKind};
pub use self::variable::{Variable, VariableKind};

/// The schema version of Grafana 11, which later versions can read.
const SCHEMA_VERSION: u32 = 39;

/// Number of columns of a dashboard.
pub const COLUMNS: u32 = 24;

/// A dashboard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dashboard {
    pub uid: String,
    pub title: String,
    pub description: String,
    pub tags: Vec<String>,
    editable: bool,
    /// With the value 1, all panels show the position that the pointer has in one panel.
    graph_tooltip: u8,
    links: Vec<Link>,
    pub panels: Vec<Panel>,
    refresh: String,
    schema_version: u32,
    pub templating: Templating,
    time: Range,
    timezone: String,
    /// A selector without its end: `{` and the labels set with [`Dashboard::selecting`].
    #[serde(skip)]
    selector: String,
}

/// A menu of all dashboards with the same tags.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Link {
    title: String,
    #[serde(rename = "type")]
    kind: String,
    tags: Vec<String>,
    as_dropdown: bool,
    include_vars: bool,
    keep_time: bool,
    icon: String,
    tooltip: String,
    target_blank: bool,
    url: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: String,
    to: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Templating {
    pub list: Vec<Variable>,
}

impl Dashboard {
    /// Returns an empty dashboard.
    ///
    /// # Arguments
    /// * `name` - the name of the dashboard's file, without `.json`. The uid is "tenon-" and this
    ///   name.
    pub fn new(name: &str, title: &str, description: &str) -> Self {
        let links = vec![Link {
            title: "Tenon".to_owned(),
            kind: "dashboards".to_owned(),
            tags: vec!["tenon".to_owned()],
            as_dropdown: true,
            include_vars: true,
            keep_time: true,
            icon: "external link".to_owned(),
            tooltip: String::new(),
            target_blank: false,
            url: String::new(),
        }];
        Self {
            uid: format!("tenon-{name}"),
            title: format!("Tenon / {title}"),
            description: description.to_owned(),
            tags: vec!["tenon".to_owned()],
            editable: true,
            graph_tooltip: 1,
            links,
            panels: Vec::new(),
            refresh: "30s".to_owned(),
            schema_version: SCHEMA_VERSION,
            templating: Templating { list: vec![Variable::datasource()] },
            time: Range { from: "now-1h".to_owned(), to: "now".to_owned() },
            timezone: "browser".to_owned(),
            selector: String::new(),
        }
    }

    /// Sets the labels that replace the `@` of `{@`, the beginning of a selector, in queries that
    /// are added afterwards.
    #[must_use]
    pub fn selecting(mut self, labels: &str) -> Self {
        self.selector = format!("{{{labels}");
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, variable: Variable) -> Self {
        self.templating.list.push(variable);
        self
    }

    /// Adds a row, whose panels are placed side by side as long as there is room.
    #[must_use]
    pub fn row(mut self, title: &str, panels: impl IntoIterator<Item = Panel>) -> Self {
        let mut y =
            self.panels.iter().map(|panel| panel.grid_pos.y + panel.grid_pos.h).max().unwrap_or(0);
        self.add(Panel::row(title), GridPos { x: 0, y, w: COLUMNS, h: 1 });
        y += 1;
        let (mut x, mut height) = (0, 0);
        for panel in panels {
            let GridPos { w, h, .. } = panel.grid_pos;
            if x + w > COLUMNS {
                (x, y) = (0, y + height);
                height = 0;
            }
            self.add(panel, GridPos { x, y, w, h });
            (x, height) = (x + w, height.max(h));
        }
        self
    }

    fn add(&mut self, mut panel: Panel, grid_pos: GridPos) {
        panel.id = self.panels.len() as u32 + 1;
        panel.grid_pos = grid_pos;
        for target in &mut panel.targets {
            target.expr = target.expr.replace("{@", &self.selector);
        }
        self.panels.push(panel);
    }

    /// Returns the name of the dashboard's file.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.uid.trim_start_matches("tenon-"))
    }

    /// Returns the contents of the dashboard's file.
    ///
    /// # Panics
    /// Never panics, because every dashboard can be represented in JSON.
    pub fn to_json(&self) -> String {
        let mut json =
            serde_json::to_string_pretty(self).expect("cannot represent a dashboard in JSON");
        json.push('\n');
        json
    }

    /// Returns the panels with queries.
    pub fn queried(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != PanelKind::Row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;

    fn panel(columns: u32) -> Panel {
        Panel::lines("Things", Unit::Count, "How many.", &[("up", "{{pod}}")]).wide(columns)
    }

    #[test]
    fn panels_are_placed_side_by_side_and_rows_below_each_other() {
        let stat = Panel::stat("Now", Unit::Count, "How many.", ("up", "now"));
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .row("First", [stat.clone(), stat])
            .row("Second", [panel(12), panel(12), panel(8)]);
        let places: Vec<_> =
            dashboard.queried().map(|p| (p.grid_pos.x, p.grid_pos.y, p.grid_pos.w)).collect();
        assert_eq!(places, [(0, 1, 4), (4, 1, 4), (0, 6, 12), (12, 6, 12), (0, 14, 8)]);
    }

    #[test]
    fn a_dashboard_survives_serialization() {
        let variable = Variable::any("pod", "Pod", "up", "pod");
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .with(variable)
            .row("Row", [panel(8).up_to(1.0)]);
        let again: Dashboard = serde_json::from_str(&dashboard.to_json()).unwrap();
        assert_eq!(again.to_json(), dashboard.to_json());
    }

    #[test]
    fn a_selector_replaces_the_placeholder_in_every_query() {
        let panel =
            Panel::lines("Up", Unit::Count, "How many.", &[("up{@} / down{@,a=\"b\"}", "up")]);
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .selecting("pod=~\"$pod\"")
            .row("Row", [panel]);
        let expr = &dashboard.queried().next().unwrap().targets[0].expr;
        assert_eq!(expr, "up{pod=~\"$pod\"} / down{pod=~\"$pod\",a=\"b\"}");
    }
}
