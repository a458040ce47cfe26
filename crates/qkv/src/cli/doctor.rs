//! `qkv doctor`: what this machine can do, and what is in its way.

use super::fail::Fail;
use super::terminal::{say, say_json, talk};
use qkv::doctor::{self, Examination, Product};
use qkv_train::on_threads;
use std::process::{Command, Stdio};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv doctor                       a few seconds of measuring, and what is slow and why
  qkv doctor --json                the same for a program
  QKV_SIMD=avx2 qkv doctor         with the instructions that are asked for")]
pub(crate) struct Args {
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
    /// Measure the products of the level in force, and nothing else
    #[arg(long, hide = true)]
    products: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.products {
        return say_json(&on_threads(args.threads, doctor::products)?);
    }
    talk("measuring for some seconds …");
    // Before there are threads that keep to their cores: what is counted or started on one of those has that core alone.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let others: Vec<_> = doctor::unused_levels().map(|level| (level, measured(level, args.threads))).collect();
    let found = on_threads(args.threads, || doctor::examine(cores, &others))?;
    if args.json {
        return say_json(&found);
    }
    lines(&found).iter().try_for_each(say)
}

/// The products of a level. It is chosen when a program starts, so that another one needs another process.
fn measured(level: &str, threads: usize) -> Vec<Product> {
    let run = || {
        let program = std::env::current_exe().ok()?;
        let mut command = Command::new(program);
        command.args(["doctor", "--products", "--threads", &threads.to_string()]).env("QKV_SIMD", level);
        let out = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        serde_json::from_slice(&out.stdout).ok()
    };
    run().unwrap_or_default()
}

fn lines(found: &Examination) -> Vec<String> {
    let mut lines = found.lines();
    if found.findings.is_empty() {
        lines.push("nothing is in the way".into());
    }
    for finding in &found.findings {
        lines.push(format!("slow: {}", finding.what));
        lines.push(format!("  hint: {}", finding.hint));
    }
    lines
}
