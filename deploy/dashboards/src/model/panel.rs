//! Panels, which state how the results of queries are drawn.

use serde::{Deserialize, Serialize};

use super::datasource::Datasource;
use crate::unit::Unit;

/// A panel, or the title of a row of panels.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Panel {
    pub(super) id: u32,
    #[serde(rename = "type")]
    pub kind: PanelKind,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub grid_pos: GridPos,
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
pub struct GridPos {
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

impl Panel {
    /// Returns the title of a row.
    pub(super) fn row(title: &str) -> Self {
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
            grid_pos: GridPos { x: 0, y: 0, w: 8, h: 8 },
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
        Self { options: Some(options), ..panel }.with_style(0, "none")
    }

    /// Returns a panel with quantiles of a histogram over time. All series of the histogram are
    /// combined.
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
        Self::lines(title, unit, description, queries).with_style(30, "normal")
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
        Self { options: Some(options), grid_pos: GridPos { w: 4, h: 4, ..panel.grid_pos }, ..panel }
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

    fn with_style(mut self, fill: u8, stacking: &str) -> Self {
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
