//! How much each class counts while it is learnt: where one class is rare, a network does well by never saying it.
//!
//! `w_k ∝ (N / (K·n_k))^p`, with p = ½ (`root`) or 1 (`balanced`, as scikit-learn's), no more than [`MOST`] times the least of them,
//! and scaled so that `Σ n_k·w_k = N`: the mean step stays as large as it was. The root is a middle way: rare classes are said more
//! often, and the common ones are not given up for them. Validation and scores never count them.

use serde::{Deserialize, Serialize};

/// Which weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassWeights {
    /// `root` where the rarest class has less than a fifth of an even share, else none
    #[default]
    Auto,
    /// every example counts the same
    None,
    /// the root of the inverse frequency
    Root,
    /// the inverse frequency: every class counts the same
    Balanced,
}

/// The share of an even share below which a class is rare.
pub const RARE: f64 = 0.2;

/// How many times more than the commonest class the rarest may count.
pub const MOST: f64 = 10.0;

impl ClassWeights {
    /// The weight of each class, by how often it is there; none where all count the same.
    ///
    /// ```
    /// use qkv_data::objective::ClassWeights;
    /// assert_eq!(ClassWeights::Auto.of(&[50, 50]), None);
    /// let weights = ClassWeights::Balanced.of(&[75, 25]).expect("uneven"); // 100/(2·75) and 100/(2·25)
    /// assert!((weights[0] - 2.0 / 3.0).abs() < 1e-6 && (weights[1] - 2.0).abs() < 1e-6);
    /// ```
    pub fn of(self, counts: &[u64]) -> Option<Vec<f32>> {
        let there: Vec<f64> = counts.iter().filter(|n| **n > 0).map(|n| *n as f64).collect();
        let (all, least) = (there.iter().sum::<f64>(), there.iter().copied().fold(f64::INFINITY, f64::min));
        let even = all / there.len().max(1) as f64;
        let power = match self {
            Self::None => return None,
            Self::Auto if least >= RARE * even => return None,
            Self::Auto | Self::Root => 0.5,
            Self::Balanced => 1.0,
        };
        if there.len() < 2 {
            return None;
        }
        let raw = |n: f64| (even / n).powf(power);
        let common = there.iter().copied().map(raw).fold(f64::INFINITY, f64::min);
        let weight = |n: u64| if n == 0 { 0.0 } else { raw(n as f64).min(MOST * common) };
        let sum: f64 = counts.iter().map(|n| *n as f64 * weight(*n)).sum();
        // A class that is never there has nothing to be weighted: 1 says so.
        Some(counts.iter().map(|n| if *n == 0 { 1.0 } else { (weight(*n) * all / sum) as f32 }).collect())
    }
}

/// What is said of them: `` `spam` is 1.2 % of 5000 … ``.
pub fn told(names: &[String], counts: &[u64], weights: &[f32]) -> String {
    let there = || (0..counts.len().min(names.len())).filter(|i| counts[*i] > 0);
    let (rare, common) = (there().min_by_key(|i| counts[*i]), there().max_by_key(|i| counts[*i]));
    let (Some(rare), Some(common)) = (rare, common) else { return String::new() };
    let all: u64 = counts.iter().sum();
    let share = |i: usize| 100.0 * counts[i] as f64 / all as f64;
    let of = |i: usize| weights.get(i).copied().unwrap_or(1.0);
    format!(
        "classes are uneven (`{}` is {:.2} % of {all}, `{}` {:.1} %): rare ones count more, from {:.2} to {:.2} times; \
         train.class_weights=none lets all count the same",
        names[rare],
        share(rare),
        names[common],
        share(common),
        of(common),
        of(rare)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_classes_have_no_weights_and_rare_ones_do() {
        assert_eq!(ClassWeights::Auto.of(&[400, 600, 500]), None);
        assert_eq!(ClassWeights::Auto.of(&[850, 150]), None, "three tenths of an even share");
        assert_eq!(ClassWeights::None.of(&[990, 10]), None);
        assert_eq!(ClassWeights::Balanced.of(&[10]), None, "one class alone");
        let weights = ClassWeights::Auto.of(&[950, 50]).expect("rare");
        assert!((weights[1] / weights[0] - (19f32).sqrt()).abs() < 1e-4, "{weights:?}");
    }

    #[test]
    fn the_mean_weight_of_an_example_is_one() {
        for how in [ClassWeights::Root, ClassWeights::Balanced] {
            for counts in [vec![9000, 10, 0, 500], vec![1, 1_000_000], vec![3, 2]] {
                let weights = how.of(&counts).expect("weights");
                let all: u64 = counts.iter().sum();
                let mean: f64 = counts.iter().zip(&weights).map(|(n, w)| *n as f64 * f64::from(*w)).sum();
                assert!((mean / all as f64 - 1.0).abs() < 1e-5, "{how:?} {counts:?}: {weights:?}");
                let there: Vec<f32> = weights.iter().zip(&counts).filter(|(_, n)| **n > 0).map(|(w, _)| *w).collect();
                let (low, high) = there.iter().fold((f32::MAX, 0f32), |(l, h), w| (l.min(*w), h.max(*w)));
                assert!(high / low <= MOST as f32 * 1.0001, "{weights:?}");
            }
        }
    }

    #[test]
    fn it_is_said_which_class_is_rare() {
        let names = ["ham".to_string(), "spam".to_string()];
        let weights = ClassWeights::Auto.of(&[960, 40]).expect("rare");
        let said = told(&names, &[960, 40], &weights);
        assert!(said.starts_with("classes are uneven (`spam` is 4.00 % of 1000, `ham` 96.0 %)"), "{said}");
        assert!(said.contains("from 0.87 to 4.24 times"), "{said}");
    }
}
