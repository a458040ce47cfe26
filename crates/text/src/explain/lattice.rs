//! Unigram by the book: every piece has a log-probability, a way to cut a word has the sum of its pieces', and the best way
//! through the lattice of all of them is taken (Viterbi). Here the [`WAYS`] best are kept, and what share of the probability of
//! all ways each has:
//!
//! ```text
//! best[end]  = max   over pieces that end there of best[start] + log p(piece)
//! total[end] = log Σ over pieces that end there of exp(total[start] + log p(piece))
//! ```

use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// So many ways are told.
const WAYS: usize = 4;

/// What a character without a piece costs beside the rarest piece, as the engine has it.
const UNKNOWN: f64 = 10.0;

/// One way to cut a word.
#[derive(Clone, Debug, PartialEq)]
pub struct Segmentation {
    /// the pieces
    pub pieces: Vec<String>,
    /// the sum of their log-probabilities
    pub logprob: f64,
    /// its part in the probability of all ways to cut this word
    pub share: f64,
}

impl fmt::Display for Segmentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logprob = format!("{:.3}", self.logprob).replace('-', "−");
        write!(f, "{logprob:>10}  {:>5.1} %  {}", 100.0 * self.share, self.pieces.join(" · "))
    }
}

/// The vocabulary of a Unigram model.
pub(super) struct Lattice<'a> {
    logprob: HashMap<&'a str, f64>,
    longest: usize,
    unknown: f64,
    unknown_piece: Option<&'a str>,
    byte_fallback: bool,
}

/// A way as far as one place of the word: its last piece begins at `start`, after the way of this rank there.
#[derive(Clone, Copy)]
struct Partial {
    logprob: f64,
    start: usize,
    rank: usize,
}

impl<'a> Lattice<'a> {
    pub(super) fn new(model: &'a Value) -> Self {
        let row = |row: &'a Value| Some((row.get(0)?.as_str()?, row.get(1)?.as_f64()?));
        let all: Vec<(&str, f64)> =
            model.get("vocab").and_then(Value::as_array).into_iter().flatten().filter_map(row).collect();
        let least = all.iter().map(|(_, p)| *p).fold(f64::INFINITY, f64::min);
        let unknown = model.get("unk_id").and_then(Value::as_u64);
        Self {
            longest: all.iter().map(|(piece, _)| piece.len()).max().unwrap_or(0),
            unknown: least - UNKNOWN,
            unknown_piece: unknown.and_then(|id| all.get(id as usize)).map(|(piece, _)| *piece),
            byte_fallback: model.get("byte_fallback").and_then(Value::as_bool).unwrap_or(false),
            logprob: all.into_iter().collect(),
        }
    }

    /// The best ways to cut a word, best first.
    pub(super) fn best(&self, word: &str) -> Vec<Segmentation> {
        let mut ways: Vec<Vec<Partial>> = vec![vec![]; word.len() + 1];
        let mut total = vec![f64::NEG_INFINITY; word.len() + 1];
        ways[0].push(Partial { logprob: 0.0, start: 0, rank: 0 });
        total[0] = 0.0;
        for (start, letter) in word.char_indices() {
            let single = start + letter.len_utf8();
            for (end, logprob) in self.pieces_from(word, start, single) {
                total[end] = log_sum(total[end], total[start] + logprob);
                // The engine keeps the first of equals, which came from the earliest start: so does a stable sort.
                let more: Vec<Partial> = ways[start]
                    .iter()
                    .enumerate()
                    .map(|(rank, way)| Partial { logprob: way.logprob + logprob, start, rank })
                    .collect();
                ways[end].extend(more);
                ways[end].sort_by(|a, b| b.logprob.total_cmp(&a.logprob));
                ways[end].truncate(WAYS);
            }
        }
        let whole = total[word.len()];
        let told = |(rank, way): (usize, &Partial)| Segmentation {
            pieces: self.told(word, &self.cuts(&ways, word.len(), rank)),
            logprob: way.logprob,
            share: (way.logprob - whole).exp(),
        };
        ways[word.len()].iter().enumerate().map(told).collect()
    }

    /// Where pieces that begin at `start` end, and how likely they are; a character without a piece is unknown.
    fn pieces_from(&self, word: &str, start: usize, single: usize) -> Vec<(usize, f64)> {
        let ends = word[start..].char_indices().map(|(at, letter)| start + at + letter.len_utf8());
        let within = ends.take_while(|end| end - start <= self.longest);
        let mut found: Vec<(usize, f64)> =
            within.filter_map(|end| Some((end, *self.logprob.get(&word[start..end])?))).collect();
        if found.first().is_none_or(|(end, _)| *end != single) {
            found.push((single, self.unknown));
        }
        found
    }

    /// The places where the way of this rank is cut, from the first piece's start to the end.
    fn cuts(&self, ways: &[Vec<Partial>], end: usize, rank: usize) -> Vec<usize> {
        let (mut cuts, mut at, mut rank) = (vec![end], end, rank);
        while at > 0 {
            let way = ways[at][rank];
            (at, rank) = (way.start, way.rank);
            cuts.push(at);
        }
        cuts.reverse();
        cuts
    }

    /// Pieces as the engine tells them: unknown characters that follow each other are one, or the bytes that they are.
    fn told(&self, word: &str, cuts: &[usize]) -> Vec<String> {
        let mut pieces: Vec<(String, bool)> = vec![];
        for cut in cuts.windows(2) {
            let piece = &word[cut[0]..cut[1]];
            let known = self.logprob.contains_key(piece) && self.unknown_piece != Some(piece);
            match pieces.last_mut() {
                Some((last, false)) if !known => last.push_str(piece),
                _ => pieces.push((piece.to_owned(), known)),
            }
        }
        let bytes = |piece: &str| -> Vec<String> { piece.bytes().map(|b| format!("<0x{b:02X}>")).collect() };
        let spelt = |(piece, known): (String, bool)| {
            let spelling = bytes(&piece);
            let falls = !known && self.byte_fallback && spelling.iter().all(|b| self.logprob.contains_key(b.as_str()));
            if falls { spelling } else { vec![piece] }
        };
        pieces.into_iter().flat_map(spelt).collect()
    }
}

/// log(eᵃ + eᵇ)
fn log_sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Three ways to cut `abc`, by hand: −1 − 2 = −3, −2 − 1.5 = −3.5, −2 − 3 − 2 = −7.
    #[test]
    fn the_best_way_and_those_behind_it() {
        let model = json!({
            "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["ab", -1.0], ["c", -2.0], ["a", -2.0], ["bc", -1.5], ["b", -3.0]],
        });
        let ways = Lattice::new(&model).best("abc");
        let pieces: Vec<String> = ways.iter().map(|w| w.pieces.join(" ")).collect();
        assert_eq!(pieces, ["ab c", "a bc", "a b c"]);
        assert_eq!(ways.iter().map(|w| w.logprob).collect::<Vec<_>>(), [-3.0, -3.5, -7.0]);
        let all: f64 = [-3.0f64, -3.5, -7.0].iter().map(|p| p.exp()).sum();
        assert!((ways[0].share - (-3.0f64).exp() / all).abs() < 1e-12);
        assert!((ways.iter().map(|w| w.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(ways[0].to_string(), "    −3.000   61.5 %  ab · c");
        // What has no piece costs ten more than the rarest one, and neighbours are one unknown piece.
        let unknown = &Lattice::new(&model).best("xyc")[0];
        assert_eq!((unknown.pieces.join(" "), unknown.logprob), ("xy c".into(), -28.0));
    }
}
