//! Min-p (Nguyen et al. 2024): a token stays if its probability is at least the share p of the best one's.
//!
//! p_i ≥ p · p_max: a sure row keeps few tokens, an unsure one many, without a sort.

use super::{History, Transform, sheet::step};
use crate::row::{Row, exp};

step! {
    /// Keeps tokens at least p times as probable as the best.
    MinP = "min_p" ["minp"],
    about "keep tokens at least p times as probable as the best", off "0 keeps all tokens", example "min_p 0.05",
    {
        p: f64, in From(0.0, 1.0), "the share of the best probability";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for MinP {
    fn apply(&self, row: &mut Row, _: &History) {
        if !self.idle() {
            let (high, floor) = (row.highest(), row.nth(self.keep));
            row.keep(|_, x| x >= floor || exp(x - high) as f64 >= self.p);
        }
    }

    fn idle(&self) -> bool {
        self.p == 0.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(p: f64) -> MinP {
        MinP::new(p, 1).unwrap()
    }

    /// llama.cpp's own table, and ours.
    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        probabilities(of(0.0), &[(p, p)]);
        probabilities(of(0.24), &[(p, p)]);
        probabilities(of(0.26), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        probabilities(of(0.51), &[(p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        probabilities(of(0.76), &[(p, &[0.0, 0.0, 0.0, 1.0])]);
        probabilities(of(1.0), &[(p, &[0.0, 0.0, 0.0, 1.0]), (&[0.25; 4], &[0.25; 4]), (&[1.0], &[1.0])]);
        probabilities(MinP::new(1.0, 3).unwrap(), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        logits(of(0.5), &History::default(), &[NO, 1.0], &[NO, 1.0]);
    }
}
