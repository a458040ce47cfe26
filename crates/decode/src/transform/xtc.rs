//! XTC, exclude top choices: now and then, all tokens above a threshold but the least probable of them are taken out.
//!
//! With the given probability, of the tokens with p ≥ threshold only the last one stays (with everything below it). That
//! breaks clichés and keeps sense, because something plausible always remains. Above 0.5 no two tokens can pass, so it is off.
//! The die is the uniform number at the key of this seed and step, handed in with [`History`]: the same key, the same fall.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Takes out the most probable tokens, with a probability.
    Xtc = "xtc" [],
    about "at times take out all tokens above a threshold but the least probable of them",
    off "probability 0 or a threshold above 0.5 never takes any", example "xtc 0.1 probability=0.5",
    {
        threshold: f64, in From(0.0, 1.0), "the probability from which a token counts as a top choice";
        probability: f64, in From(0.0, 1.0), "how often it happens";
    }
}

impl Transform for Xtc {
    fn apply(&self, row: &mut Row, said: &History) {
        let n = row.alive().len();
        if self.idle() || n < 2 || said.key.named("xtc").uniform(0) as f64 >= self.probability {
            return;
        }
        let scale = row.scale();
        let mut top = 0;
        while top < n && scale.probability(row.at(top)) >= self.threshold {
            top += 1;
        }
        if top > 1 {
            let last = row.ranked(top)[top - 1];
            let ceiling = row.logit(last);
            row.keep(|id, x| x < ceiling || x == ceiling && id >= last);
        }
    }

    fn idle(&self) -> bool {
        self.probability == 0.0 || self.threshold > 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;
    use qkv_base::Key;

    fn always(threshold: f64) -> Xtc {
        Xtc::new(threshold, 1.0).unwrap()
    }

    /// llama.cpp's own table, and ours.
    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.4, 0.3, 0.2, 0.1];
        probabilities(always(0.09), &[(p, &[0.0, 0.0, 0.0, 1.0])]);
        probabilities(always(0.19), &[(p, &[0.0, 0.0, 2.0 / 3.0, 1.0 / 3.0])]);
        probabilities(always(0.29), &[(p, &[0.0, 0.5, 2.0 / 6.0, 1.0 / 6.0])]);
        probabilities(always(0.39), &[(p, p)]);
        probabilities(always(0.6), &[(&[0.9, 0.1], &[0.9, 0.1])]);
        probabilities(always(0.0), &[(&[0.25; 4], &[0.0, 0.0, 0.0, 1.0]), (&[1.0], &[1.0])]);
        logits(always(0.1), &History::default(), &[NO, 1.0], &[NO, 1.0]);
    }

    #[test]
    fn the_die_is_the_keys() {
        let falls = |step| {
            let said = History { key: Key::new(5, step, 0), ..History::default() };
            let mut row = Row::of(&[1.0, 1.0]).unwrap();
            Xtc::new(0.3, 0.25).unwrap().apply(&mut row, &said);
            row.alive().len() == 1
        };
        let count = (0..4000).filter(|step| falls(*step)).count();
        assert!((900..1100).contains(&count), "{count} of 4000 at 0.25"); // ± 3.6 deviations
        assert!((0..50).all(|step| falls(step) == falls(step)));
    }
}
