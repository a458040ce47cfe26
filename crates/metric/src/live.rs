//! What a terminal shows while a run goes on, as strings: the loop measures, this file draws, somebody else prints.
//!
//! - [`curve`] draws with braille: every character holds 2 × 4 dots.
//! - [`Status`] is one line, as much of it as fits, the most wanted first.
//! - [`Eta`] takes durations of steps from a clock that never jumps and trusts their median, so that a suspended process
//!   or one slow save does not move it.

use qkv_base::format::scaled;
use std::{collections::VecDeque, time::Duration};

/// The curve through `points` as `height` lines of at most `width` characters, labels included. Points that are not
/// finite are left out; a column of dots shows the mean of its points.
///
/// ```
/// let fall: Vec<(f64, f64)> = (0..40).map(|i| (f64::from(i), 8.0 - f64::from(i) * 0.2)).collect();
/// let lines = qkv_metric::curve(&fall, 20, 2);
/// assert_eq!(lines, ["     7.9 ┤⠉⠒⠢⢄⣀⠀⠀⠀⠀⠀", "     0.3 ┤⠀⠀⠀⠀⠀⠉⠑⠢⠤⣀"]);
/// ```
pub fn curve(points: &[(f64, f64)], width: usize, height: usize) -> Vec<String> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let margin = 8; // room for any number that `human_number` writes
    let (cells, height) = (width.saturating_sub(margin + 2).max(1), height.max(1));
    let columns = means(&points, 2 * cells);
    let Some((low, high)) = range(columns.iter().flatten().copied()) else {
        return vec!["no points yet".chars().take(width).collect()];
    };
    let labels = [human_number(high), human_number(low)];
    let mut dots = vec![vec![0u8; cells]; height];
    let row = |y: f64| {
        let share = if high > low { (high - y) / (high - low) } else { 0.5 };
        (share * (4 * height - 1) as f64).round() as usize
    };
    let mut before = None;
    for (x, y) in columns.into_iter().enumerate().filter_map(|(x, y)| Some((x, row(y?)))) {
        let (x0, y0) = before.replace((x, y)).unwrap_or((x, y));
        for i in 0..=(x - x0).max(y.abs_diff(y0)) {
            let share = i as f64 / (x - x0).max(y.abs_diff(y0)).max(1) as f64;
            let at = |a: usize, b: usize| (a as f64 + share * (b as f64 - a as f64)).round() as usize;
            let (x, y) = (at(x0, x), at(y0, y));
            dots[y / 4][x / 2] |= DOTS[y % 4][x % 2];
        }
    }
    let line = |(i, row): (usize, &Vec<u8>)| {
        let (label, tick) = match i {
            0 => (labels[0].as_str(), '┤'),
            _ if i == height - 1 => (labels[1].as_str(), '┤'),
            _ => ("", '│'),
        };
        let dots: String = row.iter().filter_map(|dots| char::from_u32(0x2800 + u32::from(*dots))).collect();
        format!("{label:>margin$} {tick}{dots}")
    };
    dots.iter().enumerate().map(line).collect()
}

/// Braille's dots, `[row][column]`.
const DOTS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, x| range.map_or(Some((x, x)), |(low, high): (f64, f64)| Some((low.min(x), high.max(x)))))
}

/// The mean of the points in each of `n` columns.
fn means(points: &[(f64, f64)], n: usize) -> Vec<Option<f64>> {
    let (left, right) = range(points.iter().map(|p| p.0)).unwrap_or_default();
    let mut sums = vec![(0.0, 0u32); n];
    for (x, y) in points {
        let share = if right > left { (x - left) / (right - left) } else { 0.0 };
        let sum = &mut sums[((share * n as f64) as usize).min(n - 1)];
        *sum = (sum.0 + y, sum.1 + 1);
    }
    sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count))).collect()
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Status {
    /// steps done
    pub step: u64,
    /// steps to do, where known
    pub steps: Option<u64>,
    /// the loss
    pub loss: f64,
    /// the learning rate
    pub learning_rate: f64,
    /// the norm of the gradient before clipping
    pub gradient_norm: Option<f64>,
    /// tokens per second
    pub speed: Option<f64>,
    /// resident bytes
    pub memory: Option<u64>,
    /// time left
    pub eta: Option<Duration>,
}

impl Status {
    /// One line of at most `width` characters; what does not fit is left out, the least wanted first.
    ///
    /// ```
    /// use qkv_metric::Status;
    /// let status = Status { step: 120, steps: Some(1000), loss: 2.3456, learning_rate: 3e-4, ..Status::default() };
    /// assert_eq!(status.line(80), "step 120/1000 · loss 2.346 · lr 3e-4");
    /// assert_eq!(status.line(30), "step 120/1000 · loss 2.346");
    /// ```
    pub fn line(&self, width: usize) -> String {
        let step = self.steps.map_or(format!("step {}", self.step), |steps| format!("step {}/{steps}", self.step));
        // (how wanted, what): shown in this order, dropped by the number.
        let mut parts = vec![(0, step), (1, format!("loss {}", human_number(self.loss)))];
        parts.push((4, format!("lr {}", human_number(self.learning_rate))));
        parts.extend(self.gradient_norm.map(|norm| (5, format!("grad {}", human_number(norm)))));
        parts.extend(self.speed.map(|speed| (3, format!("{} tok/s", human_count(speed)))));
        parts.extend(self.memory.map(|bytes| (6, human_bytes(bytes))));
        parts.extend(self.eta.map(|eta| (2, format!("{} left", human_duration(eta)))));
        loop {
            let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(" · ");
            if line.chars().count() <= width || parts.len() == 1 {
                return line.chars().take(width).collect();
            }
            let last = parts.iter().map(|(wanted, _)| *wanted).max();
            parts.retain(|(wanted, _)| Some(*wanted) != last);
        }
    }
}

/// Time left, by the median of the last steps.
///
/// ```
/// use {qkv_metric::Eta, std::time::Duration};
/// let mut eta = Eta::default();
/// assert_eq!(eta.left(10), None);
/// (0..9).for_each(|_| eta.step(Duration::from_millis(100)));
/// eta.step(Duration::from_secs(3600)); // the laptop slept
/// assert_eq!(eta.left(10), Some(Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Eta {
    recent: VecDeque<Duration>,
}

impl Eta {
    /// How many steps are remembered: enough to be steady, few enough to notice that the machine got busy.
    const MEMORY: usize = 101;

    /// Adds a step that took this long, by `Instant`, not by the wall clock.
    pub fn step(&mut self, took: Duration) {
        if self.recent.len() == Self::MEMORY {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
    }

    /// The median of the last steps.
    pub fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    /// The time that `steps` more will take.
    pub fn left(&self, steps: u64) -> Option<Duration> {
        let seconds = self.median()?.as_secs_f64() * steps as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Four significant digits: `2.346`, `0.0123`, `3e-4`, `12350`, `1.2e7`.
///
/// ```
/// use qkv_metric::human_number;
/// assert_eq!([2.34567, 0.0, 1e-4, 12345.6, -0.5, 6.02e23].map(human_number), ["2.346", "0", "1e-4", "12346", "-0.5", "6.02e23"]);
/// ```
pub fn human_number(x: f64) -> String {
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    match x.abs() {
        size if !size.is_finite() => {
            if x.is_nan() {
                "NaN".into()
            } else if x > 0.0 {
                "∞".into()
            } else {
                "−∞".into()
            }
        }
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => {
            let text = format!("{x:.2e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{}e{exponent}", trimmed(mantissa.to_string()))
        }
        size => trimmed(format!("{x:.*}", (3 - size.log10().floor() as i32).clamp(0, 6) as usize)),
    }
}

/// A count: `950`, `12.3 k`, `1.5 M`.
///
/// ```
/// use qkv_metric::human_count;
/// assert_eq!([950.4, 12_345.0, 999_960.0, 1.5e6, 7e12].map(human_count), ["950", "12.3 k", "1.0 M", "1.5 M", "7.0 T"]);
/// ```
pub fn human_count(n: f64) -> String {
    scaled(n, 1000.0, &["", " k", " M", " G", " T"])
}

/// A size in powers of 1024: `512 B`, `1.5 GiB`.
///
/// ```
/// use qkv_metric::human_bytes;
/// assert_eq!([512, 1536, 3 << 29].map(human_bytes), ["512 B", "1.5 KiB", "1.5 GiB"]);
/// ```
pub fn human_bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

/// Two units at most: `340 ms`, `12.3 s`, `2 min 05 s`, `1 h 02 min`, `3 d 04 h`.
///
/// ```
/// use {qkv_metric::human_duration, std::time::Duration};
/// let shown = [0.34, 12.34, 59.97, 125.0, 3720.0, 273_600.0].map(|s| human_duration(Duration::from_secs_f64(s)));
/// assert_eq!(shown, ["340 ms", "12.3 s", "1 min 00 s", "2 min 05 s", "1 h 02 min", "3 d 04 h"]);
/// ```
pub fn human_duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 0.9995 => format!("{:.0} ms", seconds * 1e3),
        _ if seconds < 59.95 => format!("{seconds:.1} s"),
        0..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_falls_from_corner_to_corner() {
        let points: Vec<(f64, f64)> = (0..=100).map(|i| (f64::from(i), f64::from(100 - i))).collect();
        let lines = curve(&points, 30, 5);
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() == 30), "{lines:?}");
        assert!(lines[0].starts_with("      99 ┤⠉⠒⠤") && lines[4].starts_with("       1 ┤⠀"), "{lines:?}");
        assert!(!lines[4].ends_with('⠀') && lines[0].ends_with('⠀'), "{lines:?}");
    }

    #[test]
    fn odd_curves_are_drawn() {
        assert_eq!(curve(&[], 20, 4), ["no points yet"]);
        assert_eq!(curve(&[(0.0, f64::NAN)], 5, 4), ["no po"]);
        assert_eq!(curve(&[(3.0, 7.0)], 20, 3).len(), 3);
        let jagged = [(0.0, 1.0), (1.0, f64::INFINITY), (2.0, -1e300), (3.0, 1e300)];
        assert_eq!(curve(&jagged, 0, 0).len(), 1);
        assert_eq!(curve(&jagged, 40, 2).len(), 2);
    }

    #[test]
    fn the_line_gives_up_the_least_wanted_first() {
        let status = Status {
            step: 120,
            steps: Some(1000),
            loss: 2.3456,
            learning_rate: 3e-4,
            gradient_norm: Some(0.98765),
            speed: Some(15_300.0),
            memory: Some(3 << 29),
            eta: Some(Duration::from_secs(125)),
        };
        let whole = "step 120/1000 · loss 2.346 · lr 3e-4 · grad 0.9877 · 15.3 k tok/s · 1.5 GiB · 2 min 05 s left";
        assert_eq!(status.line(200), whole);
        assert_eq!(status.line(60), "step 120/1000 · loss 2.346 · 15.3 k tok/s · 2 min 05 s left");
        assert_eq!(status.line(4), "step");
        assert!((0..120).all(|width| status.line(width).chars().count() <= width));
    }

    #[test]
    fn fault_32_the_eta_follows_a_machine_that_got_busy() {
        let mut eta = Eta::default();
        (0..200).for_each(|_| eta.step(Duration::from_millis(100)));
        (0..60).for_each(|_| eta.step(Duration::from_millis(300)));
        assert_eq!(eta.left(10), Some(Duration::from_secs(3)));
        assert_eq!(eta.left(0), Some(Duration::ZERO));
        eta.step(Duration::MAX);
        assert_eq!(eta.left(10), Some(Duration::from_secs(3)));
    }
}
