//! Byte-pair encoding (Sennrich et al. 2016): join the pair that comes most often; again, until there are pieces enough.
//!
//! Counts are kept, not recounted: joining a·b in `… l a b r …` takes one from (l,a) and (b,r), gives one to (l,ab)
//! and (ab,r). A heap offers the most frequent pair; an offer that has aged is corrected when it comes up. Equal counts:
//! the pair with the smaller ids first.

use super::Progress;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

type Pair = (u32, u32);

/// The growing vocabulary.
pub(super) struct Pieces {
    /// by id
    pub(super) names: Vec<String>,
    ids: FxHashMap<String, u32>,
}

impl Pieces {
    pub(super) fn new(names: &[String]) -> Self {
        let mut pieces = Self { names: Vec::new(), ids: FxHashMap::default() };
        names.iter().for_each(|name| {
            pieces.id(name);
        });
        pieces
    }

    /// The id of a piece, which is added if it is new.
    pub(super) fn id(&mut self, name: &str) -> u32 {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_string());
        self.ids.insert(name.to_string(), id);
        id
    }
}

/// Joins pairs until `goal` pieces; the merges in order. `prefix` marks pieces inside of words (WordPiece's `##`).
pub(super) fn learn(
    mut words: Vec<(Vec<u32>, u64)>,
    pieces: &mut Pieces,
    goal: usize,
    min_frequency: u64,
    prefix: &str,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Pair> {
    let mut counts: FxHashMap<Pair, i64> = FxHashMap::default();
    let mut places: FxHashMap<Pair, Vec<u32>> = FxHashMap::default();
    for (at, (word, n)) in words.iter().enumerate() {
        for pair in word.windows(2) {
            let pair = (pair[0], pair[1]);
            *counts.entry(pair).or_default() += *n as i64;
            note(places.entry(pair).or_default(), at as u32);
        }
    }
    let mut heap: BinaryHeap<(i64, Reverse<Pair>)> = counts.iter().map(|(pair, n)| (*n, Reverse(*pair))).collect();
    let mut merges = Vec::new();
    while pieces.names.len() < goal {
        let Some((offered, Reverse(pair))) = heap.pop() else { break };
        let now = counts.get(&pair).copied().unwrap_or(0);
        if now != offered {
            if now > 0 {
                heap.push((now, Reverse(pair)));
            }
            continue;
        }
        if now < min_frequency.max(1) as i64 {
            break;
        }
        let (left, right) = (&pieces.names[pair.0 as usize], &pieces.names[pair.1 as usize]);
        let whole = format!("{left}{}", right.strip_prefix(prefix).unwrap_or(right));
        let whole = pieces.id(&whole);
        merges.push(pair);
        let mut grown = Vec::new();
        for at in places.remove(&pair).unwrap_or_default() {
            let (word, n) = &mut words[at as usize];
            let n = *n as i64;
            join(word, pair, whole, &mut |pair, change| {
                *counts.entry(pair).or_default() += change * n;
                if change > 0 {
                    note(places.entry(pair).or_default(), at);
                    grown.push(pair);
                }
            });
        }
        counts.remove(&pair);
        grown.sort_unstable();
        grown.dedup();
        heap.extend(grown.into_iter().filter_map(|pair| Some((counts.get(&pair).copied()?, Reverse(pair)))));
        if merges.len() % 256 == 0 {
            progress(Progress::Learning { pieces: pieces.names.len(), goal });
        }
    }
    progress(Progress::Learning { pieces: pieces.names.len(), goal });
    merges
}

/// Remembers a word once in a row; a second visit finds nothing to join.
fn note(places: &mut Vec<u32>, at: u32) {
    if places.last() != Some(&at) {
        places.push(at);
    }
}

/// Joins every `pair` of a word, left to right, and tells which pairs come and go.
fn join(word: &mut Vec<u32>, pair: Pair, whole: u32, change: &mut dyn FnMut(Pair, i64)) {
    let (mut from, mut to) = (0, 0);
    while from < word.len() {
        if word[from] == pair.0 && word.get(from + 1) == Some(&pair.1) {
            if to > 0 {
                change((word[to - 1], pair.0), -1);
                change((word[to - 1], whole), 1);
            }
            if let Some(next) = word.get(from + 2) {
                change((pair.1, *next), -1);
                change((whole, *next), 1);
            }
            word[to] = whole;
            from += 2;
        } else {
            word[to] = word[from];
            from += 1;
        }
        to += 1;
    }
    word.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn spell(text: &[(&str, u64)], pieces: &mut Pieces) -> Vec<(Vec<u32>, u64)> {
        text.iter().map(|(word, n)| (word.chars().map(|c| pieces.id(&c.to_string())).collect(), *n)).collect()
    }

    /// The paper's example: low ×5, lower ×2, newest ×6, widest ×3.
    #[test]
    fn the_example_of_the_paper() {
        let mut pieces = Pieces::new(&[]);
        let words = spell(&[("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)], &mut pieces);
        let start = pieces.names.len();
        learn(words, &mut pieces, start + 4, 1, "", &mut |_| {});
        assert_eq!(&pieces.names[start..], ["es", "est", "lo", "low"]);
    }

    /// The slow twin: recount everything before each merge.
    fn slow(mut words: Vec<(Vec<u32>, u64)>, pieces: &mut Pieces, goal: usize, min: u64) -> Vec<Pair> {
        let mut merges = Vec::new();
        while pieces.names.len() < goal {
            let mut counts: BTreeMap<Pair, i64> = BTreeMap::new();
            for (word, n) in &words {
                word.windows(2).for_each(|p| *counts.entry((p[0], p[1])).or_default() += *n as i64);
            }
            let Some((pair, n)) = counts.into_iter().max_by_key(|(pair, n)| (*n, Reverse(*pair))) else { break };
            if n < min as i64 {
                break;
            }
            let whole = format!("{}{}", pieces.names[pair.0 as usize], pieces.names[pair.1 as usize]);
            let whole = pieces.id(&whole);
            merges.push(pair);
            words.iter_mut().for_each(|(word, _)| join(word, pair, whole, &mut |_, _| {}));
        }
        merges
    }

    proptest! {
        #[test]
        fn kept_counts_equal_recounting(text in prop::collection::vec(("[abc]{1,12}", 1u64..9), 1..20)) {
            let text: Vec<(&str, u64)> = text.iter().map(|(w, n)| (w.as_str(), *n)).collect();
            let (mut a, mut b) = (Pieces::new(&[]), Pieces::new(&[]));
            let (x, y) = (spell(&text, &mut a), spell(&text, &mut b));
            let goal = a.names.len() + 12;
            prop_assert_eq!(learn(x, &mut a, goal, 2, "", &mut |_| {}), slow(y, &mut b, goal, 2));
            prop_assert_eq!(a.names, b.names);
        }
    }
}
