//! `qkv`: the Transformer, whole. One verb per job; data on stdout, talk on stderr.

mod bench;
mod evaluate;
mod fail;
mod finetune;
mod inspect;
mod merge;
mod train;

use clap::{Parser, Subcommand};
use fail::Fail;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();

const ENVIRONMENT: &str = "Environment:
  QKV_SIMD=scalar|avx2|…  which vector instructions to use, of those the machine has
  RAYON_NUM_THREADS=N     threads, where no --threads is given
  NO_COLOR=1              no colour in help and errors";

/// The Transformer, whole: count, build, measure and look inside its networks on your own machine.
#[derive(Parser)]
#[command(name = "qkv", version, arg_required_else_help = true, propagate_version = true, after_help = ENVIRONMENT)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show what a network is made of: tree, parameters, memory and arithmetic, without allocating it
    Inspect(inspect::Args),
    /// Train a network by a recipe: from scratch, with checkpoints, a score and a report
    Train(train::Args),
    /// Teach a checkpoint a task: new head, all weights or LoRA adapters
    Finetune(finetune::Args),
    /// Score a checkpoint on data, with intervals and comparisons
    Evaluate(evaluate::Args),
    /// Add LoRA adapters into the weights they adapt
    Merge(merge::Args),
    /// Measure speed: a training step, or each kernel beside burn's own operation
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version are answers, not errors; everything else is usage: exit 2.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { 2 } else { 0 });
        }
    };
    if let Err(what) = qkv_kernels::simd::Level::check() {
        return Fail::usage(what, "name one of these, or leave the variable unset for the best").report();
    }
    let done = match cli.verb {
        Verb::Inspect(args) => inspect::run(&args),
        Verb::Train(args) => train::run(&args),
        Verb::Finetune(args) => finetune::run(&args),
        Verb::Evaluate(args) => evaluate::run(&args),
        Verb::Merge(args) => merge::run(&args),
        Verb::Bench(args) => bench::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => fail.report(),
    }
}

/// Prints a line to stdout; a closed pipe (`| head`) ends the program quietly instead of with a panic.
fn say(line: impl std::fmt::Display) -> Result<(), Fail> {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => other.map_err(|e| Fail::failed("stdout", e.to_string(), "is the disk full?")),
    }
}
