//! `qkv train`: from a recipe to a network that was judged.

use crate::fail::Fail;
use crate::say;
use crate::show::Show;
use qkv_base::Error;
use qkv_metric::{human_bytes, human_count, human_duration};
use qkv_train::checkpoint::State;
use qkv_train::export::Top;
use qkv_train::memory::{self, Need};
use qkv_train::observe::{Board, Event, Journal, Observer};
use qkv_train::recipe::Goal;
use qkv_train::run_dir::{self, Expect, RunDir};
use qkv_train::score::{Judged, Metric, Scores};
use qkv_train::{Ended, Plan, PlanHooks, Recipe, Run, export, on_threads, recipe, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "Examples:
  qkv train                                      English to Italian, from scratch
  qkv train --set data.corpus=builtin:en-hi      English to Hindi
  qkv train sentiment                            any recipe by its name
  qkv train sentiment --data reviews.csv         the same on a file of yours
  qkv train gpt --print-recipe > mine.toml       every setting, commented; then: qkv train mine.toml
  qkv train --resume                             go on with the newest run
A run that misses its goal says FAIL and ends with exit code 1; its model is kept.";

/// A line for each recipe, made of what the recipes themselves say.
fn recipes() -> String {
    let line = |(name, text): &(&str, &str)| {
        let title = text.trim_start_matches("# ").split([':', '?', '.', ';', '\n']).next().unwrap_or_default();
        let goal = Recipe::parse(name, text).ok().and_then(|r| {
            let metric = Metric::parse(&r.eval.metric).ok()?;
            let sign = if metric.reaches(0.0, 1.0) { "≤" } else { "≥" };
            Some(format!("{} {sign} {}", metric.name(), r.eval.goal))
        });
        format!("  {name:<10} {title:<38} {}", goal.unwrap_or_default())
    };
    recipe::ALL.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\nRecipes, and the score each must reach on its own corpus:\n{}", recipes()))]
pub(crate) struct Args {
    /// A recipe of qkv's by name, or a file
    recipe: Option<String>,
    /// Learn from this file (or builtin:NAME) instead of the recipe's corpus
    #[arg(long, value_name = "FILE")]
    data: Option<String>,
    /// The column of a table that holds a field, where it has another name: label=stars
    #[arg(long, value_name = "FIELD=NAME")]
    column: Vec<String>,
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
    /// Print the recipe with all changes, and do nothing
    #[arg(long)]
    print_recipe: bool,
    /// Print the scores as one line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.resume {
        let dir = args.out.clone().map_or_else(run_dir::newest, Ok)?;
        let run_dir = RunDir::open(&dir, Expect::Run)?;
        let held = read(&dir)?;
        let text = match &args.recipe {
            Some(name) => changed(&recipe::find(name)?.0, args)?,
            None => changed(&held, args)?,
        };
        if !args.force {
            refuse_changes(&held, &text)?;
        }
        return train(&run_dir, &text, args.ways());
    }
    let (text, name) = recipe::find(args.recipe.as_deref().unwrap_or("translate"))?;
    let text = changed(&text, args)?;
    Recipe::parse(&name, &text)?;
    if args.print_recipe {
        return say(text.trim_end());
    }
    let dir = args.out.clone().unwrap_or_else(|| run_dir::free(&name));
    let run_dir = RunDir::open(&dir, Expect::Nothing)?;
    begin(run_dir, &text, args.ways())
}

/// Runs a recipe in a new directory; a run that is refused leaves none.
pub(crate) fn begin(run_dir: RunDir, text: &str, ways: Ways) -> Result<(), Fail> {
    let done = train(&run_dir, text, ways);
    if done.is_err() {
        run_dir.abandon();
    }
    done
}

fn read(dir: &std::path::Path) -> Result<String, Error> {
    let path = dir.join("recipe.toml");
    std::fs::read_to_string(&path).map_err(|e| Error::new(path.display().to_string(), e.to_string(), "is it readable?"))
}

/// The recipe with the changes of the command line.
fn changed(text: &str, args: &Args) -> Result<String, Error> {
    let data = args.data.as_ref().map(|d| format!("data.corpus={}", toml_word(d)));
    // A person's file takes the place of a whole mixture; and a recipe's goal is one for its own corpus.
    let mixed = data.is_some() && !Recipe::parse("the recipe", text)?.data.mix.is_empty();
    let alone = [mixed.then_some("data.mix={}"), data.as_ref().map(|_| "eval.goal=0.0")];
    let alone: Vec<String> = alone.into_iter().flatten().map(String::from).collect();
    let named = columns(&args.column)?;
    let seed = args.seed.map(|s| format!("train.seed={s}"));
    data.iter()
        .chain(&alone)
        .chain(&named)
        .chain(&seed)
        .chain(&args.set)
        .try_fold(text.to_string(), |text, change| recipe::set(&text, change))
}

/// The change of a recipe that names these columns, if there are any.
pub(crate) fn columns(given: &[String]) -> Result<Option<String>, Error> {
    let pairs: Vec<String> =
        fields(given)?.iter().map(|(field, name)| format!("{field} = {}", toml_word(name))).collect();
    Ok((!pairs.is_empty()).then(|| format!("data.columns={{ {} }}", pairs.join(", "))))
}

/// `label=stars` taken apart.
pub(crate) fn fields(given: &[String]) -> Result<BTreeMap<String, String>, Error> {
    let pair = |text: &String| {
        let (field, name) = text.split_once('=').ok_or_else(|| {
            Error::new(format!("--column {text}"), "is no assignment", "write field=name, as in label=stars")
        })?;
        Ok((field.trim().to_string(), name.trim().to_string()))
    };
    given.iter().map(pair).collect()
}

fn toml_word(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A run goes on with what it was begun with; the first differences are shown.
fn refuse_changes(held: &str, text: &str) -> Result<(), Fail> {
    let (a, b) = (Recipe::parse("the run's recipe", held)?, Recipe::parse("the new recipe", text)?);
    let differences = recipe::differences(&a, &b);
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!("the recipe is not that of the run: {}", differences.join("; "));
    Err(Fail::usage(message, "leave the changes out, or go on all the same with --force"))
}

/// How a run is run; none of it changes the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) threads: usize,
    pub(crate) force: bool,
    pub(crate) json: bool,
}

impl Args {
    fn ways(&self) -> Ways {
        Ways { threads: self.threads, force: self.force, json: self.json }
    }
}

/// Runs a recipe in its directory.
fn train(run_dir: &RunDir, text: &str, ways: Ways) -> Result<(), Fail> {
    let recipe = Recipe::parse(&run_dir.at("recipe.toml").display().to_string(), text)?;
    run_dir.write("recipe.toml", text.as_bytes())?;
    let stop = asked_to_stop().map_err(|e| Fail::failed("signals", e, ""))?;
    on_threads(ways.threads, || all(run_dir, text, &recipe, ways, &stop))?
}

/// The first Ctrl-C (or kill, or a terminal that is closed) asks to finish the step and save; the second ends at once.
fn asked_to_stop() -> std::io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && is_ignored(signal) {
            continue; // `nohup` asked for that
        }
        signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Whether whoever started the program wants it to ignore a signal; yes where the system does not say.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal - 1) & 1 == 1)
}

fn all(run_dir: &RunDir, text: &str, recipe: &Recipe, ways: Ways, stop: &AtomicBool) -> Result<(), Fail> {
    let mut recipe = recipe.clone();
    if let Some(name) = recipe.before() {
        match before(run_dir, name, &recipe, ways, stop)? {
            Some(model) => recipe.model.from = model,
            None => return Ok(()),
        }
    }
    one(run_dir, text, &recipe, ways, stop).map(|_| ())
}

/// Runs the recipe that this one starts from, under `before/` in the same place, unless it has been run: where its model
/// is, or nothing where it was asked to stop.
fn before(
    run_dir: &RunDir,
    name: &str,
    recipe: &Recipe,
    ways: Ways,
    stop: &AtomicBool,
) -> Result<Option<String>, Fail> {
    let (text, name) = recipe::find(name)?;
    let changes = [format!("train.seed={}", recipe.train.seed), "eval.goal=0".into()];
    let text = changes.iter().try_fold(text, |text, change| recipe::set(&text, change))?;
    let first = Recipe::parse(&name, &text)?;
    let dir = run_dir.at("before");
    let model = dir.join("model");
    // The report is written last: a model alone may be the best of a run that was broken off.
    if !dir.join("report.html").exists() {
        let inner = RunDir::open(&dir, if dir.join("recipe.toml").exists() { Expect::Run } else { Expect::Nothing })?;
        inner.write("recipe.toml", text.as_bytes())?;
        let mut show = Show::new(1);
        show.line(&format!("first: the recipe {name}, which this one starts from"));
        if !inner.at("tokenizer").exists() {
            let tokenizer = qkv_train::plan::shared_tokenizer(&first, recipe)?;
            inner.replace("tokenizer", |dir| tokenizer.save(dir))?;
        }
        if one(&inner, &text, &first, Ways { json: false, ..ways }, stop)? == Ended::Asked {
            let hint = format!("go on: qkv train --resume --out {}", run_dir.dir().display());
            show.line(&hint);
            return Ok(None);
        }
        show.line("now the recipe itself");
    }
    Ok(Some(model.display().to_string()))
}

/// Runs one recipe from its data to its scores.
fn one(run_dir: &RunDir, text: &str, recipe: &Recipe, ways: Ways, stop: &AtomicBool) -> Result<Ended, Fail> {
    let start = Instant::now();
    let kept = Some(run_dir.at("tokenizer")).filter(|p| p.join("tokenizer.json").exists());
    let mut plan = Plan::new(recipe, kept.as_deref())?;
    if let (Some(tokenizer), None) = (&plan.tokenizer, kept) {
        run_dir.replace("tokenizer", |dir| tokenizer.save(dir))?;
    }
    let mut show = Show::new(recipe.train.log);
    let need = Need::of(&plan)?;
    introduce(&mut show, run_dir, &plan, need, start.elapsed())?;
    need.ensure()?;
    let job = plan.job()?;
    let hooks = PlanHooks { plan: &plan, run_dir };
    let (mut going, notes) = Run::new(job, &hooks, &run_dir.at("checkpoints"), ways.force)?;
    notes.into_iter().try_for_each(|note| show.see(&Event::Note(note)))?;
    let mut journal = Journal::open(run_dir.dir(), going.state.step, recipe.train.log)?;
    let mut board = Board::create(run_dir.dir(), recipe.train.log)?;
    let ended = going.go(&mut [&mut show, &mut journal, &mut board], stop).map_err(failed)?;
    show.end();
    if ended == Ended::Asked {
        let place = run_dir.dir().display();
        let hint =
            format!("stopped and saved after step {}; go on: qkv train --resume --out {place}", going.state.step);
        show.see(&Event::Note(hint))?;
        return Ok(ended);
    }
    let memory = serde_json::json!({"predicted": need.total(), "peak": memory::peak()});
    finish(run_dir, text, &plan, &mut going, &mut show, ways.json.then_some(memory))?;
    Ok(ended)
}

/// Work that was begun and failed, not a wrong question.
fn failed(e: Error) -> Fail {
    Fail::failed(&e.place, &e.what, e.hint)
}

/// What is about to happen.
fn introduce(show: &mut Show, run_dir: &RunDir, plan: &Plan, need: Need, took: Duration) -> Result<(), Fail> {
    let parameters = qkv_model::count::parameters(&plan.pretrained.model);
    let lines = [
        format!("{} from {} in {}", plan.pretrained.sheet.name, plan.recipe.data.name(), run_dir.dir().display()),
        format!("data: {}; made ready in {}", plan.train.counts(), human_duration(took)),
        match &plan.tokenizer {
            Some(tokenizer) => format!("tokenizer: {} pieces ({})", tokenizer.vocab_size(), tokenizer.model_name()),
            None => format!("classes: {}", plan.labels.names().join(", ")),
        },
        format!("network: {} parameters", human_count(parameters.iter().map(|p| p.elements() as f64).sum())),
        format!(
            "memory: about {} at the peak: {} held now, {} for gradients and the optimiser, {} for a pass",
            human_bytes(need.total()),
            human_bytes(need.held),
            human_bytes(need.beside),
            human_bytes(need.pass)
        ),
    ];
    let (learn, all) = plan.learning();
    let some =
        format!("of these {} learn ({:.2} %)", human_count(learn as f64), 100.0 * learn as f64 / all.max(1) as f64);
    // Tables that are computed never learn; that is worth a line only beside parts that someone froze.
    let chosen = plan.recipe.lora.rank > 0 || !plan.recipe.model.freeze.is_empty();
    let some = Some(some).filter(|_| chosen && learn < all);
    lines
        .into_iter()
        .chain(some)
        .chain(plan.splits.notes.clone())
        .try_for_each(|line| show.see(&Event::Note(line)).map_err(Fail::from))
}

/// Judges the best network on the unseen sides, and leaves it behind.
fn finish(
    run_dir: &RunDir,
    text: &str,
    plan: &Plan,
    going: &mut Run,
    show: &mut Show,
    json: Option<serde_json::Value>,
) -> Result<(), Fail> {
    let (model, step) = going.outcome(&mut [show])?;
    let judge = run::judge(plan, &model);
    let test = judge.scores(&*plan.splits.test)?;
    let compositional = plan.splits.compositional.as_ref().map(|c| judge.scores(&**c)).transpose()?;
    let parts: Vec<(&str, Scores)> = plan
        .splits
        .parts
        .iter()
        .map(|(name, c)| Ok((name.as_str(), judge.scores(&**c)?)))
        .collect::<Result<_, Error>>()?;
    export::leave(run_dir, plan, &model).map_err(failed)?;
    let mut sides = vec![("test", &test)];
    sides.extend(compositional.as_ref().map(|c| ("compositional", c)));
    sides.extend(parts.iter().map(|(name, scores)| (*name, scores)));
    let samples: Vec<Judged> = match plan.recipe.data.objective {
        Goal::NextToken => judge.go_on(&*plan.splits.test, 12)?,
        _ => test.judged.iter().take(12).cloned().collect(),
    };
    let top = top(plan, &test, step, &going.state)?;
    export::save_report(run_dir, top, text, &sides, &samples).map_err(failed)?;
    show.end();
    if let Some(memory) = json {
        let scores: serde_json::Map<String, serde_json::Value> =
            sides.iter().map(|(name, s)| (name.to_string(), serde_json::json!(s.values))).collect();
        let line = serde_json::json!({
            "run": run_dir.dir().display().to_string(), "model": run_dir.at("model").display().to_string(),
            "step": step, "seconds": going.state.seconds, "scores": scores, "pass": verdict(plan, &test)?.map(|v| v.0),
            "memory": memory,
        });
        say(line)?;
    } else {
        report(plan, &sides, &samples, step, going.state.seconds)?;
        if let Some((_, words)) = verdict(plan, &test)? {
            say(words)?;
        }
        say(format!("model: {}   report: {}", run_dir.at("model").display(), run_dir.at("report.html").display()))?;
        if let Some(words) = next(plan.recipe.data.objective, run_dir.dir(), &samples) {
            say(words)?;
        }
    }
    match verdict(plan, &test)? {
        Some((false, words)) => Err(Fail::failed("goal", words, "the model is kept; train longer, or lower eval.goal")),
        _ => Ok(()),
    }
}

/// The command that asks the new model something, where a verb is made for it.
fn next(goal: Goal, run: &Path, samples: &[Judged]) -> Option<String> {
    // What a shell would read as more than text is left to the person.
    let plain = |text: &&str| text.len() < 100 && !text.contains(['"', '\\', '$', '`', '!', '\n']);
    let sample = samples.first().map(|j| j.source.as_str()).filter(plain);
    let sample = sample.map_or("TEXT".into(), |text| format!("\"{text}\""));
    let (verb, what) = match goal {
        Goal::Translate => ("translate", sample.as_str()),
        Goal::NextToken => ("generate", sample.as_str()),
        Goal::Classify => ("classify", sample.as_str()),
        Goal::Tag => ("tag", sample.as_str()),
        Goal::Masked => ("fill", "\"TEXT with a [MASK]\""),
        Goal::Answer => ("answer", "--context TEXT --question TEXT"),
        Goal::Image => ("image", "FILE"),
        Goal::SpanCorruption | Goal::Denoise => return None,
    };
    Some(format!("ask it: qkv {verb} {} {what}", run.display()))
}

/// What stands at the top of the report.
fn top(plan: &Plan, test: &Scores, step: u64, state: &State) -> Result<Top, Error> {
    let metric = Metric::parse(&plan.recipe.eval.metric)?;
    let elements = qkv_model::count::parameters(&plan.pretrained.model).iter().map(|p| p.elements() as f64).sum();
    let facts = [
        (metric.name(), format!("{:.2}", test.get(metric)?)),
        ("parameters", human_count(elements)),
        ("tokens read", human_count(state.tokens as f64)),
        ("time", human_duration(Duration::from_secs_f64(state.seconds.max(0.0)))),
    ];
    let (family, corpus) = (plan.pretrained.sheet.name, plan.recipe.data.name());
    let summary = format!("{family} from {corpus}: step {step} of {}", plan.recipe.train.steps);
    Ok(Top { summary, facts: facts.map(|(name, value)| (name.to_string(), value)).to_vec() })
}

fn report(plan: &Plan, sides: &[(&str, &Scores)], samples: &[Judged], step: u64, seconds: f64) -> Result<(), Fail> {
    if plan.recipe.eval.samples > 0 {
        for j in samples.iter().take(2 * plan.recipe.eval.samples) {
            let mark = if j.got == j.expected { "✓" } else { "✗" };
            say(format!("{mark} {}\n  → {}", j.source, j.got))?;
            if j.got != j.expected {
                say(format!("  = {}", j.expected))?;
            }
        }
    }
    let took = human_duration(Duration::from_secs_f64(seconds.max(0.0)));
    say(format!("best at step {step}, {took} of training"))?;
    for (name, scores) in sides {
        let values: Vec<String> = scores.values.iter().map(|(k, v)| format!("{k} {v:.2}")).collect();
        say(format!("{name}: {}", values.join(" · ")))?;
    }
    match sides.first().and_then(|(_, s)| s.signature.as_ref()) {
        Some(signature) => say(format!("BLEU {signature}")),
        None => Ok(()),
    }
}

/// Whether the goal was reached, where there is one.
fn verdict(plan: &Plan, test: &Scores) -> Result<Option<(bool, String)>, Error> {
    let eval = &plan.recipe.eval;
    if eval.goal == 0.0 {
        return Ok(None);
    }
    let metric = Metric::parse(&eval.metric)?;
    let score = test.get(metric)?;
    let pass = metric.reaches(score, eval.goal);
    let word = if pass { "PASS" } else { "FAIL" };
    Ok(Some((pass, format!("{word}: {} {score:.2} on the unseen test, {} asked for", metric.name(), eval.goal))))
}
