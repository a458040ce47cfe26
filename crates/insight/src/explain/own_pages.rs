//! What each topic computes from a person's own numbers.

use super::numbers;
use super::sequence::bent;
use super::setting::Values;
use crate::arithmetic::{attend, dot_in_words, mean_variance, normalise, rms_normalise, sinusoids, softmax};
use crate::page::{Cell, Page, Table, Verdict, shown};
use qkv_base::Result;
use qkv_base::format::grouped;

fn names(what: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{what}{i}")).collect()
}

pub(super) fn own_softmax(page: Page, v: &Values) -> Result<Page> {
    let (scores, t) = (v.list("scores"), v.one("temperature"));
    let divided: Vec<f64> = scores.iter().map(|s| s / t).collect();
    let weights = softmax(&divided);
    let top = divided.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = divided.iter().map(|s| (s - top).exp()).sum();
    let row = |i: usize| (format!("{i}"), numbers(&[scores[i], divided[i], (divided[i] - top).exp(), weights[i]], 4));
    let rows = (0..scores.len()).map(row).collect();
    let table = Table::of("scores and weights", "", &["score", "score / temperature", "e^(… − max)", "weight"], rows);
    let steps = vec![
        format!(
            "e^({} − {}) / Σ = {} / {}",
            shown(divided[0], 4),
            shown(top, 4),
            shown((divided[0] - top).exp(), 4),
            shown(sum, 4)
        ),
        format!("= {}", shown(weights[0], 4)),
    ];
    Ok(page.table(table).expand("weight 0", steps))
}

pub(super) fn own_attention(page: Page, v: &Values) -> Result<Page> {
    let (q, k, values) = (v.rows("q"), v.rows("k"), v.rows("v"));
    let seen = attend(&q.to_vec(), &k.to_vec(), &values.to_vec(), |_, _| true);
    let (qs, ks) = (names("q", q.len()), names("k", k.len()));
    let scores = Table::matrix("q·k / √d", &qs, &ks, &seen.scores, 4);
    let weights = Table::matrix("weights", &qs, &ks, &seen.weights, 4).weights(4);
    let mixed = Table::matrix("mixtures of the values", &qs, &names("", values[0].len()), &seen.out, 4);
    let steps = vec![
        dot_in_words(&q[0], &k[0], 4),
        format!("divided by √{} = {}", q[0].len(), shown(seen.scores[0][0], 4)),
        format!("weight {}", shown(seen.weights[0][0], 4)),
    ];
    Ok(page.table(scores).table(weights).table(mixed).expand("q0·k0", steps))
}

pub(super) fn own_scale(page: Page, v: &Values) -> Result<Page> {
    let (d, variance) = (v.one("width"), v.one("variance"));
    let dot = d * variance * variance;
    let rows = vec![("q·k", numbers(&[dot, dot.sqrt()], 4)), ("q·k / √d", numbers(&[dot / d, (dot / d).sqrt()], 4))];
    let steps = vec![
        format!("d · Var(q) · Var(k) = {d} · {variance} · {variance} = {}", shown(dot, 4)),
        format!("/ (√{d})² = {}", shown(dot / d, 4)),
    ];
    Ok(page
        .table(Table::of("spread of a dot product", "", &["variance", "standard deviation"], rows))
        .expand("variance", steps))
}

pub(super) fn own_heads(page: Page, v: &Values) -> Result<Page> {
    let (d, h) = (v.count("width"), v.count("heads"));
    let rows = vec![
        ("width of a head", vec![Cell::Count(d / h)]),
        ("weights of q, k, v and output, with biases", vec![Cell::Count(4 * (d * d + d))]),
    ];
    let steps = vec![
        format!("{d} / {h} = {}", d / h),
        format!("4 · ({d}² + {d}) = {}, whatever H is", grouped(4 * (d * d + d))),
    ];
    Ok(page.table(Table::of("heads", "", &["number"], rows)).expand("a head", steps))
}

pub(super) fn own_positions(page: Page, v: &Values) -> Result<Page> {
    let (d, n) = (v.count("width") as usize, v.count("count") as usize);
    let rows: Vec<Vec<f64>> = (0..n).map(|p| sinusoids(p, d)).collect();
    let columns: Vec<String> =
        (0..d).map(|i| format!("{}{}", if i % 2 == 0 { "sin " } else { "cos " }, i / 2)).collect();
    let last = n - 1;
    let steps = vec![format!("sin({last} / 10000^(0 / {d})) = sin({last})"), format!("= {}", shown(rows[last][0], 6))];
    Ok(page
        .table(Table::matrix("sinusoids", &names("position ", n), &columns, &rows, 6))
        .expand(format!("position {last}, sin 0"), steps))
}

pub(super) fn own_norms(page: Page, v: &Values) -> Result<Page> {
    let (x, epsilon) = (v.list("x"), v.one("epsilon"));
    let (mean, variance) = mean_variance(x);
    let (layer, rms) = (normalise(x, epsilon), rms_normalise(x, epsilon));
    let row = |i: usize| (format!("{i}"), numbers(&[x[i], layer[i], rms[i]], 4));
    let table = Table::of("one row", "feature", &["x", "LayerNorm", "RMSNorm"], (0..x.len()).map(row).collect());
    let steps = vec![
        format!("mean {}, variance {}", shown(mean, 4), shown(variance, 4)),
        format!(
            "({} − {}) / √({} + {epsilon}) = {}",
            shown(x[0], 4),
            shown(mean, 4),
            shown(variance, 4),
            shown(layer[0], 4)
        ),
    ];
    let page = page.table(table).expand("feature 0", steps);
    Ok(match layer.iter().all(|v| v.is_finite()) {
        true => page,
        false => page.verdict(Verdict::Note, "the row has no variance: without an epsilon it is divided by nothing."),
    })
}

pub(super) fn own_feed_forward(page: Page, v: &Values) -> Result<Page> {
    let (d, f) = (v.count("width"), v.count("factor"));
    let inner = d * f;
    let (ffn, attention) = (2 * d * inner + inner + d, 4 * (d * d + d));
    let rows = vec![
        ("feed-forward", vec![Cell::Count(ffn), Cell::number(ffn as f64 / (ffn + attention) as f64, 4)]),
        ("attention", vec![Cell::Count(attention), Cell::number(attention as f64 / (ffn + attention) as f64, 4)]),
    ];
    let steps = vec![format!("{d}·{inner} + {inner} + {inner}·{d} + {d} = {}", grouped(ffn))];
    Ok(page.table(Table::of("weights of one layer", "", &["weights", "share"], rows)).expand("feed-forward", steps))
}

pub(super) fn own_loss(page: Page, v: &Values) -> Result<Page> {
    let (scores, truth, smoothing) = (v.list("scores"), v.count("truth") as usize, v.one("smoothing"));
    let weights = softmax(scores);
    let n = scores.len() as f64;
    let target = |i: usize| smoothing / n + if i == truth { 1.0 - smoothing } else { 0.0 };
    let loss: f64 = (0..scores.len()).map(|i| -target(i) * weights[i].ln()).sum();
    let row = |i: usize| (format!("{i}"), numbers(&[scores[i], weights[i], target(i), -weights[i].ln()], 4));
    let table =
        Table::of("classes", "", &["score", "probability", "target", "−ln p"], (0..scores.len()).map(row).collect());
    let plain = -weights[truth].ln();
    let steps = vec![
        format!("−ln {} = {}", shown(weights[truth], 4), shown(plain, 4)),
        format!("with smoothing {smoothing}: {}", shown(loss, 4)),
        format!("perplexity e^{} = {}", shown(plain, 4), shown(plain.exp(), 4)),
    ];
    Ok(page.table(table).expand("the loss", steps))
}

pub(super) fn own_sampling(page: Page, v: &Values) -> Result<Page> {
    let (scores, t) = (v.list("scores"), v.one("temperature"));
    let before = softmax(scores);
    // The chain that `qkv generate` runs, not a copy of it.
    let chain = format!("temperature {t}, top_k {}, top_p {}", v.count("top_k"), v.one("top_p"));
    let logits: Vec<f32> = scores.iter().map(|s| *s as f32).collect();
    let drawn = bent(&chain, &logits)?;
    let row = |i: usize| (format!("{i}"), numbers(&[scores[i], before[i], drawn[i]], 4));
    let title = &chain;
    let table =
        Table::of(title, "token", &["score", "probability", "drawn with"], (0..scores.len()).map(row).collect());
    let left = drawn.iter().filter(|p| **p > 0.0).count();
    let sum: f64 = drawn.iter().sum();
    let steps = vec![format!("{left} of {} tokens stay, and sum to {}", scores.len(), shown(sum, 4))];
    Ok(page.table(table).expand("what is left", steps))
}

pub(super) fn own_cost(page: Page, v: &Values) -> Result<Page> {
    let (d, t, layers, words) = (v.count("width"), v.count("length"), v.count("layers"), v.count("vocabulary"));
    let layer = 12 * d * d + 13 * d;
    let all = layers * layer + words * d;
    let (projections, looking, ffn) = (4 * d * d, 2 * t * d, 8 * d * d);
    let share = looking as f64 / (projections + looking + ffn) as f64;
    let rows = vec![
        ("one layer", vec![Cell::Count(layer)]),
        ("all layers", vec![Cell::Count(layers * layer)]),
        ("the table of words", vec![Cell::Count(words * d)]),
        ("together", vec![Cell::Count(all)]),
        ("multiplications for a token", vec![Cell::Count(layers * (projections + looking + ffn) + words * d)]),
    ];
    let steps = vec![
        format!("12 · {d}² + 13 · {d} = {} weights a layer", grouped(layer)),
        format!("looking at {} keys is {} % of a layer's arithmetic", grouped(t), shown(100.0 * share, 1)),
    ];
    Ok(page.table(Table::of("a Transformer of this size", "", &["number"], rows)).expand("one layer", steps))
}

pub(super) fn own_lora(page: Page, v: &Values) -> Result<Page> {
    let (d, r, alpha) = (v.count("width"), v.count("rank"), v.one("alpha"));
    let (full, thin) = (d * d, 2 * d * r);
    let rows = vec![
        ("the matrix", vec![Cell::Count(full), Cell::number(100.0, 2)]),
        ("A and B", vec![Cell::Count(thin), Cell::number(100.0 * thin as f64 / full as f64, 2)]),
    ];
    let steps = vec![
        format!("{r} · ({d} + {d}) = {}", grouped(thin)),
        format!("B·A is scaled by α / r = {alpha} / {r} = {}", shown(alpha / r as f64, 4)),
    ];
    let page = page.table(Table::of("weights that learn", "", &["weights", "%"], rows)).expand("A and B", steps);
    Ok(match thin >= full {
        true => {
            page.verdict(Verdict::Note, "at this rank the two thin matrices are no smaller than the one they change.")
        }
        false => page,
    })
}

pub(super) fn own_patches(page: Page, v: &Values) -> Result<Page> {
    let (image, patch, channels, d) = (v.count("image"), v.count("patch"), v.count("channels"), v.count("width"));
    let side = image / patch;
    let each = patch * patch * channels;
    let rows = vec![
        ("patches", vec![Cell::Count(side * side)]),
        ("tokens, with the class token", vec![Cell::Count(side * side + 1)]),
        ("numbers of a patch", vec![Cell::Count(each)]),
        ("weights of the projection, with its bias", vec![Cell::Count(each * d + d)]),
    ];
    let steps = vec![
        format!("({image} / {patch})² = {side}² = {}", grouped(side * side)),
        format!("{patch}² · {channels} = {}", grouped(each)),
    ];
    Ok(page.table(Table::of("a picture as tokens", "", &["number"], rows)).expand("patches", steps))
}
