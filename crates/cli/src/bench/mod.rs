//! `qkv bench`: how fast it is.

mod ops;
mod train;

use crate::fail::Fail;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// One full training step (forward, backward, AdamW) of a GPT or a translation model on random data
    Train(train::Args),
    /// Each kernel beside burn's own operation, in GFLOP/s or GB/s
    Ops(ops::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.what {
        What::Train(args) => train::run(args),
        What::Ops(args) => ops::run(args),
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
