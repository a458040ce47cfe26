//! What is compared, and running it: entries (a label and a recipe each), several seeds, one directory each. A run that is there
//! with the same recipe is not run again, and one that was broken off goes on.

use super::{Budget, Finished};
use crate::{Recipe, Result, Run};
use qkv_base::{Error, Kind};
use qkv_model::families;
use qkv_runs::Ended;
use qkv_runs::observe::{Event, Observer};
use qkv_runs::recipe as text;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// how it is called in tables
    pub label: String,
    /// what is run
    pub recipe: Recipe,
}

/// How a comparison is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    dir: PathBuf,
    budget: Budget,
    seeds: u64,
    threads: usize,
}

impl Setup {
    /// Everything is kept under `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), budget: Budget::Recipe, seeds: 1, threads: 0 }
    }

    /// With this budget for each.
    pub fn budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Each so many times, with other seeds.
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds: seeds.max(1), ..self }
    }

    /// On so many threads.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// Where it is kept.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The budget and the seeds, for a sentence.
    pub(super) fn budget_in_words(&self) -> String {
        let seeds = if self.seeds > 1 { format!(", {} seeds", self.seeds) } else { String::new() };
        format!("{}{seeds}", self.budget.words())
    }
}

/// Every combination of what is said: `model.position=none,rope` and `model.norm=layer,rms` are four.
///
/// ```
/// let recipe = qkv::Recipe::named("char-gpt")?;
/// let all = qkv::compare::variations(&recipe, &["model.position=none,rope".into(), "model.norm=layer,rms".into()])?;
/// assert_eq!(all[3].label, "position=rope, norm=rms");
/// assert!(qkv::compare::variations(&recipe, &["model.positon=none".into()]).unwrap_err().hint.contains("`position`"));
/// # Ok::<(), qkv::Error>(())
/// ```
pub fn variations(recipe: &Recipe, over: &[String]) -> Result<Vec<Entry>> {
    let mut all = vec![Entry { label: String::new(), recipe: recipe.clone() }];
    for said in over {
        let Some((key, values)) = said.split_once('=').filter(|(_, values)| !values.trim().is_empty()) else {
            let what = "is not a key with values";
            return Err(Error::new(format!("--over {said}"), what, "write model.position=none,rope,alibi"));
        };
        let short = key.trim().rsplit('.').next().unwrap_or(key).to_string();
        let mut next = vec![];
        for entry in &all {
            for value in values.split(',').map(str::trim) {
                let label = if over.len() == 1 { value.to_string() } else { format!("{short}={value}") };
                let label = if entry.label.is_empty() { label } else { format!("{}, {label}", entry.label) };
                next.push(Entry { label, recipe: fitting(entry.recipe.clone().assign(&format!("{key}={value}"))?)? });
            }
        }
        all = next;
    }
    Ok(all)
}

/// A recurrent network has no heads and no feed-forward: what the recipe says of them was meant for its own family.
fn fitting(recipe: Recipe) -> Result<Recipe> {
    let read = text::Recipe::read("recipe", recipe.text())?;
    let recurrent = families::named(&read.model.family).is_ok_and(|sheet| families::free(sheet).is_none());
    match recurrent && read.model.from.is_empty() {
        true => recipe.set("model.heads", 1)?.set("model.inner", 0)?.set("model.kv_heads", 0)?.set("model.start", 0.0),
        false => Ok(recipe),
    }
}

/// Runs every entry with every seed; those that are there are taken as they are.
pub fn run_all(
    entries: &[Entry],
    setup: &Setup,
    stop: &AtomicBool,
    observer: &mut (dyn Observer + Send),
) -> Result<Vec<Vec<Finished>>> {
    let mut all = vec![];
    for (i, entry) in entries.iter().enumerate() {
        let mut runs = vec![];
        for seed in 1..=setup.seeds {
            let dir = setup.dir.join(format!("{}-{seed}", slug(&entry.label)));
            let place = format!("{} of {}: {}, seed {seed}", i + 1, entries.len(), entry.label);
            runs.push(one(entry, seed, &dir, setup, stop, observer).map_err(|e| at(e, &place))?);
        }
        all.push(runs);
    }
    Ok(all)
}

fn at(error: Error, place: &str) -> Error {
    Error { place: format!("{place}: {}", error.place), ..error }
}

/// A name for a directory.
fn slug(label: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = label.chars().map(plain).collect();
    let name = name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    if name.is_empty() { "entry".into() } else { name }
}

fn one(
    entry: &Entry,
    seed: u64,
    dir: &Path,
    setup: &Setup,
    stop: &AtomicBool,
    observer: &mut (dyn Observer + Send),
) -> Result<Finished> {
    observer.see(&Event::Note(format!("{}, seed {seed}", entry.label)))?;
    let asked = Entry { recipe: judged_alike(entry.recipe.clone(), seed)?, ..entry.clone() };
    // What a budget came to is part of the recipe that was run: with the same question it is not measured again.
    let question = format!("{:?}\n{}", setup.budget, asked.recipe.text());
    let held = std::fs::read_to_string(dir.join("question.txt")).ok().filter(|held| *held == question);
    if held.is_some()
        && let Some(finished) = Finished::load(dir)
    {
        observer.see(&Event::Note(format!("{} is there already", dir.display())))?;
        return Ok(finished);
    }
    let mut watch = Watch { observer, parameters: 0, memory: 0 };
    let begun = held.is_some() && dir.join("recipe.toml").exists();
    let run = if begun {
        let recipe = Recipe::parse(&entry.label, &qkv_runs::session::recipe_of(dir)?)?.threads(setup.threads);
        recipe.resume_in(dir, false, stop, &mut watch)?
    } else {
        if dir.join("recipe.toml").exists() {
            std::fs::remove_dir_all(dir)
                .map_err(|e| Error::write(dir.display().to_string(), &e, "an older comparison is there"))?;
        }
        let recipe = setup.budget.fit(&asked, &setup.dir, setup.threads)?.threads(setup.threads);
        let run = recipe.out(dir).run_until(stop, &mut watch)?;
        qkv_weights::write_atomically(&dir.join("question.txt"), question.as_bytes())?;
        run
    };
    finish(entry, seed, [watch.parameters, watch.memory], &run)
}

fn finish(entry: &Entry, seed: u64, [parameters, memory]: [u64; 2], run: &Run) -> Result<Finished> {
    if run.outcome.ended == Ended::Asked {
        let hint = "the same command goes on where it was stopped";
        return Err(Error::new("compare", "was asked to stop", hint).of_kind(Kind::Interrupted));
    }
    let recipe = text::Recipe::parse("recipe", &qkv_runs::session::recipe_of(run.dir())?)?;
    let finished =
        Finished { memory, ..Finished::of(&entry.label, seed, parameters, recipe.train.steps, &run.outcome) };
    finished.save()?;
    Ok(finished)
}

/// No goal, no samples on the way: what differs is what is compared.
fn judged_alike(recipe: Recipe, seed: u64) -> Result<Recipe> {
    let steps = text::Recipe::read("recipe", recipe.text())?.train.steps;
    let recipe = recipe.set("eval.goal", 0.0)?.set("eval.samples", 0)?.set("train.seed", seed)?;
    recipe.set("checkpoint.every", 0)?.set("train.log", (steps / 50).max(1))
}

/// Notes how large the network is, and passes everything on.
struct Watch<'a> {
    observer: &'a mut (dyn Observer + Send),
    parameters: u64,
    /// weights, gradients, moments and a pass: without what the program itself holds
    memory: u64,
}

impl Observer for Watch<'_> {
    fn see(&mut self, event: &Event) -> Result<()> {
        if let Event::Began(beginning) = event {
            self.parameters = beginning.parameters;
            self.memory = 4 * beginning.parameters + beginning.need.beside + beginning.need.pass;
        }
        self.observer.see(event)
    }
}
