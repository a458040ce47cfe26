//! `qkv bench translate`: a batch of sources through a translation model, by beam search.

use super::{Subject, median, not_zero, random_ids, reports};
use crate::cli::fail::Fail;
use qkv_decode::{Beam, Chain, Engine, EngineConfig, Pick, Request, Search};
use qkv_model::{CausalLm, Precision, count, presets};
use qkv_train::on_threads;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  qkv bench translate --beam 4\n  qkv bench translate --model DIR --beam 1 --json")]
pub(crate) struct Args {
    /// A model to measure; left out, the 2017 paper's base (vocabulary 32,000) with random weights
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// How many bits the matrices take: stored, f32, bf16, f16, int8 or int4
    #[arg(long, value_name = "PRECISION", default_value_t)]
    weights: Precision,
    /// Sources
    #[arg(long, default_value_t = 16)]
    batch: usize,
    /// Tokens of each source
    #[arg(long, default_value_t = 24)]
    source: usize,
    /// Tokens to say
    #[arg(long, default_value_t = 32)]
    tokens: usize,
    /// Width of the beam; 1 is greedy
    #[arg(long, default_value_t = 4)]
    beam: usize,
    /// The token that begins a target
    #[arg(long, default_value_t = 0)]
    start: u32,
    /// Measured rounds, after one that is not
    #[arg(long, default_value_t = 3)]
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
    beam: usize,
    seconds: f64,
    best_seconds: f64,
    tokens_per_s: f64,
    ids: Vec<u32>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let sizes = [("batch", args.batch), ("source", args.source), ("tokens", args.tokens), ("beam", args.beam)];
    not_zero(&sizes)?;
    not_zero(&[("rounds", args.rounds)])?;
    let report = on_threads(args.threads, || measure(args))??;
    reports(args.json, &report, || {
        format!(
            "beam {}: {:.3} s (best {:.3}), {:.1} tokens/s, {} threads",
            report.beam, report.seconds, report.best_seconds, report.tokens_per_s, report.threads
        )
    })
}

fn measure(args: &Args) -> Result<Report, Fail> {
    let model = Subject {
        model: args.model.as_deref(),
        weights: args.weights,
        spec: || presets::paper(32_000, 512, 6, 8, 2048),
    }
    .load()?;
    let sources = random_ids(args.batch, args.source, CausalLm::vocabulary(&model));
    let model = Arc::new(model);
    let request = |source: &Vec<u32>| Request {
        source: Some(source.clone()),
        chain: Chain { steps: vec![], pick: Pick::Greedy },
        search: if args.beam == 1 { Search::Sample { n: 1 } } else { Search::Beam(Beam::new(args.beam)) },
        max_tokens: args.tokens,
        ..Request::new(vec![args.start])
    };
    let (mut times, mut ids) = (vec![], vec![]);
    for _ in 0..=args.rounds {
        let start = Instant::now();
        let mut engine = Engine::new(model.clone(), EngineConfig::default());
        let said = engine.run(sources.iter().map(request).collect(), &mut |_, _| true)?;
        times.push(start.elapsed().as_secs_f64());
        ids = said[0].sequences[0].ids.clone();
    }
    let times = times.split_off(1);
    let middle = median(times.clone());
    Ok(Report {
        system: format!("qkv {}", env!("CARGO_PKG_VERSION")),
        what: "translate",
        params: count::parameters(&*model).iter().map(count::Parameter::elements).sum(),
        weights: args.weights.to_string(),
        threads: rayon::current_num_threads(),
        beam: args.beam,
        seconds: middle,
        best_seconds: times.iter().copied().fold(f64::INFINITY, f64::min),
        tokens_per_s: (args.batch * args.tokens) as f64 / middle,
        ids,
    })
}
