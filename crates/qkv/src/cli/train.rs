//! `qkv train`: from a recipe to a network that was judged.

use super::fail::Fail;
use super::flags::{CorpusArgs, UsualArgs};
use super::report::{TellArgs, resume, start};
use super::terminal::say;
use qkv::Recipe;
use qkv_runs::recipe;
use qkv_tasks::Metric;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  qkv train                                      English to Italian, from scratch
  qkv train --set data.corpus=builtin:en-hi      English to Hindi
  qkv train sentiment                            any recipe by its name
  qkv train sentiment --data reviews.csv         the same on a file of yours
  qkv train sentiment --data train.csv --valid valid.csv --test test.csv
  qkv train sentiment --data \"reviews/*.csv\" --epochs 5 --batch 16 --lr 5e-4
  qkv train --list                               the recipes, a line each
  qkv train gpt --dry-run                        what would be done and what it would cost; nothing is written
  qkv train gpt --budget 30m                     as many steps as fit in half an hour
  qkv train gpt --budget 30m --auto-size --dry-run   and as large a network as they are enough for
  qkv train gpt --dry-run --ranks 8 --link 1Gbit     what eight machines would make of it
  qkv train gpt --print-recipe > mine.toml       every setting, commented; then: qkv train mine.toml
  qkv train --resume                             go on with the newest run
A run that misses its goal says FAIL and ends with exit code 1; its model is kept.";

/// A line for each recipe, made of what the recipes themselves say.
fn recipes() -> String {
    let line = |(name, text): &(&str, &str)| {
        let title = text.trim_start_matches("# ").split([':', '?', '.', ';', '\n']).next().unwrap_or_default();
        let goal = recipe::Recipe::parse(name, text).ok().and_then(|r| {
            let metric = Metric::parse(&r.eval.metric).ok()?;
            let sign = if metric.is_cost() { "≤" } else { "≥" };
            Some(format!("{} {sign} {}", metric.name(), r.eval.goal))
        });
        format!("  {name:<18} {title:<38} {}", goal.unwrap_or_default())
    };
    recipe::ALL.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\nRecipes, and the score each must reach on its own corpus:\n{}", recipes()))]
pub(crate) struct Args {
    /// A recipe of qkv's by name, or a file
    recipe: Option<String>,
    #[command(flatten)]
    corpus: CorpusArgs,
    /// Where the run is kept; runs/NAME if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in --out, or with the newest one
    #[arg(long)]
    resume: bool,
    /// Go on although the recipe or the data have changed
    #[arg(long, requires = "resume")]
    force: bool,
    /// Change a setting of the recipe
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Names all randomness: same seed, same bytes
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; 0: one for each core. The result does not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// List the recipes with a line each
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    usual: UsualArgs,
    #[command(flatten)]
    tell: TellArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.list {
        return say(recipes());
    }
    if args.resume {
        let named = || Ok(args.recipe.as_deref().map(Recipe::named).transpose()?);
        let change = |recipe| args.changed(recipe);
        return resume(args.out.as_deref(), named, change, args.force, args.threads, args.tell);
    }
    let make = || {
        let recipe = args.changed(Recipe::named(args.recipe.as_deref().unwrap_or("translate"))?)?;
        Ok(args.out.iter().fold(recipe, |recipe, dir| recipe.out(dir)))
    };
    start(make, args.threads, args.tell)
}

impl Args {
    /// The recipe with the changes of the command line.
    fn changed(&self, recipe: Recipe) -> Result<Recipe, Fail> {
        let mut recipe = recipe.threads(self.threads);
        if let Some(data) = self.corpus.data.first() {
            recipe = recipe.data(data)?;
        }
        recipe = self.usual.set(self.corpus.set(recipe)?)?;
        if let Some(seed) = self.seed {
            recipe = recipe.set("train.seed", seed)?;
        }
        Ok(self.set.iter().try_fold(recipe, |recipe, change| recipe.assign(change))?)
    }
}
