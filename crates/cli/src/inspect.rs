//! `qkv inspect`: what a network is made of.

use crate::fail::Fail;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A known architecture, such as `gpt2` or `bert-large`
    #[arg(long)]
    preset: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let _ = &args.preset;
    Ok(())
}
