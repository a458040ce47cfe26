//! How far chance could have moved a score, and whether it could have made the difference between two systems.
//!
//! Everything works on rows that add up (see [`crate::Additive`]): a drawn corpus is a sum of drawn rows.
//!
//! - **Interval** (Koehn 2004): draw as many segments as there are, with replacement, many times; the middle 95 % of
//!   the scores.
//! - **Paired bootstrap**: both systems scored on the same draws; p is how often the difference strays from its own mean
//!   by as much as the real difference.
//! - **Approximate randomisation** (Riezler and Maxwell 2005): if the systems were one, swapping their outputs would
//!   change nothing; p is how often swaps by coin toss make as large a difference as the real one.
//!
//! The draws are a function of the key: the same seed gives the same numbers anywhere.

use qkv_base::{Error, Key, Result};
use serde::Serialize;

use crate::additive::{Resampling, add, same_length, sum};

/// A score and the range that chance gives it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// on the real corpus
    pub score: f64,
    /// mean over the draws
    pub mean: f64,
    /// 2.5 % of the draws lie below
    pub low: f64,
    /// 2.5 % of the draws lie above
    pub high: f64,
}

impl Interval {
    /// Half the width: the number after ±.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    fn new(score: f64, mut drawn: Vec<f64>) -> Self {
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        drawn.sort_by(f64::total_cmp);
        let tail = drawn.len() / 40;
        Self { score, mean, low: drawn[tail], high: drawn[drawn.len() - 1 - tail] }
    }
}

/// Two systems beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// the first system's score
    pub base: f64,
    /// the second system's score
    pub other: f64,
    /// how likely so large a difference is if the systems are alike
    pub p: f64,
}

/// The 95 % interval of a score over `samples` draws.
///
/// ```
/// use qkv_base::Key;
/// let rows: Vec<Vec<f64>> = (0..100).map(|i| vec![f64::from(i % 2), 1.0]).collect(); // 50 right of 100
/// let accuracy = |sum: &[f64]| sum[0] / sum[1];
/// let interval = qkv_metric::interval(&rows, accuracy, 1000, Key::new(7, 0, 0))?;
/// assert_eq!(interval.score, 0.5);
/// assert!(interval.low < 0.45 && interval.high > 0.55);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn interval(rows: &[Vec<f64>], score: impl Fn(&[f64]) -> f64, samples: usize, key: Key) -> Result<Interval> {
    check(rows, samples)?;
    let drawn = (0..samples).map(|sample| score(&drawn_sum(rows, key, sample))).collect();
    Ok(Interval::new(score(&sum(rows)), drawn))
}

/// Whether `other` differs from `base`; both hold one row per segment, in the same order. The draws are named by the
/// seed in `how`.
///
/// ```
/// use qkv_metric::{Resampling, compare};
/// let base: Vec<Vec<f64>> = (0..50).map(|i| vec![f64::from(i % 2), 1.0]).collect();
/// let better: Vec<Vec<f64>> = (0..50).map(|i| vec![f64::from(i % 8 != 0), 1.0]).collect();
/// let accuracy = |sum: &[f64]| sum[0] / sum[1];
/// let how = Resampling::Randomisation { trials: 1000, seed: 1 };
/// assert!(compare(&base, &better, accuracy, how)?.p < 0.01);
/// assert_eq!(compare(&base, &base, accuracy, how)?.p, 1.0); // nothing differs from itself
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn compare(
    base: &[Vec<f64>],
    other: &[Vec<f64>],
    score: impl Fn(&[f64]) -> f64,
    how: Resampling,
) -> Result<Comparison> {
    same_length("segments of the other system", other.len(), base.len())?;
    let (Resampling::Bootstrap { samples: draws, seed } | Resampling::Randomisation { trials: draws, seed }) = how;
    check(base, draws)?;
    let key = Key::new(seed, 0, 0);
    let scores = [score(&sum(base)), score(&sum(other))];
    let strays: Vec<f64> = match how {
        Resampling::Bootstrap { .. } => {
            let difference = |i| (score(&drawn_sum(other, key, i)) - score(&drawn_sum(base, key, i))).abs();
            let differences: Vec<f64> = (0..draws).map(difference).collect();
            let mean = differences.iter().sum::<f64>() / draws as f64;
            differences.into_iter().map(|difference| difference - mean).collect()
        }
        Resampling::Randomisation { .. } => {
            (0..draws).map(|trial| swapped_difference(base, other, &score, key, trial)).collect()
        }
    };
    Ok(Comparison { base: scores[0], other: scores[1], p: p_value(&strays, (scores[0] - scores[1]).abs()) })
}

/// The share of draws at least as far out as the real corpus, which is counted as one of them.
///
/// sacreBLEU counts only draws that are farther out. With few segments or whole-number scores ties are common, and a
/// system compared with itself would come out significant; counting them keeps the test honest.
fn p_value(strays: &[f64], real: f64) -> f64 {
    let tied = real * (1.0 - 1e-12); // sums of the same numbers in another order
    (strays.iter().filter(|stray| **stray >= tied).count() + 1) as f64 / (strays.len() + 1) as f64
}

fn check(rows: &[Vec<f64>], samples: usize) -> Result<()> {
    match (rows.len(), samples) {
        (0, _) => Err(Error::new("resampling", "there are no segments", "give at least one segment")),
        (_, 0) => Err(Error::new("resampling", "there are no draws", "ask for 1000 draws or so")),
        _ => Ok(()),
    }
}

/// The sum of as many rows as there are, drawn with replacement; the draw depends on the key and the sample alone, so
/// that two systems see the same segments.
fn drawn_sum(rows: &[Vec<f64>], key: Key, sample: usize) -> Vec<f64> {
    let key = key.child(sample as u64);
    let mut total = vec![0.0; rows[0].len()];
    (0..rows.len()).for_each(|i| add(&mut total, &rows[key.below(i as u64, rows.len())]));
    total
}

fn swapped_difference(
    base: &[Vec<f64>],
    other: &[Vec<f64>],
    score: &impl Fn(&[f64]) -> f64,
    key: Key,
    trial: usize,
) -> f64 {
    let key = key.child(trial as u64);
    let mut totals = [vec![0.0; base[0].len()], vec![0.0; base[0].len()]];
    for (i, (a, b)) in base.iter().zip(other).enumerate() {
        // 32 coins to a word.
        let coin = (key.word(i as u64 / 32) >> (i % 32) & 1) as usize;
        add(&mut totals[coin], a);
        add(&mut totals[1 - coin], b);
    }
    (score(&totals[0]) - score(&totals[1])).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(sum: &[f64]) -> f64 {
        sum[0] / sum[1]
    }

    fn rows(values: impl IntoIterator<Item = f64>) -> Vec<Vec<f64>> {
        values.into_iter().map(|x| vec![x, 1.0]).collect()
    }

    /// The mean of n numbers strays by σ/√n; 95 % lie within 1.96 of that.
    #[test]
    fn the_interval_is_as_wide_as_theory_says() {
        let normals = Key::new(3, 0, 0).normals(400);
        let rows = rows(normals.iter().map(|x| f64::from(*x)));
        let got = interval(&rows, mean, 4000, Key::new(5, 0, 0)).unwrap();
        assert!((got.half_width() - 1.96 / 20.0).abs() < 0.01, "{got:?}");
        assert!((got.mean - got.score).abs() < 0.005, "{got:?}");
    }

    /// All 2ⁿ swaps of ten segments against ten thousand drawn ones: within four deviations of the estimate.
    #[test]
    fn randomisation_approaches_the_exact_test() {
        let base = rows([3., 1., 4., 1., 5., 9., 2., 6., 5., 3.]);
        let other = rows([4., 3., 4., 4., 5., 8., 6., 6., 9., 3.]);
        let exact = |swaps: u32| {
            let sign = |i: usize| if swaps >> i & 1 == 1 { -1.0 } else { 1.0 };
            base.iter().zip(&other).enumerate().map(|(i, (a, b))| sign(i) * (a[0] - b[0])).sum::<f64>().abs()
        };
        let exact = (0..1024).filter(|swaps| exact(*swaps) >= exact(0)).count() as f64 / 1024.0;
        let got = compare(&base, &other, mean, Resampling::Randomisation { trials: 10_000, seed: 1 }).unwrap();
        let deviation = (exact * (1.0 - exact) / 10_000.0).sqrt();
        assert!((got.p - exact).abs() < 4.0 * deviation + 1e-4, "{} for {exact}", got.p);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let rows = rows((0..97).map(|i| f64::from(i * i % 31)));
        let go = |seed| interval(&rows, mean, 200, Key::new(seed, 0, 0)).unwrap();
        assert_eq!(go(1), go(1));
        assert_ne!(go(1), go(2));
    }

    #[test]
    fn nothing_to_draw_is_refused() {
        assert!(interval(&[], mean, 10, Key::new(1, 0, 0)).is_err());
        assert!(interval(&rows([1.0]), mean, 0, Key::new(1, 0, 0)).is_err());
        let how = Resampling::Bootstrap { samples: 10, seed: 1 };
        assert!(compare(&rows([1.0]), &rows([1.0, 2.0]), mean, how).is_err());
        assert!(compare(&[], &[], mean, how).is_err());
    }
}
