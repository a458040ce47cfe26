//! placeholder
use crate::fail::Fail;
#[derive(clap::Args)]
pub(crate) struct Args {}
pub(crate) fn run(_: &Args) -> Result<(), Fail> {
    Ok(())
}
