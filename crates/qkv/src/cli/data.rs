//! `qkv data`: corpora that qkv makes itself, and a look at data before any training.

mod check;
mod check_shards;
mod files;
mod form;
mod make;
mod shard;

use crate::cli::fail::Fail;
use qkv_data::shards::is_shards;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Write a corpus that qkv makes itself, or list them all
    Make(make::Args),
    /// Make texts into tokens once, on disk: for corpora that are larger than memory
    Shard(shard::Args),
    /// Look at data before any training: the exit code says whether training can start
    Check(check::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.job {
        Job::Make(args) => make::run(args),
        Job::Shard(args) => shard::run(args),
        Job::Check(args) if is_shards(Path::new(&args.file)) => check_shards::run(args),
        Job::Check(args) => check::run(args),
    }
}
