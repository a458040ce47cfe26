//! Training, from the outside: a [`Recipe`] says what is learnt, from what and how; [`Recipe::run`] does it and hands back a
//! [`Run`]; an [`Observer`] is told what happens on the way. Nothing is printed.

use crate::{Model, Result, Task};
use qkv_base::Error;
use qkv_runs::cost::TimeBudget;
use qkv_runs::observe::Observer;
use qkv_runs::recipe as text;
use qkv_runs::run_dir::{Expect, RunDir};
use qkv_runs::session::{self, Beginning, Outcome, RunOptions};
use qkv_tasks::sheet::Wants;
use qkv_train::dist::{Collective, Team};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Everything a run depends on: a text in TOML in which every key can be set.
///
/// ```no_run
/// let recipe = qkv::Recipe::named("translate")?.data("pairs.tsv")?.set("train.steps", 500)?;
/// let run = recipe.run(&mut ())?; // `()` watches nothing
/// println!("{:?}", run.score("bleu"));
/// # Ok::<(), qkv::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    name: String,
    text: String,
    out: Option<PathBuf>,
    threads: usize,
    budget: Option<TimeBudget>,
}

/// A value of a recipe's key.
pub trait Setting {
    /// As TOML writes it.
    fn to_toml(&self) -> String;
}

macro_rules! plain {
    ($($kind:ty),*) => { $(
        impl Setting for $kind {
            fn to_toml(&self) -> String {
                format!("{self:?}")
            }
        }
    )* };
}

plain!(i32, u32, i64, u64, usize, f32, f64, bool);

impl Setting for &str {
    fn to_toml(&self) -> String {
        format!("\"{}\"", self.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

impl Setting for String {
    fn to_toml(&self) -> String {
        self.as_str().to_toml()
    }
}

impl<S: Setting> Setting for &[S] {
    fn to_toml(&self) -> String {
        format!("[{}]", self.iter().map(Setting::to_toml).collect::<Vec<_>>().join(", "))
    }
}

impl Recipe {
    /// A recipe that qkv brings along (`translate`, `gpt`, `sentiment`, …), or that of a file.
    ///
    /// ```
    /// assert!(qkv::Recipe::named("translate")?.text().contains("[model]"));
    /// assert!(qkv::Recipe::named("tranlate").unwrap_err().hint.contains("`translate`"));
    /// # Ok::<(), qkv::Error>(())
    /// ```
    pub fn named(name: &str) -> Result<Self> {
        let (text, name) = text::find(name)?;
        Ok(Self { name, text, out: None, threads: 0, budget: None })
    }

    /// The recipe with this text; unknown keys are refused.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        text::Recipe::parse(name, text)?;
        Ok(Self { name: name.into(), text: text.into(), out: None, threads: 0, budget: None })
    }

    /// A model learns a task from data: a new head where one is needed, all weights unless [`Recipe::lora`] says otherwise.
    pub fn finetune(model: impl AsRef<Path>, task: Task, data: &str) -> Result<Self> {
        let model = qkv_tasks::locate::model(model.as_ref())?;
        // To classify is one word for texts and pictures; the network says which it reads. What is no model is refused later.
        let looks = || model.describe().is_ok_and(|(.., spec)| Wants::of(&spec) == Wants::Eyes);
        let task = if task == Task::Classify && looks() { Task::Image } else { task };
        let sheet = qkv_tasks::sheet::of(task);
        let most = model.describe().ok().and_then(|(.., spec)| spec.position.max()).unwrap_or(usize::MAX);
        let model = model.name().display().to_string();
        let verb =
            if task == Task::ClassifyPair { task.name() } else { sheet.verb.map_or(task.name(), |(verb, _)| verb) };
        let start = Self::parse(&format!("finetune-{verb}"), text::FINETUNE)?;
        let asked = start.set("model.from", model)?.set("data.corpus", data)?.set("data.objective", task.name())?;
        // Texts are read whole where the network can: rows of a batch are of like length, so that short ones do not pay for it.
        let length = match task {
            Task::Classify | Task::ClassifyPair | Task::Tag => 512,
            Task::Answer => 384,
            _ => 128,
        };
        asked.set("eval.metric", sheet.main.name())?.set("data.length", length.min(most).max(2))
    }

    /// Changes a key: `recipe.set("train.steps", 200)?`.
    ///
    /// ```
    /// let recipe = qkv::Recipe::named("gpt")?.set("train.steps", 20)?.set("optim.name", "lion")?;
    /// assert!(recipe.text().contains("steps = 20"));
    /// assert!(recipe.set("train.stepps", 20).unwrap_err().hint.contains("`steps`"));
    /// # Ok::<(), qkv::Error>(())
    /// ```
    pub fn set(self, key: &str, value: impl Setting) -> Result<Self> {
        self.assign(&format!("{key}={}", value.to_toml()))
    }

    /// Changes a key as `--set` does: `key=value`, the value in TOML.
    pub fn assign(self, change: &str) -> Result<Self> {
        let mut text = text::set(&self.text, change)?;
        let read = text::Recipe::read(&self.name, &text)?; // a key that there is not is refused here
        // Whoever counts steps, rows of warm-up or steps between looks means these, not what stands in their place.
        let instead = [
            ("train.steps", "train.epochs=0.0", read.train.epochs > 0.0),
            ("train.epochs", "train.least=0", read.train.least > 0),
            ("schedule.warmup", "schedule.warmup_share=0.0", read.schedule.warmup_share > 0.0),
            ("eval.every", "eval.looks=0", read.eval.looks > 0),
        ];
        for (_, other, _) in
            instead.iter().filter(|(key, _, set)| *set && change.split('=').next().map(str::trim) == Some(*key))
        {
            text = text::set(&text, other)?;
        }
        Ok(Self { text, ..self })
    }

    /// Learns from this file (or `builtin:NAME`) instead of the recipe's corpus. It takes the place of a whole mixture;
    /// and the recipe's goal, which is one for its own corpus, goes.
    pub fn data(self, data: &str) -> Result<Self> {
        let mixed = !text::Recipe::read(&self.name, &self.text)?.data.mix.is_empty();
        let alone = self.set("data.corpus", data)?.set("eval.goal", 0.0)?;
        // How many examples a recipe takes is of its own corpus, too: of a person's file, all are taken.
        let alone = if data.starts_with("builtin:") { alone } else { alone.set("data.examples", 0usize)? };
        if mixed { alone.assign("data.mix={}") } else { Ok(alone) }
    }

    /// Which column of a table holds a field, where it has another name.
    pub fn columns(self, columns: &BTreeMap<String, String>) -> Result<Self> {
        if columns.is_empty() {
            return Ok(self);
        }
        let pairs: Vec<String> = columns.iter().map(|(field, name)| format!("{field} = {}", name.to_toml())).collect();
        self.assign(&format!("data.columns={{ {} }}", pairs.join(", ")))
    }

    /// Learns adapters of this rank, with twice the rank as their strength, instead of all weights.
    pub fn lora(self, rank: usize) -> Result<Self> {
        if rank == 0 {
            return Err(Error::new(
                "--lora 0",
                "an adapter of rank 0 learns nothing",
                "use 1 or more, usually 4 to 64",
            ));
        }
        // Their rate is their own, too (`optim.rate` 0). At 2e-3 whether they learn hangs on the base: of two, one came to 99.8
        // and the other stayed at 83.4.
        self.set("lora.rank", rank)?.set("lora.alpha", 2.0 * rank as f64)
    }

    /// Where the run is kept; `runs/NAME` if nothing is said.
    pub fn out(self, dir: impl Into<PathBuf>) -> Self {
        Self { out: Some(dir.into()), ..self }
    }

    /// On how many threads it runs; the result does not depend on it.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// What the run may spend: the steps that fit in a time take the place of the recipe's, and with [`TimeBudget::size`] also the
    /// largest network for which that time is long enough. What was chosen stands in the run's own recipe.
    ///
    /// ```
    /// use qkv::{TimeBudget, Recipe};
    /// let half_an_hour = Recipe::named("gpt")?.budget(TimeBudget::parse("30m")?);
    /// # Ok::<(), qkv::Error>(())
    /// ```
    pub fn budget(self, budget: TimeBudget) -> Self {
        Self { budget: Some(budget), ..self }
    }

    fn file(&self) -> Result<text::RecipeFile> {
        text::RecipeFile::parse(&self.name, self.text.as_str())
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every key with its value and what it means, also those that the recipe leaves as they are.
    pub fn full_text(&self) -> Result<String> {
        text::full(&self.text, &text::Recipe::parse(&self.name, &self.text)?)
    }

    /// What a run would begin with (data, tokenizer, network, memory, and what was decided on the way) and what it would cost: real
    /// steps are taken for two seconds, and thrown away. Nothing stays written.
    pub fn preview(&self) -> Result<Beginning> {
        let dir = self.out.clone().unwrap_or_else(|| qkv_tasks::locate::free(&self.name));
        session::preview(&dir, &self.file()?, self.threads, self.budget)
    }

    /// Trains, judges, and leaves the model and its report behind.
    pub fn run(&self, observer: &mut (dyn Observer + Send)) -> Result<Run> {
        self.run_until(&AtomicBool::new(false), observer)
    }

    /// The same; when `stop` is set, the step is finished and saved, and [`Run::resume`] goes on from there.
    pub fn run_until(&self, stop: &AtomicBool, observer: &mut (dyn Observer + Send)) -> Result<Run> {
        let file = self.file()?;
        let dir = self.out.clone().unwrap_or_else(|| qkv_tasks::locate::free(&self.name));
        let dir = RunDir::open(&dir, Expect::Nothing)?;
        let options =
            RunOptions { threads: self.threads, force: false, stop: Some(stop), team: None, budget: self.budget };
        Ok(Run { outcome: session::begin(dir, &file, options, observer)? })
    }

    /// The same among several processes, all of which make this call with the same recipe: each computes a part of every
    /// step, and what is learnt does not depend on how many they are. Rank 0 writes, judges and hands out the run; the others
    /// have none.
    ///
    /// A step is cut into eight pieces (`dist.shards`) unless the recipe says otherwise.
    pub fn run_among(
        &self,
        ranks: &dyn Collective,
        stop: &AtomicBool,
        observer: &mut (dyn Observer + Send),
    ) -> Result<Option<Run>> {
        if ranks.rank() > 0 {
            return Run::beside(ranks, self.threads, stop).map(|()| None);
        }
        if self.budget.is_some() {
            let what = "a budget is measured on one machine, and several share this run";
            return Err(Error::new(
                "--budget",
                what,
                "say --steps; --dry-run --ranks N says what they would make of it",
            ));
        }
        let team = Team::new(ranks);
        let recipe = self.clone().sharded(team.size())?;
        let file = recipe.file()?;
        let dir = self.out.clone().unwrap_or_else(|| qkv_tasks::locate::free(&self.name));
        let dir = RunDir::open(&dir, Expect::Nothing)?;
        let options =
            RunOptions { threads: self.threads, force: false, stop: Some(stop), team: Some(&team), budget: None };
        Ok(Some(Run { outcome: session::begin(dir, &file, options, observer)? }))
    }

    /// With steps in as many pieces as this number of ranks can share, and eight at least, so that fewer or more machines can
    /// go on with the run. A number that the recipe says stays.
    fn sharded(self, ranks: usize) -> Result<Self> {
        match text::Recipe::read(&self.name, &self.text)?.dist.shards {
            1 => self.set("dist.shards", ranks.next_power_of_two().max(8)),
            _ => Ok(self),
        }
    }

    /// Goes on with the run in `dir` of rank 0 among several processes: as many as it was begun with, or more, or fewer.
    pub fn resume_among(
        &self,
        ranks: &dyn Collective,
        dir: &Path,
        force: bool,
        stop: &AtomicBool,
        observer: &mut (dyn Observer + Send),
    ) -> Result<Option<Run>> {
        if ranks.rank() > 0 {
            return Run::beside(ranks, self.threads, stop).map(|()| None);
        }
        let team = Team::new(ranks);
        let options = RunOptions { threads: self.threads, force, stop: Some(stop), team: Some(&team), budget: None };
        self.resumed(dir, options, observer).map(Some)
    }

    /// Goes on with the run in `dir`, which must have been begun with this recipe unless `force` is said.
    pub fn resume_in(
        &self,
        dir: &Path,
        force: bool,
        stop: &AtomicBool,
        observer: &mut (dyn Observer + Send),
    ) -> Result<Run> {
        let options = RunOptions { threads: self.threads, force, stop: Some(stop), team: None, budget: None };
        self.resumed(dir, options, observer)
    }

    fn resumed(&self, dir: &Path, options: RunOptions, observer: &mut (dyn Observer + Send)) -> Result<Run> {
        let run_dir = RunDir::open(dir, Expect::Run)?;
        let file = self.file()?;
        if !options.force {
            let held = text::Recipe::parse("the run's recipe", &session::recipe_of(dir)?)?;
            session::refuse_changes(&held, &file.recipe)?;
        }
        Ok(Run { outcome: session::go(&run_dir, &file, options, observer)? })
    }
}

/// A run that has come to its end, or was asked to stop.
#[derive(Clone, Debug)]
pub struct Run {
    /// what came of it
    pub outcome: Outcome,
}

impl Run {
    /// Goes on with the run in `dir` from its last checkpoint, bit for bit as if it had never stopped.
    pub fn resume(dir: impl AsRef<Path>, observer: &mut (dyn Observer + Send)) -> Result<Self> {
        let dir = dir.as_ref();
        let recipe = Recipe::parse(&dir.display().to_string(), &session::recipe_of(dir)?)?;
        recipe.resume_in(dir, false, &AtomicBool::new(false), observer)
    }

    /// What every rank but rank 0 does in a run among several: it is told the recipe, learns its part of every step, and
    /// leaves nothing behind.
    pub fn beside(ranks: &dyn Collective, threads: usize, stop: &AtomicBool) -> Result<()> {
        session::beside(&Team::new(ranks), threads, stop).map(drop)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.outcome.dir
    }

    /// A score on the unseen test: `run.score("bleu")`.
    pub fn score(&self, metric: &str) -> Option<f64> {
        self.outcome.scores.first().and_then(|(_, scores)| scores.values.get(metric)).copied()
    }

    /// The model that it came to.
    pub fn model(&self) -> Result<Model> {
        Model::load(self.dir())
    }
}
