//! A picture for each topic, drawn from the numbers of its page (or from the same formula at more points): maps of weights, curves,
//! the waves of positions. `qkv explain TOPIC --svg FILE` writes it, the HTML page shows it, and the documentation holds it.

use super::Topic;
use super::lookup::dots;
use crate::arithmetic::{dot, mean_variance, sinusoids};
use crate::page::Table;
use crate::see::Grid;
use crate::see::svg::{Drawn, Shade, beside, grid_as, pixels};
use qkv_base::{Error, Result};
use qkv_report::{Chart, Scale, Series};
use qkv_text::{Kind, Shape, TrainSpec, train};

impl Topic {
    /// Its picture: one SVG.
    pub fn picture(&self) -> Result<String> {
        let page = self.page()?;
        let table = |i: usize| {
            page.tables().nth(i).ok_or_else(|| Error::internal("picture", format!("{} has no table {i}", self.name)))
        };
        Ok(match self.name {
            "vectors" => numbers(table(2)?, "king and queen, feature by feature", 1),
            "embeddings" => numbers(table(2)?, "bank: one row of the table, two vectors in context", 3),
            "tokens" => merges()?.svg(),
            "gradients" => reach().svg(),
            "lookup" => weights(&first_columns(table(1)?, 3), "the sharper the scores, the nearer to a dictionary", 3),
            "softmax" => weights(table(1)?, "weights of three scores: as they are, shifted, one hidden", 3),
            "attention" => weights(table(0)?, "YOUR CAT IS A LOVELY CAT: each word looks at all", 3),
            "scale" => variance().svg(),
            "heads" => beside(
                "two heads look at different words",
                &[weights(table(2)?, "head 1", 2), weights(table(3)?, "head 2", 2)],
            ),
            "equivariance" => beside(
                "outputs move with the words",
                &[numbers(table(0)?, "the man ate fish", 2), numbers(table(1)?, "the fish ate man", 2)],
            ),
            "positions" => waves(),
            "norms" => beside(
                "the same table normalised along rows and along columns",
                &[numbers(table(2)?, "LayerNorm: each row", 2), numbers(table(4)?, "BatchNorm: each column", 2)],
            ),
            "residual" => depth().svg(),
            "feed-forward" => activations().svg(),
            "mask" => weights(table(1)?, "the causal triangle: every row sums to 1", 2),
            "cross" => weights(table(1)?, "each word that is written looks at the source", 2),
            "teacher-forcing" => weights(&sight(table(0)?), "who may look at what, to say the word on the left", 0),
            "loss" => surprise().svg(),
            "product-rule" => product(table(0)?).svg(),
            "patches" => beside(
                "a picture of 4 × 4 becomes four tokens",
                &[numbers(table(1)?, "pixels, numbered", 0), numbers(table(2)?, "one patch a row", 0)],
            ),
            "cost" => lengths().svg(),
            "lora" => ranks().svg(),
            "sampling" => weights(table(0)?, "six words behind six chains: columns sum to 1", 2),
            "beam" => {
                numbers(&first_products(table(0)?), "the probability of both words: greedy goes into the first row", 2)
            }
            other => return Err(Error::internal("picture", format!("`{other}` has none"))),
        })
    }
}

/// The numbers of a table, without the sums behind it.
fn grid(table: &Table, title: &str) -> Grid {
    let sums = usize::from(table.columns.last().is_some_and(|c| c == "Σ"));
    let columns = table.columns[..table.columns.len() - sums].to_vec();
    let row = |row: &crate::page::Row| {
        let cells = row.cells.iter().take(columns.len());
        cells.map(|c| c.value().unwrap_or(0.0) as f32).collect::<Vec<_>>()
    };
    let values = table.rows.iter().flat_map(row).collect();
    Grid { title: title.into(), rows: table.rows.iter().map(|r| r.label.clone()).collect(), columns, values }
}

/// A map of weights; the sums of its rows stand behind it where they do in the table.
fn weights(table: &Table, title: &str, decimals: usize) -> String {
    let sums = table.columns.last().is_some_and(|c| c == "Σ");
    grid_as(&grid(table, title), Drawn { shade: Shade::Root, decimals, sums })
}

/// A map of any numbers.
fn numbers(table: &Table, title: &str, decimals: usize) -> String {
    grid_as(&grid(table, title), Drawn { shade: Shade::Range, decimals, sums: false })
}

fn first_columns(table: &Table, n: usize) -> Table {
    let mut table = table.clone();
    table.columns.truncate(n);
    table.rows.iter_mut().for_each(|row| row.cells.truncate(n));
    table
}

/// Of the beam's table only the products: each second column.
fn first_products(table: &Table) -> Table {
    let mut table = table.clone();
    table.columns = ["first", "second", "third"].map(|n| format!("{n} way on")).to_vec();
    for row in &mut table.rows {
        row.cells = row.cells.iter().skip(1).step_by(2).cloned().collect();
    }
    table
}

/// 1 where a place is seen.
fn sight(table: &Table) -> Table {
    let given: Vec<String> = table.rows.iter().map(|r| r.cells[0].shown()).collect();
    let said: Vec<String> = table.rows.iter().map(|r| r.cells[1].shown()).collect();
    let n = given.len();
    let seen: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| f64::from(j <= i)).collect()).collect();
    Table::matrix("", &said, &given, &seen, 0)
}

fn curve(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
    Series { name: name.into(), points: points.collect() }
}

fn chart(title: &str, across: &str, scale: Scale, series: Vec<Series>) -> Chart {
    Chart { title: title.into(), series, scale, across: across.into() }
}

/// In how many pieces words fall, as merges are learned.
fn merges() -> Result<Chart> {
    let words = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)];
    let lines: Vec<String> = words.iter().flat_map(|(w, n)| std::iter::repeat_n(w.to_string(), *n)).collect();
    let asked = ["newest", "lower", "lowest", "slow"];
    let mut series = asked.map(|word| Series { name: word.into(), points: vec![] });
    for merges in 0..=10usize {
        let spec = TrainSpec { shape: Shape::Gpt2, vocab_size: 257 + merges, ..TrainSpec::new(Kind::Bpe) };
        let tokenizer = train(lines.clone(), &spec, &mut |_| {})?.tokenizer;
        for (word, curve) in asked.iter().zip(&mut series) {
            curve.points.push((merges as f64, tokenizer.encode(word, false)?.pieces.len() as f64));
        }
    }
    Ok(chart("pieces of a word, as merges are learned", "merges", Scale::Linear, series.to_vec()))
}

/// What is left of a gradient after so many steps.
fn reach() -> Chart {
    let power = |w: f64| (1..=60).map(move |n| (f64::from(n), w.powi(n)));
    let series = vec![
        curve("w = 0.5", power(0.5)),
        curve("w = 0.9", power(0.9)),
        curve("a gate of 0.99", power(0.99)),
        curve("w = 1.1", power(1.1)),
    ];
    chart("what is left of a gradient: wⁿ", "steps", Scale::Log, series)
}

fn variance() -> Chart {
    let widths = [1usize, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let measured: Vec<(f64, f64)> = widths.iter().map(|d| (*d as f64, mean_variance(&dots(*d, 2000)).1)).collect();
    let scaled = measured.iter().map(|(d, v)| (*d, v / d));
    let series = vec![curve("q·k", measured.iter().copied()), curve("q·k / √d", scaled)];
    chart("measured variance of a dot product", "d", Scale::Log, series)
}

/// The waves of 50 places over 128 features, and how alike the places are.
fn waves() -> String {
    let (places, width) = (50, 128);
    let table: Vec<Vec<f64>> = (0..places).map(|p| sinusoids(p, width)).collect();
    let names = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
    let values = table.iter().flatten().map(|v| *v as f32).collect();
    let title = "PE: 50 places, 128 features, −1 dark, 1 light".into();
    let waves = Grid { title, rows: names(places), columns: names(width), values };
    let alike = table.iter().flat_map(|a| table.iter().map(move |b| dot(a, b) as f32)).collect();
    let title = "PE·PEᵀ: near places are alike".into();
    let near = Grid { title, rows: names(places), columns: names(places), values: alike };
    beside("sinusoidal positions", &[pixels(&waves, [4.0, 6.0], 10), pixels(&near, [6.0, 6.0], 10)])
}

fn depth() -> Chart {
    let power = |a: f64| (1..=96).map(move |n| (f64::from(n), a.powi(n)));
    let series = vec![
        curve("½, without", power(0.5)),
        curve("0.9, without", power(0.9)),
        curve("around: 1 + 0", power(1.0)),
        curve("around: 1 + 0.05", power(1.05)),
    ];
    chart("what is left of a gradient behind n layers", "layers", Scale::Log, series)
}

fn activations() -> Chart {
    let over = |f: fn(f64) -> f64| (-40..=40).map(move |i| (f64::from(i) / 10.0, f(f64::from(i) / 10.0)));
    // GELU by its usual approximation; SiLU is what gated feed-forwards take.
    let gelu = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh());
    let series = vec![
        curve("ReLU", over(|x| x.max(0.0))),
        curve("GELU", over(gelu)),
        curve("SiLU", over(|x| x / (1.0 + (-x).exp()))),
    ];
    chart("what stands between the two layers", "x", Scale::Linear, series)
}

fn surprise() -> Chart {
    let p = || (1..=100).map(|i| f64::from(i) / 100.0);
    // Label smoothing of 0.1 where the other nine of ten words share what is left.
    let smooth = |p: f64| {
        let other = ((1.0 - p) / 9.0).max(1e-9);
        -(0.91 * p.ln() + 0.09 * other.ln())
    };
    let series = vec![
        curve("−ln p", p().map(|p| (p, -p.ln()))),
        curve("ε = 0.1, ten words", p().take(99).map(|p| (p, smooth(p)))),
    ];
    chart("how much a probability costs", "p of the right word", Scale::Linear, series)
}

fn product(table: &Table) -> Chart {
    let column = |i: usize| {
        table.rows.iter().enumerate().filter_map(move |(n, row)| Some(((n + 1) as f64, row.cells.get(i)?.value()?)))
    };
    let series = vec![curve("p of the word", column(1)), curve("product so far", column(3))];
    chart("Learning deep learning is fun, word by word", "word", Scale::Log, series)
}

fn lengths() -> Chart {
    let d = 1024f64;
    let over = |f: fn(f64, f64) -> f64| (0..=64).map(move |i| (f64::from(i * 128), f(f64::from(i * 128), d)));
    let series = vec![
        curve("feed-forward", over(|_, d| 8.0 * d * d)),
        curve("projections", over(|_, d| 4.0 * d * d)),
        curve("looking", over(|t, d| 2.0 * t * d)),
    ];
    chart("multiplications of a token in a layer, D = 1024", "tokens before it", Scale::Linear, series)
}

fn ranks() -> Chart {
    let d = 512f64;
    let over = |f: fn(f64, f64) -> f64| (0..=8).map(move |i| (2f64.powi(i), f(2f64.powi(i), d)));
    let series = vec![curve("all of W₀", over(|_, d| d * d)), curve("A and B", over(|r, d| 2.0 * r * d))];
    chart("numbers that learn, 512 × 512", "rank", Scale::Log, series)
}

#[cfg(test)]
mod tests {
    use super::super::TOPICS;

    #[test]
    fn every_topic_has_a_picture_that_asks_for_nothing() {
        for topic in TOPICS {
            let svg = topic.picture().unwrap();
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{}", topic.name);
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{}", topic.name);
            assert!(!svg.contains("href") && !svg.contains("<script"), "{}", topic.name);
            assert!(svg.len() < 200_000, "{}: {} bytes", topic.name, svg.len());
        }
    }

    #[test]
    fn the_causal_triangle_has_its_sums() {
        let mask = TOPICS.iter().find(|t| t.name == "mask").unwrap().picture().unwrap();
        assert_eq!(mask.matches(">Σ 1.00<").count(), 5);
        assert_eq!(mask.matches(">0.00<").count(), 10, "what stands right of the diagonal is hidden");
    }
}
