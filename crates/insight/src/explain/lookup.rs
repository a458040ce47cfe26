//! From a dictionary to a mixture: look-up, softmax, and the root that keeps softmax from becoming a look-up again.

use super::numbers;
use crate::arithmetic::{Matrix, dot, dot_in_words, mean_variance, mix, softmax as soft};
use crate::page::{Cell, Page, Table, Verdict, shown};
use qkv_base::{Key, Result};

pub(super) fn lookup() -> Result<Page> {
    let words = ["shop", "bought", "oranges"];
    // Features of our own: [place, action, fruit].
    let keys: Matrix = vec![vec![0.9, 0.1, 0.1], vec![0.1, 0.9, 0.2], vec![0.0, 0.2, 0.9]];
    let values: Matrix = vec![vec![10.0], vec![20.0], vec![30.0]];
    let query = [0.1, 0.2, 1.0];
    let scores: Vec<f64> = keys.iter().map(|k| dot(&query, k)).collect();
    let sharp = [1.0, 4.0, 16.0, 64.0];
    let rows = sharp.map(|b| {
        let weights = soft(&scores.iter().map(|s| b * s).collect::<Vec<_>>());
        let answer = mix(&weights, &values)[0];
        (format!("scores × {b}"), numbers(&[weights, vec![answer]].concat(), 3))
    });
    let last = soft(&scores);
    Ok(Page::new(
        "lookup",
        "Attention as a look-up",
        "A dictionary gives the value of the one key that equals the query; attention gives a mixture of \
        all values, weighted by how well each key fits.",
    )
    .formula("weights = softmax(query · keysᵀ)        answer = Σ weightᵢ · valueᵢ")
    .shapes(&[
        ("query", "[D] = [3]"),
        ("keys", "[T, D] = [3, 3]"),
        ("values", "[T, Dv] = [3, 1]"),
        ("answer", "[Dv] = [1]"),
    ])
    .text(
        "From the lecture's sentence “I went to shop and bought oranges”; the features [place, action, \
        fruit] and the values 10, 20, 30 are ours. The query asks for fruit.",
    )
    .table(Table::matrix("keys", &words, &["place", "action", "fruit"], &keys, 1))
    .table(Table::of(
        "the sharper the scores, the nearer to a dictionary",
        "",
        &["shop", "bought", "oranges", "answer"],
        rows.to_vec(),
    ))
    .expand(
        "the score of oranges",
        vec![
            format!("{} = {}", dot_in_words(&query, &keys[2], 1), shown(scores[2], 2)),
            format!(
                "weight = e^{} / (e^{} + e^{} + e^{}) = {}",
                shown(scores[2], 2),
                shown(scores[0], 2),
                shown(scores[1], 2),
                shown(scores[2], 2),
                shown(last[2], 3)
            ),
        ],
    )
    .verdict(
        Verdict::Note,
        "with sharp scores the answer is 30, the value of the best key: a look-up is the limit of \
        attention. The mixture has a gradient, the look-up has none.",
    ))
}

pub(super) fn softmax() -> Result<Page> {
    let scores = [2.0, 1.0, 0.1];
    let shifted: Vec<f64> = scores.iter().map(|s| s + 100.0).collect();
    let masked = [2.0, 1.0, f64::NEG_INFINITY];
    let weights = soft(&scores);
    let columns = ["a", "b", "c"];
    let all: Matrix = vec![scores.to_vec(), shifted.clone(), masked.to_vec()];
    let table = Table::matrix("scores", &["scores", "scores + 100", "c hidden"], &columns, &all, 1);
    let sums: Vec<Vec<f64>> = [&scores[..], &shifted, &masked].iter().map(|s| soft(s)).collect();
    let powers: Vec<f64> = scores.iter().map(|s| s.exp()).collect();
    let (x, y) = (1.5f64, 0.5f64);
    Ok(Page::new(
        "softmax",
        "Softmax",
        "Scores become weights: all positive, together one, larger scores larger weights.",
    )
    .formula(
        "softmax(x)ᵢ = e^xᵢ / Σⱼ e^xⱼ        of two: e^x / (e^x + e^y) = 1 / (1 + e^(y − x))        \
        e^(−∞) = 0",
    )
    .shapes(&[("scores", "[…, T]"), ("weights", "[…, T], each row sums to 1")])
    .table(table)
    .table(Table::matrix("weights", &["scores", "scores + 100", "c hidden"], &columns, &sums, 4).weights(4))
    .expand(
        "weight a",
        vec![
            format!(
                "e^2 / (e^2 + e^1 + e^0.1) = {} / ({} + {} + {})",
                shown(powers[0], 4),
                shown(powers[0], 4),
                shown(powers[1], 4),
                shown(powers[2], 4)
            ),
            format!("= {} / {} = {}", shown(powers[0], 4), shown(powers.iter().sum(), 4), shown(weights[0], 4)),
        ],
    )
    .expand(
        "of two, x = 1.5 and y = 0.5",
        vec![
            format!("e^1.5 / (e^1.5 + e^0.5) = {}", shown(x.exp() / (x.exp() + y.exp()), 6)),
            format!("1 / (1 + e^(0.5 − 1.5)) = {}", shown(1.0 / (1.0 + (y - x).exp()), 6)),
        ],
    )
    .verdict(
        Verdict::Equal,
        "a number added to all scores changes nothing (programs subtract the largest, so that nothing \
        overflows); a score of −∞ has the weight 0, which is how masks hide.",
    ))
}

pub(super) fn scale() -> Result<Page> {
    let samples = 4000;
    let measured: Vec<(usize, f64, f64)> = [1usize, 2, 3, 16, 64, 512]
        .iter()
        .map(|&d| {
            let dots = dots(d, samples);
            let scaled: Vec<f64> = dots.iter().map(|x| x / (d as f64).sqrt()).collect();
            (d, mean_variance(&dots).1, mean_variance(&scaled).1)
        })
        .collect();
    let row = |(d, before, after): &(usize, f64, f64)| {
        (format!("d = {d}"), vec![Cell::number(*before, 2), Cell::number(*d as f64, 0), Cell::number(*after, 3)])
    };
    // Ten keys for one query: how much weight the best one takes, and how much gradient is left.
    let saturation = [1usize, 16, 64, 512].map(|d| {
        let dots = dots(d, 400 * 10);
        let look = |divide: f64| {
            let rows: Vec<Vec<f64>> =
                dots.chunks(10).map(|c| soft(&c.iter().map(|x| x / divide).collect::<Vec<_>>())).collect();
            let n = rows.len() as f64;
            let best = rows.iter().map(|r| r.iter().copied().fold(0.0, f64::max)).sum::<f64>() / n;
            // |∂p/∂s|: Σ over the diagonal p(1 − p) is the size of softmax's derivative.
            let slope = rows.iter().map(|r| r.iter().map(|p| p * (1.0 - p)).sum::<f64>()).sum::<f64>() / n;
            [best, slope]
        };
        let (plain, scaled) = (look(1.0), look((d as f64).sqrt()));
        (format!("d = {d}"), numbers(&[plain, scaled].concat(), 3))
    });
    Ok(Page::new(
        "scale",
        "Why scores are divided by √d",
        "A dot product of d random terms has d times the variance of one term; without the root, wide \
        heads would make softmax choose one key and learn nothing.",
    )
    .formula("Var(q·k) = d · Var(qᵢkᵢ)        Var(c·X) = c²·Var(X)        Var(q·k / √d) = Var(qᵢkᵢ)")
    .shapes(&[("Q", "(6, 512)"), ("Kᵀ", "(512, 6)"), ("Q·Kᵀ/√512", "(6, 6)"), ("d of a head", "512 / 8 = 64")])
    .table(Table::of(
        &format!("measured over {samples} pairs of standard normal vectors (drawn from a fixed seed)"),
        "",
        &["Var(q·k)", "d·Var", "Var(q·k/√d)"],
        measured.iter().map(row).collect(),
    ))
    .table(Table::of(
        "one query and ten keys: the weight of the best key, and what is left of softmax's derivative, Σ \
        p(1 − p)",
        "",
        &["best", "derivative", "best, with √d", "derivative, with √d"],
        saturation.to_vec(),
    ))
    .expand(
        "two dimensions, as on the slide",
        vec!["Y = X₁ + X₂, so Var(Y) = 2·Var(X)".into(), "Var(Y/√2) = (1/√2)²·2·Var(X) = ½·2·Var(X) = Var(X)".into()],
    )
    .verdict(
        Verdict::Equal,
        "the measured variance grows as d, and is 1 again after the division; the derivative of softmax \
        survives only with it.",
    ))
}

/// `n` dot products of standard normal vectors of width d.
pub(crate) fn dots(d: usize, n: usize) -> Vec<f64> {
    let key = Key::new(17, 0, d as u64);
    let (q, k) = (key.child(0).normals(n * d), key.child(1).normals(n * d));
    let row = |i: usize| (0..d).map(|j| f64::from(q[i * d + j]) * f64::from(k[i * d + j])).sum();
    (0..n).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_of_a_dot_product_grows_as_d_and_the_root_takes_it_back() {
        for d in [1, 2, 3, 16, 64, 512] {
            let dots = dots(d, 4000);
            let ratio = mean_variance(&dots).1 / d as f64;
            assert!((ratio - 1.0).abs() < 0.15, "d = {d}: {ratio}");
        }
    }

    #[test]
    fn a_sharp_look_up_finds_the_best_key() {
        let page = lookup().unwrap();
        let table = page.tables().nth(1).unwrap();
        assert_eq!(table.rows[3].cells[3].shown(), "30.000");
        assert!(table.rows[0].cells[3].value().unwrap() < 25.0);
    }

    #[test]
    fn the_derivative_survives_with_the_root() {
        let page = scale().unwrap();
        let last = page.tables().nth(1).unwrap().rows.last().unwrap();
        let [_, plain, _, scaled]: [f64; 4] = std::array::from_fn(|i| last.cells[i].value().unwrap());
        assert!(plain < 0.1 && scaled > 0.5, "{plain} {scaled}");
    }
}
