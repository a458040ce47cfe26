//! What a run will cost, from what its parts take; and, when it has ended, what it did cost.
//!
//! `time = steps·step + looks·(look + checkpoint + model) + checkpoints·checkpoint + judging`. Every look is counted as one that is
//! better than those before, and leaves a checkpoint and the model; a run that ends by its patience is shorter.

use super::measure::Measured;
use crate::memory::Need;
use crate::recipe::Recipe;
use qkv_base::format::scaled;
use qkv_metric::{human_bytes, human_count, human_duration};
use serde::Serialize;
use std::time::Duration;

/// A part of a run's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostPart {
    /// what it is
    pub name: &'static str,
    /// how often it happens
    pub times: u64,
    /// seconds of one
    pub each: f64,
}

impl CostPart {
    /// Seconds of all.
    pub fn seconds(&self) -> f64 {
        self.times as f64 * self.each
    }
}

/// What a run will cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// numbers of the network
    pub parameters: u64,
    /// numbers that learn, whose gradients several machines would exchange
    pub learning: u64,
    /// steps that are left
    pub steps: u64,
    /// tokens that they read, padding not counted
    pub tokens: f64,
    /// floating-point operations of the steps
    pub operations: f64,
    /// bytes at the peak
    pub memory: u64,
    /// what the time goes into
    pub parts: Vec<CostPart>,
    /// whether the run may end before its steps are done
    pub patient: bool,
    /// what it was measured by
    pub measured: Measured,
}

impl Forecast {
    /// The cost of a recipe whose parts take what was measured, from a step on. `numbers` are the parameters, and those of them
    /// that learn.
    pub fn of(recipe: &Recipe, measured: Measured, need: Need, numbers: (u64, u64), from: u64) -> Self {
        let steps = recipe.train.steps.saturating_sub(from);
        Self {
            parameters: numbers.0,
            learning: numbers.1,
            steps,
            tokens: steps as f64 * measured.tokens,
            operations: steps as f64 * measured.operations,
            // What was seen is nearer than what was counted; a run comes to two percent more (six recipes).
            memory: measured.peak.map_or(need.total(), |peak| peak + peak / 50),
            parts: parts(recipe, &measured, from),
            patient: recipe.eval.patience > 0,
            measured,
        }
    }

    /// Seconds from the first step to the last score.
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(CostPart::seconds).sum()
    }

    /// The same as lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let Self { measured, tokens, steps, .. } = self;
        let speed = self.operations / self.parts.first().map_or(f64::NAN, CostPart::seconds).max(1e-9);
        let parts = self.parts.iter().filter(|part| part.times > 0);
        let parts = parts.map(|part| match part.times {
            1 => format!("{} {}", part.name, human(part.seconds())),
            n => format!("{n} {} {}", part.name, human(part.seconds())),
        });
        let per = tokens / (self.parameters as f64).max(1.0);
        vec![
            format!(
                "arithmetic: {} in {steps} steps on {} tokens ({per:.1} for each parameter), {} a second",
                flop(self.operations),
                human_count(*tokens),
                flop(speed)
            ),
            format!(
                "memory: about {} at the peak{}",
                human_bytes(self.memory),
                if measured.peak.is_some() { ", by what the measurement took" } else { "" }
            ),
            format!(
                "time: {}{}: {}; {} measured in {}",
                if self.patient { "at most " } else { "about " },
                human(self.seconds()),
                parts.collect::<Vec<_>>().join(", "),
                if measured.steps == 1 { "one step".into() } else { format!("{} steps", measured.steps) },
                human(measured.took)
            ),
        ]
    }

    /// What it came to, in so many seconds and bytes.
    pub fn check(&self, seconds: f64, memory: Option<u64>) -> CostCheck {
        CostCheck { forecast: self.seconds(), seconds, forecast_memory: self.memory, memory }
    }
}

/// What the time of a run goes into.
fn parts(recipe: &Recipe, measured: &Measured, from: u64) -> Vec<CostPart> {
    let (steps, looks, saves) = (recipe.train.steps, recipe.eval.every, recipe.checkpoint.every);
    // How many steps behind `from` are due.
    let until = |step: u64, every: u64| step.checked_div(every).unwrap_or(0);
    let due = |every: u64| until(steps, every) - until(from.min(steps), every);
    let last = |every: u64| u64::from(steps > from && (every == 0 || !steps.is_multiple_of(every)));
    let looks_taken = due(looks) + last(looks);
    // Where a look and a checkpoint are due at one step, one is written.
    let both = if looks == 0 || saves == 0 { 0 } else { due(lcm(looks, saves)) };
    let only_saved =
        (due(saves) - both) - u64::from(due(saves) > both && steps.is_multiple_of(saves) && last(looks) == 1);
    let part = |name, times, each| CostPart { name, times, each };
    vec![
        part("steps", steps.saturating_sub(from), measured.step),
        part("looks", looks_taken, measured.look),
        part("checkpoints", looks_taken + only_saved, measured.save),
        part("models left", looks_taken + 1, measured.export),
        part("judging", 1, measured.judging),
    ]
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

fn human(seconds: f64) -> String {
    human_duration(Duration::from_secs_f64(seconds.clamp(0.0, 1e15)))
}

fn flop(n: f64) -> String {
    scaled(n, 1000.0, &[" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP"])
}

/// A forecast beside what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostCheck {
    /// seconds that were foretold
    pub forecast: f64,
    /// seconds that it took
    pub seconds: f64,
    /// bytes that were foretold
    pub forecast_memory: u64,
    /// bytes at the peak, where the system tells
    pub memory: Option<u64>,
}

impl std::fmt::Display for CostCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { forecast, seconds, forecast_memory, memory } = *self;
        let times = seconds / forecast.max(1e-9);
        write!(f, "forecast: {}, and it took {} ({times:.2} ×)", human(forecast), human(seconds))?;
        let Some(memory) = memory else { return Ok(()) };
        let times = memory as f64 / forecast_memory.max(1) as f64;
        write!(f, "; {} of memory, and it took {} ({times:.2} ×)", human_bytes(forecast_memory), human_bytes(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(steps: u64, looks: u64, saves: u64) -> Recipe {
        let mut recipe = Recipe::default();
        (recipe.train.steps, recipe.eval.every, recipe.checkpoint.every) = (steps, looks, saves);
        recipe
    }

    fn times(steps: u64, looks: u64, saves: u64, from: u64) -> [u64; 3] {
        let parts = parts(&recipe(steps, looks, saves), &Measured::default(), from);
        [parts[0].times, parts[1].times, parts[2].times]
    }

    /// The same as the loop does, counted one by one.
    fn counted(steps: u64, looks: u64, saves: u64, from: u64) -> [u64; 3] {
        let due = |step: u64, every: u64| every > 0 && step.is_multiple_of(every);
        let look = |step: u64| step == steps || due(step, looks);
        let all = || from + 1..=steps;
        [
            all().count() as u64,
            all().filter(|s| look(*s)).count() as u64,
            all().filter(|s| look(*s) || due(*s, saves)).count() as u64,
        ]
    }

    #[test]
    fn looks_and_checkpoints_are_counted_as_the_loop_takes_them() {
        for steps in [1, 2, 6, 7, 12, 40] {
            for looks in [0, 1, 2, 3, 5, 6, 50] {
                for saves in [0, 1, 2, 4, 6, 12, 50] {
                    for from in [0, 1, 5, 6] {
                        let of = (steps, looks, saves, from);
                        assert_eq!(times(steps, looks, saves, from), counted(steps, looks, saves, from), "{of:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_parts_add_up_and_are_told() {
        let measured = Measured {
            step: 0.1,
            steps: 20,
            tokens: 1000.0,
            operations: 1e9,
            look: 1.0,
            save: 0.2,
            export: 0.1,
            judging: 3.0,
            peak: Some(900),
            took: 2.5,
        };
        let need = Need { held: 100, beside: 200, pass: 300 };
        let forecast = Forecast::of(&recipe(1000, 250, 500), measured, need, (50_000, 50_000), 0);
        // 1000 steps, 4 looks, 4 checkpoints (each at a look), the model at each and at the end, the judging.
        assert!((forecast.seconds() - (100.0 + 4.0 + 0.8 + 0.5 + 3.0)).abs() < 1e-9);
        assert_eq!((forecast.memory, forecast.tokens, forecast.operations), (918, 1e6, 1e12));
        let told = forecast.lines().join("\n");
        for part in
            ["1.0 TFLOP in 1000 steps on 1.0 M tokens (20.0 for each", "10.0 GFLOP a second", "about 1 min 48 s"]
        {
            assert!(told.contains(part), "{part}\n{told}");
        }
        let checked = forecast.check(119.13, Some(1800)).to_string();
        assert_eq!(
            checked,
            "forecast: 1 min 48 s, and it took 1 min 59 s (1.10 ×); 918 B of memory, and it took 1.8 KiB (1.96 ×)"
        );
    }
}
