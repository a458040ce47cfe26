//! What things weigh: a dense layer against attention, the networks of the slides, adapters, and pictures cut into tokens.

use super::numbers;
use crate::arithmetic::{Matrix, product};
use crate::page::{Cell, Comparison, Page, Table, Verdict, shown};
use qkv_base::format::grouped;
use qkv_base::{Error, Key, Result};
use qkv_model::{count::Count, presets};

/// The lecture's passage.
const PASSAGE: &str = "The restaurant refused to serve me a ham sandwich, because it only cooks vegetarian food. In the \
        end, they just gave me two slices of bread. Their ambience was just as good as the food and \
        service.";

/// The parameters of a preset, counted without allocating them.
fn parameters(name: &str) -> Result<u64> {
    let missing = |near| Error::internal("presets", format!("there is no preset `{name}`, the nearest is `{near}`"));
    Ok(Count::of(&presets::find(name).map_err(missing)?.spec(), 128)?.total())
}

pub(super) fn cost() -> Result<Page> {
    let n = PASSAGE.split_whitespace().count() as u64;
    let d = 1024u64;
    let (dense, attention) = ((n * d).pow(2), 3 * (d * d + d));
    let (bert, gpt3) = (parameters("bert-large")?, parameters("gpt3")?);
    let lengths = [37u64, 512, 2048, 8192];
    let share = lengths.map(|t| {
        // Multiplications of one layer for each token: four projections, scores and mixture over t keys, feed-forward.
        let (projections, looking, ffn) = (4 * d * d, 2 * t * d, 8 * d * d);
        let all = (projections + looking + ffn) as f64;
        (
            format!("T = {t}"),
            vec![
                Cell::Count(projections),
                Cell::Count(looking),
                Cell::Count(ffn),
                Cell::number(looking as f64 / all, 3),
            ],
        )
    });
    Ok(Page::new(
        "cost",
        "What it costs",
        "A dense layer over a whole text needs a weight for every pair of its numbers; attention computes \
        those weights from the words, so its own do not grow with the length.",
    )
    .formula(
        "dense: (N·D)² weights        attention: 3·(D² + D) for q, k, v        scores: N² for each head, \
        D multiplications each",
    )
    .shapes(&[
        ("passage", format!("N = {n} words, D = {d}: N·D = {} numbers", grouped(n * d))),
        ("dense Ω", format!("[{0}, {0}]", grouped(n * d))),
        ("W_q, W_k, W_v", format!("[{d}, {d}] each, with biases")),
    ])
    .table(Table::of(
        "the lecture's passage",
        "",
        &["weights"],
        vec![("one dense layer", vec![Cell::Count(dense)]), ("q, k and v", vec![Cell::Count(attention)])],
    ))
    .expand(
        "the dense layer",
        vec![
            format!("({n} · {d})² = {}² = {}", grouped(n * d), grouped(dense)),
            format!("3 · ({d}² + {d}) = {}", grouped(attention)),
            format!("{} times fewer, and any length will do", shown(dense as f64 / attention as f64, 0)),
        ],
    )
    .compare(vec![
        Comparison::new("words of the passage", "37", n as f64),
        Comparison::new("dense layer", "1,435,500,544", dense as f64),
        Comparison::new("q, k, v", "3,148,800", attention as f64),
    ])
    .verdict(Verdict::Equal, "the passage has 37 words, and the numbers follow.")
    .section("Length costs twice")
    .table(Table::of(
        "multiplications for one token in one layer, D = 1024",
        "",
        &["projections", "looking at T keys", "feed-forward", "share of looking"],
        share.to_vec(),
    ))
    .section("The networks of the slides")
    .table(Table::of(
        "counted from their specs, nothing allocated",
        "",
        &["parameters", "heads × width of a head"],
        vec![
            ("BERT-large", vec![Cell::Count(bert), Cell::Text(format!("16 × 64 = {}", 16 * 64))]),
            ("GPT-3", vec![Cell::Count(gpt3), Cell::Text(format!("96 × 128 = {}", grouped(96u64 * 128)))]),
        ],
    ))
    .compare(vec![
        Comparison::new("BERT-large, millions", "~340", bert as f64 / 1e6),
        Comparison::new("GPT-3, billions", "175", gpt3 as f64 / 1e9),
    ])
    .verdict(
        Verdict::Rounds,
        format!(
            "BERT-large has {} M parameters with its 30,522 word pieces, and the slide's ~340 M is the \
        paper's own rounding; GPT-3's {} B is 175 B.",
            shown(bert as f64 / 1e6, 0),
            shown(gpt3 as f64 / 1e9, 1)
        ),
    ))
}

pub(super) fn lora() -> Result<Page> {
    let (d, r) = (512u64, 8u64);
    let (full, thin) = (d * d, r * (d + d));
    // A small one that is computed: 3 × 3 of rank 1.
    let draw = Key::new(3, 0, 0).normals(6);
    let a: Matrix = vec![draw[..3].iter().map(|x| f64::from(*x)).collect()]; // [1, 3], Gaussian
    let w: Matrix = vec![vec![1.0, 0.5, 0.0], vec![0.0, 1.0, -0.5], vec![0.2, 0.0, 1.0]];
    let x = vec![vec![1.0], vec![2.0], vec![-1.0]];
    let forward = |b: &Matrix| -> Vec<f64> {
        let change = product(b, &product(&a, &x));
        product(&w, &x).iter().zip(change).map(|(y, c)| y[0] + 2.0 * c[0]).collect()
    };
    let (start, later) = (vec![vec![0.0]; 3], vec![vec![0.3], vec![-0.1], vec![0.2]]);
    let merged = product(&later, &a)
        .iter()
        .zip(&w)
        .map(|(c, w)| c.iter().zip(w).map(|(c, w)| w + 2.0 * c).collect())
        .collect::<Matrix>();
    let by_merge: Vec<f64> = product(&merged, &x).iter().map(|y| y[0]).collect();
    let plain: Vec<f64> = product(&w, &x).iter().map(|y| y[0]).collect();
    Ok(Page::new(
        "lora",
        "LoRA",
        "Leave the large matrix as it is and learn two thin ones whose product is added to it; the second \
        starts at zero, so at first nothing changes.",
    )
    .formula("y = W₀·x + (α/r) · B·A·x        A Gaussian, B = 0 at step 0")
    .shapes(&[
        ("W₀", "[512, 512], frozen"),
        ("A", "[8, 512], random"),
        ("B", "[512, 8], zeros"),
        ("B·A", "[512, 512], of rank 8"),
    ])
    .table(Table::of(
        "numbers that learn",
        "",
        &["parameters"],
        vec![("all of W₀", vec![Cell::Count(full)]), ("A and B at rank 8", vec![Cell::Count(thin)])],
    ))
    .expand(
        "512 × 512 at rank 8",
        vec![
            format!("512² = {}", grouped(full)),
            format!("8·512 + 512·8 = {}, {} %", grouped(thin), shown(100.0 * thin as f64 / full as f64, 1)),
        ],
    )
    .compare(vec![Comparison::new("W₀", "262,144", full as f64), Comparison::new("rank 8", "8,192", thin as f64)])
    .verdict(Verdict::Equal, "a thirty-second of the numbers learn.")
    .table(Table::of(
        "3 × 3 at rank 1, α/r = 2: y for x = [1, 2, −1]",
        "",
        &["y1", "y2", "y3"],
        vec![
            ("W₀·x", numbers(&plain, 4)),
            ("step 0, B = 0", numbers(&forward(&start), 4)),
            ("later, B = [0.3, −0.1, 0.2]", numbers(&forward(&later), 4)),
            ("merged: (W₀ + 2·B·A)·x", numbers(&by_merge, 4)),
        ],
    ))
    .verdict(
        Verdict::Equal,
        "B·A = 0 at step 0, so the answer is that of the model as it was; and after learning, the merged \
        matrix answers the same as the two thin ones beside it.",
    ))
}

/// A picture of 4 × 4, cut into 2 × 2 patches, row by row.
fn patches_of(picture: &Matrix, size: usize) -> Matrix {
    let side = picture.len() / size;
    let patch = |p: usize| {
        let (top, left) = (p / side * size, p % side * size);
        (0..size * size).map(|i| picture[top + i / size][left + i % size]).collect()
    };
    (0..side * side).map(patch).collect()
}

pub(super) fn patches() -> Result<Page> {
    let picture: Matrix = (0..4).map(|i| (0..4).map(|j| f64::from(i * 4 + j)).collect()).collect();
    let cut = patches_of(&picture, 2);
    let names: Vec<String> = (0..4).map(|i| format!("patch {i}")).collect();
    let sizes = [(224u64, 16u64, 3u64), (224, 32, 3), (12, 4, 3)].map(|(image, patch, channels)| {
        let n = (image / patch).pow(2);
        (
            format!("{image} × {image}, patches of {patch}"),
            [n, n + 1, patch * patch * channels].map(Cell::Count).to_vec(),
        )
    });
    Ok(Page::new(
        "patches",
        "Pictures as tokens",
        "Cut the picture into squares, flatten each into a vector, project it to the width of the model: \
        from there on it is a sentence.",
    )
    .formula(
        "N = (image / patch)²        x_p = W · flatten(patch_p) + b        tokens = [class, x_1 … x_N] + \
        positions",
    )
    .shapes(&[
        ("picture", "[3, 224, 224]"),
        ("patches", "[196, 16·16·3] = [196, 768]"),
        ("tokens", "[197, C], the class token first"),
    ])
    .table(Table::of("", "", &["patches", "tokens", "numbers in a patch"], sizes.to_vec()))
    .table(Table::matrix(
        "a picture of 4 × 4 (its pixels numbered)",
        &["row 0", "row 1", "row 2", "row 3"],
        &["0", "1", "2", "3"],
        &picture,
        0,
    ))
    .table(Table::matrix("cut into 2 × 2", &names, &["·", "·", "·", "·"], &cut, 0))
    .expand("patch 1", vec!["rows 0 and 1, columns 2 and 3: 2 3 6 7".into()])
    .verdict(
        Verdict::Note,
        "the decks name ViT without numbers; these are those of the paper (224 / 16 = 14, 14² = 196) and \
        of the tiny checkpoint of the tests.",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slides_counts() {
        let page = cost().unwrap();
        let computed: Vec<f64> = page.comparisons().map(|c| c.computed).collect();
        assert_eq!(computed[..3], [37.0, 1_435_500_544.0, 3_148_800.0]);
        assert_eq!(
            (parameters("bert-large").unwrap() / 1_000_000, parameters("gpt3").unwrap()),
            (335, 174_604_259_328)
        );
        let lora: Vec<f64> = lora().unwrap().comparisons().map(|c| c.computed).collect();
        assert_eq!(lora, [262_144.0, 8_192.0]);
    }

    #[test]
    fn an_adapter_changes_nothing_at_first_and_merges_exactly() {
        let page = lora().unwrap();
        let table = page.tables().last().unwrap();
        let row = |i: usize| table.rows[i].cells.iter().map(Cell::shown).collect::<Vec<_>>();
        assert_eq!(row(0), row(1));
        assert_eq!(row(2), row(3));
        assert_ne!(row(0), row(2));
    }

    #[test]
    fn patches_hold_their_own_pixels() {
        let picture: Matrix = (0..4).map(|i| (0..4).map(|j| f64::from(i * 4 + j)).collect()).collect();
        assert_eq!(patches_of(&picture, 2)[1], [2.0, 3.0, 6.0, 7.0]);
        assert_eq!(patches_of(&picture, 2).concat().iter().sum::<f64>(), 120.0);
    }
}
