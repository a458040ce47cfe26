//! `qkv data`: corpora that qkv makes itself, and a look at data before any training.

mod check;
mod make;

use crate::cli::fail::Fail;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Write a corpus that qkv makes itself, or list them all
    Make(make::Args),
    /// Look at data before any training: the exit code says whether training can start
    Check(check::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.job {
        Job::Make(args) => make::run(args),
        Job::Check(args) => check::run(args),
    }
}
