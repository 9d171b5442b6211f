//! The part of Grafana's dashboard schema that these dashboards use. Dashboards can be written and
//! read back, so that the files that users install are what is checked and drawn.

use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The schema version of Grafana 11, which later versions can read.
const SCHEMA_VERSION: u32 = 39;

/// The number of columns of a dashboard.
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
    /// 1: the position under the pointer in one panel shows in all.
    graph_tooltip: u8,
    links: Vec<Link>,
    pub panels: Vec<Panel>,
    refresh: String,
    schema_version: u32,
    pub templating: Templating,
    time: Range,
    timezone: String,
    /// The labels set with [`Dashboard::selecting`].
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

/// A variable, which users choose at the top of a dashboard.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub label: String,
    #[serde(rename = "type")]
    pub kind: VariableKind,
    /// `label_values(SERIES, LABEL)`, or the type of a data source.
    pub query: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    datasource: Option<Datasource>,
    #[serde(default)]
    pub multi: bool,
    #[serde(default)]
    include_all: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all_value: Option<String>,
    /// 2: refreshed when the time range changes.
    refresh: u8,
    /// 1: sorted by name.
    sort: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariableKind {
    Datasource,
    Query,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datasource {
    #[serde(rename = "type")]
    kind: String,
    uid: String,
}

/// A panel, or the title of a row of panels.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Panel {
    id: u32,
    #[serde(rename = "type")]
    pub kind: PanelKind,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub grid_pos: Place,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    datasource: Option<Datasource>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_config: Option<FieldConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    collapsed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    panels: Option<Vec<Self>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PanelKind {
    Row,
    /// Lines over time.
    TimeSeries,
    /// The latest value, in large type.
    Stat,
    /// The latest values, as bars.
    BarGauge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub x: u32,
    pub y: u32,
    pub w: u32,
    pub h: u32,
}

/// A query.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    ref_id: String,
    pub expr: String,
    pub legend_format: String,
    datasource: Datasource,
    #[serde(default)]
    instant: bool,
    #[serde(default)]
    range: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldConfig {
    pub defaults: Field,
    overrides: Vec<serde_json::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub unit: Unit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    color: serde_json::Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    custom: Option<serde_json::Value>,
}

impl Dashboard {
    /// Returns an empty dashboard.
    ///
    /// # Arguments
    /// * `name` - the name of its file; its uid is "tenon-" and this name.
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
        let datasource = Variable {
            query: "prometheus".to_owned(),
            refresh: 1,
            ..Variable::plain("datasource", "Data source", VariableKind::Datasource)
        };
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
            templating: Templating { list: vec![datasource] },
            time: Range { from: "now-1h".to_owned(), to: "now".to_owned() },
            timezone: "browser".to_owned(),
            selector: String::new(),
        }
    }

    /// Sets the labels that `{@` stands for in the queries added afterwards, where it begins a
    /// selector.
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
        self.add(Panel::row(title), Place { x: 0, y, w: COLUMNS, h: 1 });
        y += 1;
        let (mut x, mut height) = (0, 0);
        for panel in panels {
            let Place { w, h, .. } = panel.grid_pos;
            if x + w > COLUMNS {
                (x, y) = (0, y + height);
                height = 0;
            }
            self.add(panel, Place { x, y, w, h });
            (x, height) = (x + w, height.max(h));
        }
        self
    }

    fn add(&mut self, mut panel: Panel, grid_pos: Place) {
        let id = self.panels.len() as u32 + 1;
        panel
            .targets
            .iter_mut()
            .for_each(|target| target.expr = target.expr.replace("{@", &self.selector));
        self.panels.push(Panel { id, grid_pos, ..panel });
    }

    /// Returns the name of the dashboard's file.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.uid.trim_start_matches("tenon-"))
    }

    /// Returns the contents of the dashboard's file.
    ///
    /// # Panics
    /// Never panics: the dashboard contains only valid JSON.
    pub fn to_json(&self) -> String {
        let mut json =
            serde_json::to_string_pretty(self).expect("strings, numbers, lists and maps of them");
        json.push('\n');
        json
    }

    /// Returns the panels with queries.
    pub fn queried(&self) -> impl Iterator<Item = &Panel> {
        self.panels.iter().filter(|panel| panel.kind != PanelKind::Row)
    }
}

impl Variable {
    fn plain(name: &str, label: &str, kind: VariableKind) -> Self {
        Self {
            name: name.to_owned(),
            label: label.to_owned(),
            kind,
            query: String::new(),
            definition: None,
            datasource: None,
            multi: false,
            include_all: false,
            all_value: None,
            refresh: 2,
            sort: 1,
        }
    }

    /// Returns a variable with one of the values that the label `of` has in the series that match
    /// `series`.
    pub fn one(name: &str, label: &str, series: &str, of: &str) -> Self {
        let query = format!("label_values({series}, {of})");
        let datasource = Some(Datasource::prometheus());
        Self {
            definition: Some(query.clone()),
            query,
            datasource,
            ..Self::plain(name, label, VariableKind::Query)
        }
    }

    /// Returns a variable with any number of those values, by default all of them.
    pub fn any(name: &str, label: &str, series: &str, of: &str) -> Self {
        Self {
            multi: true,
            include_all: true,
            all_value: Some(".*".to_owned()),
            ..Self::one(name, label, series, of)
        }
    }
}

impl Datasource {
    fn prometheus() -> Self {
        Self { kind: "prometheus".to_owned(), uid: "${datasource}".to_owned() }
    }
}

impl Panel {
    fn row(title: &str) -> Self {
        Self {
            collapsed: Some(false),
            panels: Some(Vec::new()),
            ..Self::empty(PanelKind::Row, title)
        }
    }

    fn empty(kind: PanelKind, title: &str) -> Self {
        Self {
            id: 0,
            kind,
            title: title.to_owned(),
            description: String::new(),
            grid_pos: Place { x: 0, y: 0, w: 8, h: 8 },
            datasource: None,
            targets: Vec::new(),
            field_config: None,
            options: None,
            collapsed: None,
            panels: None,
        }
    }

    fn queries(
        kind: PanelKind,
        title: &str,
        unit: Unit,
        description: &str,
        queries: &[(&str, &str)],
    ) -> Self {
        let target = |(at, (expr, legend)): (u8, &(&str, &str))| Target {
            ref_id: char::from(b'A' + at).to_string(),
            expr: (*expr).to_owned(),
            legend_format: (*legend).to_owned(),
            datasource: Datasource::prometheus(),
            instant: kind != PanelKind::TimeSeries,
            range: kind == PanelKind::TimeSeries,
        };
        let color = match kind {
            PanelKind::TimeSeries => serde_json::json!({"mode": "palette-classic"}),
            _ => serde_json::json!({"mode": "fixed", "fixedColor": "blue"}),
        };
        let defaults = Field { unit, min: Some(0.0), max: None, color, custom: None };
        Self {
            description: description.to_owned(),
            datasource: Some(Datasource::prometheus()),
            targets: (0..).zip(queries).map(target).collect(),
            field_config: Some(FieldConfig { defaults, overrides: Vec::new() }),
            ..Self::empty(kind, title)
        }
    }

    /// Returns a panel with lines over time.
    ///
    /// # Arguments
    /// * `queries` - queries, each with the legend of its series.
    pub fn lines(title: &str, unit: Unit, description: &str, queries: &[(&str, &str)]) -> Self {
        let options = serde_json::json!({
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        });
        let panel = Self::queries(PanelKind::TimeSeries, title, unit, description, queries);
        Self { options: Some(options), ..panel }.drawn(0, "none")
    }

    /// Returns a panel with lines over time: quantiles of a histogram, over all its series
    /// together.
    ///
    /// # Arguments
    /// * `histogram` - the name of the histogram, without `_bucket`.
    /// * `quantiles` - numbers between 0 and 1.
    pub fn quantiles(
        title: &str,
        unit: Unit,
        description: &str,
        histogram: &str,
        quantiles: &[f64],
    ) -> Self {
        let line = |quantile: &f64| {
            let rate = format!("rate({histogram}_bucket{{@}}[$__rate_interval])");
            (
                format!("histogram_quantile({quantile}, sum by (le) ({rate}))"),
                format!("p{}", quantile * 100.0),
            )
        };
        let lines: Vec<_> = quantiles.iter().map(line).collect();
        let queries: Vec<_> =
            lines.iter().map(|(query, legend)| (query.as_str(), legend.as_str())).collect();
        Self::lines(title, unit, description, &queries)
    }

    /// Returns a panel with stacked areas over time.
    pub fn areas(title: &str, unit: Unit, description: &str, queries: &[(&str, &str)]) -> Self {
        Self::lines(title, unit, description, queries).drawn(30, "normal")
    }

    /// Returns a panel with the latest value.
    pub fn stat(title: &str, unit: Unit, description: &str, query: (&str, &str)) -> Self {
        let options = serde_json::json!({
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "value",
            "wideLayout": true,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
        });
        let panel = Self::queries(PanelKind::Stat, title, unit, description, &[query]);
        Self { options: Some(options), grid_pos: Place { w: 4, h: 4, ..panel.grid_pos }, ..panel }
    }

    /// Returns a panel with the latest values, as bars.
    pub fn bars(title: &str, unit: Unit, description: &str, query: (&str, &str)) -> Self {
        let options = serde_json::json!({
            "displayMode": "basic",
            "orientation": "horizontal",
            "valueMode": "text",
            "namePlacement": "auto",
            "showUnfilled": true,
            "sizing": "auto",
            "minVizHeight": 16,
            "minVizWidth": 8,
            "maxVizHeight": 300,
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
        });
        Self {
            options: Some(options),
            ..Self::queries(PanelKind::BarGauge, title, unit, description, &[query])
        }
    }

    fn drawn(mut self, fill: u8, stacking: &str) -> Self {
        let custom = serde_json::json!({
            "drawStyle": "line",
            "lineInterpolation": "linear",
            "lineWidth": 1,
            "fillOpacity": fill,
            "showPoints": "never",
            "spanNulls": false,
            "stacking": {"mode": stacking, "group": "A"},
        });
        self.field_config
            .iter_mut()
            .for_each(|config| config.defaults.custom = Some(custom.clone()));
        self
    }

    /// Sets the width, in columns.
    #[must_use]
    pub fn wide(mut self, columns: u32) -> Self {
        self.grid_pos.w = columns;
        self
    }

    /// Extends the axis to this value, even if all values are lower.
    #[must_use]
    pub fn up_to(mut self, max: f64) -> Self {
        self.field_config.iter_mut().for_each(|config| config.defaults.max = Some(max));
        self
    }

    /// Returns the unit of the panel's values.
    pub fn unit(&self) -> Unit {
        self.field_config.as_ref().map_or(Unit::Count, |config| config.defaults.unit)
    }

    /// Returns whether the panel's series are stacked.
    pub fn is_stacked(&self) -> bool {
        let custom = self.field_config.as_ref().and_then(|config| config.defaults.custom.as_ref());
        custom.is_some_and(|custom| custom["stacking"]["mode"] == "normal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(columns: u32) -> Panel {
        Panel::lines("Things", Unit::Count, "How many.", &[("up", "{{pod}}")]).wide(columns)
    }

    #[test]
    fn panels_stand_side_by_side_and_rows_below_one_another() {
        let stat = Panel::stat("Now", Unit::Count, "How many.", ("up", "now"));
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .row("First", [stat.clone(), stat])
            .row("Second", [panel(12), panel(12), panel(8)]);
        let places: Vec<_> =
            dashboard.queried().map(|p| (p.grid_pos.x, p.grid_pos.y, p.grid_pos.w)).collect();
        assert_eq!(places, [(0, 1, 4), (4, 1, 4), (0, 6, 12), (12, 6, 12), (0, 14, 8)]);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let variable = Variable::any("pod", "Pod", "up", "pod");
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .with(variable)
            .row("Row", [panel(8).up_to(1.0)]);
        let again: Dashboard = serde_json::from_str(&dashboard.to_json()).unwrap();
        assert_eq!(again.to_json(), dashboard.to_json());
    }

    #[test]
    fn a_selector_is_written_once_for_all_queries() {
        let panel =
            Panel::lines("Up", Unit::Count, "How many.", &[("up{@} / down{@,a=\"b\"}", "up")]);
        let dashboard = Dashboard::new("test", "Test", "A test.")
            .selecting("pod=~\"$pod\"")
            .row("Row", [panel]);
        let expr = &dashboard.queried().next().unwrap().targets[0].expr;
        assert_eq!(expr, "up{pod=~\"$pod\"} / down{pod=~\"$pod\",a=\"b\"}");
    }
}
