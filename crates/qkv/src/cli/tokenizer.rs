//! `qkv tokenizer`: learn one from text, and see how one cuts: text to ids, ids to text, several side by side.

mod compare;
mod decode;
mod encode;
mod learn;
mod source;

use super::fail::Fail;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Learn a tokenizer from text; the result is a tokenizer.json as Hugging Face's tools load it
    Train(learn::Args),
    /// Text to ids
    Encode(encode::Args),
    /// Ids to text
    Decode(decode::Args),
    /// Several tokenizers side by side on one text: how finely they cut, and what they do not know
    Compare(compare::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.job {
        Job::Train(args) => learn::run(args),
        Job::Encode(args) => encode::run(args),
        Job::Decode(args) => decode::run(args),
        Job::Compare(args) => compare::run(args),
    }
}
