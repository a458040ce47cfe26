//! `qkv bench train`: the training step itself on random data, the shapes and the fields of the PyTorch benchmark.
//!
//! `gpt`: pre-norm, GELU-tanh, learned positions, an output matrix of its own. `pair`: post-norm encoder and decoder,
//! ReLU, sinusoidal positions, one table for everything. Dropout off; AdamW at 3e-4.

use super::median;
use crate::cli::fail::Fail;
use crate::cli::terminal::say;
use clap::ValueEnum;
use qkv_data::Batch;
use qkv_kernels::{Activation, Key};
use qkv_model::spec::{Dropout, Head, InitScheme, Output, Position, Shape, Stack};
use qkv_model::{Spec, Transformer, count, presets};
use qkv_nn::device;
use qkv_nn::position::Waves;
use qkv_train::guard::Guard;
use qkv_train::step::{StepParams, learn};
use qkv_train::{Optimizer, Settings, on_threads};
use serde::Serialize;
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv bench train --shape gpt\n  qkv bench train --shape pair --layers 3 --width 256 --heads 8 --context 64 --batch 16 --vocab 8000 --json"
)]
pub(crate) struct Args {
    /// Which network
    #[arg(long, value_enum, default_value = "gpt")]
    shape: Kind,
    /// Blocks (of each stack)
    #[arg(long, default_value_t = 6)]
    layers: usize,
    /// Width of the residual stream
    #[arg(long, default_value_t = 384)]
    width: usize,
    /// Attention heads
    #[arg(long, default_value_t = 6)]
    heads: usize,
    /// Tokens of each row (on each side of a pair)
    #[arg(long, default_value_t = 256)]
    context: usize,
    /// Rows
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Vocabulary
    #[arg(long, default_value_t = 4096)]
    vocab: usize,
    /// Steps that are measured, after three that are not
    #[arg(long, default_value_t = 8)]
    steps: usize,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Run burn's own operations (every kernel's plain twin) instead of the kernels
    #[arg(long)]
    plain: bool,
    /// One line of JSON, with the fields of the PyTorch benchmark
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// decoder only
    Gpt,
    /// encoder and decoder
    Pair,
}

impl Args {
    /// The same wiring as the PyTorch side.
    fn spec(&self) -> Spec {
        let inner = 4 * self.width;
        match self.shape {
            Kind::Gpt => Spec {
                head: Head::Language { output: Output::Own, bias: false },
                dropout: Dropout::default(),
                init: InitScheme::Torch,
                ..presets::gpt2(self.vocab, self.width, self.layers, self.heads, self.context)
            },
            Kind::Pair => {
                let stack = Stack::new(self.layers, self.heads, inner, Activation::Relu);
                Spec {
                    shape: Shape::Pair { encoder: stack.clone(), decoder: stack },
                    position: Position::Sinusoidal { max: self.context, waves: Waves::Halves },
                    dropout: Dropout::default(),
                    ..presets::paper(self.vocab, self.width, self.layers, self.heads, inner)
                }
            }
        }
    }

    /// A batch as a loader would make it: random ids, every position a target.
    fn data(&self) -> Batch {
        let (rows, length) = (self.batch, self.context);
        let pair = self.shape == Kind::Pair;
        Batch {
            rows,
            length,
            ids: self.ids(1),
            lengths: vec![length; rows],
            memory: if pair { self.ids(2) } else { vec![] },
            memory_length: if pair { length } else { 0 },
            memory_lengths: if pair { vec![length; rows] } else { vec![] },
            targets: self.ids(3).into_iter().map(i64::from).collect(),
            weights: vec![1.0; rows * length],
            ..Batch::default()
        }
    }

    /// Random ids, the same for the same seed.
    fn ids(&self, place: u64) -> Vec<u32> {
        let key = Key::new(0, 0, place);
        (0..(self.batch * self.context) as u64).map(|i| key.word(i) % self.vocab.max(1) as u32).collect()
    }
}

#[derive(Serialize)]
struct Report {
    system: String,
    shape: &'static str,
    params: u64,
    threads: usize,
    median_step_s: f64,
    best_step_s: f64,
    tokens_per_s: f64,
    loss: f32,
    peak_rss_mb: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    for (name, value) in [("batch", args.batch), ("context", args.context), ("steps", args.steps)] {
        if value == 0 {
            return Err(Fail::usage(format!("--{name} must not be 0"), "use 1 or more"));
        }
    }
    args.spec().check()?;
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

/// Three steps to warm up, then the measured ones.
fn measure(args: &Args) -> Result<Report, Fail> {
    let mut model = Transformer::new(&args.spec(), 0, &device::default().autodiff())?;
    let (mut optimizer, mut guard) = (Optimizer::new(Settings::default()), Guard::default());
    let batches = [args.data()];
    let (mut times, mut loss) = (vec![], f32::NAN);
    for step in 1..=3 + args.steps as u64 {
        let start = Instant::now();
        let params = StepParams { seed: 0, step, rate: 3e-4, smoothing: 0.0, recompute: false };
        let (next, outcome) = learn(model, &mut optimizer, &batches, params, &mut guard)?;
        (model, loss) = (next, outcome.loss);
        times.push(start.elapsed().as_secs_f64());
    }
    let times = times.split_off(3);
    let tokens = args.batch * args.context * if args.shape == Kind::Pair { 2 } else { 1 };
    let middle = median(times.clone());
    Ok(Report {
        system: format!("qkv {}{}", env!("CARGO_PKG_VERSION"), if args.plain { " plain" } else { "" }),
        shape: if args.shape == Kind::Gpt { "gpt" } else { "pair" },
        params: count::parameters(&model).iter().map(count::Parameter::elements).sum(),
        threads: rayon::current_num_threads(),
        median_step_s: middle,
        best_step_s: times.iter().copied().fold(f64::INFINITY, f64::min),
        tokens_per_s: tokens as f64 / middle,
        loss,
        peak_rss_mb: peak_rss_mb(),
    })
}

/// The most memory the process has held, as the system counts it; NaN where it does not say.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}
