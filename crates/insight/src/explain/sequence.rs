//! From probabilities to a sentence: the product rule, sampling by a chain, and beams.

use crate::page::{Cell, Page, Table, Verdict, shown};
use qkv_base::Result;
use qkv_decode::{Chain, History, Row as Scores};

/// Four sentences of ours; the lecture's is the first.
const TEXTS: [&str; 4] = [
    "<s> learning deep learning is fun",
    "<s> learning is fun",
    "<s> deep learning is hard",
    "<s> learning deep things is hard",
];

/// How often `word` follows `before`, and how often anything does.
fn counts(before: &str, word: &str) -> [usize; 2] {
    let pairs = || TEXTS.iter().flat_map(|t| t.split(' ').zip(t.split(' ').skip(1)));
    [pairs().filter(|p| *p == (before, word)).count(), pairs().filter(|p| p.0 == before).count()]
}

pub(super) fn product_rule() -> Result<Page> {
    let words: Vec<&str> = TEXTS[0].split(' ').collect();
    let mut total = 1.0;
    let mut rows = vec![];
    let mut parts = vec![];
    for pair in words.windows(2) {
        let [n, all] = counts(pair[0], pair[1]);
        let p = n as f64 / all as f64;
        total *= p;
        parts.push(format!("{n}/{all}"));
        rows.push((
            format!("{} | {}", pair[1], pair[0]),
            vec![
                Cell::Text(format!("{n} / {all}")),
                Cell::number(p, 4),
                Cell::number(p.ln(), 4),
                Cell::number(total, 6),
                Cell::number(total.ln(), 4),
            ],
        ));
    }
    let n = rows.len() as f64;
    Ok(Page::new(
        "product-rule",
        "The product rule",
        "The probability of a sentence is the product of the probabilities of its words, each given all \
        words before it.",
    )
    .formula(
        "Pr(t₁ … t_N) = Pr(t₁) · Π Pr(t_n | t₁ … t_(n−1))        ln Pr = Σ ln Pr(t_n | …)        \
        perplexity = e^(−ln Pr / N)",
    )
    .shapes(&[("logits", "[N, V]: one distribution for each place"), ("Pr(sentence)", "one number")])
    .text(format!(
        "The lecture's sentence “Learning deep learning is fun”, by a model small enough to count by \
        hand: pairs of words in four sentences of ours ({}). It looks back one word; a Transformer looks \
        back at all.",
        TEXTS[1..].iter().map(|t| t.trim_start_matches("<s> ")).collect::<Vec<_>>().join("; ")
    ))
    .table(Table::of("", "word | before", &["counted", "p", "ln p", "product so far", "sum of ln p"], rows))
    .expand(
        "the whole sentence",
        vec![
            format!("{} = {}", parts.join(" · "), shown(total, 6)),
            format!(
                "ln = {}, and e^({} / {n}) = {} is its perplexity",
                shown(total.ln(), 4),
                shown(-total.ln(), 4),
                shown((-total.ln() / n).exp(), 4)
            ),
        ],
    )
    .verdict(
        Verdict::Note,
        "programs add logarithms: a product of a few hundred probabilities is smaller than the smallest \
        number a computer has.",
    ))
}

/// Words that may follow the lecture's prompt "It takes great", with logits of ours.
const NEXT: [(&str, f32); 6] =
    [("courage", 3.0), ("effort", 2.5), ("skill", 2.0), ("care", 1.0), ("pains", 0.5), ("zebra", -2.0)];

/// The probabilities behind a chain.
fn after(chain: &str) -> Result<Vec<f64>> {
    bent(chain, &NEXT.map(|n| n.1))
}

/// The probabilities of these logits behind a chain.
pub(super) fn bent(chain: &str, logits: &[f32]) -> Result<Vec<f64>> {
    let chain: Chain = chain.parse()?;
    let mut row = Scores::of(logits)?;
    chain.apply(&mut row, &History::default())?;
    let scale = row.scale();
    Ok((0..logits.len() as u32).map(|id| scale.probability(row.logit(id))).collect())
}

pub(super) fn sampling() -> Result<Page> {
    let chains = ["temperature 1", "temperature 0.5", "temperature 2", "top_k 2", "top_p 0.8", "min_p 0.2"];
    let by: Vec<Vec<f64>> = chains.iter().map(|c| after(c)).collect::<Result<_>>()?;
    let words: Vec<&str> = NEXT.iter().map(|n| n.0).collect();
    let turned: Vec<Vec<f64>> = (0..words.len()).map(|i| by.iter().map(|column| column[i]).collect()).collect();
    let orders = ["temperature 2, top_p 0.8", "top_p 0.8, temperature 2"];
    let two: Vec<Vec<f64>> = orders.iter().map(|c| after(c)).collect::<Result<_>>()?;
    let kept: Vec<usize> = two.iter().map(|p| p.iter().filter(|p| **p > 0.0).count()).collect();
    let sums: f64 = NEXT.iter().map(|n| f64::from(n.1).exp()).sum();
    let mut table = Table::matrix("each column sums to 1", &words, &chains, &turned, 3);
    table.heat = true;
    let mut order = Table::matrix("order matters", &orders, &words, &two, 3);
    order.heat = true;
    Ok(Page::new(
        "sampling",
        "Sampling",
        "The network gives a distribution; a chain of steps bends it and cuts its tail, and then a word \
        is drawn.",
    )
    .formula(
        "temperature: p ∝ e^(logit/τ)    top-k: the k best    top-p: the fewest that hold p together    \
        min-p: all above p times the best",
    )
    .shapes(&[("logits", "[V] = [6] here"), ("p", "[V], sums to 1; what was cut has 0")])
    .text(
        "“It takes great …”, as in the lecture; the six words and their logits are ours, the steps are \
        those that `qkv generate --chain` runs.",
    )
    .table(table)
    .expand(
        "courage at temperature 0.5",
        vec![
            format!("at 1: e^3 / {} = {}", shown(sums, 3), shown(by[0][0], 3)),
            format!(
                "at 0.5: e^6 / {} = {}",
                shown(NEXT.iter().map(|n| (2.0 * f64::from(n.1)).exp()).sum(), 3),
                shown(by[1][0], 3)
            ),
        ],
    )
    .table(order)
    .verdict(
        Verdict::Note,
        format!(
            "the same two steps keep {} words in one order and {} in the other: temperature first makes the \
        tail heavier, and more of it fits under 0.8. `--trace` shows it for every word.",
            kept[0], kept[1]
        ),
    ))
}

/// The second word by the first: three sentences of two words each, with probabilities of ours.
const FIRST: [(&str, f64); 3] = [("la", 0.5), ("una", 0.4), ("il", 0.1)];
const SECOND: [[(&str, f64); 3]; 3] = [
    [("mela", 0.4), ("pera", 0.35), ("rosa", 0.25)],
    [("mela", 0.9), ("pera", 0.05), ("rosa", 0.05)],
    [("mela", 0.3), ("pera", 0.3), ("pane", 0.4)],
];

/// The best sentence that a beam of this width finds, with all that it looked at.
fn beam_of(width: usize) -> (String, f64, usize) {
    let mut first: Vec<usize> = (0..FIRST.len()).collect();
    first.sort_by(|a, b| FIRST[*b].1.total_cmp(&FIRST[*a].1));
    let kept = &first[..width.min(first.len())];
    let all = kept
        .iter()
        .flat_map(|&i| SECOND[i].iter().map(move |(word, p)| (format!("{} {word}", FIRST[i].0), FIRST[i].1 * p)));
    let all: Vec<(String, f64)> = all.collect();
    let best = all.iter().cloned().reduce(|a, b| if b.1 > a.1 { b } else { a }).unwrap_or_default();
    (best.0, best.1, FIRST.len() + all.len())
}

pub(super) fn beam() -> Result<Page> {
    let rows = FIRST.iter().zip(SECOND).map(|((first, p), next)| {
        let cells = next.iter().flat_map(|(word, q)| [Cell::Text(format!("{word} {q}")), Cell::number(p * q, 3)]);
        (format!("{first} {p}"), cells.collect())
    });
    let widths = [1usize, 2, 3].map(|k| {
        let (text, p, looked) = beam_of(k);
        (
            format!("width {k}{}", if k == 1 { " (greedy)" } else { "" }),
            vec![Cell::Text(text), Cell::number(p, 3), Cell::Count(looked as u64)],
        )
    });
    let (greedy, best) = (beam_of(1), beam_of(2));
    Ok(Page::new(
        "beam",
        "Beam search",
        "The most probable word now may lead to an improbable sentence; a beam keeps the k best \
        beginnings instead of one.",
    )
    .formula(
        "score(y₁ … y_t) = Σ ln p(y_i | y_<i)        keep the k best at every step        compare \
        finished ones by score / lengthᵅ",
    )
    .shapes(&[("beams", "[k, t]"), ("candidates of a step", "[k, V], of which k stay")])
    .table(Table::of(
        "two words, probabilities of ours: the second word, and the product",
        "first word",
        &["second", "product", "second", "product", "second", "product"],
        rows.collect(),
    ))
    .table(Table::of("what is found", "", &["sentence", "probability", "looked at"], widths.to_vec()))
    .expand(
        "greedy and width 2",
        vec![
            format!("greedy: {} → 0.5 · 0.4 = {}", greedy.0, shown(greedy.1, 3)),
            format!("width 2: {} → 0.4 · 0.9 = {}", best.0, shown(best.1, 3)),
        ],
    )
    .verdict(
        Verdict::Note,
        "“greedy usually does not perform very well”: here it misses a sentence almost twice as probable. \
        A wider beam finds nothing better, and looks at more.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_the_product_of_its_words() {
        let page = product_rule().unwrap();
        let rows = &page.tables().next().unwrap().rows;
        let product: f64 = rows.iter().map(|r| r.cells[1].value().unwrap()).product();
        assert!((product - rows.last().unwrap().cells[3].value().unwrap()).abs() < 1e-12);
        // learning is first in 3 of 4, deep follows learning in 2 of 5, …
        assert_eq!(counts("<s>", "learning"), [3, 4]);
        assert_eq!(counts("learning", "deep"), [2, 5]);
    }

    #[test]
    fn chains_by_hand() {
        let two = after("top_k 2").unwrap();
        let want = 3f64.exp() / (3f64.exp() + 2.5f64.exp());
        assert!((two[0] - want).abs() < 1e-6 && two[2] == 0.0, "{two:?}");
        for chain in ["temperature 2", "top_p 0.8", "min_p 0.2"] {
            assert!((after(chain).unwrap().iter().sum::<f64>() - 1.0).abs() < 1e-6);
        }
        let (a, b) = (after("temperature 2, top_p 0.8").unwrap(), after("top_p 0.8, temperature 2").unwrap());
        let kept = |p: &[f64]| p.iter().filter(|p| **p > 0.0).count();
        assert!(kept(&a) > kept(&b));
    }

    #[test]
    fn a_beam_finds_what_greedy_misses() {
        let (greedy, two, three) = (beam_of(1), beam_of(2), beam_of(3));
        assert_eq!((greedy.0.as_str(), two.0.as_str()), ("la mela", "una mela"));
        assert!((greedy.1 - 0.2).abs() < 1e-12 && (two.1 - 0.36).abs() < 1e-12 && two.0 == three.0);
    }
}
