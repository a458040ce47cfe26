//! What stands around attention in a block: norms, the residual connection, the feed-forward.

use super::numbers;
use crate::arithmetic::{Matrix, mean_variance, normalise, rms_normalise, transpose};
use crate::page::{Cell, Comparison, Page, Table, Verdict, shown};
use qkv_base::Result;

/// The lecture's table: five samples of five features.
const TABLE: [[f64; 5]; 5] = [
    [2.0, 3.0, 7.0, 5.0, 4.0],
    [1.0, 1.0, 2.0, 3.0, 4.0],
    [5.0, 4.0, 1.0, 2.0, 3.0],
    [6.0, 1.0, 7.0, 5.0, 6.0],
    [7.0, 1.0, 3.0, 3.0, 4.0],
];

pub(super) fn norms() -> Result<Page> {
    let x: Matrix = TABLE.iter().map(|row| row.to_vec()).collect();
    let columns = transpose(&x);
    let (samples, features) = (["s1", "s2", "s3", "s4", "s5"], ["f1", "f2", "f3", "f4", "f5"]);
    let facts = |rows: &Matrix| -> [Vec<f64>; 2] {
        let both: Vec<(f64, f64)> = rows.iter().map(|row| mean_variance(row)).collect();
        [both.iter().map(|b| b.0).collect(), both.iter().map(|b| b.1).collect()]
    };
    let ([layer_mean, layer_var], [batch_mean, batch_var]) = (facts(&x), facts(&columns));
    let layer: Matrix = x.iter().map(|row| normalise(row, 0.0)).collect();
    let batch = transpose(&columns.iter().map(|column| normalise(column, 0.0)).collect());
    let rms: Matrix = x.iter().map(|row| rms_normalise(row, 0.0)).collect();
    // What padding does: three rows of zeros join the batch.
    let padded: Vec<f64> = columns[0].iter().copied().chain([0.0; 3]).collect();
    let before = batch[0][0];
    let after = normalise(&padded, 0.0)[0];
    Ok(Page::new(
        "norms",
        "Norms",
        "Numbers that drift apart are brought back to mean 0 and variance 1: across the features of one \
        token (LayerNorm), or across the batch for one feature (BatchNorm).",
    )
    .formula("LN(x) = γ · (x − μ) / √(σ² + ε) + β        RMS(x) = γ · x / √(mean of x² + ε)        σ² divides by n")
    .shapes(&[
        ("x", "[B, C] = [5, 5]: samples (or tokens) × features"),
        ("LayerNorm: μ, σ²", "[B], one for each row"),
        ("BatchNorm: μ, σ²", "[C], one for each column"),
        ("γ, β", "[C], learned; 1 and 0 here, ε = 0"),
    ])
    .table(Table::matrix("the lecture's table", &samples, &features, &x, 0))
    .section("LayerNorm: along the rows")
    .table(Table::matrix("", &["mean", "variance"], &samples, &[layer_mean.clone(), layer_var.clone()], 2))
    .table(Table::matrix("normalised", &samples, &features, &layer, 3))
    .expand(
        "s1, f1",
        vec![
            format!("μ = (2 + 3 + 7 + 5 + 4) / 5 = {}", shown(layer_mean[0], 1)),
            format!("σ² = (2.2² + 1.2² + 2.8² + 0.8² + 0.2²) / 5 = {}", shown(layer_var[0], 2)),
            format!("(2 − {}) / √{} = {}", shown(layer_mean[0], 1), shown(layer_var[0], 2), shown(layer[0][0], 3)),
        ],
    )
    .section("BatchNorm: along the columns")
    .table(Table::matrix("", &["mean", "variance"], &features, &[batch_mean, batch_var], 2))
    .table(Table::matrix("normalised", &samples, &features, &batch, 3))
    .verdict(
        Verdict::Note,
        format!(
            "padding spoils it: with three rows of zeros in the batch, s1's first feature becomes {} instead \
        of {}. LayerNorm does not see other rows.",
            shown(after, 3),
            shown(before, 3)
        ),
    )
    .section("RMSNorm: along the rows, without the mean")
    .table(Table::matrix("normalised", &samples, &features, &rms, 3))
    .verdict(
        Verdict::Errs,
        "one deck lets LayerNorm normalise “across all the N input samples”. It normalises each token by \
        itself; the deck's own code (`nn.LayerNorm(embedding_dim)`) does that too.",
    )
    .verdict(
        Verdict::Errs,
        format!(
            "another deck says “divide by variance”. It is its root: s1's first feature is {} and not {}.",
            shown(layer[0][0], 3),
            shown((2.0 - layer_mean[0]) / layer_var[0], 3)
        ),
    ))
}

pub(super) fn residual() -> Result<Page> {
    let (z, r) = ([0.5, -1.0, 2.0], [0.1, 0.4, -0.3]);
    let sum: Vec<f64> = z.iter().zip(r).map(|(z, r)| z + r).collect();
    let normed = normalise(&sum, 0.0);
    let depths = [1usize, 6, 12, 24, 96];
    let through = |a: f64| depths.map(|n| a.powi(n as i32)).to_vec();
    let around = |a: f64| depths.map(|n| (1.0 + a).powi(n as i32)).to_vec();
    let names: Vec<String> =
        depths.iter().map(|n| if *n == 1 { "1 layer".to_string() } else { format!("{n} layers") }).collect();
    Ok(Page::new(
        "residual",
        "The residual connection",
        "What a layer computes is added to what it was given, so that a layer may do nothing, and a \
        gradient has a way around it.",
    )
    .formula(
        "z′ = z + f(z)        post-norm: Norm(z + f(z))        pre-norm: z + f(Norm(z))        ∂z′/∂z = 1 \
        + f′(z)",
    )
    .shapes(&[("z, f(z), z′", "[T, C], all alike")])
    .table(Table::matrix(
        "add, then norm (three features of ours)",
        &["z", "f(z)", "z + f(z)", "normalised"],
        &["c1", "c2", "c3"],
        &[z.to_vec(), r.to_vec(), sum.clone(), normed],
        3,
    ))
    .expand("the first feature", vec![format!("0.5 + 0.1 = {}", shown(sum[0], 1))])
    .table(Table::of(
        "how much of a gradient is left, if each layer's own derivative is a",
        "",
        &names,
        vec![
            ("a = 0.5, without", numbers(&through(0.5), 6)),
            ("a = 0.05, around it: (1 + a)ⁿ", numbers(&around(0.05), 6)),
            ("a = 0, around it", numbers(&around(0.0), 6)),
        ],
    ))
    .verdict(
        Verdict::Note,
        format!(
            "96 layers of derivative ½ leave {:.1e} of a gradient; with the connection a layer that has \
        learned nothing (a = 0) lets all of it through.",
            0.5f64.powi(96)
        ),
    ))
}

/// Weights and biases of the feed-forward d → 4d → d, and of attention's four projections.
fn parameters(d: u64) -> [u64; 2] {
    [d * 4 * d + 4 * d + 4 * d * d + d, 4 * (d * d + d)]
}

pub(super) fn feed_forward() -> Result<Page> {
    let rows = [512u64, 768].map(|d| {
        let [ffn, attention] = parameters(d);
        let share = ffn as f64 / (ffn + attention) as f64;
        (format!("d = {d}"), vec![Cell::Count(ffn), Cell::Count(attention), Cell::number(share, 3)])
    });
    // One token through a feed-forward of ours: 2 → 4 → 2.
    let x = [1.0, -2.0];
    let w1: [[f64; 2]; 4] = [[1.0, 0.5], [-1.0, 0.5], [0.5, -1.0], [0.0, 1.0]];
    let inner: Vec<f64> = w1.iter().map(|w| w[0] * x[0] + w[1] * x[1]).collect();
    let relu: Vec<f64> = inner.iter().map(|h| h.max(0.0)).collect();
    let [ffn, attention] = parameters(512);
    let [ffn_768, attention_768] = parameters(768);
    Ok(Page::new(
        "feed-forward",
        "The feed-forward",
        "Attention looks around, the feed-forward thinks: the same two layers for every position, four \
        times wider inside, with something not linear between.",
    )
    .formula("FFN(x) = W₂ · ReLU(W₁·x + b₁) + b₂")
    .shapes(&[
        ("three tokens", "(3, 512)"),
        ("W₁", "(512, 2048), b₁ (2048)"),
        ("inside", "(3, 512)·(512, 2048) → (3, 2048)"),
        ("W₂", "(2048, 512), b₂ (512)"),
        ("out", "(3, 2048)·(2048, 512) → (3, 512)"),
    ])
    .table(Table::of(
        "weights and biases in one block",
        "",
        &["feed-forward", "attention", "share of the feed-forward"],
        rows.to_vec(),
    ))
    .expand(
        "d = 512",
        vec![
            format!("512·2048 + 2048 + 2048·512 + 512 = {}", qkv_base::format::grouped(ffn)),
            format!("attention: 4 · (512·512 + 512) = {}", qkv_base::format::grouped(attention)),
        ],
    )
    .compare(vec![
        Comparison::new("feed-forward at 512", "2,099,712", ffn as f64),
        Comparison::new("attention at 512", "1,050,624", attention as f64),
        Comparison::new("feed-forward at 768", "4,722,432", ffn_768 as f64),
        Comparison::new("attention at 768", "2,362,368", attention_768 as f64),
    ])
    .verdict(Verdict::Equal, "“the bulk of the model's parameters” is two thirds of every block.")
    .table(Table::matrix(
        "one token [1, −2] through W₁ (ours), before and after ReLU",
        &["W₁·x", "ReLU"],
        &["h1", "h2", "h3", "h4"],
        &[inner, relu],
        1,
    ))
    .verdict(
        Verdict::Errs,
        "one deck writes Linear(D × D) → ReLU → Linear(4D × D). The first goes D → 4D and the second 4D → \
        D, else they do not fit together.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(x: &[f64]) -> Vec<String> {
        x.iter().map(|x| shown(*x, 3)).collect()
    }

    #[test]
    fn the_five_by_five_table() {
        let x: Matrix = TABLE.iter().map(|row| row.to_vec()).collect();
        let of = |rows: &Matrix, second: bool| {
            rows.iter().map(|r| mean_variance(r)).map(|m| if second { m.1 } else { m.0 }).collect::<Vec<_>>()
        };
        let near = |got: Vec<f64>, want: [f64; 5]| {
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?}")
        };
        near(of(&x, false), [4.2, 2.2, 3.0, 5.0, 3.6]);
        near(of(&x, true), [2.96, 1.36, 2.0, 4.4, 3.84]);
        assert_eq!(three(&normalise(&x[0], 0.0)), ["−1.279", "−0.697", "1.627", "0.465", "−0.116"]);
        let columns = transpose(&x);
        near(of(&columns, false), [4.2, 2.0, 4.0, 3.6, 4.2]);
        near(of(&columns, true), [5.36, 1.6, 6.4, 1.44, 0.96]);
        assert_eq!(three(&normalise(&columns[0], 0.0)), ["−0.950", "−1.382", "0.346", "0.777", "1.209"]);
    }

    #[test]
    fn the_feed_forward_has_two_thirds() {
        assert_eq!((parameters(512), parameters(768)), ([2_099_712, 1_050_624], [4_722_432, 2_362_368]));
        let share = feed_forward().unwrap().tables().next().unwrap().rows[0].cells[2].value().unwrap();
        assert!((share - 2.0 / 3.0).abs() < 1e-3);
    }
}
