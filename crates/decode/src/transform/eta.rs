//! Eta cutoff (Hewitt et al. 2022): like epsilon, but the bar comes down where the row is unsure.
//!
//! η = min(ε, √ε · e^(−H)) with the entropy H; a token stays if its probability is at least η, and the best ones stay
//! anyway. (The parameter is ε, as in the paper and in transformers, whose option is called `eta_cutoff`.)

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps tokens above a bar that falls with the entropy.
    Eta = "eta_cutoff" ["eta"],
    about "keep tokens above a bar that starts at epsilon and falls with the entropy", off "0 keeps all tokens",
    example "eta_cutoff 0.0003",
    {
        epsilon: f64, in From(0.0, 1.0), "the bar of a row that is sure";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for Eta {
    fn apply(&self, row: &mut Row, _: &History) {
        if !self.idle() {
            let eta = self.epsilon.min(self.epsilon.sqrt() * (-row.entropy()).exp());
            row.cut(self.keep, |weight, total| weight >= eta * total);
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

    fn of(epsilon: f64) -> Eta {
        Eta::new(epsilon, 1).unwrap()
    }

    #[test]
    fn by_hand() {
        // H = 1.2799, e^−H = 0.27808. ε = 0.16: √ε e^−H = 0.1112 is the lower.
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        probabilities(of(0.16), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        // ε = 0.12: 0.0963, all stay, though epsilon_cutoff 0.12 would cut the first.
        probabilities(of(0.12), &[(p, p)]);
        // ε = 0.05 < 0.0622: the bar is ε itself.
        probabilities(of(0.05), &[(&[0.04, 0.46, 0.5], &[0.0, 46.0 / 96.0, 50.0 / 96.0])]);
        probabilities(of(0.0), &[(p, p)]);
        probabilities(of(1.0), &[(&[1.0], &[1.0]), (p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        // Equals: e^−H = 1/4 is just their probability, which the rounding may miss; they are the best and stay.
        probabilities(of(1.0), &[(&[0.25; 4], &[0.25; 4])]);
        logits(of(0.5), &History::default(), &[NO, 1.0], &[NO, 1.0]);
    }
}
