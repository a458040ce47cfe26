//! The binary: one thin file per verb. A verb reads its arguments, calls the library and prints; data go to stdout, talk to
//! stderr. No verb knows another.

mod answer;
mod bench;
mod chat;
mod classify;
mod convert;
mod data;
mod embed;
mod evaluate;
pub(crate) mod fail;
mod fill;
mod finetune;
mod flags;
mod generate;
mod image;
mod input;
mod inspect;
mod logits;
mod merge;
mod report;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod signals;
mod tag;
mod terminal;
mod tokenizer;
mod train;
mod translate;

use clap::{Parser, Subcommand};
use fail::Fail;

const ENVIRONMENT: &str = "Environment:
  QKV_SIMD=scalar|avx2|…  which vector instructions to use, of those the machine has
  RAYON_NUM_THREADS=N     threads, where no --threads is given
  NO_COLOR=1              no colour in help and errors";

/// The Transformer, whole: count, build, measure and look inside its networks on your own machine.
#[derive(Parser)]
#[command(name = "qkv", version, arg_required_else_help = true, propagate_version = true, after_help = ENVIRONMENT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show what a network is made of: tree, parameters, memory and arithmetic, without allocating it
    Inspect(inspect::Args),
    /// Run a model once and print everything it computes, under Hugging Face's names
    Logits(logits::Args),
    /// Turn a model from one format into another: Hugging Face, GGUF, PyTorch
    Convert(convert::Args),
    /// One vector for each text, for search and comparison
    Embed(embed::Args),
    /// Fill the gaps of a text with a masked language model
    Fill(fill::Args),
    /// Which class a text belongs to
    Classify(classify::Args),
    /// Label words and find names, places, dates
    Tag(tag::Args),
    /// Answer a question with a part of a text
    Answer(answer::Args),
    /// What is in a picture
    Image(image::Args),
    /// Continue a text: greedy, sampling, beam or contrastive search, streaming
    Generate(Box<generate::Args>),
    /// Talk with a model that has a chat template
    Chat(Box<chat::Args>),
    /// Read a text and write it in another way, line by line, by beam search
    Translate(Box<translate::Args>),
    /// Tell how probable a text is, token by token
    Score(score::Args),
    /// Answer over HTTP: OpenAI's and Ollama's API, every task, several models
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    /// Train tokenizers, and see how they cut: text to ids and back
    Tokenizer(tokenizer::Args),
    /// Make corpora, and check data before any training
    Data(data::Args),
    /// Train a network by a recipe: from scratch, with checkpoints, a score and a report
    Train(train::Args),
    /// Teach a checkpoint a task: new head, all weights or LoRA adapters
    Finetune(finetune::Args),
    /// Score a checkpoint on data, with intervals and comparisons
    Evaluate(Box<evaluate::Args>),
    /// Add LoRA adapters into the weights they adapt
    Merge(merge::Args),
    /// Measure speed: training, decoding, translating, encoding, or each kernel
    Bench(bench::Args),
}

impl Cli {
    /// Does what was asked.
    pub(crate) fn run(&self) -> Result<(), Fail> {
        match &self.verb {
            Verb::Inspect(args) => inspect::run(args),
            Verb::Logits(args) => logits::run(args),
            Verb::Convert(args) => convert::run(args),
            Verb::Embed(args) => embed::run(args),
            Verb::Fill(args) => fill::run(args),
            Verb::Classify(args) => classify::run(args),
            Verb::Tag(args) => tag::run(args),
            Verb::Answer(args) => answer::run(args),
            Verb::Image(args) => image::run(args),
            Verb::Generate(args) => generate::run(args),
            Verb::Chat(args) => chat::run(args),
            Verb::Translate(args) => translate::run(args),
            Verb::Score(args) => score::run(args),
            #[cfg(feature = "serve")]
            Verb::Serve(args) => serve::run(args),
            Verb::Tokenizer(args) => tokenizer::run(args),
            Verb::Data(args) => data::run(args),
            Verb::Train(args) => train::run(args),
            Verb::Finetune(args) => finetune::run(args),
            Verb::Evaluate(args) => evaluate::run(args),
            Verb::Merge(args) => merge::run(args),
            Verb::Bench(args) => bench::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    /// No flag stands for two things, none names a flag that is not there.
    #[test]
    fn flags_do_not_clash() {
        Cli::command().debug_assert();
    }
}
