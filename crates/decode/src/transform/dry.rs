//! DRY, don't repeat yourself: a token that would continue a repetition is penalised, the more the longer it already is.
//!
//! If the last L tokens also stand somewhere earlier, the token t that followed them there gets
//! x_t ← x_t − multiplier · base^(L − allowed), L ≥ allowed the longest such match. A repetition does not reach back over a
//! breaker (end of line, quotation mark, …), and a breaker of one token is never penalised. As in llama.cpp.
//!
//! The match lengths at all places are the Z-function of the text read backwards, which takes time linear in its length.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Penalises tokens that would continue a repetition.
    Dry = "dry" [],
    about "penalise a token that would continue a repetition, more for longer ones", off "0 penalises nothing",
    example "dry 0.8 allowed=3",
    {
        multiplier: f64, in From(0.0, f64::INFINITY), "the penalty of the shortest repetition";
        base: f64 = "1.75", in From(1.0, f64::INFINITY), "what each further token multiplies it with";
        allowed: usize = "2", in Whole(1), "how long a repetition may become without a penalty";
        range: usize = "0", in Whole(0), "how many of the last tokens count; 0: all, the prompt included";
        breakers: Vec<Vec<u32>> = "", in Sequences, "token sequences over which no repetition reaches";
    }
}

impl Transform for Dry {
    fn apply(&self, row: &mut Row, said: &History) {
        if self.idle() {
            return;
        }
        let n = if self.range == 0 { said.len() } else { said.len().min(self.range) };
        let reach = self.reach(said, n);
        if reach < self.allowed {
            return;
        }
        let back = |i: usize| said.at(said.len() - 1 - i).unwrap_or(u32::MAX);
        let mut match_lengths = std::mem::take(&mut row.scratch);
        z_function(n, back, &mut match_lengths);
        let repeats = (1..n).filter_map(|k| {
            let length = reach.min(match_lengths[k] as usize);
            let token = back(k - 1);
            (length >= self.allowed && !self.breakers.iter().any(|b| b[..] == [token])).then_some((token, length as u32))
        });
        row.record(repeats, u32::max, |x, length| self.penalised(x, length as usize));
        row.scratch = match_lengths;
    }

    fn idle(&self) -> bool {
        self.multiplier == 0.0
    }
}

impl Dry {
    /// How far back a repetition may reach from the end: to the last breaker, the longest one if several start there.
    fn reach(&self, said: &History, n: usize) -> usize {
        let first = said.len() - n;
        let stands = |b: &[u32], at: usize| at + b.len() <= said.len() && (0..b.len()).all(|i| said.at(at + i) == Some(b[i]));
        for at in (first..said.len()).rev() {
            let longest = self.breakers.iter().filter(|b| stands(b, at)).map(Vec::len).max();
            if let Some(length) = longest {
                return said.len() - at - length;
            }
        }
        n
    }

    /// The exponent stops where the power would leave f32.
    fn penalised(&self, x: f32, length: usize) -> f32 {
        let power = ((length - self.allowed) as f64 * self.base.ln()).min((f32::MAX as f64).ln()).exp();
        (x as f64 - self.multiplier * power).max(-(f32::MAX as f64)) as f32
    }
}

/// For each k, how many symbols from k on equal those from 0 on; z[0] is left 0.
fn z_function(n: usize, symbol: impl Fn(usize) -> u32, z: &mut Vec<u32>) {
    z.clear();
    z.resize(n, 0);
    let (mut left, mut right) = (0, 0); // the match that reaches furthest is left..right
    for k in 1..n {
        let mut length = if k < right { (right - k).min(z[k - left] as usize) } else { 0 };
        while k + length < n && symbol(length) == symbol(k + length) {
            length += 1;
        }
        if k + length > right {
            (left, right) = (k, k + length);
        }
        z[k] = length as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;
    use proptest::prelude::*;

    fn of(allowed: usize, range: usize, breakers: &[&[u32]]) -> Dry {
        Dry::new(1.0, 2.0, allowed, range, breakers.iter().map(|b| b.to_vec()).collect()).unwrap()
    }

    fn after(prompt: &[u32]) -> History<'_> {
        History { prompt, ..History::default() }
    }

    /// a b c c b c y a b c, as a = 0, b = 1, c = 2, y = 3: c would repeat 3, b 1, y 2.
    #[test]
    fn by_hand() {
        let text = [0, 1, 2, 2, 1, 2, 3, 0, 1, 2];
        logits(of(1, 0, &[]), &after(&text), &[0.0; 5], &[0.0, -1.0, -4.0, -2.0, 0.0]);
        logits(of(2, 0, &[]), &after(&text), &[0.0; 5], &[0.0, 0.0, -2.0, -1.0, 0.0]);
        logits(of(4, 0, &[]), &after(&text), &[0.0; 5], &[0.0; 5]);
        // The last six see only b c y: 2 before y.
        logits(of(1, 6, &[]), &after(&text), &[0.0; 5], &[0.0, 0.0, 0.0, -2.0, 0.0]);
        // A match stops at the breaker a; a match of two is left.
        logits(of(1, 0, &[&[0]]), &after(&text), &[0.0; 5], &[0.0, -1.0, -2.0, -2.0, 0.0]);
        // The breaker y itself goes free and stops nothing nearer than itself.
        logits(of(1, 0, &[&[3]]), &after(&text), &[0.0; 5], &[0.0, -1.0, -4.0, 0.0, 0.0]);
        // The breaker a b leaves one token to match.
        logits(of(1, 0, &[&[0, 1]]), &after(&text), &[0.0; 5], &[0.0, -1.0, -1.0, -1.0, 0.0]);
        logits(of(2, 0, &[&[0, 1]]), &after(&text), &[0.0; 5], &[0.0; 5]);
        logits(of(1, 0, &[]), &after(&text), &[0.0, NO, NO, 1.0], &[0.0, NO, NO, -1.0]);
    }

    /// The first three are llama.cpp's own table: logits ln p, multiplier 1, base 1.1.
    #[test]
    fn llama_cpps_table() {
        let dry = |text: &[u32], allowed, range, p: &[f64], breakers: &[&[u32]], want: &[f64]| {
            let breakers = breakers.iter().map(|b| b.to_vec()).collect();
            let mut row = Row::of(&p.iter().map(|p| p.ln() as f32).collect::<Vec<_>>()).unwrap();
            Dry::new(1.0, 1.1, allowed, range, breakers).unwrap().apply(&mut row, &after(text));
            let scale = row.scale();
            for (id, want) in want.iter().enumerate() {
                assert!((scale.probability(row.logits()[id]) - want).abs() < 1e-5, "{text:?}: {:?}", row.logits());
            }
        };
        dry(&[0, 1], 2, 4, &[0.25; 4], &[], &[0.25; 4]);
        // 0 1 2 0 1: after 0 1 came 2, length 2 = allowed, so e^−1 of its weight.
        let e = (-1f64).exp();
        dry(&[0, 1, 2, 0, 1], 2, 5, &[0.25; 4], &[], &[1.0 / (3.0 + e), 1.0 / (3.0 + e), e / (3.0 + e), 1.0 / (3.0 + e)]);
        dry(&[0, 1, 3, 4, 0, 1], 2, 6, &[0.2; 5], &[&[3]], &[0.2; 5]);
        // 0 1 2 3 4 0 1 with 2 next: base^0 again.
        let s = 4.0 + e;
        dry(&[0, 1, 2, 3, 4, 0, 1], 2, 7, &[0.2; 5], &[], &[1.0 / s, 1.0 / s, e / s, 1.0 / s, 1.0 / s]);
    }

    #[test]
    fn long_repetitions_stay_finite() {
        let mut row = Row::of(&[0.0, 0.0]).unwrap();
        let text = vec![0; 5000];
        Dry::new(1e30, 3.0, 2, 0, vec![]).unwrap().apply(&mut row, &after(&text));
        assert_eq!((row.logit(0), row.alive()), (-f32::MAX, &[0, 1][..]));
        let mut row = Row::of(&[0.0]).unwrap();
        of(1, 0, &[]).apply(&mut row, &History::default());
        assert_eq!(row.logit(0), 0.0);
    }

    proptest! {
        #[test]
        fn the_z_function_is_the_plain_one(text in prop::collection::vec(0u32..3, 0..40)) {
            let mut z = Vec::new();
            z_function(text.len(), |i| text[i], &mut z);
            for k in 1..text.len() {
                let plain = text.iter().zip(&text[k..]).take_while(|(a, b)| a == b).count();
                prop_assert_eq!(z[k] as usize, plain);
            }
        }
    }
}
