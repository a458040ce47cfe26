//! What one pass over a row says: how surprised the network was by each target, and what it would have said instead.

use qkv_data::Batch;
use qkv_data::objective::IGNORED;

/// With more classes than this a target is a word of a vocabulary.
const MOST_CLASSES: usize = 1000;

/// One row of a batch, looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Look {
    /// `Σ −ln p(target)`, in nats
    pub(crate) nats: f64,
    /// each target that counts, with what was thought likeliest
    pub(crate) said: Vec<(i64, usize)>,
    /// where a row has one target, which is a class: how probable each class was
    pub(crate) classes: Vec<f64>,
}

impl Look {
    /// The `row`-th row of a batch whose scores are `rows`, `v` for each target.
    pub(crate) fn at(batch: &Batch, row: usize, rows: &[f32], v: usize) -> Self {
        let width = batch.targets.len() / batch.rows.max(1);
        let mut look = Self::default();
        for t in row * width..(row + 1) * width {
            let (Some(target), Some(scores)) = (batch.targets.get(t), rows.get(t * v..(t + 1) * v)) else { continue };
            if let Some(right) = usize::try_from(*target).ok().filter(|_| *target != IGNORED) {
                look.nats += surprise(scores, right);
                look.said.push((*target, largest(scores)));
                if width == 1 && v <= MOST_CLASSES {
                    look.classes = (0..v).map(|class| (-surprise(scores, class)).exp()).collect();
                }
            }
        }
        look
    }

    /// How many targets count.
    pub(crate) fn targets(&self) -> usize {
        self.said.len()
    }

    /// How many were thought likeliest.
    pub(crate) fn right(&self) -> usize {
        self.said.iter().filter(|(target, said)| usize::try_from(*target) == Ok(*said)).count()
    }
}

/// Where the largest number stands; the first of equals.
fn largest(row: &[f32]) -> usize {
    row.iter().enumerate().fold((0, f32::NEG_INFINITY), |best, (i, x)| if *x > best.1 { (i, *x) } else { best }).0
}

/// `−ln softmax(scores)[right]`
fn surprise(scores: &[f32], right: usize) -> f64 {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|s| f64::from((s - top).exp())).sum();
    let own = scores.get(right).copied().unwrap_or(f32::NEG_INFINITY);
    sum.ln() + f64::from(top) - f64::from(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_coin_surprises_by_one_bit() {
        assert!((surprise(&[3.0, 3.0], 1) - 2f64.ln()).abs() < 1e-12);
        assert!(surprise(&[1000.0, 0.0], 0).abs() < 1e-12);
    }

    #[test]
    fn targets_that_do_not_count_are_passed_over() {
        let batch = Batch { rows: 2, targets: vec![1, IGNORED, 0, 0], ..Batch::default() };
        let rows = [0.0, 5.0, 9.0, 9.0, 5.0, 0.0, 0.0, 5.0];
        let one = Look::at(&Batch { rows: 1, targets: vec![1], ..Batch::default() }, 0, &[0.0, 3f32.ln()], 2);
        assert!((one.classes[0] - 0.25).abs() < 1e-6 && (one.classes[1] - 0.75).abs() < 1e-6, "{one:?}");
        let look = Look::at(&batch, 0, &rows, 2);
        assert!(look.classes.is_empty());
        assert_eq!((look.targets(), look.right()), (1, 1));
        let look = Look::at(&batch, 1, &rows, 2);
        assert_eq!((look.targets(), look.right(), look.said), (2, 1, vec![(0, 0), (0, 1)]));
    }
}
