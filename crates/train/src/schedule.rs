//! The learning rate as a pure function of the step. t counts from 1; w is the warm-up, n the last step, η the peak.
//!
//! Every schedule rises in a line over the first w steps, `η·t/w`, and then:
//!
//! | name | after the warm-up |
//! |---|---|
//! | constant | `η` |
//! | linear | down to `floor·η` at n |
//! | cosine | `floor·η + (η − floor·η)·(1 + cos(π·(t − w)/(n − w)))/2` |
//! | inverse-sqrt | `η·√(w/t)`: the 2017 paper's, with its peak said aloud |
//! | noam | `η·C^−½·min(t^−½, t·w^−3⁄²)`: the 2017 paper's own words, η a factor, C the width |

use serde::{Deserialize, Serialize};

/// A family of curves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// stays at the peak
    Constant,
    /// falls in a line
    Linear,
    /// falls as half a wave
    #[default]
    Cosine,
    /// falls as 1/√t
    InverseSqrt,
    /// the 2017 paper's formula
    Noam,
}

/// The learning rate of each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// how it falls
    pub curve: Curve,
    /// η
    pub rate: f64,
    /// w
    pub warmup: u64,
    /// the share of η that a falling curve ends at
    pub floor: f64,
    /// n
    pub steps: u64,
    /// C, which the paper's formula asks for
    pub width: usize,
}

impl Schedule {
    /// The rate of step `t`, from 1.
    ///
    /// ```
    /// use qkv_train::{Curve, Schedule};
    /// let s = Schedule { curve: Curve::Cosine, rate: 1.0, warmup: 10, floor: 0.1, steps: 110, width: 64 };
    /// assert_eq!([s.at(5), s.at(10)], [0.5, 1.0]);
    /// assert!((s.at(60) - 0.55).abs() < 1e-9 && (s.at(110) - 0.1).abs() < 1e-9); // half way, and the end
    /// ```
    pub fn at(&self, t: u64) -> f64 {
        let (t, w) = (t.max(1) as f64, self.warmup as f64);
        if self.curve == Curve::Noam {
            let fall = t.powf(-0.5).min(if w > 0.0 { t * w.powf(-1.5) } else { f64::INFINITY });
            return self.rate * (self.width.max(1) as f64).powf(-0.5) * fall;
        }
        if t <= w {
            return self.rate * t / w;
        }
        let gone = ((t - w) / (self.steps as f64 - w).max(1.0)).clamp(0.0, 1.0);
        let between = |share: f64| self.rate * (self.floor + (1.0 - self.floor) * share);
        match self.curve {
            Curve::Constant | Curve::Noam => self.rate,
            Curve::Linear => between(1.0 - gone),
            Curve::Cosine => between((1.0 + (std::f64::consts::PI * gone).cos()) / 2.0),
            Curve::InverseSqrt => self.rate * (w.max(1.0) / t).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(curve: Curve) -> Schedule {
        Schedule { curve, rate: 2.0, warmup: 4, floor: 0.0, steps: 100, width: 512 }
    }

    #[test]
    fn every_curve_rises_to_its_peak_and_never_again() {
        for curve in [Curve::Constant, Curve::Linear, Curve::Cosine, Curve::InverseSqrt, Curve::Noam] {
            let s = of(curve);
            assert!((1..4).all(|t| s.at(t) < s.at(t + 1)), "{curve:?}");
            assert!((4..99).all(|t| s.at(t) >= s.at(t + 1) && s.at(t) > 0.0), "{curve:?}");
        }
        assert!(of(Curve::Linear).at(100).abs() < 1e-12 && of(Curve::Cosine).at(1000).abs() < 1e-12);
    }

    #[test]
    fn the_paper_peaks_where_its_two_lines_meet() {
        let s = Schedule { rate: 1.0, warmup: 4000, ..of(Curve::Noam) };
        assert!((s.at(4000) - 1.0 / (512f64 * 4000.0).sqrt()).abs() < 1e-12);
        assert!((s.at(16_000) - s.at(4000) / 2.0).abs() < 1e-12);
        let same = Schedule { curve: Curve::InverseSqrt, rate: s.at(4000), ..s };
        assert!([7, 4000, 12_345].iter().all(|t| (same.at(*t) / s.at(*t) - 1.0).abs() < 1e-12));
    }

    #[test]
    fn no_warm_up_is_no_division_by_zero() {
        for curve in [Curve::Constant, Curve::Linear, Curve::Cosine, Curve::InverseSqrt, Curve::Noam] {
            let s = Schedule { warmup: 0, steps: 0, ..of(curve) };
            assert!([0, 1, 5].iter().all(|t| s.at(*t).is_finite()), "{curve:?}");
        }
    }
}
