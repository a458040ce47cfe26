//! Top-k (Fan et al. 2018): the k most probable tokens stay.
//!
//! Tokens as good as the k-th stay too, as in transformers; llama.cpp cuts such ties by the order of its sort. The k-th is
//! found by selection, in time linear in the vocabulary.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps the k most probable tokens.
    TopK = "top_k" ["k"],
    about "keep the k most probable tokens", off "0 keeps all tokens", example "top_k 40",
    {
        k: usize, in Whole(0), "how many tokens stay";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for TopK {
    fn apply(&self, row: &mut Row, _: &History) {
        let k = self.k.max(self.keep);
        if !self.idle() && k < row.alive().len() {
            let floor = row.nth(k);
            row.keep(|_, x| x >= floor);
        }
    }

    fn idle(&self) -> bool {
        self.k == 0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(k: usize) -> TopK {
        TopK::new(k, 1).unwrap()
    }

    /// llama.cpp's own table, and ours.
    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        probabilities(of(1), &[(p, &[0.0, 0.0, 0.0, 1.0]), (&[1.0], &[1.0])]);
        probabilities(of(3), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        probabilities(of(4), &[(p, p)]);
        probabilities(of(9), &[(p, p)]);
        probabilities(of(0), &[(p, p)]);
        // Equals of the last one stay.
        probabilities(of(1), &[(&[0.25; 4], &[0.25; 4]), (&[0.2, 0.4, 0.4], &[0.0, 0.5, 0.5])]);
    }

    #[test]
    fn tokens_that_are_out_are_not_counted() {
        logits(of(2), &History::default(), &[NO, 1.0, NO, 3.0, 2.0], &[NO, NO, NO, 3.0, 2.0]);
        logits(TopK::new(1, 2).unwrap(), &History::default(), &[1.0, 3.0, 2.0], &[NO, 3.0, 2.0]);
    }

    #[test]
    fn a_large_k_goes_by_selection() {
        let before: Vec<f32> = (0..1000).map(|i| ((i * 377) % 1000) as f32).collect();
        let after: Vec<f32> = before.iter().map(|x| if *x >= 700.0 { *x } else { NO }).collect();
        logits(of(300), &History::default(), &before, &after);
    }
}
