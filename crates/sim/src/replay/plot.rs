//! Plots as inline SVG: a few lines of markup each, drawn in the colours of the page they stand in.
//!
//! Series differ in their dashes as well as in their colours. No scripts, no fonts of their own. A plot
//! can also stand alone, with its own paper below it.

use std::fmt::Write;

/// What plots look like, in light and in dark; a page that they stand in needs it too.
pub(super) const STYLE: &str = include_str!("plot.css");

/// The size of every plot, in SVG's units.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// No series has more points; more are thinned to the highest of their column.
const MAX_POINTS: usize = 1_500;

/// One line of a plot.
#[derive(Clone, Debug)]
pub(super) struct Series<'a> {
    /// Its class on the page, which gives it colour and dashes.
    pub class: &'a str,
    /// What it is called.
    pub name: String,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// Whether it holds its value until the next point.
    pub steps: bool,
}

/// One axis: what it says, from where to where, and how values are written.
#[derive(Clone, Debug)]
pub(super) struct Axis<'a> {
    /// What it says.
    pub label: &'a str,
    /// Its lower end.
    pub from: f64,
    /// Its upper end.
    pub to: f64,
    /// How a value is written.
    pub write: fn(f64) -> String,
}

impl Axis<'_> {
    fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        let share = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        start + share.clamp(0.0, 1.0) * (end - start)
    }

    /// About six values at which people count.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.to - self.from) / 6.0;
        if rough.is_nan() || rough <= 0.0 {
            return Vec::new();
        }
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.from / step).ceil();
        (0..12)
            .map(|n| (first + f64::from(n)) * step)
            .filter(|v| *v <= self.to + step * 1e-6)
            .collect()
    }
}

/// Text as it stands between tags or in an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

fn x_of(x: &Axis<'_>, value: f64) -> f64 {
    x.place(value, LEFT, WIDTH - RIGHT)
}

fn y_of(y: &Axis<'_>, value: f64) -> f64 {
    y.place(value, HEIGHT - BOTTOM, TOP)
}

fn frame(out: &mut String, title: &str, x: Option<&Axis<'_>>, y: &Axis<'_>) {
    let title = escape(title);
    let _ = write!(
        out,
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>"#
    );
    for tick in y.ticks() {
        let at = y_of(y, tick);
        let (end, text) = (WIDTH - RIGHT, escape(&(y.write)(tick)));
        let _ = write!(
            out,
            r#"<path class="grid" d="M{LEFT} {at:.1}H{end}"/><text class="end" x="{:.1}" y="{:.1}">{text}</text>"#,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let base = HEIGHT - BOTTOM;
    if let Some(x) = x {
        for tick in x.ticks() {
            let (at, text) = (x_of(x, tick), escape(&(x.write)(tick)));
            let _ = write!(
                out,
                r#"<path class="tick" d="M{at:.1} {base}v5"/><text class="mid" x="{at:.1}" y="{:.1}">{text}</text>"#,
                base + 19.0
            );
        }
        label(out, x.label, f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 6.0, "mid");
    }
    let _ = write!(out, r#"<path class="axis" d="M{LEFT} {TOP}V{base}H{}"/>"#, WIDTH - RIGHT);
    let middle = f64::midpoint(TOP, base);
    let _ = write!(
        out,
        r#"<text class="mid" transform="translate(14 {middle:.1}) rotate(-90)">{}</text>"#,
        escape(y.label)
    );
}

/// A plot as a file of its own.
pub(super) fn alone(svg: &str) -> String {
    let Some(inside) = svg.strip_prefix("<svg ") else { return svg.to_owned() };
    let (attributes, inside) = inside.split_once('>').unwrap_or((inside, ""));
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="system-ui,sans-serif" font-size="12" {attributes}><style>{STYLE}</style><rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>{inside}"#
    )
}

fn label(out: &mut String, text: &str, x: f64, y: f64, class: &str) {
    let text = escape(text);
    let _ = write!(out, r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#);
}

/// Lines over two axes, with their names below one another at `legend` (right edge, top).
pub(super) fn lines(
    title: &str,
    x: &Axis<'_>,
    y: &Axis<'_>,
    series: &[Series<'_>],
    legend: (f64, f64),
) -> String {
    let mut out = String::new();
    frame(&mut out, title, Some(x), y);
    for (index, one) in series.iter().enumerate() {
        let mut path = String::new();
        for (number, (px, py)) in thinned(&one.points, x).into_iter().enumerate() {
            let (px, py) = (x_of(x, px), y_of(y, py));
            let _ = match (number, one.steps) {
                (0, _) => write!(path, "M{px:.1} {py:.1}"),
                (_, true) => write!(path, "H{px:.1}V{py:.1}"),
                (_, false) => write!(path, "L{px:.1} {py:.1}"),
            };
        }
        let _ = write!(out, r#"<path class="line {}" d="{path}"/>"#, one.class);
        let (right, top) = legend;
        let at = top + 17.0 * index as f64;
        label(&mut out, &one.name, right - 34.0, at + 4.0, "end");
        let from = right - 28.0;
        let _ = write!(out, r#"<path class="line {}" d="M{from:.1} {at:.1}h28"/>"#, one.class);
    }
    out.push_str("</svg>");
    out
}

/// At most so many points: of those that share a column, the first, the highest and the last.
fn thinned(points: &[(f64, f64)], x: &Axis<'_>) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points.to_vec();
    }
    let column = |point: &(f64, f64)| (x_of(x, point.0) * 0.6) as i64;
    let mut thin = Vec::new();
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        thin.extend(group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)));
        if group.len() > 1 {
            thin.extend(group.last().copied());
        }
    }
    thin
}

/// Bars in groups: the name of each group, and a height for each class.
pub(super) fn bars(
    title: &str,
    y: &Axis<'_>,
    groups: &[(String, Vec<f64>)],
    classes: &[(&str, &str)],
    below: &str,
) -> String {
    let mut out = String::new();
    frame(&mut out, title, None, y);
    let base = HEIGHT - BOTTOM;
    let room = (WIDTH - LEFT - RIGHT) / groups.len().max(1) as f64;
    let width = room * 0.7 / classes.len().max(1) as f64;
    for (number, (name, heights)) in groups.iter().enumerate() {
        let start = LEFT + room * number as f64;
        label(&mut out, name, start + room / 2.0, base + 17.0, "mid");
        for (index, (height, (class, _))) in heights.iter().zip(classes).enumerate() {
            let left = start + room * 0.15 + width * index as f64;
            let top = y_of(y, *height);
            let _ = write!(
                out,
                r#"<rect class="bar {class}" x="{left:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
                width * 0.94,
                base - top
            );
            label(&mut out, &(y.write)(*height), left + width / 2.0, top - 3.0, "mid small");
        }
    }
    label(&mut out, below, f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 6.0, "mid");
    let mut right = WIDTH - RIGHT;
    for (class, name) in classes.iter().rev().filter(|(_, name)| !name.is_empty()) {
        label(&mut out, name, right, HEIGHT - 6.0, "end");
        right -= 7.0 * name.chars().count() as f64 + 16.0;
        let _ = write!(
            out,
            r#"<rect class="bar {class}" x="{right:.1}" y="{:.1}" width="11" height="11"/>"#,
            HEIGHT - 16.0
        );
        right -= 14.0;
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(from: f64, to: f64) -> Axis<'static> {
        Axis { label: "x", from, to, write: |value| format!("{value}") }
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(axis(0.0, 349.0).ticks(), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(axis(0.0, 36.0).ticks(), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(axis(0.75, 1.0).ticks().len(), 6);
        assert!(axis(1.0, 1.0).ticks().is_empty());
        assert!(axis(0.0, f64::NAN).ticks().is_empty());
    }

    #[test]
    fn names_cannot_break_the_page() {
        let hostile = "<script>\"&";
        let series = [Series {
            class: "a",
            name: hostile.to_owned(),
            points: vec![(0.0, 0.0), (1.0, 2.0)],
            steps: true,
        }];
        let svg = lines(hostile, &axis(0.0, 1.0), &axis(0.0, 2.0), &series, (700.0, 20.0));
        assert!(!svg.contains("<script"), "{svg}");
        assert!(svg.contains("&lt;script&gt;&quot;&amp;"), "{svg}");
        let bars =
            bars("t", &axis(0.0, 1.0), &[(hostile.to_owned(), vec![0.5])], &[("a", "b")], "");
        assert!(!bars.contains("<script"), "{bars}");
    }

    #[test]
    fn a_plot_that_stands_alone_brings_all_it_needs() {
        let svg = lines("t", &axis(0.0, 1.0), &axis(0.0, 2.0), &[], (700.0, 20.0));
        let alone = alone(&svg);
        assert!(alone.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" "), "{alone}");
        assert!(alone.contains("role=\"img\" aria-label=\"t\"><style>:root{"), "{alone}");
        assert!(alone.ends_with("</svg>") && alone.contains("<title>t</title>"), "{alone}");
    }

    #[test]
    fn long_series_keep_their_peaks() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[54_321].1 = 9.0;
        let thin = thinned(&points, &axis(0.0, 100_000.0));
        assert!(thin.len() <= MAX_POINTS, "{}", thin.len());
        assert!(thin.contains(&(54_321.0, 9.0)));
    }
}
