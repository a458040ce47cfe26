//! Curves as an SVG of our own: axes with round ticks, a logarithmic scale if wanted, a value under the pointer.
//!
//! Colours come from the page (`--s0` … `--s5`, `--ink`, `--grid`), so the drawing follows its light and dark.

use std::fmt::Write;

use qkv_base::escape_html;
use qkv_metric::human_number;

/// A named curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// its name in the legend
    pub name: String,
    /// (step, value), in the order of the steps
    pub points: Vec<(f64, f64)>,
}

/// How values are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// equal differences take equal room
    #[default]
    Linear,
    /// equal ratios take equal room; values that are not positive are left out
    Log,
}

/// Some curves over the same steps, or over anything else that can be counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// what is shown
    pub title: String,
    /// the curves
    pub series: Vec<Series>,
    /// the scale of the values
    pub scale: Scale,
    /// what the values stand over; empty: steps
    pub across: String,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
/// left, top, right, bottom
const MARGIN: [f64; 4] = [66.0, 10.0, 20.0, 44.0];
/// Columns of at most this many; each keeps its lowest and highest point, so that no spike is lost.
const COLUMNS: usize = 240;
/// So many points can be pointed at.
const HOVERS: usize = 120;
/// Colours that the page defines.
const COLOURS: usize = 6;

/// How curves look in a page; a rule for each curve: its line, its points and its key in the legend.
pub(crate) fn style() -> String {
    let rule = |i| {
        format!(
            "path.c{i} {{ stroke: var(--s{i}); }} circle.c{i}:hover {{ fill: var(--s{i}); }} .key.c{i}::before {{ background: var(--s{i}); }}\n"
        )
    };
    STYLE.to_string() + &(0..COLOURS).map(rule).collect::<String>()
}

const STYLE: &str = "
.chart { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; }
.chart svg { display: block; width: 100%; height: auto; }
.chart path { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round; }
.chart path.faint { stroke-width: 1; opacity: .35; }
.chart circle { fill: transparent; }
.grid { stroke: var(--grid); } .axis { stroke: var(--soft); }
.tick { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.chart figcaption { margin-top: .4rem; }
.key::before { content: \"\"; display: inline-block; width: 1.1rem; height: 3px; border-radius: 2px; margin-right: .4rem; vertical-align: middle; }
@media (max-width: 34rem) { .tick { font-size: 22px; } }
";

/// What a picture of its own has in the place of the page's colours.
const ALONE: &str = ".alone text { fill: #57606a; font: 12px ui-monospace, 'DejaVu Sans Mono', monospace; } .alone .grid { stroke: #e6eaef; } \
.alone .axis { stroke: #57606a; } .alone path { fill: none; stroke-width: 2; stroke-linejoin: round; } \
.alone path.faint { stroke-width: 1; opacity: .35; } .alone path.c0 { stroke: #2463c4; } .alone path.c1 { stroke: #d0671b; } \
.alone path.c2 { stroke: #1f8a5b; } .alone path.c3 { stroke: #a83291; } .alone path.c4 { stroke: #8a6d10; } .alone path.c5 { stroke: #138a9c; } \
.alone circle { fill: transparent; }";

impl Chart {
    /// The figure: SVG, legend, and a word about what could not be drawn.
    ///
    /// ```
    /// use qkv_report::{Chart, Series};
    /// let loss = Series { name: "loss".into(), points: vec![(1.0, 4.0), (2.0, 3.0)] };
    /// let html = Chart { title: "Loss".into(), series: vec![loss], ..Chart::default() }.html();
    /// assert!(html.contains("<title>loss, step 2: 3</title>"));
    /// ```
    pub fn html(&self) -> String {
        let drawable = |y: f64| y.is_finite() && (self.scale == Scale::Linear || y > 0.0);
        let all = || self.series.iter().flat_map(|s| s.points.iter().copied());
        let lost = all().filter(|(x, y)| !x.is_finite() || !drawable(*y)).count();
        let kept: Vec<(f64, f64)> = all().filter(|(x, y)| x.is_finite() && drawable(*y)).collect();
        let mut out = format!("<figure class=\"chart\"><h3>{}</h3>", escape_html(&self.title));
        if kept.is_empty() {
            out.push_str("<p class=\"note\">Nothing to draw.</p>");
        } else {
            let x = Axis::new(kept.iter().map(|p| p.0), Scale::Linear, [MARGIN[0], WIDTH - MARGIN[2]]);
            let y = Axis::new(kept.iter().map(|p| p.1), self.scale, [HEIGHT - MARGIN[3], MARGIN[1]]);
            self.draw(&mut out, &x, &y, drawable);
        }
        if self.series.len() > 1 {
            out.push_str("<figcaption>");
            for (i, series) in self.series.iter().enumerate() {
                let _ = write!(out, "<span class=\"key c{}\">{}</span>", i % COLOURS, escape_html(&series.name));
            }
            out.push_str("</figcaption>");
        }
        let most = self.series.iter().map(|s| column_size(s.points.len())).max().unwrap_or(1);
        if most > 2 {
            let _ = write!(
                out,
                "<p class=\"note\">Faint: from the lowest to the highest of {most} points; line: their mean.</p>"
            );
        }
        if lost > 0 {
            let _ = write!(
                out,
                "<p class=\"note\">{lost} points have no place on this scale (not finite{}).</p>",
                if self.scale == Scale::Log { ", or not positive" } else { "" }
            );
        }
        out + "</figure>"
    }

    /// As a picture of its own, for a document: the same drawing in the colours of daylight, its legend inside.
    ///
    /// ```
    /// use qkv_report::{Chart, Series};
    /// let loss = Series { name: "loss".into(), points: vec![(1.0, 4.0), (2.0, 3.0)] };
    /// let svg = Chart { title: "Loss".into(), series: vec![loss], ..Chart::default() }.svg();
    /// assert!(svg.starts_with("<svg xmlns=") && svg.contains(">Loss<"));
    /// ```
    pub fn svg(&self) -> String {
        const HEAD: f64 = 30.0;
        let drawn = self.html();
        let inner = drawn.split_once("<svg").and_then(|(_, rest)| rest.split_once('>')?.1.split_once("</svg>"));
        let inner = inner.map_or("", |(inner, _)| inner);
        let title = escape_html(&self.title);
        let mut keys = String::new();
        for (i, series) in self.series.iter().enumerate().filter(|_| self.series.len() > 1) {
            let (x, y) = (MARGIN[0] + 16.0 + 150.0 * i as f64, HEAD + HEIGHT + 12.0);
            let _ = write!(
                keys,
                "<path class=\"c{}\" d=\"M{} {y}h20\"/><text x=\"{}\" y=\"{}\">{}</text>",
                i % COLOURS,
                x,
                x + 26.0,
                y + 4.0,
                escape_html(&series.name)
            );
        }
        let height = HEAD + HEIGHT + if keys.is_empty() { 8.0 } else { 28.0 };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" class=\"alone\" role=\"img\" \
             aria-label=\"{title}\">\n<title>{title}</title>\n<style>{ALONE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{}\" y=\"20\">{title}</text>\n<g transform=\"translate(0 {HEAD})\">{inner}</g>\n{keys}</svg>\n",
            MARGIN[0]
        )
    }

    fn unit(&self) -> &str {
        if self.across.is_empty() { "step" } else { &self.across }
    }

    fn draw(&self, out: &mut String, x: &Axis, y: &Axis, drawable: impl Fn(f64) -> bool) {
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape_html(&self.title)
        );
        let (left, right, floor) = (MARGIN[0], WIDTH - MARGIN[2], HEIGHT - MARGIN[3]);
        for tick in y.ticks(6) {
            let at = y.place(tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                at + 4.0,
                human_number(tick)
            );
        }
        for tick in x.ticks(6) {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x.place(tick),
                floor + 19.0,
                human_number(tick)
            );
        }
        let middle = (left + right) / 2.0;
        let _ = write!(
            out,
            "<text class=\"tick\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 4.0,
            escape_html(self.unit())
        );
        let _ = write!(out, "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{floor}\" y2=\"{floor}\"/>");
        for (i, series) in self.series.iter().enumerate() {
            let path = |class: &str, points: &[(f64, f64)]| {
                let line = line(points, x, y, &drawable);
                format!("<path class=\"{class}c{}\" d=\"{line}\"/>", i % COLOURS)
            };
            match thinned(&series.points) {
                None => out.push_str(&path("", &series.points)),
                Some([extremes, means]) => {
                    out.push_str(&path("faint ", &extremes));
                    out.push_str(&path("", &means));
                }
            }
            let good: Vec<_> = series.points.iter().filter(|(x, y)| x.is_finite() && drawable(*y)).collect();
            let every = good.len().div_ceil(HOVERS).max(1);
            // The last point is always among them: it is the one people look for.
            for (px, py) in good.iter().rev().step_by(every) {
                let _ = write!(
                    out,
                    "<circle class=\"c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}, {} {}: {}</title></circle>",
                    i % COLOURS,
                    x.place(*px),
                    y.place(*py),
                    escape_html(&series.name),
                    escape_html(self.unit()),
                    human_number(*px),
                    human_number(*py)
                );
            }
        }
        out.push_str("</svg>");
    }
}

/// The path through the points; a value that cannot be drawn leaves a gap.
fn line(points: &[(f64, f64)], x: &Axis, y: &Axis, drawable: impl Fn(f64) -> bool) -> String {
    let (mut out, mut pen) = (String::new(), 'M');
    for (px, py) in points {
        if px.is_finite() && drawable(*py) {
            let _ = write!(out, "{pen}{:.1} {:.1}", x.place(*px), y.place(*py));
            pen = 'L';
        } else {
            pen = 'M';
        }
    }
    out
}

/// Points in a column of [`thinned`].
fn column_size(points: usize) -> usize {
    points.div_ceil(COLUMNS).max(1)
}

/// A curve with more points than columns as two: the lowest and the highest of each column, in their order, and the
/// mean. A gap stays a gap.
fn thinned(points: &[(f64, f64)]) -> Option<[Vec<(f64, f64)>; 2]> {
    let size = column_size(points.len());
    if size <= 2 {
        return None;
    }
    let gap = |chunk: &[(f64, f64)]| chunk.iter().copied().find(|(x, y)| !x.is_finite() || !y.is_finite());
    let extremes = |chunk: &[(f64, f64)]| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut kept: Vec<_> = chunk.iter().min_by(by).into_iter().chain(chunk.iter().max_by(by)).copied().collect();
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        gap(chunk).map_or(kept, |gap| vec![gap])
    };
    let mean = |chunk: &[(f64, f64)]| {
        let n = chunk.len() as f64;
        let mean = chunk.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
        gap(chunk).unwrap_or(mean)
    };
    Some([points.chunks(size).flat_map(extremes).collect(), points.chunks(size).map(mean).collect()])
}

/// Values to places on the page.
struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    ends: [f64; 2],
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, scale: Scale, ends: [f64; 2]) -> Self {
        let values = values.map(|v| if scale == Scale::Log { v.log10() } else { v });
        let (mut low, mut high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        if high - low < 1e-12 * high.abs().max(1e-12) {
            let room = if scale == Scale::Log { 0.5 } else { (high.abs() * 0.1).max(0.5) };
            (low, high) = (low - room, high + room);
        }
        if scale == Scale::Linear {
            // Both ends on a round value.
            let step = round_step(low, high, 6);
            let (floor, ceiling) = ((low / step).floor() * step, (high / step).ceil() * step);
            if floor.is_finite() && ceiling.is_finite() && floor < ceiling {
                (low, high) = (floor, ceiling);
            }
        }
        Self { low, high, scale, ends }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Log { value.log10() } else { value };
        // Halved before subtracting, so that the largest numbers do not overflow.
        let share = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        self.ends[0] + share * (self.ends[1] - self.ends[0])
    }

    /// About `wanted` round values within the range.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        match self.scale {
            Scale::Log if self.high - self.low >= 1.0 => {
                let every = ((self.high - self.low) / wanted as f64).ceil().max(1.0) as i32;
                let decades = self.low.ceil() as i32..=self.high.floor() as i32;
                let fine = if self.high - self.low < 2.5 { &[1.0, 2.0, 5.0][..] } else { &[1.0] };
                let first = decades.start() - 1;
                let ticks = (first..=*decades.end())
                    .filter(|e| e.rem_euclid(every) == 0)
                    .flat_map(|e| fine.iter().map(move |f| f * 10f64.powi(e)));
                ticks.filter(|t| (self.low..=self.high).contains(&t.log10())).collect()
            }
            // Less than a decade: round values, whatever room they take.
            Scale::Log => round_values(10f64.powf(self.low), 10f64.powf(self.high), wanted),
            Scale::Linear => round_values(self.low, self.high, wanted),
        }
    }
}

/// 1, 2 or 5 times a power of ten, about `wanted` of which lie in the range.
fn round_step(low: f64, high: f64, wanted: usize) -> f64 {
    let rough = high / wanted as f64 - low / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= rough * (1.0 - 1e-9)).unwrap_or(rough)
}

/// Multiples of a round step.
fn round_values(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let step = round_step(low, high, wanted);
    if !step.is_finite() || step <= 0.0 {
        return vec![low];
    }
    let first = (low / step - 1e-9).ceil();
    (0..=2 * wanted)
        .map(|i| (first + i as f64) * step)
        .filter(|t| t.is_finite() && *t <= high + step * 1e-9)
        .map(|t| t + 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(round_values(0.0, 1000.0, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(round_values(1.3, 4.1, 5), [2.0, 3.0, 4.0]);
        let log = Axis::new([0.001, 100.0].into_iter(), Scale::Log, [0.0, 1.0]);
        assert_eq!(log.ticks(5).len(), 6);
        assert!(log.ticks(5).iter().all(|t| (t.log10() - t.log10().round()).abs() < 1e-9));
        assert!((log.place(0.316_227_766) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn thinning_keeps_spikes_and_gaps() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        points[4321].1 = 99.0;
        points[7000].1 = f64::NAN;
        let [extremes, means] = thinned(&points).unwrap();
        assert!(extremes.len() <= 2 * COLUMNS && means.len() <= COLUMNS);
        assert!(extremes.contains(&(4321.0, 99.0)));
        let spike = means.iter().find(|p| p.1 > 1.5).unwrap();
        assert!((spike.1 - (41.0 + 99.0) / 42.0).abs() < 1e-9, "{spike:?}"); // 42 points to a column
        assert!([&extremes, &means].iter().all(|points| points.iter().any(|p| p.1.is_nan())));
        assert_eq!(thinned(&points[..480]), None);
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let chart = |points: Vec<(f64, f64)>, scale| {
            Chart { title: "<&>".into(), series: vec![Series { name: "s".into(), points }], scale, ..Chart::default() }
                .html()
        };
        let log = chart(vec![(0.0, 1.0), (1.0, -1.0), (2.0, f64::NAN), (3.0, 10.0)], Scale::Log);
        assert!(log.contains("2 points have no place on this scale") && log.contains("&lt;&amp;&gt;"));
        assert!(chart(vec![], Scale::Linear).contains("Nothing to draw"));
        for points in [vec![(0.0, 5.0)], vec![(0.0, 0.0), (1.0, 0.0)], vec![(0.0, f64::MIN), (1.0, f64::MAX)]] {
            let html = chart(points, Scale::Linear);
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }
}
