//! Locally typical sampling (Meister et al. 2022): tokens stay whose surprise is near the expected one.
//!
//! With H = −Σ p ln p, tokens are taken in the order of |−ln p − H| until their probabilities sum to the mass p; the token
//! that reaches it stays, and so do its equals (as in transformers). The most probable token can be among those cut.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps the tokens whose surprise is closest to the entropy.
    Typical = "typical" ["typical_p", "typ_p"],
    about "keep tokens whose surprise is closest to the entropy, up to a share p", off "1 keeps all tokens",
    example "typical 0.9",
    {
        p: f64, in Above(0.0, 1.0), "the share of the probability";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for Typical {
    fn apply(&self, row: &mut Row, _: &History) {
        if self.idle() || row.alive().len() < 2 {
            return;
        }
        let (scale, entropy) = (row.scale(), row.entropy());
        let strange = |x: f32| (-scale.log_probability(x) - entropy).abs() as f32;
        let (mut taken, mut sum) = (0, 0.0);
        let last = row.visit(strange, |x| {
            (taken, sum) = (taken + 1, sum + scale.weight(x));
            taken < self.keep || sum < self.p * scale.total
        });
        row.keep(|_, x| last.is_none_or(|last| strange(x) <= last));
    }

    fn idle(&self) -> bool {
        self.p == 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(p: f64) -> Typical {
        Typical::new(p, 1).unwrap()
    }

    #[test]
    fn by_hand() {
        // llama.cpp's own tables. H = 0.099; −ln p = 0.0308, 3.9, 4.6: the sure one is the most typical.
        probabilities(of(0.5), &[(&[0.97, 0.01, 0.01, 0.01], &[1.0, 0.0, 0.0, 0.0])]);
        // H = 1.3322 (0.4, 0.2, 0.2, 0.2): |0.916 − H| = 0.416 for 0.4 and 0.277 for the others.
        probabilities(of(0.5), &[(&[0.4, 0.2, 0.2, 0.2], &[0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0])]);
        // H = 1.2799 (0.4, 0.3, 0.2, 0.1): strangeness 0.364, 0.076, 0.330, 1.023; 0.3 + 0.2 reach 0.45.
        probabilities(of(0.45), &[(&[0.4, 0.3, 0.2, 0.1], &[0.0, 0.6, 0.4, 0.0])]);
        probabilities(of(0.25), &[(&[0.4, 0.3, 0.2, 0.1], &[0.0, 1.0, 0.0, 0.0])]);
        probabilities(of(0.55), &[(&[0.1, 0.2, 0.3, 0.4], &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        probabilities(of(1.0), &[(&[0.4, 0.3, 0.2, 0.1], &[0.4, 0.3, 0.2, 0.1])]);
        probabilities(of(0.1), &[(&[0.25; 4], &[0.25; 4]), (&[1.0], &[1.0])]);
        probabilities(Typical::new(0.1, 3).unwrap(), &[(&[0.4, 0.3, 0.2, 0.1], &[4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0, 0.0])]);
    }

    #[test]
    fn what_is_out_does_not_count() {
        let (a, b, c) = (0.4f32.ln(), 0.3f32.ln(), 0.2f32.ln());
        logits(of(0.45), &History::default(), &[NO, a, NO, b, c, 0.1f32.ln()], &[NO, NO, NO, b, c, NO]);
        logits(of(0.45), &History::default(), &[NO, a], &[NO, a]);
        assert!(Typical::new(0.0, 1).is_err());
    }
}
