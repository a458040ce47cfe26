//! `qkv bench decode`: greedy decoding of one text with the cache, and its share of what the memory allows.
//!
//! Each token reads every weight once, so that with one row the limit is bytes of weights / bandwidth. The bandwidth is
//! measured beside it, by reading a gigabyte on the same threads.

use super::{Subject, median, random_ids, reports};
use crate::cli::fail::Fail;
use qkv_decode::{Chain, Draft, Engine, EngineConfig, Pick, Request};
use qkv_model::{CausalLm, Precision, count, precision, presets};
use qkv_train::on_threads;
use rayon::prelude::*;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  qkv bench decode\n  qkv bench decode --model DIR --tokens 64 --json")]
pub(crate) struct Args {
    /// A model to measure; left out, GPT-2 small with random weights
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// How many bits the matrices take: stored, f32, bf16, f16, int8 or int4
    #[arg(long, value_name = "PRECISION", default_value_t)]
    weights: Precision,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 16)]
    prompt: usize,
    /// Tokens to say
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// Where guesses of the next tokens come from: none or ngram
    #[arg(long, value_name = "KIND", default_value_t, value_parser = clap::value_parser!(Draft))]
    draft: Draft,
    /// Rows
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Measured rounds, after one that is not
    #[arg(long, default_value_t = 5)]
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
    tokens_per_s: f64,
    ms_per_token: f64,
    best_ms_per_token: f64,
    bandwidth_gb_per_s: f64,
    share_of_bandwidth: f64,
    /// tokens that were guessed, and how many of them were right
    guessed: (usize, usize),
    ids: Vec<u32>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    super::not_zero(&[
        ("prompt", args.prompt),
        ("tokens", args.tokens),
        ("batch", args.batch),
        ("rounds", args.rounds),
    ])?;
    let report = on_threads(args.threads, || measure(args))??;
    reports(args.json, &report, || {
        format!(
            "{:.1} tokens/s ({:.2} ms a token, best {:.2}), {:.0} % of {:.1} GB/s, {} threads",
            report.tokens_per_s,
            report.ms_per_token,
            report.best_ms_per_token,
            100.0 * report.share_of_bandwidth,
            report.bandwidth_gb_per_s,
            report.threads
        )
    })
}

fn measure(args: &Args) -> Result<Report, Fail> {
    let model = Subject {
        model: args.model.as_deref(),
        weights: args.weights,
        spec: || presets::gpt2(50_257, 768, 12, 12, 1024),
    }
    .load()?;
    let prompts = random_ids(args.batch, args.prompt, CausalLm::vocabulary(&model));
    let chain = Chain { steps: vec![], pick: Pick::Greedy };
    let model = Arc::new(model);
    let request = |prompt: Vec<u32>| Request {
        chain: chain.clone(),
        max_tokens: args.tokens,
        draft: args.draft,
        ..Request::new(prompt)
    };
    let (mut times, mut ids, mut guessed) = (vec![], vec![], (0, 0));
    for _ in 0..=args.rounds {
        let start = Instant::now();
        let mut engine = Engine::new(model.clone(), EngineConfig::default());
        let said = engine.run(prompts.iter().cloned().map(request).collect(), &mut |_, _| true)?;
        times.push(start.elapsed().as_secs_f64() / args.tokens as f64);
        ids = said[0].sequences[0].ids.clone();
        guessed = said.iter().fold((0, 0), |sum, one| (sum.0 + one.guessed.0, sum.1 + one.guessed.1));
    }
    let times = times.split_off(1);
    let params: u64 = count::parameters(&*model).iter().map(count::Parameter::elements).sum();
    let bytes = precision::weight_bytes(&model);
    let (middle, bandwidth) = (median(times.clone()), bandwidth());
    Ok(Report {
        system: format!("qkv {}", env!("CARGO_PKG_VERSION")),
        what: "decode",
        params,
        weights: args.weights.to_string(),
        threads: rayon::current_num_threads(),
        tokens_per_s: args.batch as f64 / middle,
        ms_per_token: 1e3 * middle,
        best_ms_per_token: 1e3 * times.iter().copied().fold(f64::INFINITY, f64::min),
        bandwidth_gb_per_s: bandwidth,
        share_of_bandwidth: bytes as f64 / middle / (bandwidth * 1e9),
        guessed,
        ids,
    })
}

/// GB/s of reading: the best of five passes over a gigabyte.
fn bandwidth() -> f64 {
    let data = vec![1f32; 1 << 28];
    let pass = || {
        let start = Instant::now();
        let sum: f32 = data.par_chunks(1 << 18).map(qkv_kernels::simd::sum).sum();
        assert!(sum > 0.0);
        4.0 * data.len() as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..5).map(|_| pass()).fold(0.0, f64::max)
}
