//! Curves as an SVG of our own: axes with round ticks, a logarithmic scale if wanted, a value under the pointer.
//!
//! Colours come from the page (`--s0` … `--s5`, `--ink`, `--grid`), so the drawing follows its light and dark.

use std::fmt::Write;

use crate::{live::human_number, report::escape};

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

/// Some curves over the same steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// what is shown
    pub title: String,
    /// the curves
    pub series: Vec<Series>,
    /// the scale of the values
    pub scale: Scale,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
/// left, top, right, bottom
const MARGIN: [f64; 4] = [58.0, 10.0, 14.0, 30.0];
/// Columns of at most this many; each keeps its lowest and highest point, so that no spike is lost.
const COLUMNS: usize = 240;
/// So many points can be pointed at.
const HOVERS: usize = 120;
/// Colours that the page defines.
pub(crate) const COLOURS: usize = 6;

impl Chart {
    /// The figure: SVG, legend, and a word about what could not be drawn.
    ///
    /// ```
    /// use qkv_metric::{Chart, Series};
    /// let loss = Series { name: "loss".into(), points: vec![(1.0, 4.0), (2.0, 3.0)] };
    /// let html = Chart { title: "Loss".into(), series: vec![loss], ..Chart::default() }.html();
    /// assert!(html.contains("<title>loss, step 2: 3</title>"));
    /// ```
    pub fn html(&self) -> String {
        let drawable = |y: f64| y.is_finite() && (self.scale == Scale::Linear || y > 0.0);
        let all = || self.series.iter().flat_map(|s| s.points.iter().copied());
        let lost = all().filter(|(x, y)| !x.is_finite() || !drawable(*y)).count();
        let kept: Vec<(f64, f64)> = all().filter(|(x, y)| x.is_finite() && drawable(*y)).collect();
        let mut out = format!("<figure><h3>{}</h3>", escape(&self.title));
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
                let _ = write!(out, "<span class=\"key c{}\">{}</span>", i % COLOURS, escape(&series.name));
            }
            out.push_str("</figcaption>");
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

    fn draw(&self, out: &mut String, x: &Axis, y: &Axis, drawable: impl Fn(f64) -> bool) {
        let _ =
            write!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(&self.title));
        let (left, right, floor) = (MARGIN[0], WIDTH - MARGIN[2], HEIGHT - MARGIN[3]);
        for tick in y.ticks(5) {
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
        for tick in x.ticks(7) {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x.place(tick),
                floor + 19.0,
                human_number(tick)
            );
        }
        let _ = write!(out, "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{floor}\" y2=\"{floor}\"/>");
        for (i, series) in self.series.iter().enumerate() {
            let _ = write!(out, "<path class=\"c{}\" d=\"", i % COLOURS);
            // A value that cannot be drawn leaves a gap.
            let mut pen = 'M';
            for (px, py) in thinned(&series.points) {
                if px.is_finite() && drawable(py) {
                    let _ = write!(out, "{pen}{:.1} {:.1}", x.place(px), y.place(py));
                    pen = 'L';
                } else {
                    pen = 'M';
                }
            }
            out.push_str("\"/>");
            let good: Vec<_> = series.points.iter().filter(|(x, y)| x.is_finite() && drawable(*y)).collect();
            let every = good.len().div_ceil(HOVERS).max(1);
            // The last point is always among them: it is the one people look for.
            for (px, py) in good.iter().rev().step_by(every) {
                let _ = write!(
                    out,
                    "<circle class=\"c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{}, step {}: {}</title></circle>",
                    i % COLOURS,
                    x.place(*px),
                    y.place(*py),
                    escape(&series.name),
                    human_number(*px),
                    human_number(*py)
                );
            }
        }
        out.push_str("</svg>");
    }
}

/// At most two points a column: the lowest and the highest, in their order. A gap stays a gap.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(COLUMNS).max(1);
    if size <= 2 {
        return points.to_vec();
    }
    let column = |chunk: &[(f64, f64)]| {
        if let Some(gap) = chunk.iter().find(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return vec![*gap];
        }
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut kept: Vec<_> = chunk.iter().min_by(by).into_iter().chain(chunk.iter().max_by(by)).copied().collect();
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        kept
    };
    let mut out: Vec<_> = points.chunks(size).flat_map(column).collect();
    // The ends of the curve stay where they are.
    out.extend(points.last());
    out.splice(0..0, points.first().copied());
    out
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

/// Multiples of 1, 2 or 5 times a power of ten.
fn round_values(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = high / wanted as f64 - low / wanted as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|f| f * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
    if !step.is_finite() || step <= 0.0 {
        return vec![low];
    }
    let first = (low / step).ceil();
    (0..=2 * wanted).map(|i| (first + i as f64) * step).filter(|t| *t <= high).map(|t| t + 0.0).collect()
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
    fn thinning_keeps_spikes_gaps_and_ends() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        points[4321].1 = 99.0;
        points[7000].1 = f64::NAN;
        let kept = thinned(&points);
        assert!(kept.len() <= 2 * COLUMNS + 2);
        assert!(kept.contains(&(4321.0, 99.0)));
        assert!(kept.iter().any(|p| p.1.is_nan()));
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[9_999]));
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let chart = |points: Vec<(f64, f64)>, scale| {
            Chart { title: "<&>".into(), series: vec![Series { name: "s".into(), points }], scale }.html()
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
