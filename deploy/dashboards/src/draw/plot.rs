//! Draws the contents of a panel.

use std::collections::BTreeMap;

use super::svg::{Anchor, COLORS, Svg, Weight};
use super::{Area, Line};
use crate::model::Panel;
use crate::prometheus::Window;

/// Maximum number of series that are drawn per panel, because more series could not be told apart.
const MAX_SERIES: usize = 12;

/// Distance between two rows of a legend, in pixels.
const LEGEND: f64 = 14.0;

/// Approximate width of a letter, in pixels.
const LETTER: f64 = 5.6;

/// Width of the space for the values of the vertical axis, in pixels.
const AXIS: f64 = 62.0;

/// Height of the space for the times of the horizontal axis, in pixels.
const TIMES: f64 = 16.0;

pub(super) fn nothing(svg: &mut Svg, area: Area) {
    svg.label(area.x + area.w / 2.0, area.y + area.h / 2.0, Anchor::Middle, "no data");
}

/// Draws the latest value of the first line.
pub(super) fn number(svg: &mut Svg, area: Area, panel: &Panel, lines: &[Line]) {
    let latest = lines.first().and_then(|line| line.points.last());
    let text = latest.map_or_else(String::new, |(_, value)| panel.unit().show(*value));
    svg.text(area.x, area.y + area.h * 0.6, 28.0, Weight::Bold, COLORS[0], &text);
}

/// Draws the latest value of each line.
pub(super) fn bars(svg: &mut Svg, area: Area, panel: &Panel, lines: Vec<Line>) {
    let lines = largest(lines);
    let latest: Vec<_> =
        lines.iter().map(|line| line.points.last().map_or(0.0, |(_, value)| *value)).collect();
    let most = latest.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let height = (area.h / lines.len() as f64).min(28.0);
    for (at, (line, value)) in lines.iter().zip(latest).enumerate() {
        let y = area.y + at as f64 * height;
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        let (names, room) = (area.w * 0.45, area.w * 0.42);
        svg.label(area.x, y + height * 0.6, Anchor::Start, &shorten(&line.legend, names));
        svg.bar(
            Area { x: area.x + names, y: y + 3.0, w: room * share, h: height - 6.0 },
            COLORS[at % COLORS.len()],
        );
        svg.label(area.x + area.w, y + height * 0.6, Anchor::End, &panel.unit().show(value));
    }
}

/// Draws lines over time. They are stacked if the panel's series are stacked.
pub(super) fn lines(svg: &mut Svg, area: Area, panel: &Panel, lines: Vec<Line>, window: Window) {
    let lines = largest(lines);
    let legend = legend(&lines, area.w);
    let height = area.h - TIMES - legend.len() as f64 * LEGEND;
    let plot = Area { x: area.x + AXIS, y: area.y + 4.0, w: area.w - AXIS - 6.0, h: height - 4.0 };
    let stacked = if panel.is_stacked() {
        stack(&lines)
    } else {
        lines.iter().map(|line| (finite(line), None)).collect()
    };

    let values = stacked.iter().flat_map(|(upper, _)| upper.iter().map(|(_, value)| *value));
    let (least, most) =
        values.fold((0.0f64, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    let most = panel
        .field_config
        .as_ref()
        .and_then(|config| config.defaults.max)
        .map_or(most, |max| max.max(most));
    let step = step(most - least);
    let top = (most / step).ceil().max(1.0) * step;
    let bottom = (least / step).floor() * step;
    let y_of = |value: f64| plot.y + plot.h * (1.0 - (value - bottom) / (top - bottom));
    let span = (window.end - window.start).max(1) as f64;
    let x_of = |at: f64| plot.x + plot.w * (at - window.start as f64) / span;

    let ticks = ((top - bottom) / step).round() as u32;
    for tick in 0..=ticks {
        let value = bottom + f64::from(tick) * step;
        svg.rule((plot.x, y_of(value)), (plot.x + plot.w, y_of(value)));
        svg.label(plot.x - 6.0, y_of(value) + 3.5, Anchor::End, &panel.unit().show(value));
    }
    for part in 0..=3 {
        let at = window.start as f64 + span * f64::from(part) / 3.0;
        let anchor = if part == 3 { Anchor::End } else { Anchor::Middle };
        svg.label(x_of(at), plot.y + plot.h + 13.0, anchor, &clock(at));
    }
    for (at, (upper, lower)) in stacked.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        let place = |points: &[(f64, f64)]| {
            points.iter().map(|(at, value)| (x_of(*at), y_of(*value))).collect::<Vec<_>>()
        };
        if let Some(lower) = lower {
            svg.area(&place(upper), &place(lower), color);
        }
        svg.line(&place(upper), color);
    }
    for (row, entries) in legend.iter().enumerate() {
        let y = area.y + area.h - (legend.len() - 1 - row) as f64 * LEGEND;
        for (x, at, text) in entries {
            svg.bar(Area { x: area.x + x, y: y - 6.0, w: 10.0, h: 3.0 }, COLORS[at % COLORS.len()]);
            svg.label(area.x + x + 14.0, y, Anchor::Start, text);
        }
    }
}

/// Returns the lines with the largest sums, at most [`MAX_SERIES`], ordered by their legends.
fn largest(mut lines: Vec<Line>) -> Vec<Line> {
    let sum = |line: &Line| finite(line).iter().map(|(_, value)| *value).sum::<f64>();
    lines.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
    lines.truncate(MAX_SERIES);
    lines.sort_by(|one, other| one.legend.cmp(&other.legend));
    lines
}

fn finite(line: &Line) -> Vec<(f64, f64)> {
    line.points.iter().copied().filter(|(_, value)| value.is_finite()).collect()
}

type Points = Vec<(f64, f64)>;

/// Stacks each line on the lines before it. Returns the points of each stacked line, and the points
/// of the line below it.
fn stack(lines: &[Line]) -> Vec<(Points, Option<Points>)> {
    // The keys are milliseconds, because floating-point numbers cannot be keys.
    let mut height: BTreeMap<i64, f64> = BTreeMap::new();
    let mut place = |line: &Line| {
        let (mut upper, mut lower) = (Points::new(), Points::new());
        for (at, value) in finite(line) {
            let height = height.entry((at * 1e3) as i64).or_default();
            lower.push((at, *height));
            *height += value;
            upper.push((at, *height));
        }
        (upper, Some(lower))
    };
    lines.iter().map(&mut place).collect()
}

/// Returns the distance between two values on an axis. It is a round number, and a few of them
/// cover the span.
fn step(span: f64) -> f64 {
    if span <= 0.0 {
        return 1.0;
    }
    let rough = span / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|round| round * power >= rough);
    round.unwrap_or(10.0) * power
}

/// Returns the rows of a legend. An entry is its horizontal position, the index of its line, and
/// its text.
fn legend(lines: &[Line], width: f64) -> Vec<Vec<(f64, usize, String)>> {
    let mut rows = vec![Vec::new()];
    let mut x = 0.0;
    for (at, line) in lines.iter().enumerate() {
        let text = shorten(&line.legend, width - 20.0);
        let entry_width = 24.0 + text.chars().count() as f64 * LETTER;
        if x > 0.0 && x + entry_width > width {
            rows.push(Vec::new());
            x = 0.0;
        }
        rows.last_mut().expect("the legend has no row").push((x, at, text));
        x += entry_width;
    }
    // A legend has at most four rows, because the plot matters more than a complete legend.
    rows.truncate(4);
    rows
}

/// Shortens text to a width in pixels.
fn shorten(text: &str, width: f64) -> String {
    let room = (width / LETTER) as usize;
    match text.chars().count() {
        count if count <= room => text.to_owned(),
        _ => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats the time of day, in UTC.
fn clock(at: f64) -> String {
    let seconds = at as u64 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_few_round_steps() {
        for (span, expected) in
            [(1.0, 0.25), (7.0, 2.0), (0.003, 0.001), (1000.0, 250.0), (0.0, 1.0)]
        {
            let step = step(span);
            assert!((step - expected).abs() < expected * 1e-9, "{span}: {step}");
        }
    }

    #[test]
    fn stacked_lines_add_up() {
        let line = |values: [f64; 2]| Line {
            legend: String::new(),
            points: vec![(0.0, values[0]), (1.0, values[1])],
        };
        let stacked = stack(&[line([1.0, 2.0]), line([10.0, f64::INFINITY])]);
        assert_eq!(stacked[1], (vec![(0.0, 11.0)], Some(vec![(0.0, 1.0)])));
    }

    #[test]
    fn only_the_largest_lines_are_drawn() {
        let lines =
            (0..40).map(|n| Line { legend: format!("{n:02}"), points: vec![(0.0, f64::from(n))] });
        let drawn = largest(lines.collect());
        assert_eq!((drawn.len(), drawn[0].legend.as_str()), (MAX_SERIES, "28"));
    }
}
