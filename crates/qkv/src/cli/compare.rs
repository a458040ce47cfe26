//! `qkv compare`: networks side by side, and the lectures' own arguments.

use super::fail::Fail;
use super::show::Show;
use super::signals::asked_to_stop;
use super::terminal::{say, say_json, say_painted, style, talk};
use qkv::Recipe;
use qkv::compare::ready::{self, Asked, Ready};
use qkv::compare::{Budget, Compared, Entry, Setup, compare, variations};
use qkv_insight::render::terminal;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv compare                                    the comparisons that are ready to run
  qkv compare gradients                          how far back an output feels: RNN, GRU, LSTM, attention
  qkv compare char-gpt --over model.position=none,learned,rope,alibi --budget '300 steps' --seeds 3
  qkv compare translate --over model.family=seq2seq,bahdanau,marian --budget 2m
  qkv compare char-gpt char-lstm --data book.txt --budget 5m
                                                 two recipes on a text of yours
What was run is not run again: the same command goes on where it was stopped.")]
pub(crate) struct Args {
    /// A comparison that is ready, or one recipe and what it is varied over, or several recipes
    what: Vec<String>,
    /// A key and the values that it is to have: model.norm=layer,rms
    #[arg(long, value_name = "KEY=A,B,…")]
    over: Vec<String>,
    /// What each may spend: 90s, 5m, '400 steps' or '2M parameters'; left out, what its recipe says
    #[arg(long)]
    budget: Option<String>,
    /// Each so many times, with other seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// Learn from this file (or builtin:NAME) instead of the recipes' corpora
    #[arg(long, value_name = "FILE")]
    data: Option<String>,
    /// Change a setting of every recipe
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where it is kept; runs/compare-NAME if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Threads; 0: one for each core. The scores do not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Only warnings are told on the way
    #[arg(long)]
    quiet: bool,
    /// The tables for a spreadsheet
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let [first, rest @ ..] = args.what.as_slice() else { return list(args.json) };
    let budget = args.budget.as_deref().map(Budget::parse).transpose()?;
    let ready = ready::find(first).filter(|_| rest.is_empty());
    let name = ready.map_or_else(|| args.what.join("-").replace(['/', '.'], "-"), |ready| ready.name.to_string());
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("runs/compare-{name}")));
    let setup = Setup::new(&dir).seeds(args.seeds).threads(args.threads);
    let stop = asked_to_stop().map_err(|e| Fail::failed("signals", e, ""))?;
    let mut show = Show::new(args.quiet);
    let compared = match ready {
        Some(ready) => {
            refuse_unread(args, ready)?;
            let setup = setup.budget(budget.or(ready.budget).unwrap_or_default());
            ready.run(&mut Asked { setup, set: &args.set, stop: &stop, observer: &mut show })
        }
        None => compare(&name, &entries(args)?, &setup.budget(budget.unwrap_or_default()), &stop, &mut show),
    };
    show.end();
    let compared = compared?;
    compared.save(&dir)?;
    tell(args, &compared)?;
    talk(format!("page: {}", dir.join("compare.html").display()));
    Ok(())
}

/// What a ready comparison would not read.
fn refuse_unread(args: &Args, ready: &Ready) -> Result<(), Fail> {
    let trains = ready.budget.is_some();
    let said = [
        ("--over", !args.over.is_empty()),
        ("--data", args.data.is_some()),
        ("--budget", args.budget.is_some() && !trains),
        ("--set", !args.set.is_empty() && !trains),
        ("--seeds", args.seeds > 1 && !trains),
    ];
    match said.iter().find(|(_, said)| *said) {
        Some((flag, _)) => Err(Fail::usage(format!("{flag} says nothing to `{}`", ready.name), "leave it out")),
        None => Ok(()),
    }
}

/// One recipe in its variations, or several recipes.
fn entries(args: &Args) -> Result<Vec<Entry>, Fail> {
    let recipe = |name: &String| -> Result<Recipe, Fail> {
        let known =
            Recipe::named(name).map_err(|e| if e.what.contains("nor a file") { ready::unknown(name) } else { e });
        let recipe = args.data.iter().try_fold(known?, |recipe, data| recipe.data(data))?;
        Ok(args.set.iter().try_fold(recipe, |recipe, change| recipe.assign(change))?)
    };
    match args.what.as_slice() {
        [one] if args.over.is_empty() => {
            recipe(one)?; // a name that there is not is said first
            let what = format!("`{one}` alone has nothing to be compared with");
            Err(Fail::usage(what, "add --over model.norm=layer,rms"))
        }
        [one] => Ok(variations(&recipe(one)?, &args.over)?),
        several => {
            let mut all = vec![];
            for name in several {
                for entry in variations(&recipe(name)?, &args.over)? {
                    let label = [name.as_str(), &entry.label].join(" ").trim().to_string();
                    all.push(Entry { label, ..entry });
                }
            }
            Ok(all)
        }
    }
}

fn tell(args: &Args, compared: &Compared) -> Result<(), Fail> {
    match (args.json, args.csv) {
        (true, _) => say_json(compared.page()),
        (_, true) => say(compared.csv()?.trim_end()),
        _ => say_painted(terminal::page(compared.page(), style()).trim_end()),
    }
}

fn list(json: bool) -> Result<(), Fail> {
    if json {
        let all: Vec<_> = ready::ALL.iter().map(|r| json!({"name": r.name, "about": r.about})).collect();
        return say_json(&all);
    }
    for ready in ready::ALL {
        say(format!("{:12}{}", ready.name, ready.about))?;
    }
    say("\nqkv compare NAME runs one; qkv compare RECIPE --over KEY=A,B,C makes one of your own.")
}
