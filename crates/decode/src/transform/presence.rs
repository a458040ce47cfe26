//! Presence and frequency penalties: x ← x − α for what was said at all, x ← x − β · (times it was said).
//!
//! The two of OpenAI's API and llama.cpp. Here they count the window of everything said, as llama.cpp does.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Takes the same from the logit of everything that was said.
    Presence = "presence_penalty" ["presence"],
    about "take a fixed amount from the logit of each token that was said", off "0 changes nothing",
    example "presence_penalty 0.5",
    {
        penalty: f64, in From(-100.0, 100.0), "how much is taken";
        window: usize = "0", in Whole(0), "how many of the last tokens count; 0: all, the prompt included";
    }
}

step! {
    /// Takes from the logit of a token for each time it was said.
    Frequency = "frequency_penalty" ["frequency"],
    about "take an amount from the logit of a token for each time it was said", off "0 changes nothing",
    example "frequency_penalty 0.2",
    {
        penalty: f64, in From(-100.0, 100.0), "how much is taken each time";
        window: usize = "0", in Whole(0), "how many of the last tokens count; 0: all, the prompt included";
    }
}

impl Transform for Presence {
    fn apply(&self, row: &mut Row, said: &History) {
        if !self.idle() {
            row.tally(said.last(self.window), |x, _| (x as f64 - self.penalty) as f32);
        }
    }

    fn idle(&self) -> bool {
        self.penalty == 0.0
    }
}

impl Transform for Frequency {
    fn apply(&self, row: &mut Row, said: &History) {
        if !self.idle() {
            row.tally(said.last(self.window), |x, times| (x as f64 - self.penalty * times as f64) as f32);
        }
    }

    fn idle(&self) -> bool {
        self.penalty == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let said = History { prompt: &[0, 1], generated: &[2, 2, 99], ..History::default() };
        let x = [1.0, -1.0, 1.0, 1.0];
        logits(Presence::new(0.5, 0).unwrap(), &said, &x, &[0.5, -1.5, 0.5, 1.0]);
        logits(Frequency::new(0.5, 0).unwrap(), &said, &x, &[0.5, -1.5, 0.0, 1.0]);
        logits(Frequency::new(-0.5, 2).unwrap(), &said, &x, &[1.0, -1.0, 1.5, 1.0]);
        logits(Presence::new(0.5, 4).unwrap(), &said, &[1.0, NO, 1.0], &[1.0, NO, 0.5]);
        logits(Presence::new(0.0, 0).unwrap(), &said, &x, &x);
        logits(Frequency::new(0.5, 0).unwrap(), &History::default(), &x, &x);
        assert!(Presence::new(f64::NAN, 0).is_err() && Frequency::new(101.0, 0).is_err());
    }

    /// llama.cpp's penalties in one: repeat, then frequency and presence together.
    #[test]
    fn after_the_repetition_penalty_it_is_llama_cpps() {
        let said = History { generated: &[0, 0], ..History::default() };
        let mut row = Row::of(&[4.0]).unwrap();
        super::super::Repetition::new(2.0, 0).unwrap().apply(&mut row, &said);
        Frequency::new(0.3, 0).unwrap().apply(&mut row, &said);
        Presence::new(0.5, 0).unwrap().apply(&mut row, &said);
        assert!((row.logit(0) - (4.0 / 2.0 - 2.0 * 0.3 - 0.5)).abs() < 1e-6);
    }
}
