//! `qkv bench ops`: every kernel beside its plain twin, which is burn's own operations.
//!
//! Kernel and twin run in turn, round after round, so that a machine that slows down slows both; the medians are
//! compared. Rates count the work of one forward pass by the kernel's own account, in both columns: a forward and
//! backward at a third of the forward's rate is a backward that costs twice the forward. The gradient is that of
//! `Σ out·direction`, whose product and sum are timed with both: they dampen the ratio where the operation is cheap.

use super::median;
use crate::cli::fail::Fail;
use crate::cli::terminal::say;
use burn::tensor::Tensor;
use qkv_kernels::registry::{Case, Op, Work};
use qkv_kernels::{ALL, Key, plain};
use qkv_nn::device;
use qkv_train::on_threads;
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "Rates count the work of one forward pass, in both columns.

Examples:
  qkv bench ops
  qkv bench ops --only linear attention --threads 1 --rounds 15
  qkv bench ops --json")]
pub(crate) struct Args {
    /// Only these kernels
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// How often kernel and twin are measured in turn; the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// One line of JSON for each kernel
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.rounds == 0 {
        return Err(Fail::usage("--rounds must not be 0", "use 1 or more"));
    }
    let ops = chosen(&args.only)?;
    on_threads(args.threads, || {
        if !args.json {
            say(head())?;
        }
        ops.iter().try_for_each(|op| {
            let row = Row::measure(op, args.rounds);
            say(if args.json { row.json()? } else { row.line() })
        })
    })?
}

/// The kernels of these names, all if there are none.
fn chosen(names: &[String]) -> Result<Vec<&'static Op>, Fail> {
    if let Some(name) = names.iter().find(|name| ALL.iter().all(|op| op.name != name.as_str())) {
        let all: Vec<_> = ALL.iter().map(|op| op.name).collect();
        return Err(Fail::usage(format!("there is no kernel `{name}`"), format!("choose from {}", all.join(", "))));
    }
    Ok(ALL.iter().filter(|op| names.is_empty() || names.iter().any(|name| name == op.name)).collect())
}

/// One kernel's figures.
#[derive(Serialize)]
struct Row {
    op: &'static str,
    formula: &'static str,
    case: String,
    unit: &'static str,
    threads: usize,
    rounds: usize,
    forward: Pair,
    /// `None`: nothing to differentiate
    forward_backward: Option<Pair>,
}

/// Kernel and twin: seconds of a call, and how much of the work they do in one.
#[derive(Serialize)]
struct Pair {
    kernel_s: f64,
    plain_s: f64,
    kernel_rate: f64,
    plain_rate: f64,
    /// how many times faster the kernel is
    ratio: f64,
}

impl Row {
    fn measure(op: &'static Op, rounds: usize) -> Self {
        let bench = (op.bench)();
        let (unit, work) = match bench.work {
            Work::Flops(n) => ("GFLOP/s", n),
            Work::Bytes(n) => ("GB/s", n),
        };
        let values = inputs(op.name, &bench.case);
        Self {
            op: op.name,
            formula: op.formula,
            unit,
            threads: rayon::current_num_threads(),
            rounds,
            forward: Pair::of(work, rounds, forward(&bench.case, &values)),
            forward_backward: bench
                .case
                .differentiable
                .then(|| Pair::of(work, rounds, forward_backward(&bench.case, &values))),
            case: bench.case.label,
        }
    }

    fn json(&self) -> Result<String, Fail> {
        serde_json::to_string(self).map_err(|e| Fail::failed("json", e, ""))
    }

    fn line(&self) -> String {
        let pair = |p: &Pair| format!("{:>9.1} {:>9.1} {:>8.2} ×", p.kernel_rate, p.plain_rate, p.ratio);
        let both = self.forward_backward.as_ref().map_or("      not differentiated".into(), pair);
        format!("{:<14} {:<8} {} {both}", self.op, self.unit, pair(&self.forward))
    }
}

fn head() -> String {
    let columns = format!("{:>9} {:>9} {:>10}", "kernel", "burn", "ratio");
    format!(
        "{:<14} {:<8} {:>30} {:>30}\n{:<14} {:<8} {columns} {columns}",
        "", "", "forward", "forward + backward", "operation", "unit"
    )
}

impl Pair {
    /// Medians of `call` as kernel and as twin, in turn.
    fn of(work: f64, rounds: usize, call: impl Fn()) -> Self {
        let twin = || plain(&call);
        // Warm both: threads, caches, and the allocator's shelves.
        let repeats = [seconds(1, &call), seconds(1, twin)].map(|once| (0.002 / once).clamp(1.0, 1000.0) as usize);
        let (mut kernel, mut stock) = (vec![], vec![]);
        for _ in 0..rounds {
            kernel.push(seconds(repeats[0], &call));
            stock.push(seconds(repeats[1], twin));
        }
        let (kernel_s, plain_s) = (median(kernel), median(stock));
        let rate = |seconds: f64| work / seconds / 1e9;
        Self { kernel_s, plain_s, kernel_rate: rate(kernel_s), plain_rate: rate(plain_s), ratio: plain_s / kernel_s }
    }
}

/// Seconds of one call: a short one is repeated until the clock can tell.
fn seconds(repeats: usize, call: impl Fn()) -> f64 {
    let start = Instant::now();
    (0..repeats).for_each(|_| call());
    start.elapsed().as_secs_f64() / repeats as f64
}

/// The same random inputs for every run.
fn inputs(name: &str, case: &Case) -> Vec<Vec<f32>> {
    let key = Key::new(1, 0, 0).named(name);
    let input = |(i, &n): (usize, &usize)| {
        let normals = key.child(i as u64).normals(n);
        normals.into_iter().map(|v| v * case.spread).collect()
    };
    case.sizes.iter().enumerate().map(input).collect()
}

/// The operation alone, outside of any graph.
fn forward<'a>(case: &'a Case, values: &[Vec<f32>]) -> impl Fn() + 'a {
    let device = device::default();
    let inputs: Vec<_> = values.iter().map(|x| Tensor::<1>::from_floats(x.as_slice(), &device)).collect();
    move || {
        black_box((case.run)(&inputs));
    }
}

/// The operation in a graph, its output weighed in a random direction, and the gradient of every input.
fn forward_backward<'a>(case: &'a Case, values: &[Vec<f32>]) -> impl Fn() + 'a {
    let device = device::default().autodiff();
    let inputs: Vec<_> =
        values.iter().map(|x| Tensor::<1>::from_floats(x.as_slice(), &device).require_grad()).collect();
    let [n] = (case.run)(&inputs).dims();
    let direction = Tensor::<1>::from_floats(Key::new(1, 0, 1).normals(n).as_slice(), &device);
    move || {
        black_box(((case.run)(&inputs) * direction.clone()).sum().backward());
    }
}
