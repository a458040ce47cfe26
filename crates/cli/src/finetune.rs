//! `qkv finetune`: a checkpoint learns a task: a new head where one is needed, all weights or small adapters.

use crate::fail::Fail;
use crate::say;
use crate::train::{Ways, begin, columns};
use clap::ValueEnum;
use qkv_train::run_dir::{self, Expect, RunDir};
use qkv_train::{Recipe, recipe};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv finetune runs/bert --task classify --data reviews.csv
  qkv finetune runs/bert --task classify --data builtin:reviews --lora 8 --targets q,k,v,out
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
    #[arg(long, value_enum)]
    task: Task,
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
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Task {
    /// one class for a text
    Classify,
    /// one tag for each word
    Tag,
    /// where the answer stands
    Answer,
    /// a text from another
    Translate,
    /// the next token
    Generate,
    /// the class of a picture
    Image,
}

impl Task {
    /// Objective, metric and name.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Classify => ["classify", "accuracy", "classify"],
            Self::Tag => ["tag", "f1", "tag"],
            Self::Answer => ["answer", "f1", "answer"],
            Self::Translate => ["translate", "bleu", "translate"],
            Self::Generate => ["next-token", "loss", "generate"],
            Self::Image => ["image", "accuracy", "image"],
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let model = args.model.clone().map_or_else(run_dir::newest, Ok)?;
    if !model.exists() {
        return Err(Fail::usage(
            format!("{}: there is no such model", model.display()),
            "name a run or a model directory",
        ));
    }
    let model = run_dir::model_of(&model);
    let [objective, metric, name] = args.task.words();
    let word = |w: &str| serde_json::Value::from(w).to_string();
    let list = |l: &[String]| serde_json::json!(l).to_string();
    let mut changes = vec![
        format!("model.from={}", word(&model.display().to_string())),
        format!("data.corpus={}", word(&args.data)),
        format!("data.objective={}", word(objective)),
        format!("eval.metric={}", word(metric)),
    ];
    changes.extend(columns(&args.column)?);
    if args.lora == Some(0) {
        return Err(Fail::usage("--lora 0: an adapter of rank 0 learns nothing", "use 1 or more, usually 4 to 64"));
    }
    if let Some(rank) = args.lora {
        changes.push(format!("lora.rank={rank}"));
        changes.push(format!("lora.alpha={:?}", args.alpha.unwrap_or(2.0 * rank as f64)));
        changes.push(format!("lora.targets={}", list(&args.targets)));
        changes.push(format!("lora.dropout={:?}", args.dropout));
        // Adapters are few and start at nothing: they bear, and need, a larger rate.
        changes.push("optim.rate=2e-3".into());
    }
    if !args.freeze.is_empty() {
        changes.push(format!("model.freeze={}", list(&args.freeze)));
    }
    changes.extend(args.seed.map(|s| format!("train.seed={s}")));
    changes.extend(args.set.iter().cloned());
    let text = changes.iter().try_fold(recipe::FINETUNE.to_string(), |text, change| recipe::set(&text, change))?;
    Recipe::parse("the recipe", &text)?;
    if args.print_recipe {
        return say(text.trim_end());
    }
    let dir = args.out.clone().unwrap_or_else(|| run_dir::free(&format!("finetune-{name}")));
    let run_dir = RunDir::open(&dir, Expect::Nothing)?;
    begin(run_dir, &text, Ways { threads: args.threads, force: false, json: args.json })
}
