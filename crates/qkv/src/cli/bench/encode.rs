//! `qkv bench encode`: a batch of sentences through an encoder.

use super::{Subject, median, not_zero, random_ids, reports};
use crate::cli::fail::Fail;
use qkv_decode::batch;
use qkv_model::{CausalLm, Encoder, Precision, count, presets};
use qkv_nn::Cx;
use qkv_train::on_threads;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  qkv bench encode\n  qkv bench encode --model DIR --batch 64 --length 32 --json")]
pub(crate) struct Args {
    /// A model to measure; left out, one of MiniLM's size (6 layers of 384) with random weights
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// How many bits the matrices take: stored, f32, bf16, f16, int8 or int4
    #[arg(long, value_name = "PRECISION", default_value_t)]
    weights: Precision,
    /// Sentences
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Tokens of each
    #[arg(long, default_value_t = 32)]
    length: usize,
    /// Measured rounds, after two that are not
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    system: String,
    what: &'static str,
    params: u64,
    weights: String,
    threads: usize,
    seconds: f64,
    best_seconds: f64,
    sentences_per_s: f64,
    /// the first numbers of the first state, to compare with
    first: Vec<f32>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    not_zero(&[("batch", args.batch), ("length", args.length), ("rounds", args.rounds)])?;
    let report = on_threads(args.threads, || measure(args))??;
    reports(args.json, &report, || {
        format!(
            "{:.1} sentences/s ({:.4} s, best {:.4}), {} threads",
            report.sentences_per_s, report.seconds, report.best_seconds, report.threads
        )
    })
}

fn measure(args: &Args) -> Result<Report, Fail> {
    let model = Subject {
        model: args.model.as_deref(),
        weights: args.weights,
        spec: || presets::bert(30_522, 384, 6, 12, 512),
    }
    .load()?;
    let tokens = batch(&random_ids(args.batch, args.length, CausalLm::vocabulary(&model)));
    let (mut times, mut first) = (vec![], vec![]);
    for _ in 0..args.rounds + 2 {
        let start = Instant::now();
        let hidden = model.hidden(&tokens, &mut Cx::eval())?;
        times.push(start.elapsed().as_secs_f64());
        let state = hidden.narrow(0, 0, 1).narrow(1, 0, 1).narrow(2, 0, 4);
        first = state.into_data().try_into_vec::<f32>().unwrap_or_default();
    }
    let times = times.split_off(2);
    let middle = median(times.clone());
    Ok(Report {
        system: format!("qkv {}", env!("CARGO_PKG_VERSION")),
        what: "encode",
        params: count::parameters(&model).iter().map(count::Parameter::elements).sum(),
        weights: args.weights.to_string(),
        threads: rayon::current_num_threads(),
        seconds: middle,
        best_seconds: times.iter().copied().fold(f64::INFINITY, f64::min),
        sentences_per_s: args.batch as f64 / middle,
        first,
    })
}
