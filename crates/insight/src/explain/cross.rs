//! Who may look where: the causal mask, and attention from one sequence to another.

use super::attention::{YOUR_CAT, YOUR_CAT_WORDS};
use crate::arithmetic::{Matrix, attend, dot_in_words, softmax};
use crate::page::{Comparison, Page, Table, Verdict, shown};
use qkv_base::Result;

/// The lecture's five-token table, as printed.
const FIVE: [[f64; 5]; 5] = [
    [0.9, 0.0, 0.0, 0.0, 0.0],
    [0.4, 0.5, 0.0, 0.0, 0.0],
    [0.2, 0.3, 0.5, 0.0, 0.0],
    [0.1, 0.1, 0.3, 0.5, 0.0],
    [0.0, 0.1, 0.2, 0.3, 0.4],
];

/// The table with −∞ right of the diagonal.
fn masked<const N: usize>(table: &[[f64; N]; N]) -> Matrix {
    let row = |(i, row): (usize, &[f64; N])| (0..N).map(|j| if j <= i { row[j] } else { f64::NEG_INFINITY }).collect();
    table.iter().enumerate().map(row).collect()
}

/// The visible weights of each row, made to sum to 1 again: what −∞ before softmax does to weights that are known.
fn renormalised<const N: usize>(table: &[[f64; N]; N]) -> Matrix {
    let row = |(i, row): (usize, &[f64; N])| {
        let seen: f64 = row[..=i].iter().sum();
        (0..N).map(|j| if j <= i { row[j] / seen } else { 0.0 }).collect()
    };
    table.iter().enumerate().map(row).collect()
}

pub(super) fn mask() -> Result<Page> {
    let names: Vec<String> = (1..=5).map(|i| format!("t{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let scores = masked(&FIVE);
    let weights: Matrix = scores.iter().map(|row| softmax(row)).collect();
    let sums: Vec<f64> = FIVE.iter().map(|row| row.iter().sum()).collect();
    let cat = renormalised(&YOUR_CAT);
    let compare =
        sums.iter().enumerate().map(|(i, s)| Comparison::new(format!("Σ of row t{}, as weights", i + 1), "1.0", *s));
    let powers = [0.4f64.exp(), 0.5f64.exp()];
    Ok(Page::new(
        "mask",
        "The causal mask",
        "While learning, every position may look at itself and at what stands before it; scores to the \
        right are set to −∞, and softmax makes them 0.",
    )
    .formula("score[i, j] = q_i·k_j/√d  if j ≤ i,  else −∞        e^(−∞) = 0")
    .shapes(&[("scores", "[T, T] = [5, 5]"), ("mask", "[T, T], upper triangle −∞, the diagonal is seen")])
    .table(Table::matrix("the slide's five tokens, read as scores", &names, &names, &scores, 1))
    .table(Table::matrix("after softmax", &names, &names, &weights, 4).weights(4))
    .expand(
        "how t2 looks at t1",
        vec![
            format!(
                "e^0.4 / (e^0.4 + e^0.5 + 0 + 0 + 0) = {} / ({} + {})",
                shown(powers[0], 4),
                shown(powers[0], 4),
                shown(powers[1], 4)
            ),
            format!("= {}", shown(weights[1][0], 4)),
        ],
    )
    .compare(compare.collect())
    .verdict(
        Verdict::Errs,
        "the slide prints −∞ and weights in one table. Read as weights, its rows t1 and t2 sum to 0.9 and \
        not to 1; read as scores they give the table above.",
    )
    .section("YOUR CAT IS A LOVELY CAT, masked")
    .text(
        "The other deck prints weights. Hiding the right side before softmax is the same as dividing what \
        is left by its sum:",
    )
    .table(Table::matrix("", &YOUR_CAT_WORDS, &YOUR_CAT_WORDS, &cat, 3).weights(3))
    .expand("CAT → YOUR", vec![format!("0.124 / (0.124 + 0.278) = {}", shown(cat[1][0], 3))])
    .verdict(
        Verdict::Errs,
        "one deck masks “current and right context”. Only what is right of the current token is hidden: \
        were the current one hidden too, the first row would have nothing to look at.",
    ))
}

pub(super) fn cross() -> Result<Page> {
    let source = ["I", "like", "eating", "ice-cream"];
    let target = ["मुझे", "आइसक्रीम", "खाना", "पसंद", "है"];
    // Features of our own: [person, liking, food, action].
    let keys: Matrix =
        vec![vec![2.0, 0.2, 0.0, 0.1], vec![0.1, 2.0, 0.1, 0.6], vec![0.0, 0.3, 0.6, 2.0], vec![0.0, 0.1, 2.2, 0.3]];
    let queries: Matrix = vec![
        vec![2.2, 0.4, 0.0, 0.0],
        vec![0.0, 0.0, 2.4, 0.2],
        vec![0.0, 0.2, 0.8, 2.2],
        vec![0.3, 2.3, 0.0, 0.2],
        vec![0.3, 0.9, 0.0, 0.9],
    ];
    let done = attend(&queries, &keys, &keys, |_, _| true);
    Ok(Page::new(
        "cross",
        "Cross-attention",
        "The decoder asks, the encoder answers: queries come from the sequence that is written, keys and \
        values from the one that was read.",
    )
    .formula("softmax(Q·Kᵀ/√d)·V        Q from the output sequence, K and V from the encoder's last layer")
    .shapes(&[
        ("Q", "(5, 512): five words are written"),
        ("K, V", "(4, 512): four words were read"),
        ("Q·Kᵀ", "(5, 512)·(512, 4) → (5, 4)"),
        ("softmax(…)·V", "(5, 4)·(4, 512) → (5, 512)"),
    ])
    .text(
        "I like eating ice-cream → मुझे आइसक्रीम खाना पसंद है. The slide draws dots of different size; \
        the features and numbers here are ours.",
    )
    .table(Table::matrix("keys of the source", &source, &["person", "liking", "food", "action"], &keys, 1))
    .table(
        Table::matrix("weights: each word that is written looks at the source", &target, &source, &done.weights, 3)
            .weights(3),
    )
    .expand(
        "how आइसक्रीम looks at ice-cream",
        vec![
            format!("q·k = {} = {}", dot_in_words(&queries[1], &keys[3], 1), shown(done.dots[1][3], 2)),
            format!("/ √4 = {}", shown(done.scores[1][3], 2)),
            format!("softmax → {}", shown(done.weights[1][3], 3)),
        ],
    )
    .compare(vec![Comparison::new("outputs for five written words", "5", done.out.len() as f64)])
    .verdict(Verdict::Equal, "there are as many outputs as words of the output sequence, as the slide says.")
    .verdict(
        Verdict::Note,
        "the slide's table has the source in its rows; the formula gives the transposed one, a row for \
        each query. No mask is needed: the source is known whole.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_token_mask_as_scores() {
        let four = |row: &Vec<f64>| row.iter().filter(|w| **w > 0.0).map(|w| shown(*w, 4)).collect::<Vec<_>>();
        let weights: Vec<Vec<String>> = masked(&FIVE).iter().map(|row| four(&softmax(row))).collect();
        assert_eq!(weights[0], ["1.0000"]);
        assert_eq!(weights[1], ["0.4750", "0.5250"]);
        assert_eq!(weights[2], ["0.2894", "0.3199", "0.3907"]);
        assert_eq!(weights[3], ["0.2122", "0.2122", "0.2591", "0.3165"]);
        assert_eq!(weights[4], ["0.1621", "0.1792", "0.1980", "0.2188", "0.2419"]);
        let sums: Vec<f64> = mask().unwrap().comparisons().map(|c| c.computed).collect();
        assert!((sums[0] - 0.9).abs() < 1e-12 && (sums[1] - 0.9).abs() < 1e-12 && (sums[2] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_second_row_of_your_cat() {
        let row = &renormalised(&YOUR_CAT)[1];
        assert_eq!([shown(row[0], 3), shown(row[1], 3), shown(row[2], 3)], ["0.308", "0.692", "0.000"]);
        // The same from scores: ln w hidden by −∞.
        let logs: [[f64; 6]; 6] = YOUR_CAT.map(|row| row.map(f64::ln));
        let again = softmax(&masked(&logs)[1]);
        assert!(again.iter().zip(row).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
