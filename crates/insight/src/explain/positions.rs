//! How a place in a sentence becomes numbers: a counter, bits, waves, offsets, rotations.

use super::numbers;
use crate::arithmetic::{dot, sinusoids};
use crate::page::{Cell, Comparison, Page, Table, Verdict, shown};
use qkv_base::Result;
use std::f64::consts::FRAC_PI_2;

/// What the slides print of "river" (place 0) and what follows for "bank" (place 1).
const RIVER_BANK: [[&str; 6]; 2] =
    [["0", "1", "0", "1", "0", "1"], ["0.841471", "0.540302", "0.046399", "0.998923", "0.002154", "0.999998"]];

/// The bits of a number, highest first.
fn bits(n: usize, width: usize) -> String {
    (0..width).rev().map(|b| if n >> b & 1 == 1 { '1' } else { '0' }).collect()
}

/// A pair of features turned by an angle.
fn turned([x, y]: [f64; 2], angle: f64) -> [f64; 2] {
    [x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()]
}

pub(super) fn positions() -> Result<Page> {
    let d = 6;
    let table: Vec<Vec<f64>> = (0..6).map(|p| sinusoids(p, d)).collect();
    let places: Vec<String> = (0..6).map(|p| format!("position {p}")).collect();
    let columns: Vec<String> =
        (0..d).map(|i| format!("{} i={}", if i % 2 == 0 { "sin" } else { "cos" }, i / 2)).collect();
    let compare = (0..2).flat_map(|p| {
        (0..d).map(move |i| Comparison::new(format!("PE({p}, {i})"), RIVER_BANK[p][i], sinusoids(p, d)[i]))
    });
    let counted = (0..16).map(|n| (n.to_string(), vec![Cell::Text(bits(n, 4))])).collect();
    let words = ["A", "Quick", "Brown", "Fox"];
    let quarter = (0..4).map(|k| {
        let angle = k as f64 * FRAC_PI_2;
        (words[k].to_string(), vec![Cell::Text(bits(k, 2)), Cell::number(angle.sin(), 0), Cell::number(angle.cos(), 0)])
    });
    let slide_cos = ["0", "0", "−1", "0"];
    let turns = (0..4).flat_map(|k| {
        let angle = k as f64 * FRAC_PI_2;
        [
            Comparison::new(format!("sin({k}·π/2)"), ["0", "1", "0", "−1"][k], angle.sin()),
            Comparison::new(format!("second column at {k} (cos)"), slide_cos[k], angle.cos()),
        ]
    });
    let near: Vec<Vec<f64>> = [0usize, 5, 20]
        .iter()
        .map(|p| [0usize, 1, 2, 5, 10, 20].iter().map(|k| dot(&sinusoids(*p, 128), &sinusoids(p + k, 128))).collect())
        .collect();
    let panda = ["The", "panda", "eats", "shoots", "and", "leaves"];
    let relative: Vec<Vec<f64>> = vec![(0..6).map(|p| p as f64).collect(), (0..6).map(|p| p as f64 - 2.0).collect()];
    let (q, k) = ([0.8, -0.3], [0.5, 0.9]);
    let angles = [(3.0, 1.0), (10.0, 8.0), (103.0, 101.0)];
    let rotated =
        angles.map(|(m, n)| (format!("query at {m}, key at {n}"), numbers(&[dot(&turned(q, m), &turned(k, n))], 6)));
    let yes = |b: bool| Cell::Text(if b { "yes" } else { "no" }.into());
    let kinds = [
        ("the counter 0, 1, 2 …", [false, false, false, true]),
        ("bits", [true, false, true, true]),
        ("one sine", [true, true, true, false]),
        ("tan", [false, false, true, false]),
        ("sines and cosines of many lengths", [true, true, true, true]),
    ];
    Ok(Page::new(
        "positions",
        "Positions",
        "Attention does not see order, so each place gets a vector of its own that is added to the word's.",
    )
    .formula("PE(pos, 2i) = sin(pos / 10000^(2i/d))        PE(pos, 2i+1) = cos(pos / 10000^(2i/d))")
    .shapes(&[("PE", "[T, C], the same width as the embeddings, computed once"), ("here", "d = 6, i = 0, 1, 2")])
    .table(Table::matrix("river bank …, d = 6", &places, &columns, &table, 6))
    .expand(
        "PE(1, 2)",
        vec![
            "i = 1: sin(1 / 10000^(2/6)) = sin(1 / 21.544347)".into(),
            format!("= sin({}) = {}", shown(1.0 / 10_000f64.powf(1.0 / 3.0), 6), shown(table[1][2], 6)),
        ],
    )
    .compare(compare.collect())
    .verdict(Verdict::Equal, "positions 0 and 1 come out as on the slides.")
    .section("The analogy to binary numbers")
    .table(Table::of("", "n", &["four bits"], counted))
    .text(
        "The lowest bit changes every time, the next every second time: waves of growing length, as the \
        sines are.",
    )
    .table(Table::of("A Quick Brown Fox", "word", &["bits", "sin(k·π/2)", "cos(k·π/2)"], quarter.collect()))
    .compare(turns.collect())
    .verdict(
        Verdict::Errs,
        "the second column on the slide begins with 0; cos 0 = 1. With 0 there the first two words would \
        differ in the sine alone, and the first would be no point of the circle.",
    )
    .section("What is wanted of a position")
    .table(Table::of(
        "",
        "",
        &["bounded", "continuous", "periodic", "tells places apart"],
        kinds.map(|(name, is)| (name, is.map(yes).to_vec())).to_vec(),
    ))
    .section("Near places are alike, wherever they are")
    .table(Table::matrix(
        "PE(p)·PE(p+k), d = 128: depends on k alone",
        &["p = 0", "p = 5", "p = 20"],
        &["k=0", "k=1", "k=2", "k=5", "k=10", "k=20"],
        &near,
        3,
    ))
    .section("Relative positions")
    .table(Table::matrix("the panda eats shoots and leaves", &["absolute", "relative to “eats”"], &panda, &relative, 0))
    .section("Rotary positions")
    .text(
        "RoPE turns query and key by their places; their dot product then depends on the difference of \
        the places alone. One pair of features, one radian for each place:",
    )
    .table(Table::of("", "", &["q·k after turning"], rotated.to_vec()))
    .verdict(Verdict::Equal, "the same distance gives the same score at 3 − 1, 10 − 8 and 103 − 101."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinusoids_bits_and_turns_of_the_slides() {
        let six = |p| sinusoids(p, 6).iter().map(|x| shown(*x, 6)).collect::<Vec<_>>();
        assert_eq!(sinusoids(0, 6), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(six(1), RIVER_BANK[1]);
        assert_eq!((0..16).map(|n| bits(n, 4)).collect::<Vec<_>>()[13], "1101");
        assert_eq!((0..4).map(|n| bits(n, 2)).collect::<Vec<_>>(), ["00", "01", "10", "11"]);
        let page = positions().unwrap();
        let wrong: Vec<&str> =
            page.comparisons().filter(|c| c.verdict == Verdict::Errs).map(|c| c.what.as_str()).collect();
        assert_eq!(wrong, ["second column at 0 (cos)"]);
    }

    #[test]
    fn panda_and_rotation() {
        let page = positions().unwrap();
        let table = page.tables().find(|t| t.title.contains("panda")).unwrap();
        let row = |i: usize| table.rows[i].cells.iter().map(Cell::shown).collect::<Vec<_>>();
        assert_eq!(row(0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(row(1), ["−2", "−1", "0", "1", "2", "3"]);
        let rope = page.tables().last().unwrap();
        let scores: Vec<f64> = rope.rows.iter().map(|r| r.cells[0].value().unwrap()).collect();
        assert!(scores.iter().all(|s| (s - scores[0]).abs() < 1e-9));
        // The library's own table is the same.
        let ours = qkv_nn::position::Sinusoidal::new(6, qkv_nn::position::Waves::Interleaved).rows(0, 3);
        assert!(ours.iter().zip((0..3).flat_map(|p| sinusoids(p, 6))).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-6));
    }
}
