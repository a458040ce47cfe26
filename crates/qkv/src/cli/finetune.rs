//! `qkv finetune`: a checkpoint learns a task: a new head where one is needed, all weights or small adapters.

use super::fail::Fail;
use super::flags::UsualArgs;
use super::input::{columns, model_or_newest};
use super::report::start;
use clap::builder::PossibleValue;
use qkv::{Recipe, Task};
use std::path::PathBuf;

/// What can be learnt on top of a checkpoint.
fn tasks() -> [PossibleValue; 7] {
    [
        ("classify", "one class for a text"),
        ("classify-pair", "one class for two texts: how they relate"),
        ("tag", "one tag for each word"),
        ("answer", "where the answer stands"),
        ("translate", "a text from another"),
        ("generate", "the next token"),
        ("image", "the class of a picture"),
    ]
    .map(|(name, help)| PossibleValue::new(name).help(help))
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv finetune runs/bert --task classify --data reviews.csv
  qkv finetune runs/bert --task classify --data builtin:reviews --lora 8 --targets q,k,v,out
  qkv finetune MODEL --task classify --data reviews.csv --epochs 3 --lr 2e-5 --batch 16
  qkv finetune MODEL --task tag --data file.conll --freeze tokens,encoder.layers.0
  qkv finetune MODEL --task answer --data squad.json --set optim.layer_rate=0.8
  qkv finetune MODEL --task translate --data pairs.tsv --set data.prefix=\"correct: \"
  qkv finetune MODEL --task generate --data book.txt --set train.steps=1000
  qkv finetune MODEL --task image --data pictures/
  qkv train --resume --out runs/finetune-classify          go on with one that was stopped
With --lora the run also holds adapter/, which PEFT loads and `qkv merge` adds to a model.")]
pub(crate) struct Args {
    /// A model directory or a run; the newest run if left out
    model: Option<PathBuf>,
    /// What it is to learn
    #[arg(long, value_parser = tasks())]
    task: String,
    /// What it learns from: a file, or builtin:NAME
    #[arg(long, value_name = "FILE")]
    data: String,
    /// The column of a table that holds a field, where it has another name: label=stars
    #[arg(long, value_name = "FIELD=NAME")]
    column: Vec<String>,
    /// Where the run is kept; runs/finetune-TASK if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Learn adapters of this rank instead of all weights
    #[arg(long, value_name = "RANK")]
    lora: Option<usize>,
    /// The strength of the adapters; twice the rank if left out
    #[arg(long, requires = "lora")]
    alpha: Option<f64>,
    /// Ends of the paths of the layers that are adapted
    #[arg(long, requires = "lora", value_delimiter = ',', default_value = "q,v")]
    targets: Vec<String>,
    /// Probability of dropping what an adapter reads, while it learns
    #[arg(long, requires = "lora", default_value_t = 0.0)]
    dropout: f64,
    /// Beginnings of the paths of parameters that do not learn (`qkv inspect MODEL` shows them)
    #[arg(long, value_delimiter = ',')]
    freeze: Vec<String>,
    /// Change a setting of the recipe
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Names all randomness: same seed, same bytes
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print the recipe with all changes, and do nothing
    #[arg(long)]
    print_recipe: bool,
    /// Print the scores as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    usual: UsualArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let model = model_or_newest(args.model.as_deref())?;
    let mut recipe = Recipe::finetune(&model, Task::parse(&args.task)?, &args.data)?.threads(args.threads);
    recipe = recipe.columns(&columns(&args.column)?)?;
    if let Some(rank) = args.lora {
        recipe = recipe.lora(rank)?.set("lora.targets", args.targets.as_slice())?.set("lora.dropout", args.dropout)?;
    }
    if let Some(alpha) = args.alpha {
        recipe = recipe.set("lora.alpha", alpha)?;
    }
    if !args.freeze.is_empty() {
        recipe = recipe.set("model.freeze", args.freeze.as_slice())?;
    }
    if let Some(seed) = args.seed {
        recipe = recipe.set("train.seed", seed)?;
    }
    recipe = args.usual.set(recipe)?;
    recipe = args.set.iter().try_fold(recipe, |recipe, change| recipe.assign(change))?;
    recipe = args.out.iter().fold(recipe, |recipe, dir| recipe.out(dir));
    start(&recipe, args.print_recipe, args.json, args.usual.quiet)
}
