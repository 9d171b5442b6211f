//! A minimal SVG writer for plots.

use std::fmt::{Display, Write as _};

use super::Area;

pub(super) const INK: &str = "#24292e";
pub(super) const FAINT: &str = "#6a737d";
pub(super) const GRID: &str = "#e1e4e8";

/// Colors that are distinguishable even with common forms of color blindness, after Okabe and
/// Ito.
pub(super) const COLORS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#555555"];

#[derive(Clone, Copy, Debug)]
pub(super) enum Weight {
    Normal,
    Bold,
}

/// The point of a text element that is placed at its coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) struct Svg(String);

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.put(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif">"#
        ));
        svg.put(format_args!(r##"<rect width="{width}" height="{height}" fill="#f6f8fa"/>"##));
        svg
    }

    pub(super) fn finish(mut self) -> String {
        self.put(format_args!("</svg>"));
        self.0
    }

    pub(super) fn frame(&mut self, Area { x, y, w, h }: Area) {
        self.put(format_args!(
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="white" stroke="{GRID}"/>"#
        ));
    }

    pub(super) fn bar(&mut self, Area { x, y, w, h }: Area, color: &str) {
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" fill="{color}"/>"#
        ));
    }

    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(r#"<path d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}" stroke="{GRID}"/>"#));
    }

    pub(super) fn text(
        &mut self,
        x: f64,
        y: f64,
        size: f64,
        weight: Weight,
        color: &str,
        text: &str,
    ) {
        let weight = match weight {
            Weight::Normal => "",
            Weight::Bold => r#" font-weight="600""#,
        };
        let text = Escaped(text);
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}"{weight} fill="{color}">{text}</text>"#
        ));
    }

    /// Draws small text of an axis or a legend.
    pub(super) fn label(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let text = Escaped(text);
        self.put(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="10"{anchor} fill="{FAINT}">{text}</text>"#
        ));
    }

    /// Draws a line through these points.
    pub(super) fn line(&mut self, points: &[(f64, f64)], color: &str) {
        let path = Path(points);
        self.put(format_args!(
            r#"<path d="{path}" fill="none" stroke="{color}" stroke-width="1.3" stroke-linejoin="round"/>"#
        ));
    }

    /// Fills the area between two lines.
    pub(super) fn area(&mut self, upper: &[(f64, f64)], lower: &[(f64, f64)], color: &str) {
        let around: Vec<_> = upper.iter().chain(lower.iter().rev()).copied().collect();
        let path = Path(&around);
        self.put(format_args!(r#"<path d="{path}Z" fill="{color}" fill-opacity="0.3"/>"#));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("writing to a String cannot fail");
    }
}

struct Path<'a>(&'a [(f64, f64)]);

impl Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (x, y)) in self.0.iter().enumerate() {
            write!(f, "{}{x:.0} {y:.1}", if at == 0 { 'M' } else { 'L' })?;
        }
        Ok(())
    }
}

struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            _ => f.write_char(letter),
        })
    }
}
