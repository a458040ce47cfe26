//! The unigram language model (Kudo 2018): of all the ways to cut a word, P(cut) = Π p(piece); keep the pieces that
//! make the text likely.
//!
//! Seeds are the substrings with the largest count · length. Then, until few enough remain: two rounds of EM (expected
//! count of each piece over all cuts, by forward–backward), and a quarter of the pieces goes: those whose loss,
//! were they replaced by their next best cut, is smallest. Sums are over a fixed number of chunks, in order.

use super::Progress;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Pieces to begin with.
const SEEDS: usize = 1_000_000;
/// Characters of the longest piece.
const LONGEST: usize = 16;
/// Chunks of words summed apart: a constant, so that the sum does not depend on threads.
const CHUNKS: usize = 16;
/// Expected counts below this are noise.
const RARE: f64 = 0.5;

/// A piece and its log-probability.
pub(super) type Scored = (String, f64);

type Word = (Vec<char>, f64);

/// Learns `goal` pieces; every character of the text is one of them.
pub(super) fn learn(
    words: &[(String, u64)],
    goal: usize,
    min_frequency: u64,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Scored> {
    let words: Vec<Word> = words.iter().map(|(word, n)| (word.chars().collect(), *n as f64)).collect();
    let chars = characters(&words);
    let mut pieces = seeds(&words, &chars, min_frequency);
    let enough = goal + goal / 10;
    loop {
        for _ in 0..2 {
            let lexicon = Lexicon::new(&pieces);
            pieces = maximise(&pieces, &expect(&words, &lexicon));
        }
        progress(Progress::Learning { pieces: pieces.len(), goal });
        if pieces.len() <= enough {
            break;
        }
        let before = pieces.len();
        pieces = prune(pieces, &words, enough);
        if pieces.len() == before {
            break;
        }
    }
    finish(pieces, &chars, goal)
}

/// Every character with its count, most frequent first.
fn characters(words: &[Word]) -> Vec<(char, f64)> {
    let mut counts: FxHashMap<char, f64> = FxHashMap::default();
    for (word, n) in words {
        word.iter().for_each(|c| *counts.entry(*c).or_default() += n);
    }
    let mut chars: Vec<(char, f64)> = counts.into_iter().collect();
    chars.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    chars
}

/// Characters, and the substrings with the largest count · length.
fn seeds(words: &[Word], chars: &[(char, f64)], min_frequency: u64) -> Vec<Scored> {
    let mut counts: FxHashMap<&[char], f64> = FxHashMap::default();
    for (word, n) in words {
        for from in 0..word.len() {
            for to in from + 2..=word.len().min(from + LONGEST) {
                *counts.entry(&word[from..to]).or_default() += n;
            }
        }
    }
    let least = min_frequency.max(2) as f64;
    let mut longer: Vec<(f64, &[char])> =
        counts.into_iter().filter(|(_, n)| *n >= least).map(|(s, n)| (n * s.len() as f64, s)).collect();
    longer.par_sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    longer.truncate(SEEDS);
    let singles = chars.iter().map(|(c, n)| (c.to_string(), *n));
    let all: Vec<Scored> = singles.chain(longer.into_iter().map(|(n, s)| (s.iter().collect(), n))).collect();
    let total = all.iter().map(|(_, n)| n).sum::<f64>().ln();
    all.into_iter().map(|(piece, n)| (piece, n.ln() - total)).collect()
}

/// A trie of the pieces, to find all that begin at a place.
struct Lexicon {
    next: FxHashMap<(u32, char), u32>,
    leaf: Vec<Option<u32>>,
    scores: Vec<f64>,
    /// what a character without a piece costs
    unknown: f64,
}

impl Lexicon {
    fn new(pieces: &[Scored]) -> Self {
        let mut lexicon = Self {
            next: FxHashMap::default(),
            leaf: vec![None],
            scores: pieces.iter().map(|p| p.1).collect(),
            unknown: pieces.iter().map(|p| p.1).fold(0.0, f64::min) - 10.0,
        };
        for (id, (piece, _)) in pieces.iter().enumerate() {
            let mut node = 0;
            for c in piece.chars() {
                let fresh = lexicon.leaf.len() as u32;
                node = *lexicon.next.entry((node, c)).or_insert(fresh);
                if node == fresh {
                    lexicon.leaf.push(None);
                }
            }
            lexicon.leaf[node as usize] = Some(id as u32);
        }
        lexicon
    }

    /// Every piece from `from`: where it ends, which it is, its score.
    fn edges(&self, word: &[char], from: usize, take: &mut dyn FnMut(usize, Option<u32>, f64)) {
        let (mut node, mut alone) = (0, true);
        for (i, c) in word[from..].iter().enumerate() {
            let Some(next) = self.next.get(&(node, *c)) else { break };
            node = *next;
            if let Some(id) = self.leaf[node as usize] {
                take(from + i + 1, Some(id), self.scores[id as usize]);
                alone &= i > 0;
            }
        }
        if alone {
            take(from + 1, None, self.unknown);
        }
    }

    /// The likeliest cut, without the piece `not`; a character without a piece is `None`.
    fn best(&self, word: &[char], not: Option<u32>) -> Vec<Option<u32>> {
        let mut best = vec![(f64::NEG_INFINITY, 0, None); word.len() + 1];
        best[0].0 = 0.0;
        for from in 0..word.len() {
            let here = best[from].0;
            self.edges(word, from, &mut |to, id, score| {
                if (id.is_none() || id != not) && here + score > best[to].0 {
                    best[to] = (here + score, from, id);
                }
            });
        }
        let (mut at, mut cut) = (word.len(), Vec::new());
        while at > 0 && best[at].0 > f64::NEG_INFINITY {
            cut.push(best[at].2);
            at = best[at].1;
        }
        cut.reverse();
        cut
    }
}

/// Sums `each` over all words, chunk by chunk.
fn sum(words: &[Word], size: usize, each: impl Fn(&Word, &mut [f64]) + Sync) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = words
        .par_chunks(words.len().div_ceil(CHUNKS).max(1))
        .map(|words| {
            let mut part = vec![0.0; size];
            words.iter().for_each(|word| each(word, &mut part));
            part
        })
        .collect();
    let mut total = vec![0.0; size];
    for part in parts {
        total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
    total
}

/// The expected count of each piece: α(from) · p · β(to) / Z, over all places.
fn expect(words: &[Word], lexicon: &Lexicon) -> Vec<f64> {
    sum(words, lexicon.scores.len(), |(word, n), expected| {
        let mut alpha = vec![f64::NEG_INFINITY; word.len() + 1];
        alpha[0] = 0.0;
        let mut edges = Vec::new();
        for from in 0..word.len() {
            lexicon.edges(word, from, &mut |to, id, score| {
                alpha[to] = log_add(alpha[to], alpha[from] + score);
                edges.push((from, to, id, score));
            });
        }
        let mut beta = vec![f64::NEG_INFINITY; word.len() + 1];
        beta[word.len()] = 0.0;
        let z = alpha[word.len()];
        for (from, to, id, score) in edges.into_iter().rev() {
            beta[from] = log_add(beta[from], score + beta[to]);
            if let Some(id) = id {
                expected[id as usize] += n * (alpha[from] + score + beta[to] - z).exp();
            }
        }
    })
}

fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// New scores: digamma instead of the logarithm, which is harder on what is rare (Liang & Klein 2007).
fn maximise(pieces: &[Scored], expected: &[f64]) -> Vec<Scored> {
    let kept = || pieces.iter().zip(expected).filter(|(_, n)| **n >= RARE);
    let total = digamma(kept().map(|(_, n)| n).sum());
    kept().map(|((piece, _), n)| (piece.clone(), digamma(*n) - total)).collect()
}

/// ψ(x), by its recurrence and its asymptotic series.
fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 7.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    below + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

/// Keeps the pieces that would be missed most, a quarter fewer, but not below `enough`.
fn prune(pieces: Vec<Scored>, words: &[Word], enough: usize) -> Vec<Scored> {
    let lexicon = Lexicon::new(&pieces);
    let used = sum(words, pieces.len(), |(word, n), used| {
        lexicon.best(word, None).into_iter().flatten().for_each(|id| used[id as usize] += n);
    });
    let (total, size) = (used.iter().sum::<f64>(), enough.max(pieces.len() * 3 / 4));
    let loss = |(id, (piece, _)): (usize, &Scored)| -> f64 {
        let chars: Vec<char> = piece.chars().collect();
        if chars.len() == 1 {
            return f64::INFINITY;
        }
        if used[id] == 0.0 {
            return f64::NEG_INFINITY;
        }
        let others = lexicon.best(&chars, Some(id as u32));
        // Its count goes to the pieces of the other cut, and the sum of counts grows with them. A character that has lost
        // its piece counts as one that nobody else uses: leaving it out would make the most frequent words the cheapest
        // to lose, because their characters stand nowhere else.
        let sum = total + used[id] * (others.len() as f64 - 1.0);
        let with = (used[id] / total).ln();
        let without: f64 = others.iter().map(|o| ((o.map_or(0.0, |o| used[o as usize]) + used[id]) / sum).ln()).sum();
        used[id] * (with - without)
    };
    let losses: Vec<f64> = pieces.par_iter().enumerate().map(loss).collect();
    let mut order: Vec<usize> = (0..pieces.len()).filter(|id| losses[*id] > f64::NEG_INFINITY).collect();
    order.sort_by(|a, b| losses[*b].total_cmp(&losses[*a]).then(pieces[*a].0.cmp(&pieces[*b].0)));
    order.truncate(size);
    order.sort_unstable();
    order.into_iter().map(|id| pieces[id].clone()).collect()
}

/// All characters, then the likeliest others; sorted by score.
fn finish(pieces: Vec<Scored>, chars: &[(char, f64)], goal: usize) -> Vec<Scored> {
    let lowest = pieces.iter().map(|p| p.1).fold(0.0, f64::min);
    let known: FxHashMap<&str, f64> = pieces.iter().map(|(p, s)| (p.as_str(), *s)).collect();
    // A character that EM gave up ranks below all others, the rarer the lower.
    let singles = chars.iter().enumerate().map(|(i, (c, _))| {
        let name = c.to_string();
        let score = known.get(name.as_str()).copied().unwrap_or(lowest - 1e-4 * (i + 1) as f64);
        (name, score)
    });
    let mut all: Vec<Scored> = singles.collect();
    let mut longer: Vec<Scored> = pieces.iter().filter(|(p, _)| p.chars().nth(1).is_some()).cloned().collect();
    let by_score = |a: &Scored, b: &Scored| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    longer.sort_by(by_score);
    all.extend(longer);
    all.truncate(goal.max(chars.len()));
    all.sort_by(by_score);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digamma_known_values() {
        // ψ(1) = −γ, ψ(½) = −γ − 2 ln 2, ψ(10) = H₉ − γ
        let gamma = 0.577_215_664_901_532_9;
        let h9: f64 = (1..10).map(|i| 1.0 / i as f64).sum();
        for (x, want) in [(1.0, -gamma), (0.5, -gamma - 2.0 * 2f64.ln()), (10.0, h9 - gamma)] {
            assert!((digamma(x) - want).abs() < 1e-8, "ψ({x}) = {}, want {want}", digamma(x));
        }
    }

    /// Two cuts of one word, by hand: p(ab) = ½, p(a) = p(b) = ¼ → P(ab) : P(a·b) = ½ : 1/16 = 8 : 1.
    #[test]
    fn expected_counts_by_hand() {
        let pieces: Vec<Scored> =
            [("a", 0.25f64), ("b", 0.25), ("ab", 0.5)].map(|(p, x)| (p.to_string(), x.ln())).to_vec();
        let expected = expect(&[("ab".chars().collect(), 9.0)], &Lexicon::new(&pieces));
        for (got, want) in expected.iter().zip([1.0, 1.0, 8.0]) {
            assert!((got - want).abs() < 1e-12, "{expected:?}");
        }
    }

    #[test]
    fn the_best_cut_and_the_next() {
        let pieces: Vec<Scored> = [("a", -3.0), ("b", -3.0), ("c", -3.0), ("ab", -4.0), ("abc", -5.0), ("bc", -3.5)]
            .map(|(p, x)| (p.to_string(), x))
            .to_vec();
        let lexicon = Lexicon::new(&pieces);
        let word: Vec<char> = "abc".chars().collect();
        assert_eq!(lexicon.best(&word, None), [Some(4)]);
        assert_eq!(lexicon.best(&word, Some(4)), [Some(0), Some(5)]);
    }

    #[test]
    fn frequent_words_become_pieces() {
        let words =
            [("▁the", 100), ("▁then", 5), ("▁cat", 60), ("▁cats", 30), ("▁q", 1)].map(|(w, n)| (w.to_string(), n));
        let pieces = learn(&words, 14, 1, &mut |_| {});
        let has = |piece: &str| pieces.iter().any(|(p, _)| p == piece);
        assert!(pieces.len() <= 14 && has("▁the") && has("▁cat") && has("q"), "{pieces:?}");
    }

    /// The characters of a frequent word stand nowhere else: once the word is a piece, nobody uses them. It must not be
    /// taken for one that can be done without.
    #[test]
    fn a_frequent_word_of_its_own_letters_stays() {
        let rare = (0..600u32).map(|i| {
            let letter = |n: u32| char::from(b'a' + (i / 7u32.pow(n) % 7) as u8);
            (format!("▁{}{}{}{}", letter(0), letter(1), letter(2), letter(3)), 3)
        });
        let words: Vec<(String, u64)> = rare.chain([("▁कोन".into(), 5000), ("▁हैं".into(), 4000)]).collect();
        let pieces = learn(&words, 120, 1, &mut |_| {});
        for word in ["▁कोन", "▁हैं"] {
            assert!(pieces.iter().any(|(p, _)| p == word), "{word} is gone: {pieces:?}");
        }
    }
}
