//! `qkv`: the Transformer, whole. One verb per job; data on stdout, talk on stderr.

mod cli;

use clap::Parser;
use cli::Cli;
use cli::fail::Fail;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: qkv_kernels::alloc::Reuse = qkv_kernels::alloc::Reuse::new();

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
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => fail.report(),
    }
}
