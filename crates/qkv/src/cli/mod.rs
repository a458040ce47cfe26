//! The binary: one thin file per verb. A verb reads its arguments, calls the library and prints; data go to stdout, talk to
//! stderr. No verb knows another.

mod answer;
mod bench;
mod chat;
mod classify;
mod compare;
mod completions;
mod convert;
mod data;
mod doctor;
mod embed;
mod evaluate;
mod explain;
pub(crate) mod fail;
mod fill;
mod finetune;
mod flags;
mod generate;
mod image;
mod input;
mod inspect;
mod logits;
mod man;
mod merge;
mod report;
mod runs;
mod score;
mod see;
#[cfg(feature = "serve")]
mod serve;
mod show;
mod signals;
mod tag;
mod terminal;
mod tokenizer;
mod train;
mod translate;
mod vectors;

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
    /// Words as vectors: one-hot, TF-IDF, Word2Vec; neighbours, analogies, and the baseline classifier
    Vectors(vectors::Args),
    /// Train a network by a recipe: from scratch, with checkpoints, a score and a report
    Train(train::Args),
    /// Teach a checkpoint a task: new head, all weights or LoRA adapters
    Finetune(finetune::Args),
    /// Networks side by side under one budget; the lectures' arguments, ready to run
    Compare(compare::Args),
    /// What was trained here: a table of runs; rename and remove them
    Runs(runs::Args),
    /// Score a checkpoint on data, with intervals and comparisons
    Evaluate(Box<evaluate::Args>),
    /// The lectures' arithmetic with real numbers: attention, masks, norms, positions and twenty topics more
    Explain(explain::Args),
    /// Look inside a model: attention maps, logit lens, losses, attributions; terminal, SVG, CSV, JSON or one HTML file
    See(Box<see::Args>),
    /// Add LoRA adapters into the weights they adapt
    Merge(merge::Args),
    /// Measure speed: training, decoding, translating, encoding, or each kernel
    Bench(bench::Args),
    /// What this machine can do, and what is in its way
    Doctor(doctor::Args),
    /// Print what makes a shell complete verbs, flags and recipes
    Completions(completions::Args),
    /// Manual pages: one on stdout, or all of them in a directory
    Man(man::Args),
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
            Verb::Vectors(args) => vectors::run(args),
            Verb::Train(args) => train::run(args),
            Verb::Finetune(args) => finetune::run(args),
            Verb::Compare(args) => compare::run(args),
            Verb::Runs(args) => runs::run(args),
            Verb::Evaluate(args) => evaluate::run(args),
            Verb::Explain(args) => explain::run(args),
            Verb::See(args) => see::run(args),
            Verb::Merge(args) => merge::run(args),
            Verb::Bench(args) => bench::run(args),
            Verb::Doctor(args) => doctor::run(args),
            Verb::Completions(args) => completions::run(args),
            Verb::Man(args) => man::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::{CommandFactory, Parser};
    use std::path::{Path, PathBuf};

    /// No flag stands for two things, none names a flag that is not there.
    #[test]
    fn flags_do_not_clash() {
        Cli::command().debug_assert();
    }

    /// Words as a shell would split them, up to a redirection, a pipe or a comment.
    fn words(line: &str) -> Vec<String> {
        let (mut all, mut word, mut quote, mut any) = (vec![], String::new(), None, false);
        for c in line.chars() {
            match (quote, c) {
                (Some(q), c) if q == c => quote = None,
                (None, '"' | '\'') => (quote, any) = (Some(c), true),
                (None, '>' | '<' | '|' | '#') => break,
                (None, c) if c.is_whitespace() => {
                    if any || !word.is_empty() {
                        all.push(std::mem::take(&mut word));
                    }
                    any = false;
                }
                (_, c) => word.push(c),
            }
        }
        if any || !word.is_empty() {
            all.push(word);
        }
        all
    }

    /// Whether the program would take this command line. What stands behind two blanks is a remark.
    fn is_taken(command: &str) -> Result<(), String> {
        let before = |end: &str| command.split(end).next().unwrap_or(command).to_string();
        let line = before("  ").replace("\\\"", "\"");
        match Cli::try_parse_from(words(&line)) {
            Ok(_) => Ok(()),
            Err(e) if !e.use_stderr() => Ok(()),
            Err(e) => Err(format!("{line}: {e}")),
        }
    }

    fn all_help(command: &clap::Command, into: &mut Vec<String>) {
        into.extend(command.get_after_help().map(|help| help.to_string()));
        command.get_subcommands().for_each(|c| all_help(c, into));
    }

    /// Every example in a help text is a command line that the program takes.
    #[test]
    fn commands_that_help_names_are_taken() {
        let mut help = vec![];
        all_help(&Cli::command(), &mut help);
        let (mut seen, mut wrong) = (0, vec![]);
        for line in help.iter().flat_map(|text| text.lines()).filter_map(|l| l.strip_prefix("  qkv ")) {
            seen += 1;
            wrong.extend(is_taken(&format!("qkv {line}")).err());
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen > 70, "only {seen} examples were found: is the search broken?");
    }

    fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path()) {
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push(path);
            }
        }
    }

    /// Every command line that a message or a hint names (`qkv inspect MODEL`, "go on: qkv train --resume") is one that
    /// the program takes: whoever follows a hint must not meet another error.
    #[test]
    fn commands_that_hints_name_are_taken() {
        let mut files = vec![];
        for room in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates") {
            let src = room.expect("a crate").path().join("src");
            if src.is_dir() {
                sources(&src, &mut files);
            }
        }
        let verbs: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_string()).collect();
        let (mut seen, mut wrong) = (0, vec![]);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("text");
            for line in text.lines().filter(|l| !l.trim_start().starts_with("//") && l.contains('"')) {
                for (at, _) in line.match_indices("qkv ") {
                    // Examples of a help text are looked at above, and there a verb may be named alone.
                    let example = line[..at].ends_with("  ") || line[..at].ends_with("\\n  ");
                    let told = file.components().any(|part| part.as_os_str() == "explain"); // pages that name a verb
                    if example || told || file.ends_with("cli/finetune.rs") {
                        continue;
                    }
                    // The command ends with the string, the code marks around it, or the sentence.
                    let end = |c: char| matches!(c, '`' | '"' | ';' | ')' | ',');
                    let rest: String = line[at..].chars().take_while(|c| !end(*c)).collect();
                    let named: String = rest.chars().skip(4).take_while(|c| c.is_ascii_lowercase()).collect();
                    if !verbs.contains(&named)
                        || line[..at].ends_with(|c: char| c.is_alphanumeric() || "-_/".contains(c))
                    {
                        continue;
                    }
                    // What is filled in when the message is made stands for some word.
                    let mut command = String::new();
                    let mut depth = 0;
                    for c in rest.chars() {
                        match c {
                            '{' => depth += 1,
                            '}' => (depth, command) = (depth - 1, command + "x"),
                            c if depth == 0 => command.push(c),
                            _ => {}
                        }
                    }
                    seen += 1;
                    wrong.extend(is_taken(&command).err().map(|e| format!("{}: {e}", file.display())));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen > 10, "only {seen} commands were found: is the search broken?");
    }
}
