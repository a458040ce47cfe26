//! Epsilon cutoff (Hewitt et al. 2022): a token stays if its probability is at least ε.
//!
//! If none is, the best ones stay: always at least `keep`.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps tokens of probability ε or more.
    Epsilon = "epsilon_cutoff" ["epsilon"],
    about "keep tokens of at least the probability epsilon", off "0 keeps all tokens", example "epsilon_cutoff 0.0003",
    {
        epsilon: f64, in From(0.0, 1.0), "the lowest probability that stays";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for Epsilon {
    fn apply(&self, row: &mut Row, _: &History) {
        if !self.idle() {
            row.cut(self.keep, |weight, total| weight >= self.epsilon * total);
        }
    }

    fn idle(&self) -> bool {
        self.epsilon == 0.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(epsilon: f64) -> Epsilon {
        Epsilon::new(epsilon, 1).unwrap()
    }

    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        probabilities(of(0.0), &[(p, p)]);
        probabilities(of(0.05), &[(p, p)]);
        probabilities(of(0.25), &[(p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        // None reaches it: the best stays, with its equals.
        probabilities(of(0.9), &[(p, &[0.0, 0.0, 0.0, 1.0]), (&[0.25; 4], &[0.25; 4])]);
        probabilities(of(1.0), &[(p, &[0.0, 0.0, 0.0, 1.0]), (&[1.0], &[1.0])]);
        probabilities(Epsilon::new(0.9, 2).unwrap(), &[(p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        logits(of(0.5), &History::default(), &[NO, 1.0], &[NO, 1.0]);
    }
}
