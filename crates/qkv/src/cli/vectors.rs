//! `qkv vectors`: words as vectors, before any network: learn them, ask them, and classify by them.

mod ask;
mod classify;
mod learn;

use super::fail::Fail;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    job: Job,
}

#[derive(clap::Subcommand)]
enum Job {
    /// Learn vectors from text: one-hot, TF-IDF, skip-gram or CBOW
    Train(learn::Args),
    /// The words nearest to a word
    Near(ask::NearArgs),
    /// What is to woman as king is to man: king - man + woman
    Analogy(ask::AnalogyArgs),
    /// Compare cosines with what people say: Spearman's correlation over pairs of words
    Similarity(ask::SimilarityArgs),
    /// Logistic regression on words: the baseline that a network is put beside
    Classify(classify::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    match &args.job {
        Job::Train(args) => learn::run(args),
        Job::Near(args) => ask::near(args),
        Job::Analogy(args) => ask::analogy(args),
        Job::Similarity(args) => ask::similarity(args),
        Job::Classify(args) => classify::run(args),
    }
}
