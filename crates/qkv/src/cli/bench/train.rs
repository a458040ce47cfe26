//! `qkv bench train`: the training step itself on random data, the shapes and the fields of the PyTorch benchmark.
//! AdamW at 3e-4.

mod shape;

pub(crate) use shape::Args;

use super::median;
use crate::cli::fail::Fail;
use crate::cli::input::not_zero;
use crate::cli::terminal::say;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use qkv_kernels::ProductPrecision;
use qkv_model::{Transformer, count};
use qkv_nn::device;
use qkv_runs::memory;
use qkv_train::guard::Guard;
use qkv_train::step::{StepParams, learn};
use qkv_train::{Optimizer, Settings, on_threads};
use serde::Serialize;
use std::time::Instant;

#[derive(Serialize)]
struct Report {
    system: String,
    shape: String,
    params: u64,
    threads: usize,
    median_step_s: f64,
    best_step_s: f64,
    tokens_per_s: f64,
    loss: f32,
    peak_rss_mb: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    not_zero(&[("batch", args.batch), ("context", args.context), ("steps", args.steps)])?;
    args.spec()?.check()?;
    let report = on_threads(args.threads, || match args.plain {
        true => qkv_kernels::plain(|| measure(args)),
        false => measure(args),
    })??;
    if args.json {
        let line = serde_json::to_string(&report).map_err(|e| Fail::failed("json", e, ""))?;
        return say(line);
    }
    say(format!(
        "{}: {} parameters, {:.1} tokens/s ({:.4} s a step, best {:.4}), loss {:.4}, peak {:.0} MB, {} threads",
        report.shape,
        report.params,
        report.tokens_per_s,
        report.median_step_s,
        report.best_step_s,
        report.loss,
        report.peak_rss_mb,
        report.threads
    ))
}

fn products() -> impl TypedValueParser<Value = ProductPrecision> {
    PossibleValuesParser::new(["f32", "bf16"]).map(|name| match name.as_str() {
        "bf16" => ProductPrecision::Bf16,
        _ => ProductPrecision::F32,
    })
}

/// How it is computed, where that is not the usual way.
fn way(args: &Args) -> &'static str {
    match args.precision {
        _ if args.plain => " plain",
        ProductPrecision::F32 => "",
        ProductPrecision::Bf16 => " bf16",
    }
}

/// Three steps to warm up, then the measured ones.
fn measure(args: &Args) -> Result<Report, Fail> {
    let mut model = Transformer::new(&args.spec()?, 0, &device::default().autodiff())?;
    let (mut optimizer, mut guard) = (Optimizer::new(Settings::default()), Guard::default());
    let batches = [args.data()];
    let (mut times, mut loss) = (vec![], f32::NAN);
    for step in 1..=3 + args.steps as u64 {
        let start = Instant::now();
        let params =
            StepParams { seed: 0, step, rate: 3e-4, smoothing: 0.0, recompute: false, products: args.precision };
        let (next, outcome) = learn(model, &mut optimizer, &batches, params, &mut guard)?;
        (model, loss) = (next, outcome.loss);
        times.push(start.elapsed().as_secs_f64());
    }
    let times = times.split_off(3);
    let tokens = args.batch * args.context * if args.shape.is_pair() { 2 } else { 1 };
    let middle = median(times.clone());
    Ok(Report {
        system: format!("qkv {}{}", env!("CARGO_PKG_VERSION"), way(args)),
        shape: args.shape.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string()),
        params: count::parameters(&model).iter().map(count::Parameter::elements).sum(),
        threads: rayon::current_num_threads(),
        median_step_s: middle,
        best_step_s: times.iter().copied().fold(f64::INFINITY, f64::min),
        tokens_per_s: tokens as f64 / middle,
        loss,
        peak_rss_mb: memory::peak().map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20)),
    })
}
