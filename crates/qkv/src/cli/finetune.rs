//! `qkv finetune`: a checkpoint learns a task: a new head where one is needed, all weights or small adapters.

use super::fail::Fail;
use super::flags::{CorpusArgs, UsualArgs};
use super::input::model_or_newest;
use super::report::{TellArgs, resume, start};
use clap::builder::PossibleValue;
use qkv::{Recipe, Task};
use std::path::PathBuf;

/// What can be learnt on top of a checkpoint.
fn tasks() -> [PossibleValue; 7] {
    [
        ("classify", "one class for a text, or for a picture"),
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
  qkv finetune MODEL --task classify --data train.csv --valid valid.csv --test test.csv
  qkv finetune MODEL --task classify --data reviews.csv --epochs 3 --lr 2e-5 --batch 16
  qkv finetune MODEL --task tag --data file.conll --freeze tokens,encoder.layers.0
  qkv finetune MODEL --task answer --data squad.json --set optim.layer_rate=0.8
  qkv finetune MODEL --task translate --data pairs.tsv --set data.prefix=\"correct: \"
  qkv finetune MODEL --task generate --data book.txt --set train.steps=1000
  qkv finetune MODEL --task image --data pictures/
  qkv finetune MODEL --task classify --data reviews.csv --dry-run      what it would cost
  qkv finetune --resume --out runs/finetune-classify       go on with one that was stopped
With --lora the run also holds adapter/, which PEFT loads and `qkv merge` adds to a model.")]
pub(crate) struct Args {
    /// A model directory or a run; the newest run if left out
    model: Option<PathBuf>,
    /// What it is to learn
    #[arg(long, value_parser = tasks(), required_unless_present = "resume")]
    task: Option<String>,
    #[command(flatten)]
    corpus: CorpusArgs,
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
    /// Go on with the run in --out, or with the newest one
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    usual: UsualArgs,
    #[command(flatten)]
    tell: TellArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.resume {
        let anew = [("MODEL", args.model.is_some()), ("--task", args.task.is_some()), ("--lora", args.lora.is_some())];
        if let Some((name, _)) = anew.iter().find(|(_, given)| *given) {
            let what = format!("{name} is what a run begins with, and --resume goes on with one that has begun");
            return Err(Fail::usage(what, "name the run: --resume --out runs/finetune-classify"));
        }
        return resume(
            args.out.as_deref(),
            || Ok(None),
            |recipe| args.changed(recipe.threads(args.threads)),
            false,
            args.threads,
            args.tell,
        );
    }
    start(|| made(args), args.threads, args.tell)
}

/// The recipe that the arguments ask for.
fn made(args: &Args) -> Result<Recipe, Fail> {
    let model = model_or_newest(args.model.as_deref())?;
    let (Some(task), Some(data)) = (&args.task, args.corpus.data.first()) else {
        return Err(Fail::usage("there is nothing to learn from", "say --data FILE, or --data builtin:NAME"));
    };
    let mut recipe = Recipe::finetune(&model, Task::parse(task)?, data)?.threads(args.threads);
    if let Some(rank) = args.lora {
        recipe = recipe.lora(rank)?.set("lora.targets", args.targets.as_slice())?.set("lora.dropout", args.dropout)?;
    }
    if let Some(alpha) = args.alpha {
        recipe = recipe.set("lora.alpha", alpha)?;
    }
    if !args.freeze.is_empty() {
        recipe = recipe.set("model.freeze", args.freeze.as_slice())?;
    }
    recipe = args.changed(recipe)?;
    Ok(args.out.iter().fold(recipe, |recipe, dir| recipe.out(dir)))
}

impl Args {
    /// The recipe with the changes of the command line.
    fn changed(&self, recipe: Recipe) -> Result<Recipe, Fail> {
        let mut recipe = self.usual.set(self.corpus.set(recipe)?)?;
        if let Some(seed) = self.seed {
            recipe = recipe.set("train.seed", seed)?;
        }
        Ok(self.set.iter().try_fold(recipe, |recipe, change| recipe.assign(change))?)
    }
}
