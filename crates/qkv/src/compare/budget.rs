//! What every network of a comparison may spend: as its recipe says, so many steps, so many seconds of training, or so many
//! parameters.
//!
//! A budget of seconds is turned into steps by a look at the first ones, so that what was compared can be run again to the bit;
//! a budget of parameters into a width, since a network's size is a square of its width.

use super::Entry;
use crate::{Recipe, Result};
use qkv_base::Error;
use qkv_runs::observe::Event;
use qkv_runs::plan::Plan;
use qkv_runs::recipe as text;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What every network may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Budget {
    /// what its recipe says
    #[default]
    Recipe,
    /// so many steps
    Steps(u64),
    /// so many seconds of training
    Seconds(f64),
    /// so many parameters, by its width; steps as its recipe says
    Parameters(u64),
}

/// Steps of the look that tells how long one takes; the first ones are slower.
const LOOK: u64 = 12;
const WARM: u64 = 4;

impl Budget {
    /// `400 steps`, `90s`, `5m`, `1h` or `2M parameters`.
    ///
    /// ```
    /// use qkv::compare::Budget;
    /// assert_eq!(Budget::parse("5m")?, Budget::Seconds(300.0));
    /// assert_eq!(Budget::parse("400 steps")?, Budget::Steps(400));
    /// assert_eq!(Budget::parse("2.5M parameters")?, Budget::Parameters(2_500_000));
    /// assert!(Budget::parse("5").unwrap_err().hint.contains("90s"));
    /// # Ok::<(), qkv::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let fail = || {
            Error::new(
                format!("--budget {text}"),
                "is not a budget",
                "write 90s, 5m, 1h, \"400 steps\" or \"2M parameters\"",
            )
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(fail)?;
        let number: f64 = text[..end].parse().map_err(|_| fail())?;
        let budget = match text[end..].trim() {
            "s" => Self::Seconds(number),
            "m" => Self::Seconds(60.0 * number),
            "h" => Self::Seconds(3600.0 * number),
            "steps" => Self::Steps(number as u64),
            "parameters" => Self::Parameters(number as u64),
            "k parameters" => Self::Parameters((1e3 * number) as u64),
            "M parameters" => Self::Parameters((1e6 * number) as u64),
            _ => return Err(fail()),
        };
        match number > 0.0 && number.is_finite() {
            true => Ok(budget),
            false => Err(Error::new(format!("--budget {text}"), "nothing can be learnt with nothing", "use more")),
        }
    }

    /// In words, for a sentence.
    pub fn words(self) -> String {
        match self {
            Self::Recipe => "as many steps as each recipe says".into(),
            Self::Steps(n) => format!("{n} steps each"),
            Self::Seconds(s) => format!("{s} seconds of training each"),
            Self::Parameters(n) => format!("about {} parameters each", qkv_base::format::grouped(n)),
        }
    }

    /// The recipe that spends this much.
    pub(super) fn fit(self, entry: &Entry, dir: &Path, threads: usize) -> Result<Recipe> {
        let recipe = entry.recipe.clone();
        match self {
            Self::Recipe => Ok(recipe),
            Self::Steps(n) => paced(recipe, n),
            Self::Seconds(seconds) => {
                let a_step = seconds_a_step(&recipe, &dir.join("look"), threads)?;
                paced(recipe, (seconds / a_step).round().max(1.0) as u64)
            }
            Self::Parameters(n) => sized(recipe, n),
        }
    }
}

fn paced(recipe: Recipe, steps: u64) -> Result<Recipe> {
    let epochs = recipe.set("train.epochs", 0.0)?.set("train.steps", steps)?;
    epochs.set("eval.every", (steps / 8).max(1))
}

/// How long a step takes: the median of some, in a run that is thrown away.
fn seconds_a_step(recipe: &Recipe, dir: &Path, threads: usize) -> Result<f64> {
    let (stop, mut took) = (AtomicBool::new(false), vec![]);
    let _ = std::fs::remove_dir_all(dir);
    let look = recipe
        .clone()
        .set("eval.every", 0)?
        .set("checkpoint.every", 0)?
        .set("train.epochs", 0.0)?
        .set("train.steps", 10 * LOOK)?
        .out(dir)
        .threads(threads);
    look.run_until(&stop, &mut |event: &Event| {
        if let Event::Step(step) = event {
            took.extend((step.step > WARM).then_some(step.took));
            stop.store(step.step >= LOOK, Ordering::SeqCst);
        }
        Ok(())
    })?;
    let _ = std::fs::remove_dir_all(dir);
    took.sort_by(f64::total_cmp);
    match took.get(took.len() / 2) {
        Some(seconds) => Ok(seconds.max(1e-6)),
        None => {
            Err(Error::new("--budget", "the run is too short to tell how long a step takes", "count steps instead"))
        }
    }
}

/// The recipe with the width that comes nearest to so many parameters.
fn sized(recipe: Recipe, wanted: u64) -> Result<Recipe> {
    let count = |width: usize| -> Result<f64> {
        let changed = recipe.clone().set("model.width", width)?;
        let plan = Plan::new(&text::Recipe::parse("recipe", changed.text())?, None)?;
        Ok(qkv_model::count::parameters(&plan.pretrained.model).iter().map(|p| p.elements() as f64).sum())
    };
    // a·w² + b·w + c through three widths is exact, whatever the family.
    let heads = text::Recipe::read("recipe", recipe.text())?.model.heads.max(1);
    let unit = 2 * heads * 4;
    let [x, y, z] = [unit, 2 * unit, 3 * unit].map(|w| w as f64);
    let [f, g, h] = [count(unit)?, count(2 * unit)?, count(3 * unit)?];
    let a = ((h - g) / (z - y) - (g - f) / (y - x)) / (z - x);
    let b = (g - f) / (y - x) - a * (x + y);
    let c = f - a * x * x - b * x;
    let size = |w: usize| a * (w * w) as f64 + b * w as f64 + c;
    let widths = (1..=512).map(|n| n * 2 * heads);
    let nearest = widths.min_by(|v, w| {
        let off = |w: usize| (size(w) - wanted as f64).abs();
        off(*v).total_cmp(&off(*w))
    });
    recipe.set("model.width", nearest.unwrap_or(unit))
}
