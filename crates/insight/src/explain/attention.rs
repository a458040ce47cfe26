//! Attention itself: the lecture's sentences as mixtures, why learned projections are needed to get them, several heads,
//! and what happens when words change places.

use crate::arithmetic::{Attended, Matrix, attend, dot_in_words, product};
use crate::page::{Cell, Comparison, Page, Table, Verdict, shown};
use qkv_base::Result;

/// The lecture's weights: each word as a mixture of the words of its sentence.
pub(crate) const MONEY: [[f64; 3]; 3] = [[0.7, 0.2, 0.1], [0.25, 0.7, 0.05], [0.1, 0.2, 0.7]];
const RIVER: [[f64; 3]; 3] = [[0.8, 0.15, 0.05], [0.2, 0.78, 0.02], [0.4, 0.01, 0.59]];

/// The lecture's table of YOUR CAT IS A LOVELY CAT.
pub(crate) const YOUR_CAT: [[f64; 6]; 6] = [
    [0.268, 0.119, 0.134, 0.148, 0.179, 0.152],
    [0.124, 0.278, 0.201, 0.128, 0.154, 0.115],
    [0.147, 0.132, 0.262, 0.097, 0.218, 0.145],
    [0.210, 0.128, 0.206, 0.212, 0.119, 0.125],
    [0.146, 0.158, 0.152, 0.143, 0.227, 0.174],
    [0.195, 0.114, 0.203, 0.103, 0.157, 0.229],
];
pub(crate) const YOUR_CAT_WORDS: [&str; 6] = ["YOUR", "CAT", "IS", "A", "LOVELY", "CAT"];

/// Rows of a fixed table.
pub(crate) fn rows<const N: usize, const M: usize>(table: &[[f64; M]; N]) -> Matrix {
    table.iter().map(|row| row.to_vec()).collect()
}

/// `w₁₂w₂₃w₃₁` and `w₂₁w₃₂w₁₃`: equal for every softmax of symmetric scores, because the scores and the sums cancel.
fn around(w: &[[f64; 3]; 3]) -> [f64; 2] {
    [w[0][1] * w[1][2] * w[2][0], w[1][0] * w[2][1] * w[0][2]]
}

/// With projections any weights can be had: one-hot embeddings, W_k = 1 and W_q = √d·ln w give the scores ln w.
fn projected(w: &[[f64; 3]; 3]) -> (Matrix, Attended) {
    let one: Matrix = (0..3).map(|i| (0..3).map(|j| f64::from(i == j)).collect()).collect();
    let root = 3f64.sqrt();
    let w_q: Matrix = w.iter().map(|row| row.iter().map(|x| root * x.ln()).collect()).collect();
    let done = attend(&product(&one, &w_q), &one, &one, |_, _| true);
    (w_q, done)
}

pub(super) fn attention() -> Result<Page> {
    let words = ["money", "bank", "grows"];
    let (w_q, done) = projected(&MONEY);
    let [one_way, other_way] = around(&MONEY);
    let sums: Vec<f64> = YOUR_CAT.iter().map(|row| row.iter().sum()).collect();
    let compare = sums
        .iter()
        .enumerate()
        .map(|(i, s)| Comparison::new(format!("Σ of row {} ({})", i + 1, YOUR_CAT_WORDS[i]), "1", *s));
    let got = (0..3).flat_map(|i| (0..3).map(move |j| (i, j))).map(|(i, j)| {
        Comparison::new(format!("{} → {}", words[i], words[j]), &MONEY[i][j].to_string(), done.weights[i][j])
    });
    Ok(Page::new(
        "attention",
        "Attention",
        "Every word becomes a mixture of the words around it, weighted by how well its query fits their keys.",
    )
    .formula("Attention(Q, K, V) = softmax(Q·Kᵀ / √d) · V        Q = X·W_q   K = X·W_k   V = X·W_v")
    .shapes(&[
        ("Q, K, V", "(6, 512)"),
        ("Q·Kᵀ", "(6, 512)·(512, 6) → (6, 6)"),
        ("softmax(…)·V", "(6, 6)·(6, 512) → (6, 512)"),
    ])
    .section("YOUR CAT IS A LOVELY CAT")
    .table(
        Table::matrix("the slide's weights, as printed", &YOUR_CAT_WORDS, &YOUR_CAT_WORDS, &rows(&YOUR_CAT), 3)
            .weights(3),
    )
    .compare(compare.collect())
    .verdict(
        Verdict::Rounds,
        "with three digits a row sums to 1 or misses it by a thousandth: rows 3 and 6 print 1.001. They \
        are weights; the scores behind them are not on the slide, which says that all values are random.",
    )
    .section("money bank grows")
    .table(Table::matrix("the lecture's mixtures", &words, &words, &rows(&MONEY), 2).weights(2))
    .text(
        "The lecture first takes the dot products of the embeddings themselves as scores. Those are \
        symmetric, eᵢ·eⱼ = eⱼ·eᵢ, and then going around the three words must give the same product both \
        ways:",
    )
    .formula("w₁₂·w₂₃·w₃₁ = w₂₁·w₃₂·w₁₃        (each side is e^(s₁₂+s₂₃+s₃₁) / Z₁Z₂Z₃)")
    .expand(
        "around money, bank and grows",
        vec![
            format!("w₁₂·w₂₃·w₃₁ = 0.2·0.05·0.1 = {}", shown(one_way, 3)),
            format!("w₂₁·w₃₂·w₁₃ = 0.25·0.2·0.1 = {}", shown(other_way, 3)),
        ],
    )
    .verdict(
        Verdict::Note,
        format!(
            "{} ≠ {}, so this is impossible without learned projections: no embeddings whatever give these \
        weights (nor those of “river bank flows”: {} ≠ {}). That is the deck's own argument for W_q and \
        W_k.",
            shown(one_way, 3),
            shown(other_way, 3),
            shown(around(&RIVER)[0], 4),
            shown(around(&RIVER)[1], 4)
        ),
    )
    .section("The same weights, with projections")
    .text("With embeddings one-hot, W_k = W_v = 1 and this W_q, attention gives the lecture's weights exactly:")
    .table(Table::matrix("W_q = √3 · ln w", &words, &words, &w_q, 4))
    .table(Table::matrix("softmax(Q·Kᵀ/√3)", &words, &words, &done.weights, 2).weights(2))
    .expand(
        "q_bank · k_money",
        vec![
            format!("{} = {}", dot_in_words(&w_q[1], &[1.0, 0.0, 0.0], 4), shown(done.dots[1][0], 4)),
            format!("/ √3 = {} = ln 0.25", shown(done.scores[1][0], 4)),
            format!("softmax → e^{} / 1.0000 = {}", shown(done.scores[1][0], 4), shown(done.weights[1][0], 2)),
        ],
    )
    .compare(got.collect())
    .verdict(Verdict::Equal, "all nine weights come out.")
    .verdict(
        Verdict::Errs,
        "one slide gives bank = 0.2 money + 0.7 bank + 0.1 grows, the next 0.25, 0.7, 0.05 for the same \
        word; both sum to 1, and the second is used here.",
    ))
}

pub(super) fn heads() -> Result<Page> {
    let x: Matrix = vec![vec![1.0, 0.0, 0.5, -0.5], vec![0.0, 1.0, 1.0, 0.5], vec![1.0, 1.0, -0.5, 1.0]];
    let half = |from: usize| -> Matrix { x.iter().map(|row| row[from..from + 2].to_vec()).collect() };
    let parts = [half(0), half(2)].map(|h| attend(&h, &h, &h, |_, _| true));
    let beside: Matrix = (0..3).map(|i| [parts[0].out[i].clone(), parts[1].out[i].clone()].concat()).collect();
    let tokens = ["t1", "t2", "t3"];
    let split = [("the paper", 512u64, 8u64), ("BERT-large", 1024, 16), ("GPT-3", 12_288, 96)];
    let sizes = split.map(|(name, c, h)| (name, [c, h, c / h, h * (c / h)].map(Cell::Count).to_vec()));
    Ok(Page::new(
        "heads",
        "Several heads",
        "One attention can follow one relation at a time; split the width into h parts, let each attend \
        for itself, put the results side by side and mix them with W_o.",
    )
    .formula(
        "headᵢ = Attention(Q·W_qᵢ, K·W_kᵢ, V·W_vᵢ)        MultiHead = concat(head₁ … head_h) · W_o        \
        d = C / h",
    )
    .shapes(&[
        ("X", "[T, C]"),
        ("split", "[T, C] → [h, T, d]"),
        ("scores", "[h, T, T]"),
        ("concat", "[h, T, d] → [T, C]"),
        ("W_o", "[C, C]"),
    ])
    .table(Table::of("the slides' sizes", "", &["C", "h", "d = C / h", "h × d"], sizes.to_vec()))
    .compare(vec![
        Comparison::new("the paper, d", "64", 512.0 / 8.0),
        Comparison::new("BERT-large, 16 × 64", "1024", 16.0 * 64.0),
        Comparison::new("GPT-3, 96 × 128", "12,288", 96.0 * 128.0),
    ])
    .verdict(Verdict::Equal, "every width is heads times the width of a head.")
    .section("Three tokens, width 4, two heads")
    .text(
        "Numbers of ours, and no projections, so that each step can be followed: head 1 reads the first \
        two features, head 2 the other two.",
    )
    .table(Table::matrix("X", &tokens, &["c1", "c2", "c3", "c4"], &x, 1))
    .table(Table::matrix("weights of head 1", &tokens, &tokens, &parts[0].weights, 3).weights(3))
    .table(Table::matrix("weights of head 2", &tokens, &tokens, &parts[1].weights, 3).weights(3))
    .table(Table::matrix("side by side", &tokens, &["head 1", "head 1", "head 2", "head 2"], &beside, 3))
    .expand(
        "head 2, how t1 looks at t3",
        vec![
            format!("q·k = {} = {}", dot_in_words(&half(2)[0], &half(2)[2], 1), shown(parts[1].dots[0][2], 2)),
            format!("/ √2 = {}", shown(parts[1].scores[0][2], 4)),
            format!("softmax → {}", shown(parts[1].weights[0][2], 3)),
        ],
    )
    .verdict(
        Verdict::Note,
        "the two heads look at different words with the same arithmetic: nothing in the formula says \
        which relation a head follows, training does.",
    ))
}

pub(super) fn equivariance() -> Result<Page> {
    let words = ["the", "man", "ate", "fish"];
    let x: Matrix = vec![vec![0.1, 0.2], vec![1.0, 0.3], vec![0.4, -0.8], vec![-0.6, 0.9]];
    let order = [0usize, 3, 2, 1]; // man and fish change places
    let moved: Matrix = order.iter().map(|i| x[*i].clone()).collect();
    let run = |x: &Matrix| attend(x, x, x, |_, _| true);
    let (before, after) = (run(&x), run(&moved));
    let back: Matrix = order.iter().map(|i| before.out[*i].clone()).collect();
    let worst = after.out.concat().iter().zip(back.concat()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let placed = |x: &Matrix| -> Matrix {
        x.iter()
            .enumerate()
            .map(|(p, row)| row.iter().zip(crate::arithmetic::sinusoids(p, 2)).map(|(a, b)| a + b).collect())
            .collect()
    };
    let (here, there) = (run(&placed(&x)), run(&placed(&moved)));
    let placed_back: Matrix = order.iter().map(|i| here.out[*i].clone()).collect();
    let differs = there.out.concat().iter().zip(placed_back.concat()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let moved_words: Vec<&str> = order.iter().map(|i| words[*i]).collect();
    let mean = |rows: &Matrix| -> Vec<f64> { crate::arithmetic::mix(&vec![1.0 / rows.len() as f64; rows.len()], rows) };
    Ok(Page::new(
        "equivariance",
        "When words change places",
        "Without positions attention sees a bag of words: permute them and the outputs are permuted the \
        same way, each word's own output unchanged.",
    )
    .formula("equivariant: f(t(x)) = t(f(x))        invariant: f(t(x)) = f(x)")
    .shapes(&[("x", "[T, C] = [4, 2]"), ("f(x)", "[T, C] = [4, 2]")])
    .table(Table::matrix("the man ate fish: outputs", &words, &["c1", "c2"], &before.out, 4))
    .table(Table::matrix("the fish ate man: outputs", &moved_words, &["c1", "c2"], &after.out, 4))
    .expand(
        "man, in both orders",
        vec![
            format!("place 2 of the first: {} {}", shown(before.out[1][0], 4), shown(before.out[1][1], 4)),
            format!("place 4 of the second: {} {}", shown(after.out[3][0], 4), shown(after.out[3][1], 4)),
            format!("largest difference of all words: {worst:.1e}"),
        ],
    )
    .table(Table::matrix(
        "the mean over all words, which is invariant",
        &["first order", "second order"],
        &["c1", "c2"],
        &[mean(&before.out), mean(&after.out)],
        4,
    ))
    .verdict(
        Verdict::Errs,
        "two decks call self-attention (or any network) permutation invariant. It is equivariant: the \
        outputs move with the words. Only what is pooled over all words is invariant.",
    )
    .verdict(
        Verdict::Note,
        format!(
            "with sinusoids added the same word comes out differently in another place: the largest \
        difference is then {}.",
            shown(differs, 4)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_bank_grows_needs_projections_and_has_them() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let [a, b] = around(&MONEY);
        assert!(near(a, 0.001) && near(b, 0.005));
        // Whatever the embeddings are, the two products agree where scores are symmetric.
        let e = [[0.3, -1.0], [0.7, 0.2], [-0.4, 0.9]];
        let x = rows(&e);
        let w = attend(&x, &x, &x, |_, _| true).weights;
        let w: [[f64; 3]; 3] = std::array::from_fn(|i| std::array::from_fn(|j| w[i][j]));
        assert!(near(around(&w)[0], around(&w)[1]));
        for table in [MONEY, RIVER] {
            let got = projected(&table).1.weights;
            assert!((0..3).all(|i| (0..3).all(|j| near(got[i][j], table[i][j]))));
            assert!(table.iter().all(|row| near(row.iter().sum(), 1.0)));
        }
    }

    #[test]
    fn the_rows_of_the_slide_sum_as_they_are_said_to() {
        let sums: Vec<String> = YOUR_CAT.iter().map(|row| shown(row.iter().sum(), 3)).collect();
        assert_eq!(sums, ["1.000", "1.000", "1.001", "1.000", "1.000", "1.001"]);
    }

    #[test]
    fn outputs_move_with_the_words() {
        let page = equivariance().unwrap();
        let of = |t: usize, word: &str| {
            page.tables()
                .nth(t)
                .unwrap()
                .rows
                .iter()
                .find(|r| r.label == word)
                .unwrap()
                .cells
                .iter()
                .map(Cell::shown)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0, "man"), of(1, "man"));
        assert_eq!(of(2, "first order"), of(2, "second order"));
    }
}
