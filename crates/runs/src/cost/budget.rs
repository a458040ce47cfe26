//! What fits in a time: the most steps whose forecast is within it; and, on request, how wide and deep a network to take.
//!
//! The rule for the size is Chinchilla's (Hoffmann et al. 2022): about 20 tokens for each parameter. A step on D tokens takes
//! time that grows with N·D, so a time bounds N·20N. The sizes that are tried are those of the GPT ladder: L layers of width 64·L
//! with L heads, from 1 × 64 over 4 × 256 to 12 × 768 and beyond. How fast this machine is with the recipe's own network, in
//! operations a second, is taken for all of them; when the size is chosen it is measured itself, and the steps fill the time.
//! The rule was found for networks of 70 million parameters and more; for smaller ones it is a habit, not a law.

use super::forecast::Forecast;
use super::measure::Measured;
use crate::memory::Need;
use crate::network::begin;
use crate::plan::Plan;
use crate::recipe::{self, Recipe, RecipeFile};
use qkv_base::{Error, Result};
use qkv_metric::{human_count, human_duration};
use qkv_model::count;
use qkv_nn::device;
use std::path::Path;
use std::time::{Duration, Instant};

/// Tokens for each parameter.
pub const TOKENS: f64 = 20.0;
/// Width for each layer.
const ASPECT: usize = 64;
/// The most layers that are tried.
const LAYERS: usize = 48;

/// What a run may spend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeBudget {
    /// seconds, all of the run: its data, its steps, its judging
    pub seconds: f64,
    /// choose width and depth, too
    pub size: bool,
}

impl TimeBudget {
    /// A time such as `90s`, `30m` or `1.5h`.
    ///
    /// ```
    /// use qkv_runs::cost::TimeBudget;
    /// assert_eq!(TimeBudget::parse("30m")?.seconds, 1800.0);
    /// assert!(TimeBudget::parse("30").unwrap_err().hint.contains("30m"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let fail = |what: &str| Error::new(format!("--budget {text}"), what, "write a time such as 90s, 30m or 1.5h");
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(|| fail("has no unit"))?;
        let number: f64 = text[..end].parse().map_err(|_| fail("is not a time"))?;
        let seconds = number
            * match text[end..].trim() {
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(fail("is not a time")),
            };
        match seconds > 0.0 && seconds.is_finite() {
            true => Ok(Self { seconds, size: false }),
            false => Err(fail("nothing can be learnt in no time")),
        }
    }
}

/// A plan within a budget, with the recipe that says so, and what it was measured by.
pub(crate) struct FittedPlan {
    pub(crate) file: RecipeFile,
    pub(crate) plan: Plan,
    pub(crate) measured: Measured,
    /// as it was before the measurement, which leaves memory behind for the run
    pub(crate) need: Need,
}

impl FittedPlan {
    fn new(file: RecipeFile, kept: Option<&Path>, place: &Path) -> Result<Self> {
        let mut plan = Plan::new(&file.recipe, kept)?;
        let need = Need::of(&plan)?;
        need.ensure()?;
        let measured = super::measure(&mut plan, place, u64::MAX)?;
        Ok(Self { file, plan, measured, need })
    }
}

/// Refuses a recipe that another one comes before.
pub(crate) fn refuse_stages(recipe: &Recipe) -> Result<()> {
    let Some(first) = recipe.before() else { return Ok(()) };
    let what =
        format!("the recipe starts from what `{first}` makes, which has to be run first and takes what it takes");
    Err(Error::new("--budget", what, format!("qkv train {first}, then --set model.from=runs/{first}")))
}

/// The plan of a recipe that spends a budget, of which the time since `start` is gone.
pub(crate) fn fit(
    file: &RecipeFile,
    kept: Option<&Path>,
    place: &Path,
    budget: TimeBudget,
    start: Instant,
) -> Result<FittedPlan> {
    refuse_stages(&file.recipe)?;
    let mut fitted = FittedPlan::new(file.clone(), kept, place)?;
    let left = || budget.seconds - start.elapsed().as_secs_f64();
    let mut notes = vec![];
    if budget.size {
        let sized = sized(&fitted, left())?;
        fitted = FittedPlan::new(sized, kept, place)?;
        let model = &fitted.plan.recipe.model;
        notes.push(format!(
            "--auto-size: model.layers = {}, model.width = {}, model.heads = {}",
            model.layers, model.width, model.heads
        ));
    }
    let FittedPlan { file, plan, measured, .. } = &mut fitted;
    let asked = human_duration(Duration::from_secs_f64(budget.seconds));
    let Some(steps) = most_steps(&plan.recipe, measured, left()) else {
        let one = seconds(&with_steps(&plan.recipe, 1), measured) + start.elapsed().as_secs_f64();
        let what = format!("a run of one step takes about {}", human_duration(Duration::from_secs_f64(one)));
        let hint = "allow more, or judge fewer examples: --set data.test=100";
        return Err(Error::new(format!("--budget {asked}"), what, hint));
    };
    let before = plan.recipe.train.steps;
    plan.recipe = with_steps(&plan.recipe, steps);
    *file = changed(file, &spoken(&file.recipe, &plan.recipe))?;
    let parameters = plan.parameters();
    let tokens = steps as f64 * measured.tokens;
    let epochs = steps as f64 * plan.recipe.train.accumulate as f64 / plan.train.batches(0).max(1) as f64;
    notes.push(format!(
        "--budget {asked}: {steps} steps instead of {before}, with warm-up and looks in proportion; {} tokens ({:.1} for each \
         parameter), {epochs:.1} times all examples",
        human_count(tokens),
        tokens / parameters.max(1) as f64
    ));
    plan.splits.notes.extend(notes);
    Ok(fitted)
}

/// The most steps within so many seconds; none where there is no time for one.
fn most_steps(recipe: &Recipe, measured: &Measured, within: f64) -> Option<u64> {
    let fits = |steps: u64| seconds(&with_steps(recipe, steps), measured) <= within;
    let (mut low, mut high) = (0, 1 << 40);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    (low > 0).then_some(low)
}

fn seconds(recipe: &Recipe, measured: &Measured) -> f64 {
    Forecast::of(recipe, *measured, Need::default(), (0, 0), 0).seconds()
}

/// A recipe whose pace is known, with another number of steps: warm-up and looks stay the same shares of the run; checkpoints come
/// as often, or oftener where the run is shorter, so that no more is lost when it is broken off.
fn with_steps(recipe: &Recipe, steps: u64) -> Recipe {
    let mut recipe = recipe.clone();
    let share = steps as f64 / recipe.train.steps.max(1) as f64;
    let scaled = |n: u64, least: u64| ((n as f64 * share).round() as u64).max(least.min(n));
    let (warmup, every, saved) = (recipe.schedule.warmup, recipe.eval.every, recipe.checkpoint.every);
    recipe.schedule.warmup = scaled(warmup, 1).min(if steps > 1 { steps - 1 } else { 1 });
    recipe.eval.every = scaled(every, 1);
    recipe.checkpoint.every = scaled(saved, 1).min(saved);
    (recipe.schedule.warmup_share, recipe.eval.looks) = (0.0, 0);
    (recipe.train.steps, recipe.train.epochs, recipe.train.least) = (steps, 0.0, 0);
    recipe
}

/// What of the pace has to be said for a recipe to have it.
fn spoken(now: &Recipe, wanted: &Recipe) -> Vec<String> {
    let mut all = vec![];
    let mut say = |key: &str, now: String, wanted: String| {
        if now != wanted {
            all.push(format!("{key}={wanted}"));
        }
    };
    let whole = |x: f64| format!("{x:?}");
    say("train.steps", now.train.steps.to_string(), wanted.train.steps.to_string());
    say("train.epochs", whole(now.train.epochs), whole(wanted.train.epochs));
    say("train.least", now.train.least.to_string(), wanted.train.least.to_string());
    say("schedule.warmup", now.schedule.warmup.to_string(), wanted.schedule.warmup.to_string());
    say("schedule.warmup_share", whole(now.schedule.warmup_share), whole(wanted.schedule.warmup_share));
    say("eval.every", now.eval.every.to_string(), wanted.eval.every.to_string());
    say("eval.looks", now.eval.looks.to_string(), wanted.eval.looks.to_string());
    say("checkpoint.every", now.checkpoint.every.to_string(), wanted.checkpoint.every.to_string());
    all
}

fn changed(file: &RecipeFile, changes: &[String]) -> Result<RecipeFile> {
    let text = changes.iter().try_fold(file.text.clone(), |text, change| recipe::set(&text, change))?;
    RecipeFile::parse("the recipe", text)
}

/// The recipe with the largest network of the ladder that can read [`TOKENS`] tokens for each parameter in so many seconds.
fn sized(fitted: &FittedPlan, within: f64) -> Result<RecipeFile> {
    let FittedPlan { file, plan, measured, .. } = fitted;
    if !file.recipe.model.from.is_empty() {
        let what = "a network that has learnt before has its size already";
        return Err(Error::new("--auto-size", what, "leave it out, or train from nothing"));
    }
    let speed = measured.operations / measured.step.max(1e-9);
    let device = device::trainable(&file.recipe.train.device)?;
    let (mut found, mut refused) = (None, None);
    for layers in 1..=LAYERS {
        let tried = changed(file, &size(file, plan, layers))?;
        let network = match begin(&tried.recipe, &plan.splits, plan.tokenizer.as_ref(), &plan.labels, &device) {
            Ok(network) => network,
            Err(error) => {
                refused = refused.or(Some(error));
                continue;
            }
        };
        let parameters: u64 = count::parameters(&network.model).iter().map(|p| p.elements()).sum();
        let operations = super::measure::operations_a_step(plan, network.spec())?;
        let tokens = measured.tokens * within * speed / operations.max(1.0);
        if found.is_some() && tokens < TOKENS * parameters as f64 {
            break;
        }
        found = Some(tried);
    }
    match (found, refused) {
        (Some(file), _) => Ok(file),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::internal("--auto-size", "no size was tried")),
    }
}

/// What a recipe has to say for so many layers. What it says of the inner width and of grouped heads stays in proportion.
fn size(file: &RecipeFile, plan: &Plan, layers: usize) -> Vec<String> {
    let (model, width) = (&file.recipe.model, ASPECT * layers);
    let mut all = vec![format!("model.width={width}"), format!("model.layers={layers}")];
    if plan.pretrained.spec().recurrence().is_none() {
        all.push(format!("model.heads={layers}"));
        if let Some(group) = model.heads.checked_div(model.kv_heads).map(|group| group.max(1)) {
            all.push(format!("model.kv_heads={}", if layers.is_multiple_of(group) { layers / group } else { 0 }));
        }
    }
    if model.inner > 0 {
        all.push(format!("model.inner={}", (model.inner * width).div_ceil(model.width.max(1))));
    }
    if model.head_dim > 0 {
        all.push(format!("model.head_dim={ASPECT}"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[data]\ncorpus = \"builtin:stories\"\nobjective = \"next-token\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
         [tokenizer]\nkind = \"\"\nvocab = 300\n[model]\nfamily = \"gpt2\"\nwidth = 32\nlayers = 1\nheads = 2\n\
         [train]\nrows = 4\nepochs = 3.0\nleast = 400\n[schedule]\nwarmup_share = 0.1\n[eval]\nlooks = 5\nsamples = 1";

    fn fitted(text: &str, seconds: f64, size: bool) -> Result<FittedPlan> {
        let (dir, start) = (tempfile::tempdir().expect("a directory"), Instant::now());
        fit(&RecipeFile::parse("test", text)?, None, &dir.path().join("run"), TimeBudget { seconds, size }, start)
    }

    /// What is chosen stands in the recipe: a plan of that text is the same plan, so that a run can be taken up again.
    #[test]
    fn the_steps_that_fit_are_written_into_the_recipe() {
        let FittedPlan { file, plan, measured, .. } = fitted(TEXT, 30.0, false).expect("a plan");
        let again = Plan::new(&file.recipe, None).expect("a plan");
        assert_eq!(again.recipe, plan.recipe);
        let steps = plan.recipe.train.steps;
        assert!(seconds(&plan.recipe, &measured) < 30.0 && steps > 400, "{steps}");
        let (warmup, every) = (plan.recipe.schedule.warmup as f64, plan.recipe.eval.every as f64);
        assert!((warmup / steps as f64 - 0.1).abs() < 0.01 && (every / steps as f64 - 0.2).abs() < 0.01);
        assert!(plan.splits.notes.iter().any(|n| n.contains("--budget 30.0 s:")), "{:?}", plan.splits.notes);
        let none = fitted(TEXT, 1e-3, false).map(|_| ()).unwrap_err();
        assert!(none.what.contains("a run of one step takes about"), "{none}");
    }

    #[test]
    fn more_time_is_more_steps_and_never_too_many() {
        let mut recipe = Recipe::default();
        (recipe.train.steps, recipe.schedule.warmup, recipe.eval.every, recipe.checkpoint.every) =
            (1000, 100, 250, 500);
        let measured = Measured { step: 0.1, look: 1.0, save: 0.5, judging: 10.0, ..Measured::default() };
        for within in [12.0, 20.0, 100.0, 1000.0] {
            let steps = most_steps(&recipe, &measured, within).expect("steps");
            let at = |steps| seconds(&with_steps(&recipe, steps), &measured);
            assert!(at(steps) <= within && at(steps + 8) > within, "{within}: {steps}");
        }
        let long = with_steps(&recipe, 4000);
        assert_eq!((long.schedule.warmup, long.eval.every, long.checkpoint.every), (400, 1000, 500));
        assert_eq!(with_steps(&recipe, 1).schedule.warmup, 1);
    }

    /// A longer time is a larger network, and about twenty tokens for each of its parameters.
    #[test]
    fn a_size_follows_from_the_time() {
        let model =
            |seconds| fitted(TEXT, seconds, true).map(|f| (f.plan.recipe.model.clone(), f.plan.splits.notes.clone()));
        let ((small, _), (large, notes)) = (model(6.0).expect("a plan"), model(1e5).expect("a plan"));
        assert_eq!(small.width, 64 * small.layers);
        assert!(large.layers > small.layers && large.heads == large.layers, "{large:?}");
        assert!(notes.iter().any(|n| n.starts_with("--auto-size:")), "{notes:?}");
    }

    #[test]
    fn times_are_read_and_anything_else_is_refused() {
        assert_eq!(TimeBudget::parse("1.5h").map(|b| b.seconds).ok(), Some(5400.0));
        for wrong in ["", "30", "m", "0s", "-5m", "5 steps", "1.2.3s"] {
            assert!(TimeBudget::parse(wrong).is_err(), "{wrong}");
        }
    }
}
