//! Tokenizers learnt from lines of text.
//!
//! read (or sample) → normalise → words with their counts → pieces → `tokenizer.json`
//!
//! The engine's own trainers walk hash maps and sum floats in the order of threads, so two runs may differ. Ours count
//! in parallel, sort, and break every tie by value: same text, same bytes, at any thread count.

mod bpe;
mod count;
mod preset;
mod unigram;

use crate::tokenizer::Tokenizer;
pub use count::gpt2_words;
pub use preset::{Kind, Normal, Shape};
use qkv_base::{Error, Key, Result};

/// What to learn.
#[derive(Clone, Debug)]
pub struct TrainSpec {
    /// the algorithm
    pub kind: Kind,
    /// special tokens and what is put around a text
    pub shape: Shape,
    /// pieces in all, special ones included
    pub vocab_size: usize,
    /// what is rarer is not learnt: pairs (BPE, WordPiece), substrings (unigram), characters
    pub min_frequency: u64,
    /// what is done to the text first, in this order
    pub normal: Vec<Normal>,
    /// special tokens of one's own, after those of the shape
    pub special: Vec<String>,
    /// learn from that many lines, drawn evenly; from all of them otherwise
    pub sample: Option<usize>,
    /// of the drawing
    pub seed: u64,
}

impl TrainSpec {
    /// The usual choices for an algorithm: 16 k pieces, pairs seen twice, the shape of the family that uses it.
    pub fn new(kind: Kind) -> Self {
        let shape = match kind {
            Kind::Bpe => Shape::Gpt2,
            Kind::WordPiece => Shape::Bert,
            Kind::Unigram => Shape::T5 { sentinels: 100 },
            Kind::Char | Kind::Word => Shape::Marian,
        };
        let min_frequency = if kind == Kind::Char { 1 } else { 2 };
        Self {
            kind,
            shape,
            vocab_size: 16_000,
            min_frequency,
            normal: Vec::new(),
            special: Vec::new(),
            sample: None,
            seed: 0,
        }
    }
}

/// How far the learning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// lines and bytes read so far
    Reading {
        /// lines
        lines: u64,
        /// bytes
        bytes: u64,
    },
    /// so many different words were found
    Counted {
        /// different words
        words: usize,
    },
    /// pieces so far, of how many (for unigram the number falls to the goal)
    Learning {
        /// pieces now
        pieces: usize,
        /// pieces wanted
        goal: usize,
    },
}

/// A tokenizer and what it was learnt from.
#[derive(Clone, Debug)]
pub struct Trained {
    /// the tokenizer
    pub tokenizer: Tokenizer,
    /// lines read
    pub lines: u64,
    /// bytes read
    pub bytes: u64,
    /// lines learnt from
    pub kept: u64,
    /// different words among them
    pub words: usize,
}

/// Learns a tokenizer from lines.
///
/// ```
/// use qkv_text::{Kind, Shape, TrainSpec, train};
/// let lines = ["un gatto", "due gatti", "tre gatti neri"].map(String::from);
/// let spec = TrainSpec { shape: Shape::Marian, vocab_size: 40, ..TrainSpec::new(Kind::Char) };
/// let tokenizer = train(lines, &spec, &mut |_| {})?.tokenizer;
/// assert_eq!(tokenizer.encode("gatto", true)?.pieces, ["g", "a", "t", "t", "o", "</s>"]);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn train(
    lines: impl IntoIterator<Item = String>,
    spec: &TrainSpec,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained> {
    let plan = preset::Plan::new(spec)?;
    let mut read = (0u64, 0u64);
    let lines = lines.into_iter().inspect(|line| read = (read.0 + 1, read.1 + line.len() as u64 + 1));
    let (words, kept) = match spec.sample {
        None => count::count(lines, &plan, progress)?,
        Some(n) => count::count(reservoir(lines, n, spec.seed).into_iter(), &plan, progress)?,
    };
    progress(Progress::Counted { words: words.len() });
    if words.is_empty() {
        return Err(Error::new("training text", format!("{} lines without a word", read.0), "give some text"));
    }
    let found = words.len();
    let tokenizer = plan.learn(words, progress)?;
    Ok(Trained { tokenizer, lines: read.0, bytes: read.1, kept, words: found })
}

/// `n` lines, each as likely as any other (Vitter's algorithm R): line i takes a random place among i + 1, and stays
/// if that place is one of the `n`.
fn reservoir(lines: impl Iterator<Item = String>, n: usize, seed: u64) -> Vec<String> {
    let key = Key::new(seed, 0, 0).named("tokenizer sample");
    let mut kept = Vec::with_capacity(n.min(1 << 16));
    for (i, line) in lines.enumerate() {
        if kept.len() < n {
            kept.push(line);
        } else if let Some(place) = kept.get_mut(key.below(i as u64, i + 1)) {
            *place = line;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<String> {
        let words =
            ["gatto", "città", "perché", "house", "houses", "बिल्ली", "घर", "क्यों", "😀", "x1", "the", "lowest", "newer"];
        let key = Key::new(5, 0, 0);
        let line = |i: u64| {
            let picked: Vec<&str> = (0..6).map(|j| words[key.below(6 * i + j, words.len())]).collect();
            picked.join(" ") + "."
        };
        (0..400).map(line).collect()
    }

    /// The must of this room: same text, same bytes, at any thread count.
    #[test]
    fn same_bytes_at_any_thread_count() {
        for kind in [Kind::Bpe, Kind::WordPiece, Kind::Unigram, Kind::Char, Kind::Word] {
            let spec = TrainSpec { vocab_size: 420, sample: Some(300), ..TrainSpec::new(kind) };
            let json = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| train(lines(), &spec, &mut |_| {}).unwrap().tokenizer.to_json().unwrap())
            };
            let one = json(1);
            assert!((2..5).all(|threads| json(threads) == one), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_and_shape_comes_back() {
        let shapes = [Shape::Plain, Shape::Gpt2, Shape::Bert, Shape::T5 { sentinels: 5 }, Shape::Marian, Shape::Llama];
        for kind in [Kind::Bpe, Kind::WordPiece, Kind::Unigram, Kind::Char, Kind::Word] {
            for shape in shapes {
                let spec = TrainSpec { shape, vocab_size: 400, ..TrainSpec::new(kind) };
                let tokenizer = train(lines(), &spec, &mut |_| {}).unwrap().tokenizer;
                assert!(tokenizer.vocab_size() <= 400, "{kind:?} {shape:?}: {}", tokenizer.vocab_size());
                let text = "perché houses बिल्ली 😀";
                let ids = tokenizer.encode(text, true).unwrap().ids;
                assert_eq!(tokenizer.decode(&ids, true).unwrap(), text, "{kind:?} {shape:?}");
            }
        }
    }

    #[test]
    fn a_word_is_one_piece_and_a_new_one_is_unknown() {
        let spec = TrainSpec { vocab_size: 60, ..TrainSpec::new(Kind::Word) };
        let tokenizer = train(lines(), &spec, &mut |_| {}).unwrap().tokenizer;
        let pieces = tokenizer.encode("the houses.", false).unwrap().pieces;
        assert_eq!(pieces, ["▁the", "▁houses", "."]);
        let new = tokenizer.encode("the housing", false).unwrap().pieces;
        assert_eq!((new.len(), new[1].contains("unk")), (2, true), "{new:?}");
    }

    #[test]
    fn a_reservoir_is_even_and_repeats() {
        let draw = |seed| reservoir((0..1000).map(|i: u32| i.to_string()), 100, seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mean = (0..50).flat_map(draw).map(|s| s.parse::<f64>().unwrap()).sum::<f64>() / 5000.0;
        // 5000 draws of deviation 289: the mean is 499.5 ± 4.
        assert!((mean - 499.5).abs() < 20.0, "{mean}");
    }

    #[test]
    fn nothing_to_learn_from_is_an_error() {
        let spec = TrainSpec::new(Kind::Bpe);
        assert!(train(Vec::new(), &spec, &mut |_| {}).is_err());
        let spec = TrainSpec { vocab_size: 10, ..spec };
        let error = train(lines(), &spec, &mut |_| {}).unwrap_err();
        assert_eq!(error.what, "10 pieces are too few: 257 are needed for special tokens and characters");
    }
}
