//! Words as numbers: one-hot rows, counts, learned vectors; the table that a network looks them up in; and the pieces that
//! text is cut into before that.

use crate::arithmetic::{Matrix, cosine, dot, dot_in_words, mix, norm};
use crate::page::{Cell, Comparison, Page, Table, Verdict, shown};
use qkv_base::Result;
use qkv_text::{Cut, Kind, Shape, TrainSpec, train};

/// The lecture's two words, with four features each.
const KING: [f64; 4] = [0.6, 0.1, 1.0, 0.9];
const QUEEN: [f64; 4] = [0.3, 0.2, 0.9, 1.0];

/// The lecture's sentences about apples.
const APPLES: [&str; 4] = [
    "an apple a day keeps the doctor away",
    "apple is healthy",
    "apple is better than orange",
    "apple makes great phones",
];

pub(super) fn vectors() -> Result<Page> {
    let words = ["mat", "cat", "rat"];
    let one_hot: Matrix = (0..3).map(|i| (0..3).map(|j| f64::from(i == j)).collect()).collect();
    let counted = ["apple", "is", "doctor", "phones"];
    let tf_idf: Matrix = APPLES.iter().map(|text| counted.iter().map(|word| weight(word, text)).collect()).collect();
    let names: Vec<String> = (1..=4).map(|i| format!("sentence {i}")).collect();
    let (product, lengths) = (dot(&KING, &QUEEN), [norm(&KING), norm(&QUEEN)]);
    let apple = mix(&[0.9, 0.1], &vec![vec![1.0, 0.0], vec![0.0, 1.0]]);
    Ok(Page::new(
        "vectors",
        "Words as vectors",
        "A network computes with numbers, so every word becomes a vector; words that are used alike \
        should point the same way.",
    )
    .formula(
        "a·b = Σ aᵢbᵢ = |a||b| cos θ        cosine = a·b / (|a||b|)        tf-idf = count · ln(N / \
        documents with the word)",
    )
    .shapes(&[
        ("one-hot", "[V], a single 1"),
        ("TF-IDF", "[V], one number for each word of the vocabulary"),
        ("Word2Vec", "[D], D far smaller than V"),
    ])
    .section("One-hot: every word as far from every other")
    .table(Table::matrix("", &words, &words, &one_hot, 0))
    .text(
        "Any two different rows have the dot product 0: nothing says that a cat is more like a rat than \
        like a mat.",
    )
    .section("TF-IDF: rare words weigh more")
    .table(Table::matrix("the lecture's four sentences, four of their words", &names, &counted, &tf_idf, 3))
    .text("“apple” is in every sentence, so ln(4/4) = 0: it tells none of them from the others.")
    .section("Word2Vec: meaning as direction")
    .table(Table::matrix("", &["king", "queen"], &["f1", "f2", "f3", "f4"], &[KING.to_vec(), QUEEN.to_vec()], 1))
    .expand(
        "king · queen",
        vec![
            format!("{} = {}", dot_in_words(&KING, &QUEEN, 1), shown(product, 2)),
            format!("|king| = √({}) = {}", shown(dot(&KING, &KING), 2), shown(lengths[0], 4)),
            format!("|queen| = √({}) = {}", shown(dot(&QUEEN, &QUEEN), 2), shown(lengths[1], 4)),
            format!(
                "cosine = {} / ({} · {}) = {}",
                shown(product, 2),
                shown(lengths[0], 4),
                shown(lengths[1], 4),
                shown(cosine(&KING, &QUEEN), 4)
            ),
        ],
    )
    .section("One vector for all meanings of a word")
    .text(
        "9 thousand sentences speak of the fruit, 1 thousand of the phones. A static vector is their \
        average, in [taste, technology]:",
    )
    .table(Table::matrix("", &["apple"], &["taste", "technology"], std::slice::from_ref(&apple), 1))
    .compare(vec![
        Comparison::new("apple, taste", "0.9", apple[0]),
        Comparison::new("apple, technology", "0.1", apple[1]),
    ])
    .verdict(
        Verdict::Equal,
        "the average is [0.9, 0.1]; whoever writes about phones gets a fruit. Attention mends that: `qkv \
        explain embeddings`.",
    ))
}

/// How much a word tells about a text, among the lecture's sentences.
fn weight(word: &str, text: &str) -> f64 {
    let count = |text: &str| text.split(' ').filter(|w| *w == word).count();
    let holding = APPLES.iter().filter(|t| count(t) > 0).count().max(1);
    count(text) as f64 * (APPLES.len() as f64 / holding as f64).ln()
}

/// The lecture's "YOUR CAT IS A LOVELY CAT": the embedding of CAT, the two "positions", and the sums on the slide.
pub(crate) const CAT: [f64; 5] = [171.411, 3276.350, 9192.819, 3633.421, 8390.473];
const PLACES: [[f64; 5]; 2] =
    [[1664.068, 8080.133, 2620.399, 9386.405, 3120.159], [1281.458, 7902.890, 912.970, 1659.217, 7018.620]];
const SUMS: [[&str; 5]; 2] = [
    ["1835.479", "11356.483", "11813.218", "13019.826", "11510.632"],
    ["1452.869", "11179.24", "10105.789", "5292.638", "15409.093"],
];

/// The lecture's weights of "bank" among its neighbours, in two sentences.
const BANK: [[f64; 3]; 2] = [[0.25, 0.7, 0.05], [0.2, 0.78, 0.02]];

pub(super) fn embeddings() -> Result<Page> {
    let sum = |p: usize| -> Vec<f64> { CAT.iter().zip(PLACES[p]).map(|(a, b)| a + b).collect() };
    let compare = (0..2).flat_map(|p| {
        let total = sum(p);
        (0..5).map(move |i| Comparison::new(format!("CAT at place {}, row {}", [2, 6][p], i + 1), SUMS[p][i], total[i]))
    });
    let columns: Vec<String> = (1..=5).map(|i| format!("row {i}")).collect();
    // Two features of our own choosing, so that the two sentences can be seen to part.
    let rows = |other: [f64; 2], last: [f64; 2]| vec![other.to_vec(), vec![0.5, 0.5], last.to_vec()];
    let banks = [mix(&BANK[0], &rows([1.0, 0.0], [0.8, 0.2])), mix(&BANK[1], &rows([0.0, 1.0], [0.1, 0.9]))];
    Ok(Page::new(
        "embeddings",
        "Embeddings",
        "A token's id picks one row of a learned table; the sum with its position is what the first layer \
        reads.",
    )
    .formula("x = table[id] = one_hot(id) · table        input = x + position")
    .shapes(&[("table", "[V, C] = [10,000, 512]"), ("ids", "[T]"), ("input", "[T, C]")])
    .table(Table::of(
        "the lecture's table",
        "",
        &["numbers"],
        vec![("10,000 words × 512", vec![Cell::Count(10_000 * 512)])],
    ))
    .section("YOUR CAT IS A LOVELY CAT")
    .text(
        "The same word has the same row wherever it stands; only the position differs. Places 2 and 6 of \
        the slide:",
    )
    .table(Table::matrix(
        "",
        &["CAT", "position 2", "CAT + position 2", "position 6", "CAT + position 6"],
        &columns,
        &[CAT.to_vec(), PLACES[0].to_vec(), sum(0), PLACES[1].to_vec(), sum(1)],
        3,
    ))
    .expand("row 1 of the input at place 2", vec![format!("171.411 + 1664.068 = {}", shown(sum(0)[0], 3))])
    .compare(compare.collect())
    .verdict(Verdict::Equal, "all ten sums hold.")
    .verdict(
        Verdict::Errs,
        format!(
            "the slide's positions go up to {:.0}; sinusoids never leave −1 to 1 (`qkv explain positions`), \
        so these are no sinusoids.",
            9386.405
        ),
    )
    .section("One static vector, two contextual ones")
    .text(
        "“bank” has one row of the table. Mixed with its neighbours by the lecture's weights it becomes \
        two different vectors. The features [money, water] are ours: money and grows lie on the first, \
        river and flows on the second, bank between.",
    )
    .table(Table::matrix(
        "",
        &["bank, from the table", "bank in “money bank grows”", "bank in “river bank flows”"],
        &["money", "water"],
        &[vec![0.5, 0.5], banks[0].clone(), banks[1].clone()],
        3,
    ))
    .verdict(Verdict::Note, format!("their cosine is {}, no longer 1.", shown(cosine(&banks[0], &banks[1]), 4))))
}

pub(super) fn tokens() -> Result<Page> {
    let words = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)];
    let lines: Vec<String> = words.iter().flat_map(|(w, n)| std::iter::repeat_n(w.to_string(), *n)).collect();
    // 256 bytes, the end of a text, and ten merges.
    let spec = TrainSpec { shape: Shape::Gpt2, vocab_size: 267, ..TrainSpec::new(Kind::Bpe) };
    let tokenizer = train(lines, &spec, &mut |_| {})?.tokenizer;
    let pieces = |word: &str| -> Result<Vec<String>> { Ok(tokenizer.encode(word, false)?.pieces) };
    let asked = ["low", "lower", "newest", "widest", "lowest", "slow"];
    let mut rows = vec![];
    for word in asked {
        let cut = pieces(word)?;
        let known = if words.iter().any(|(w, _)| *w == word) { "1" } else { "unknown" };
        rows.push((
            word,
            vec![
                Cell::Count(word.chars().count() as u64),
                Cell::Text(known.into()),
                Cell::Count(cut.len() as u64),
                Cell::Text(cut.join(" ")),
            ],
        ));
    }
    let merged = tokenizer.explain("lowest", false)?.words.into_iter().flat_map(|w| match w.cut {
        Cut::Merges(steps) => steps,
        _ => vec![],
    });
    let steps: Vec<String> = merged
        .map(|s| match s.rank {
            None => format!("letters: {}", s.pieces.join(" ")),
            Some(rank) => format!("merge {}: {}", rank + 1, s.pieces.join(" ")),
        })
        .collect();
    Ok(Page::new(
        "tokens",
        "Tokens",
        "Letters make texts long, whole words leave most words unknown; sub-words are learned in between.",
    )
    .formula("repeat: merge the most frequent pair of neighbours into one piece")
    .shapes(&[
        ("text", "characters"),
        ("ids", "[T], numbers below V"),
        ("V", "how many pieces there are: 256 bytes, 1 special, 10 merges here"),
    ])
    .text(
        "A byte-level BPE learned now, by the trainer of `qkv tokenizer train`, from: low ×5, lower ×2, \
        newest ×6, widest ×3.",
    )
    .table(Table::of("the same words three ways", "word", &["letters", "as words", "pieces", "sub-words"], rows))
    .expand("lowest, a word that was never seen", steps)
    .verdict(
        Verdict::Note,
        "a new word costs a few pieces more, and nothing is unknown: every byte is a piece of its own.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn king_and_queen_as_on_the_slide() {
        let four = |x: f64| (x * 1e4).round() / 1e4;
        assert!((dot(&KING, &QUEEN) - 2.0).abs() < 1e-12);
        assert_eq!([norm(&KING), norm(&QUEEN), cosine(&KING, &QUEEN)].map(four), [1.4765, 1.3928, 0.9725]);
    }

    #[test]
    fn all_ten_sums_of_the_slide_hold() {
        let page = embeddings().unwrap();
        assert_eq!(page.comparisons().count(), 10);
        assert!(page.comparisons().all(|c| c.verdict == Verdict::Equal), "{page:?}");
        assert!(page.tables().any(|t| t.rows[0].cells[0] == Cell::Count(5_120_000)));
        let apple: Vec<f64> = vectors().unwrap().comparisons().map(|c| c.computed).collect();
        assert_eq!(apple, [0.9, 0.1]);
    }

    #[test]
    fn a_word_that_was_never_seen_is_cut_into_pieces_that_were() {
        let page = tokens().unwrap();
        let table = page.tables().next().unwrap();
        let row = |word: &str| table.rows.iter().find(|r| r.label == word).unwrap();
        let Cell::Count(n) = row("lowest").cells[2] else { panic!("a count") };
        assert!(n > 1 && n < 6, "{n}");
        assert_eq!(row("lowest").cells[1], Cell::Text("unknown".into()));
        assert_eq!(row("lowest").cells[3].shown().replace(' ', ""), "lowest");
    }
}
