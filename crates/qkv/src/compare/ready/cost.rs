//! Seconds a step against length: a recurrent layer takes one step after the other, a block of attention takes all at once, and
//! pays with N² scores. Forward and backward of one layer of each, as wide, on the same rows; medians.

use super::Asked;
use crate::Result;
use crate::compare::Compared;
use qkv_insight::page::{Cell, Page, Table};
use qkv_kernels::Ids;
use qkv_model::families::{self, Sheet, Sizes};
use qkv_model::spec::{Head, Spec};
use qkv_model::{CausalLm, Tokens, Transformer};
use qkv_nn::{Cx, device};
use qkv_report::{Chart, Series};
use std::time::Instant;

const WIDTH: usize = 128;
const ROWS: usize = 4;
const LENGTHS: [usize; 6] = [32, 64, 128, 256, 512, 1024];
const ROUNDS: usize = 5;

fn network(sheet: &Sheet, longest: usize) -> Result<Transformer> {
    let heads = if families::free(sheet).is_some() { 4 } else { 1 };
    let spec = (sheet.sizes)(&Sizes::of_tokens(8, WIDTH, 1, heads, longest))?;
    Transformer::new(&Spec { head: Head::None, ..spec }, 1, &device::trainable("cpu")?)
}

/// The median of some passes, forward and backward, in seconds.
fn seconds(model: &Transformer, length: usize) -> Result<f64> {
    let mut took = vec![];
    for round in 0..=ROUNDS {
        let began = Instant::now();
        let tokens = Tokens::new(Ids::new(vec![1; ROWS * length], ROWS));
        let grads = model.logits(&tokens, &mut Cx::eval())?.sum().backward();
        drop(grads);
        if round > 0 {
            took.push(began.elapsed().as_secs_f64()); // the first one makes room
        }
    }
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

/// Of the multiplications of a block over N tokens, the share that grows with N²: scores and mixing, 2·N·C a token, beside
/// 12·C² of the projections and the feed-forward.
fn square_share(length: usize) -> f64 {
    let (n, c) = (length as f64, WIDTH as f64);
    2.0 * n / (2.0 * n + 12.0 * c)
}

pub(super) fn run(_: &mut Asked) -> Result<Compared> {
    let longest = LENGTHS[LENGTHS.len() - 1];
    let names = ["RNN", "LSTM", "attention"];
    let sheets = [&families::rnn::SHEET, &families::lstm::SHEET, &families::gpt2::SHEET];
    let mut all: Vec<Vec<f64>> = vec![];
    for sheet in sheets {
        let model = network(sheet, longest)?;
        all.push(LENGTHS.iter().map(|n| seconds(&model, *n)).collect::<Result<_>>()?);
    }
    let row = |(i, length): (usize, &usize)| {
        let mut cells: Vec<Cell> = all.iter().map(|times| Cell::number(1e3 * times[i], 2)).collect();
        cells.push(Cell::number(100.0 * square_share(*length), 1));
        (length.to_string(), cells)
    };
    let columns = ["RNN, ms", "LSTM, ms", "attention, ms", "N² of attention's arithmetic, %"];
    let rows = LENGTHS.iter().enumerate().map(row).collect();
    let table = Table::of(&format!("Forward and backward of {ROWS} rows"), "tokens", &columns, rows);
    let idea = format!("One layer of {WIDTH} units each, the median of {ROUNDS} passes on this machine as it is now.");
    let page = Page::new("cost", "Seconds a step against length", &idea).table(table);
    let last = LENGTHS.len() - 1;
    let grown = |i: usize| all[i][last] / all[i][0];
    let ahead = |i: usize| if all[2][i] < all[1][i] { "attention" } else { "the LSTM" };
    let finding = format!(
        "From {} to {longest} tokens ({} times as many) a pass of the RNN takes {:.0} times as long, of the LSTM {:.0} and of \
         attention {:.0}; {} is faster at {} tokens, {} at {longest}, where {:.0} % of attention's multiplications are those of N².",
        LENGTHS[0],
        longest / LENGTHS[0],
        grown(0),
        grown(1),
        grown(2),
        ahead(0),
        LENGTHS[0],
        ahead(last),
        100.0 * square_share(longest)
    );
    let series = names.iter().zip(&all).map(|(name, times)| Series {
        name: name.to_string(),
        points: LENGTHS.iter().zip(times).map(|(n, s)| (*n as f64, 1e3 * s)).collect(),
    });
    let chart = Chart {
        title: "Milliseconds a pass".into(),
        series: series.collect(),
        across: "tokens".into(),
        ..Chart::default()
    };
    Ok(Compared::new(page, finding).charts(vec![chart]))
}
