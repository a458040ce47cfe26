//! How these networks learn: why gradients reach far or fade, why all positions learn at once, and what is made small.

use super::numbers;
use crate::arithmetic::softmax;
use crate::page::{Cell, Page, Table, Verdict, shown};
use qkv_base::Result;

pub(super) fn gradients() -> Result<Page> {
    let steps = [1usize, 5, 10, 30, 100];
    let names: Vec<String> =
        steps.iter().map(|n| if *n == 1 { "1 step".to_string() } else { format!("{n} steps") }).collect();
    let power = |w: f64| numbers(&steps.map(|n| w.powi(n as i32)), 6);
    // A recurrent network of one unit that really runs: h ← tanh(w·h + u·x), and ∂h_T/∂h_0 by the chain rule.
    let chain = |w: f64| -> Vec<f64> {
        steps
            .iter()
            .map(|&n| {
                let (mut h, mut d) = (0.5f64, 1.0f64);
                for t in 0..n {
                    h = (w * h + 0.3 * ((t % 3) as f64 - 1.0)).tanh();
                    d *= w * (1.0 - h * h);
                }
                d
            })
            .collect()
    };
    Ok(Page::new(
        "gradients",
        "How far a gradient reaches",
        "In a recurrent network the influence of an early word is multiplied by the same factor at every \
        step: it vanishes or explodes. In attention every word is one step away.",
    )
    .formula("∂h_T/∂h_0 = Π ∂h_t/∂h_(t−1) ≈ wᵀ        attention: ∂out_i/∂v_j = weight_ij, whatever the distance")
    .shapes(&[
        ("h", "[C], one state carried through all T steps"),
        ("attention", "[T, T] weights: a path of length 1 between any two words"),
    ])
    .table(Table::of(
        "wⁿ",
        "w",
        &names,
        vec![
            ("0.5", power(0.5)),
            ("0.9", power(0.9)),
            ("1.0", power(1.0)),
            ("1.1", power(1.1)),
            ("gate of 0.99", power(0.99)),
        ],
    ))
    .table(Table::of(
        "∂h_T/∂h_0 of a tanh unit that is run (inputs −0.3, 0, 0.3 in turn)",
        "w",
        &names,
        vec![("0.9", numbers(&chain(0.9), 6)), ("1.5", numbers(&chain(1.5), 6)), ("3.0", numbers(&chain(3.0), 6))],
    ))
    .expand(
        "30 words at w = 0.9",
        vec![
            format!("0.9³⁰ = {}", shown(0.9f64.powi(30), 4)),
            format!("a gate of 0.99: 0.99³⁰ = {}", shown(0.99f64.powi(30), 4)),
        ],
    )
    .verdict(
        Verdict::Note,
        "1.1¹⁰⁰ is near 13,781: what does not vanish explodes. Why vanishing is the commoner of the two: \
        tanh's own derivative is below 1, as the second table shows even for w above 1. Gates (LSTM, \
        GRU) hold the factor near 1: they mitigate, as the deck says, and do not solve.",
    ))
}

pub(super) fn teacher_forcing() -> Result<Page> {
    let target = ["ti", "amo", "molto", "il", "cibo", "<EOS>"];
    let row = |(i, label): (usize, &&str)| {
        let input = if i == 0 { "<SOS>" } else { target[i - 1] };
        let seen: Vec<&str> = std::iter::once("<SOS>").chain(target[..i].iter().copied()).collect();
        (
            format!("{}", i + 1),
            vec![
                Cell::Text(input.into()),
                Cell::Text(label.to_string()),
                Cell::Text(seen.join(" ")),
                Cell::Count(i as u64 + 1),
            ],
        )
    };
    let rows: Vec<_> = target.iter().enumerate().map(row).collect();
    let n = target.len() as u64;
    Ok(Page::new(
        "teacher-forcing",
        "Teacher forcing",
        "While learning, the decoder is given the right words shifted by one place, so that every \
        position learns at the same time; the mask keeps it from seeing its own answer.",
    )
    .formula(
        "input  = <SOS> y₁ y₂ … y_(T−1)        label = y₁ y₂ … y_T        loss = mean over t of −ln P(y_t \
        | y_<t, source)",
    )
    .shapes(&[("decoder input", "[T] = [6], shifted right"), ("logits", "[T, V]"), ("labels", "[T] = [6]")])
    .table(Table::of(
        "the lecture's target: ti amo molto il cibo <EOS>",
        "place",
        &["is given", "must say", "may look at", "how many"],
        rows,
    ))
    .expand("place 3", vec!["given amo, and seeing <SOS> ti amo, it must say molto".into()])
    .table(Table::of(
        "passes of the decoder over a sentence",
        "",
        &["passes"],
        vec![
            ("learning, all places at once", vec![Cell::Count(1)]),
            ("writing, one word after the other", vec![Cell::Count(n)]),
        ],
    ))
    .verdict(
        Verdict::Equal,
        "“It all happens in one time step”: one pass for 6 labels. Writing takes 6, because the words are \
        not there yet.",
    ))
}

/// Cross-entropy against the label with `epsilon` of the target spread over all words.
fn smoothed(weights: &[f64], label: usize, epsilon: f64) -> f64 {
    let v = weights.len() as f64;
    let term = |(i, p): (usize, &f64)| ((1.0 - epsilon) * f64::from(i == label) + epsilon / v) * -p.ln();
    weights.iter().enumerate().map(term).sum()
}

pub(super) fn loss() -> Result<Page> {
    let words = ["ti", "amo", "molto", "il", "cibo"];
    let logits = [0.2, 2.5, 0.3, -0.5, 0.8];
    let p = softmax(&logits);
    let rows = words
        .iter()
        .enumerate()
        .map(|(i, w)| (w.to_string(), numbers(&[logits[i], p[i], -p[i].ln(), smoothed(&p, i, 0.1)], 4)));
    let sum: f64 = logits.iter().map(|l: &f64| l.exp()).sum();
    Ok(Page::new(
        "loss",
        "Cross-entropy",
        "The loss is how surprised the network is by the right word: minus the logarithm of the \
        probability it gave it.",
    )
    .formula(
        "loss = −ln softmax(logits)[label] = ln Σ e^logit − logit[label]        perplexity = e^loss        \
        smoothed: (1 − ε)·loss + ε·mean over all words of −ln p",
    )
    .shapes(&[
        ("logits", "[T, V]: nn.Linear(d_model, vocab_size)"),
        ("labels", "[T]"),
        ("loss", "one number; padding is left out of the mean"),
    ])
    .table(Table::of(
        "five words and logits of ours, whichever is right",
        "the right word",
        &["logit", "probability", "loss", "loss, ε = 0.1"],
        rows.collect(),
    ))
    .expand(
        "the right word is amo",
        vec![
            format!("Σ e^logit = {}", shown(sum, 4)),
            format!("p = e^2.5 / {} = {}", shown(sum, 4), shown(p[1], 4)),
            format!("loss = −ln {} = {} = ln {} − 2.5", shown(p[1], 4), shown(-p[1].ln(), 4), shown(sum, 4)),
            format!("perplexity = e^{} = {}", shown(-p[1].ln(), 4), shown(1.0 / p[1], 4)),
        ],
    )
    .table(Table::of(
        "what a network that knows nothing pays",
        "",
        &["words", "loss = ln V", "perplexity"],
        [10_000u64, 30_000, 50_257]
            .map(|v| (format!("V = {v}"), vec![Cell::Count(v), Cell::number((v as f64).ln(), 4), Cell::Count(v)]))
            .to_vec(),
    ))
    .verdict(
        Verdict::Note,
        format!(
            "the lecture's linear layer of 10 K words begins near ln 10,000 = {}; a first loss far above that \
        is a fault.",
            shown(10_000f64.ln(), 2)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Block;

    #[test]
    fn a_loss_by_hand() {
        let p = softmax(&[0.0, 0.0]);
        assert!((smoothed(&p, 0, 0.0) - 2f64.ln()).abs() < 1e-12);
        assert!((smoothed(&p, 0, 0.3) - 2f64.ln()).abs() < 1e-12); // both words alike: nothing to smooth
        let page = loss().unwrap();
        let table = page.tables().next().unwrap();
        let sum: f64 = table.rows.iter().map(|r| r.cells[1].value().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-12);
        let best = &table.rows[1].cells;
        assert!(best[2].value().unwrap() < best[3].value().unwrap(), "smoothing makes even a good answer pay");
    }

    #[test]
    fn every_label_is_the_input_of_the_next_place() {
        let page = teacher_forcing().unwrap();
        let rows = &page.tables().next().unwrap().rows;
        assert!(rows.windows(2).all(|w| w[0].cells[1] == w[1].cells[0]));
        assert_eq!(rows[0].cells[0], Cell::Text("<SOS>".into()));
    }

    #[test]
    fn a_tanh_unit_fades_even_where_its_weight_is_above_one() {
        let page = gradients().unwrap();
        let Some(Block::Table(table)) = page.blocks.iter().rfind(|b| matches!(b, Block::Table(_))) else {
            panic!("a table")
        };
        assert!(table.rows.iter().all(|r| r.cells[4].value().unwrap().abs() < 1e-5), "{table:?}");
    }
}
