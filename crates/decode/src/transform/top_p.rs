//! Top-p, the nucleus (Holtzman et al. 2020): the fewest tokens whose probabilities sum to p or more stay.
//!
//! From the most probable down, tokens stay until the sum reaches p; the one that reaches it stays too, so one always
//! stays. Among equals the lower id comes first (the other tools leave that to the luck of their sorts).

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps the fewest tokens that hold a share p of the probability.
    TopP = "top_p" ["p", "nucleus"],
    about "keep the fewest tokens that hold a share p of the probability", off "1 keeps all tokens", example "top_p 0.95",
    {
        p: f64, in From(0.0, 1.0), "the share of the probability";
        keep: usize = "1", in Whole(1), "how many tokens stay at least";
    }
}

impl Transform for TopP {
    fn apply(&self, row: &mut Row, _: &History) {
        let n = row.alive().len();
        if self.idle() || n < 2 {
            return;
        }
        let scale = row.scale();
        let (mut taken, mut sum) = (0, 0.0);
        while taken < n && (taken < self.keep || sum < self.p * scale.total) {
            sum += scale.weight(row.at(taken));
            taken += 1;
        }
        row.keep_best(taken.max(1));
    }

    fn idle(&self) -> bool {
        self.p == 1.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(p: f64) -> TopP {
        TopP::new(p, 1).unwrap()
    }

    /// The first four are llama.cpp's own table.
    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        probabilities(of(0.0), &[(p, &[0.0, 0.0, 0.0, 1.0])]);
        probabilities(of(0.7), &[(p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        probabilities(of(0.8), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        probabilities(of(1.0), &[(p, p)]);
        probabilities(of(0.95), &[(p, p), (&[1.0], &[1.0])]);
        // Four equals, p = 0.4: two of them, the lower ids.
        probabilities(of(0.4), &[(&[0.25; 4], &[0.5, 0.5, 0.0, 0.0])]);
        probabilities(TopP::new(0.0, 2).unwrap(), &[(p, &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0])]);
        probabilities(TopP::new(0.0, 9).unwrap(), &[(p, p)]);
    }

    #[test]
    fn one_token_left_stays() {
        logits(of(0.5), &History::default(), &[NO, 1.0, NO], &[NO, 1.0, NO]);
        logits(of(0.0), &History::default(), &[NO, 1.0, 1.0], &[NO, 1.0, NO]);
    }
}
