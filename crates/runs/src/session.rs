//! A whole run: from the text of a recipe to a network that was judged and left behind. What happens is told to an
//! observer as typed events; nothing is printed.

pub use crate::beginning::{Beginning, preview};

use crate::baseline::BaselineBeside;
use crate::beginning;
use crate::checkpoint::State;
use crate::cost::{self, CostCheck, Forecast, Measured, TimeBudget};
use crate::export::{self, Top};
use crate::hooks::{PlanHooks, judge, text_model};
use crate::journal;
use crate::memory::{self, Need};
use crate::movement::Movement;
use crate::observe::{Board, Event, Journal, Observer};
use crate::plan::{Plan, shared_tokenizer};
use crate::recipe::{self, Dist, Recipe, RecipeFile};
use crate::run::{Ended, Job, Origin, Run};
use crate::run_dir::{Expect, RunDir};
use crate::together;
use qkv_base::{Error, Kind, MOST_TEXT, Result, Task, read_text};
use qkv_metric::{human_count, human_duration};
use qkv_tasks::{Judged, Metric, Scores, Writing};
use qkv_train::dist::Team;
use qkv_train::{on_threads, on_threads_of};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Runs of fewer steps are not forecast: to measure them would take about as long.
pub const FORECAST_FROM: u64 = 20;

/// How a run is run; but for the budget, none of it changes the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// threads; 0: one for each core
    pub threads: usize,
    /// go on although the data have changed
    pub force: bool,
    /// set when the run is to finish its step, save and stop
    pub stop: Option<&'a AtomicBool>,
    /// who shares the steps of the run; none: nobody
    pub team: Option<&'a Team<'a>>,
    /// what a new run may spend: how many steps that is stands in the recipe of the run
    pub budget: Option<TimeBudget>,
}

impl RunOptions<'_> {
    /// Whether this process writes: alone, or as rank 0.
    fn writes(&self) -> bool {
        self.team.is_none_or(Team::is_root)
    }
}

/// Whether the goal of a recipe was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// whether it was
    pub pass: bool,
    /// by which metric
    pub metric: &'static str,
    /// the score on the unseen test
    pub score: f64,
    /// the score that was asked for
    pub goal: f64,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let word = if self.pass { "PASS" } else { "FAIL" };
        write!(f, "{word}: {} {:.2} on the unseen test, {} asked for", self.metric, self.score, self.goal)
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// where it is kept: `model/`, `report.html`, …
    pub dir: PathBuf,
    /// what it learnt
    pub task: Task,
    /// why it ended; where it was asked to stop, nothing was judged
    pub ended: Ended,
    /// the step that the model is from
    pub step: u64,
    /// seconds of training
    pub seconds: f64,
    /// the scores on each unseen side, `test` first
    pub scores: Vec<(String, Scores)>,
    /// some examples with what the network makes of them
    pub samples: Vec<Judged>,
    /// how many of them the recipe wants to be shown
    pub show: usize,
    /// what counting words gets on the same rows, where classes of texts were learnt
    pub baseline: Option<BaselineBeside>,
    /// whether the recipe's goal was reached, where it has one
    pub verdict: Option<Verdict>,
    /// bytes that were foretold, and that were used at the peak
    pub memory: (u64, Option<u64>),
    /// what it cost, beside what was foretold; none where nothing was
    pub cost: Option<CostCheck>,
}

impl Outcome {
    fn stopped(dir: &RunDir, task: Task, state: &State) -> Self {
        Self {
            dir: dir.dir().to_path_buf(),
            task,
            ended: Ended::Asked,
            step: state.step,
            seconds: state.seconds,
            scores: vec![],
            samples: vec![],
            show: 0,
            baseline: None,
            verdict: None,
            memory: (0, None),
            cost: None,
        }
    }
}

/// Begins a run in a new directory; one that is refused leaves none.
pub fn begin(
    dir: RunDir,
    file: &RecipeFile,
    options: RunOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    let done = go(&dir, file, options, observer);
    if done.is_err() {
        dir.abandon();
    }
    done
}

/// Runs a recipe in its directory, from the start or from the last checkpoint. Among several ranks, this is what rank 0
/// does; the others are [`beside`] it.
pub fn go(
    dir: &RunDir,
    file: &RecipeFile,
    options: RunOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    if options.budget.is_some() {
        cost::budget::refuse_stages(&file.recipe)?;
    }
    dir.write("recipe.toml", file.text.as_bytes())?;
    if let Some(team) = options.team {
        together::begin(team, &file.text, &file.recipe)?;
    }
    stages(dir, file, options, observer)
}

/// What a rank other than 0 does: it is told the recipe, keeps what it is sent in a place of its own that goes when it ends,
/// computes its part of every step, and writes nothing.
pub fn beside(team: &Team, threads: usize, stop: &AtomicBool) -> Result<Outcome> {
    let text = together::recipe(team)?;
    let file = RecipeFile::parse("the recipe of rank 0", text)?;
    let fail = |e: std::io::Error| Error::write(std::env::temp_dir().display().to_string(), &e, "is the disk full?");
    let place = tempfile::tempdir().map_err(fail)?;
    let dir = RunDir::open(place.path(), Expect::Nothing)?;
    stages(&dir, &file, RunOptions { threads, force: true, stop: Some(stop), team: Some(team), budget: None }, &mut ())
}

/// The recipe that comes first, where there is one, and the recipe itself.
fn stages(
    dir: &RunDir,
    file: &RecipeFile,
    options: RunOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    let work = || {
        let mut file = file.clone();
        if let Some(name) = file.recipe.before() {
            match before(dir, name, &file.recipe, options, observer)? {
                Stage::Done(model) => file.recipe.model.from = model,
                Stage::Stopped(outcome) => return Ok(*outcome),
            }
        }
        one(dir, &file, options, observer)
    };
    match options.team {
        Some(team) => on_threads_of(team, options.threads, work)?,
        None => on_threads(options.threads, work)?,
    }
}

/// What came of the recipe that comes first.
enum Stage {
    /// where its model is
    Done(String),
    /// it was asked to stop
    Stopped(Box<Outcome>),
}

/// Runs the recipe that this one starts from, under `before/` in the same place, unless it has been run.
fn before(
    dir: &RunDir,
    name: &str,
    recipe: &Recipe,
    options: RunOptions,
    observer: &mut (dyn Observer + Send),
) -> Result<Stage> {
    let (text, name) = recipe::find(name)?;
    let mut changes = vec![format!("train.seed={}", recipe.train.seed), "eval.goal=0".into()];
    let (dist, usual) = (&recipe.dist, Dist::default());
    // Its steps are shared as those of this one.
    let shared = [
        ("shards", dist.shards.to_string(), dist.shards != usual.shards),
        ("every", dist.every.to_string(), dist.every != usual.every),
        ("wire", format!("\"{}\"", dist.wire), dist.wire != usual.wire),
        ("rate", dist.rate.to_string(), dist.rate != usual.rate),
        ("momentum", dist.momentum.to_string(), dist.momentum != usual.momentum),
    ];
    changes.extend(shared.iter().filter(|(.., set)| *set).map(|(key, value, _)| format!("dist.{key}={value}")));
    let text = changes.iter().try_fold(text, |text, change| recipe::set(&text, change))?;
    let first = RecipeFile::parse(&name, text)?;
    let place = dir.at("before");
    // The report is written last: a model alone may be the best of a run that was broken off.
    let mut left = !place.join("report.html").exists();
    if let Some(team) = options.team {
        left = team.any(team.is_root() && left)?;
    }
    if left {
        let expect = if place.join("recipe.toml").exists() { Expect::Run } else { Expect::Nothing };
        let inner = RunDir::open(&place, expect)?;
        inner.write("recipe.toml", first.text.as_bytes())?;
        observer.see(&Event::Note(format!("first: the recipe {name}, which this one starts from")))?;
        if options.writes() && !inner.at("tokenizer").exists() {
            let tokenizer = shared_tokenizer(&first.recipe, recipe)?;
            inner.replace("tokenizer", |dir| tokenizer.save(dir))?;
        }
        let outcome = one(&inner, &first, options, observer)?;
        if outcome.ended == Ended::Asked {
            let outer = Outcome { dir: dir.dir().to_path_buf(), ..outcome };
            return Ok(Stage::Stopped(Box::new(outer)));
        }
        observer.see(&Event::Note("now the recipe itself".into()))?;
    }
    if let Some(team) = options.team {
        together::send(team, dir.dir(), &["before/model"])?;
    }
    Ok(Stage::Done(place.join("model").display().to_string()))
}

/// Runs one recipe from its data to its scores.
fn one(dir: &RunDir, file: &RecipeFile, options: RunOptions, observer: &mut (dyn Observer + Send)) -> Result<Outcome> {
    let start = Instant::now();
    let (RecipeFile { text, recipe }, mut plan, known) = plan(dir, file, options, start)?;
    beginning::note_choice(&mut plan)?;
    let need = known.map_or_else(|| Need::of(&plan), |(need, _)| Ok(need))?;
    observer.see(&Event::Began(&Beginning::of(&plan, dir.dir(), need, start.elapsed())))?;
    need.ensure()?;
    let numbers = (plan.parameters(), plan.learning().0);
    // At most a twentieth of what is left of the run goes into asking how long it is.
    let most = plan.recipe.train.steps.saturating_sub(journal::last_step(dir.dir())) / FORECAST_FROM;
    let measured = match known {
        // What one rank would need alone says little about several.
        None if most > 0 && options.team.is_none() => Some(cost::measure(&mut plan, dir.dir(), most)?),
        known => known.map(|(_, measured)| measured),
    };
    let origin = Origin { recipe: text.clone(), tokenizer: files_hash(&dir.at("tokenizer"))? };
    let job = Job { origin, ..plan.job()? };
    let hooks = PlanHooks { plan: &plan, run_dir: dir };
    if let Some(team) = options.team {
        together::send_checkpoint(team, &dir.at("checkpoints"), recipe.checkpoint.keep)?;
        together::ensure_same(team, &job.data)?;
    }
    let (mut going, notes) = Run::new(job, &hooks, &dir.at("checkpoints"), options.force)?;
    if let Some(team) = options.team {
        going = going.among(team)?;
    }
    notes.into_iter().try_for_each(|note| observer.see(&Event::Note(note)))?;
    let never = AtomicBool::new(false);
    let stop = options.stop.unwrap_or(&never);
    if !options.writes() {
        // Rank 0 judges and leaves behind what was learnt.
        let ended = going.go(&mut [], stop).map_err(failed)?;
        return Ok(Outcome { ended, ..Outcome::stopped(dir, recipe.data.objective, &going.state) });
    }
    let mut journal = Journal::open(dir.dir(), going.state.step)?;
    let mut board = Board::create(dir.dir())?;
    let mut movement = Movement::new(plan.recipe.train.steps);
    let forecast = measured.map(|measured| Forecast::of(&plan.recipe, measured, need, numbers, going.state.step));
    let before = going.state.step;
    let begun = Instant::now();
    let watchers: &mut [&mut dyn Observer] = &mut [&mut *observer, &mut journal, &mut board, &mut movement];
    if let Some(forecast) = &forecast {
        watchers.iter_mut().try_for_each(|watcher| watcher.see(&Event::Forecast(forecast)))?;
    }
    let ended = going.go(watchers, stop).map_err(failed)?;
    if let Some(team) = options.team {
        let note = together::told(team, going.state.step - before, begun.elapsed());
        observer.see(&Event::Note(note))?;
        going.alone();
    }
    if ended == Ended::Asked {
        return Ok(Outcome::stopped(dir, recipe.data.objective, &going.state));
    }
    if let Some(warning) = movement.stuck(recipe.lora.rank > 0) {
        observer.see(&Event::Note(warning))?;
    }
    let mut outcome = finish(dir, &text, &plan, &mut going, ended, need, observer)?;
    // A run that ended early was not what was forecast.
    if let (Some(forecast), Ended::Done) = (&forecast, ended) {
        let checked = forecast.check(begun.elapsed().as_secs_f64(), memory::peak());
        outcome.memory.0 = forecast.memory;
        [observer as &mut dyn Observer, &mut journal].iter_mut().try_for_each(|o| o.see(&Event::Checked(&checked)))?;
        outcome.cost = Some(checked);
    }
    Ok(outcome)
}

/// A recipe, everything that its run needs, and what a budget has measured of it already.
type MadeReady = (RecipeFile, Plan, Option<(Need, Measured)>);

/// Makes everything ready: the recipe with what a budget chose, the plan, and what was measured on the way. Among several ranks,
/// rank 0 makes the tokenizer and sends it to the others.
fn plan(dir: &RunDir, file: &RecipeFile, options: RunOptions, start: Instant) -> Result<MadeReady> {
    let kept = || Some(dir.at("tokenizer")).filter(|p| p.join("tokenizer.json").exists());
    let send = || options.team.map_or(Ok(()), |team| together::send(team, dir.dir(), &["tokenizer"]));
    if !options.writes() {
        send()?;
        return Ok((file.clone(), Plan::new(&file.recipe, kept().as_deref())?, None));
    }
    let held = kept();
    let (file, plan, measured) = match options.budget {
        None => (file.clone(), Plan::new(&file.recipe, held.as_deref())?, None),
        Some(budget) => {
            let fitted = cost::budget::fit(file, held.as_deref(), dir.dir(), budget, start)?;
            dir.write("recipe.toml", fitted.file.text.as_bytes())?;
            (fitted.file, fitted.plan, Some((fitted.need, fitted.measured)))
        }
    };
    if let (Some(tokenizer), None) = (&plan.tokenizer, held) {
        dir.replace("tokenizer", |dir| tokenizer.save(dir))?;
    }
    send()?;
    Ok((file, plan, measured))
}

/// A hash of the files in a directory, by name; empty where there is none.
fn files_hash(dir: &Path) -> Result<String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    if paths.is_empty() {
        return Ok(String::new());
    }
    let mut hash = blake3::Hasher::new();
    for path in paths {
        let bytes = std::fs::read(&path).map_err(|e| Error::read(path.display().to_string(), &e, "may it be read?"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        hash.update(name.as_bytes()).update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
    }
    Ok(hash.finalize().to_hex().chars().take(16).collect())
}

/// Work that was begun and failed is not a wrong question.
fn failed(error: Error) -> Error {
    if error.kind == Kind::Input { error.of_kind(Kind::Failed) } else { error }
}

/// Judges the best network on the unseen sides, and leaves it behind.
fn finish(
    dir: &RunDir,
    text: &str,
    plan: &Plan,
    going: &mut Run,
    ended: Ended,
    need: Need,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome> {
    let (model, step) = going.outcome(&mut [&mut *observer])?;
    // As the verb answers: what a run scores is what `qkv evaluate` says of it.
    let (asked, writing) = (text_model(plan, &model)?, Writing::default());
    let judge = judge(plan, &asked, &writing);
    let test = judge.scores(&*plan.splits.test)?;
    let task = plan.recipe.data.objective;
    let samples: Vec<Judged> = match task {
        Task::NextToken => judge.continuations(&*plan.splits.test, 12)?,
        _ => test.judged.iter().take(12).cloned().collect(),
    };
    let mut scores = vec![("test".to_string(), test)];
    if let Some(compositional) = &plan.splits.compositional {
        scores.push(("compositional".into(), judge.scores(&**compositional)?));
    }
    for (name, part) in &plan.splits.parts {
        scores.push((name.clone(), judge.scores(&**part)?));
    }
    export::leave(dir, plan, &model).map_err(failed)?;
    let sides: Vec<(&str, &Scores)> = scores.iter().map(|(name, scores)| (name.as_str(), scores)).collect();
    let test = &scores[0].1;
    export::save_report(dir, top(plan, test, step, &going.state)?, text, &sides, &samples).map_err(failed)?;
    let baseline = BaselineBeside::of(task, &plan.splits, test)?;
    if let Some(baseline) = &baseline {
        observer.see(&Event::Baseline(baseline))?;
    }
    let mut told: BTreeMap<&str, serde_json::Value> =
        sides.iter().map(|(name, s)| (*name, serde_json::json!(s.values))).collect();
    if let Some(baseline) = &baseline {
        told.insert("baseline", serde_json::json!(baseline));
    }
    let told = serde_json::to_vec_pretty(&told).map_err(|e| Error::internal("scores.json", e.to_string()))?;
    dir.write("scores.json", &told).map_err(failed)?;
    let name = dir.dir().file_name().map_or_else(|| "model".into(), |n| n.to_string_lossy().to_string());
    let card = crate::card::card(plan, &name, text, &scores, baseline.as_ref());
    dir.write("model/README.md", card.as_bytes()).map_err(failed)?;
    let (verdict, seconds) = (verdict(plan, test)?, going.state.seconds);
    let (dir, memory) = (dir.dir().to_path_buf(), (need.total(), memory::peak()));
    let show = 2 * plan.recipe.eval.samples;
    Ok(Outcome { dir, task, ended, step, seconds, scores, samples, show, baseline, verdict, memory, cost: None })
}

/// What stands at the top of the report.
fn top(plan: &Plan, test: &Scores, step: u64, state: &State) -> Result<Top> {
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

/// Whether the goal was reached, where there is one.
fn verdict(plan: &Plan, test: &Scores) -> Result<Option<Verdict>> {
    let eval = &plan.recipe.eval;
    if eval.goal == 0.0 {
        return Ok(None);
    }
    let metric = Metric::parse(&eval.metric)?;
    let score = test.get(metric)?;
    let (pass, metric) = (metric.reaches(score, eval.goal), metric.name());
    Ok(Some(Verdict { pass, metric, score, goal: eval.goal }))
}

/// The recipe that a run was begun with.
pub fn recipe_of(dir: &Path) -> Result<String> {
    let path = dir.join("recipe.toml");
    read_text(&path, MOST_TEXT, "is it readable?")
}

/// A run goes on with what it was begun with; the first differences are named.
pub fn refuse_changes(held: &Recipe, new: &Recipe) -> Result<()> {
    let differences = recipe::differences(held, new);
    if differences.is_empty() {
        return Ok(());
    }
    let what = format!("is not that of the run: {}", differences.join("; "));
    Err(Error::new("the recipe", what, "leave the changes out, or go on all the same with --force"))
}
