//! `qkv inspect`: what a network is made of.

use super::fail::Fail;
use super::terminal::{say, say_json};
use qkv::inspect;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv inspect                                  all presets with their sizes
  qkv inspect --preset gpt2                    tree, facts, memory and arithmetic
  qkv inspect --preset t5-base --depth 5       down to every matrix
  qkv inspect --preset gpt3 --tokens 300e9     what its training costs, and how long it would take here
  qkv inspect --preset llama3-8b --length 8192  the cache and the arithmetic of a long text
  qkv inspect --preset bert-large --json       the same for a program
  qkv inspect bert/                            a model on disk: the same, and its files, types and tokenizer
  qkv inspect model.gguf --tensors             every tensor with its shape and type
  qkv inspect bert/ --diff roberta-like        two networks side by side (paths or presets)")]
pub(crate) struct Args {
    /// A model on disk: a directory, or a safetensors, PyTorch or GGUF file
    #[arg(conflicts_with = "preset")]
    path: Option<PathBuf>,
    /// A known architecture, such as `gpt2` or `bert-large`; left out, all are listed
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Tokens of a sequence, for cache and arithmetic; left out, 512 or as many as the network can read
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// What it costs to learn from so many tokens, such as 300e9: operations, and days on this machine
    #[arg(long, value_name = "D", conflicts_with_all = ["diff", "json"])]
    tokens: Option<f64>,
    /// How many levels of the tree are shown; left out, 2
    #[arg(long, value_name = "D")]
    depth: Option<usize>,
    /// Every tensor of the file with its shape and type
    #[arg(long, requires = "path")]
    tensors: bool,
    /// Look at every value of a file of more than 2 GiB too: is each a number?
    #[arg(long, requires = "path")]
    values: bool,
    /// Another model or preset, to see the two side by side
    #[arg(long, value_name = "OTHER")]
    diff: Option<String>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.depth == Some(0) {
        return Err(Fail::usage("--depth must not be 0", "use 1 or more"));
    }
    let one = match (&args.path, &args.preset) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(name)) => name.clone(),
        (None, None)
            if args.length.is_some() || args.tokens.is_some() || args.depth.is_some() || args.diff.is_some() =>
        {
            return Err(Fail::usage("nothing to look at was named", "give a path, or --preset NAME"));
        }
        (None, None) => {
            let rows = inspect::presets()?;
            return if args.json { say_json(&rows) } else { say(inspect::table(&rows)) };
        }
    };
    let depth = args.depth.unwrap_or(2);
    if let Some(other) = &args.diff {
        let rows = inspect::differences(&one, other)?;
        return if args.json { say_json(&rows) } else { say(inspect::side_by_side(&one, other, &rows)) };
    }
    if let Some(path) = &args.path {
        let model = inspect::file(path, args.length, depth, args.tensors || args.json, args.values)?;
        return if args.json {
            say_json(&model)
        } else {
            say(model.page(args.tensors)).and_then(|()| cost(args, model.parameters()))
        };
    }
    let summary = inspect::preset(&one, args.length, depth)?;
    if args.json { say_json(&summary) } else { say(summary.page()).and_then(|()| cost(args, Some(summary.parameters))) }
}

/// The line of --tokens.
fn cost(args: &Args, parameters: Option<u64>) -> Result<(), Fail> {
    match (args.tokens, parameters) {
        (Some(tokens), Some(n)) => say(inspect::Training::of(n, tokens)?.line()),
        (Some(_), None) => Err(Fail::usage("--tokens: there is no network here", "give a model, or --preset NAME")),
        (None, _) => Ok(()),
    }
}
