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

/// Runs `f` on this many threads; 0: as many as `RAYON_NUM_THREADS` says, or as there are cores.
///
/// Each thread keeps to a core of its own while there are enough: a thread that is woken is otherwise put beside the one
/// that woke it, and the two share a core until the system notices.
fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> Result<T, Fail> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
    let threads = if threads == 0 { asked.unwrap_or(cores.len()) } else { threads };
    let own = threads <= cores.len();
    let settle = move |i: usize| {
        if own {
            core_affinity::set_for_current(cores[i]);
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(settle).build();
    let pool = pool.map_err(|e| Fail::failed("threads", e, "use fewer threads"))?;
    Ok(pool.install(f))
}
