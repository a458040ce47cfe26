//! `qkv bench`: how fast it is.

mod all;
mod decode;
mod encode;
mod ops;
#[cfg(feature = "serve")]
mod serve;
mod train;
mod translate;

use crate::cli::fail::Fail;
use crate::cli::input::not_zero;
use qkv_model::{Precision, Spec, Transformer};
use qkv_nn::device;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// One full training step (forward, backward, AdamW) of a GPT or a translation model on random data
    Train(train::Args),
    /// Greedy decoding of one text, and its share of what the memory allows
    Decode(decode::Args),
    /// A batch of sources through a translation model
    Translate(translate::Args),
    /// A batch of sentences through an encoder
    Encode(encode::Args),
    /// A server under load: requests, tokens, and how long everybody waits
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    /// Each kernel beside burn's own operation, in GFLOP/s or GB/s
    Ops(ops::Args),
    /// The machine, and all of these but ops and serve, in one table or one JSON
    All(all::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.what {
        What::Train(args) => train::run(args),
        What::Decode(args) => decode::run(args),
        What::Translate(args) => translate::run(args),
        What::Encode(args) => encode::run(args),
        #[cfg(feature = "serve")]
        What::Serve(args) => serve::run(args),
        What::Ops(args) => ops::run(args),
        What::All(args) => all::run(args),
    }
}

/// What is measured: a model from disk, or a network of a spec with random weights.
struct Subject<'a, F> {
    model: Option<&'a Path>,
    weights: Precision,
    spec: F,
}

impl<F: FnOnce() -> Spec> Subject<'_, F> {
    fn load(self) -> Result<Transformer, Fail> {
        let device = device::default();
        match self.model {
            Some(path) => Ok(qkv_tasks::locate::model(path)?.load_packed(&device, self.weights)?.model),
            None => Ok(qkv_model::precision::pack(Transformer::new(&(self.spec)(), 0, &device)?, self.weights)?),
        }
    }
}

/// Ids that the other side of a comparison can make too: a counter times a prime, special tokens left out.
fn random_ids(rows: usize, len: usize, vocabulary: usize) -> Vec<Vec<u32>> {
    let few = vocabulary.saturating_sub(3).max(1) as u64;
    let id = |i: u64| (3 + i * 7919 % few) as u32 % vocabulary.max(1) as u32;
    (0..rows as u64).map(|r| (0..len as u64).map(|t| id(r * len as u64 + t + 1)).collect()).collect()
}

/// As a line of JSON, or in words.
fn reports(json: bool, report: &impl serde::Serialize, words: impl FnOnce() -> String) -> Result<(), Fail> {
    match json {
        true => crate::cli::terminal::say(serde_json::to_string(report).map_err(|e| Fail::failed("json", e, ""))?),
        false => crate::cli::terminal::say(words()),
    }
}

/// The middle of the measured times: one slow outlier does not move it.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let n = times.len();
    if n == 0 {
        return f64::NAN;
    }
    (times[(n - 1) / 2] + times[n / 2]) / 2.0
}
