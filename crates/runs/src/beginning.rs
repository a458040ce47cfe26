//! What a run begins with: data, tokenizer, network, memory, and what was decided on the way. It is told before the first step,
//! or alone, where a person wants to know what would be done.

use crate::cost::{self, Forecast, Measured, TimeBudget};
use crate::hooks::chosen_by;
use crate::memory::Need;
use crate::plan::Plan;
use crate::recipe::{self, Recipe, RecipeFile};
use qkv_base::Result;
use qkv_metric::{human_bytes, human_count, human_duration};
use qkv_train::on_threads;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is about to happen.
#[derive(Clone, Debug, PartialEq)]
pub struct Beginning {
    /// the family of the network
    pub family: &'static str,
    /// what it learns from
    pub data: String,
    /// where the run is kept
    pub dir: PathBuf,
    /// examples and samples, in words
    pub counts: String,
    /// how long it took to make everything ready
    pub took: Duration,
    /// pieces and kind of the tokenizer; none for pictures
    pub tokenizer: Option<(usize, String)>,
    /// classes or tags, where there are any
    pub labels: Vec<String>,
    /// numbers of the network
    pub parameters: u64,
    /// those that learn, where some were frozen or adapted
    pub learning: Option<(u64, u64)>,
    /// steps between two lines of a log
    pub log: u64,
    /// memory that will be needed
    pub need: Need,
    /// what was decided on the way
    pub notes: Vec<String>,
    /// what it will cost, where it was measured already: a preview is, and a run tells it when it has been
    pub forecast: Option<Forecast>,
}

impl Beginning {
    pub(crate) fn of(plan: &Plan, dir: &Path, need: Need, took: Duration) -> Self {
        let parameters = qkv_model::count::parameters(&plan.pretrained.model);
        let (learn, all) = plan.learning();
        // Tables that are computed never learn; that is worth a line only beside parts that someone froze.
        let chosen = plan.recipe.lora.rank > 0 || !plan.recipe.model.freeze.is_empty();
        Self {
            family: plan.pretrained.sheet.name,
            data: plan.recipe.data.name(),
            dir: dir.to_path_buf(),
            counts: plan.train.counts().to_string(),
            took,
            tokenizer: plan.tokenizer.as_ref().map(|t| (t.vocab_size(), t.model_name().to_string())),
            labels: plan.labels.names().to_vec(),
            parameters: parameters.iter().map(|p| p.elements()).sum(),
            learning: Some((learn, all)).filter(|_| chosen && learn < all),
            log: plan.recipe.train.log,
            need,
            notes: plan.splits.notes.clone(),
            forecast: None,
        }
    }

    /// The same as lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let Need { held, beside, pass } = self.need;
        let mut lines = vec![
            format!("{} from {} in {}", self.family, self.data, self.dir.display()),
            format!("data: {}; made ready in {}", self.counts, human_duration(self.took)),
            match &self.tokenizer {
                Some((pieces, kind)) => format!("tokenizer: {pieces} pieces ({kind})"),
                None => format!("classes: {}", self.labels.join(", ")),
            },
            format!("network: {} parameters", human_count(self.parameters as f64)),
            format!(
                "memory, counted: {} at the peak: {} held now, {} for gradients and the optimiser, {} for a pass",
                human_bytes(self.need.total()),
                human_bytes(held),
                human_bytes(beside),
                human_bytes(pass)
            ),
        ];
        lines.extend(self.learning.map(|(learn, all)| {
            let share = 100.0 * learn as f64 / all.max(1) as f64;
            format!("of these {} learn ({share:.2} %)", human_count(learn as f64))
        }));
        lines.extend(self.notes.iter().cloned());
        lines.extend(self.forecast.iter().flat_map(Forecast::lines));
        lines
    }

    /// The same for a program.
    pub fn json(&self) -> Value {
        let Need { held, beside, pass } = self.need;
        json!({
            "family": self.family, "data": self.data, "run": self.dir.display().to_string(), "counts": self.counts,
            "prepared_seconds": self.took.as_secs_f64(), "tokenizer": self.tokenizer, "labels": self.labels,
            "parameters": self.parameters, "learning": self.learning.map_or(self.parameters, |(learning, _)| learning),
            "memory": {"counted": self.need.total(), "held": held, "beside": beside, "pass": pass}, "notes": self.notes,
            "seconds": self.forecast.as_ref().map(Forecast::seconds), "forecast": self.forecast,
        })
    }
}

/// Says what the best network is chosen by.
pub(crate) fn note_choice(plan: &mut Plan) -> Result<()> {
    if let Some(metric) = chosen_by(plan)? {
        let (name, n) = (metric.name(), plan.splits.valid.len());
        plan.splits.notes.push(format!("the best network is chosen by {name} on the {n} validation examples"));
    }
    Ok(())
}

/// What a run of this recipe in `dir` would begin with and what it would cost, within a budget where there is one. Everything is
/// made ready as for a run and measured, and nothing stays written.
pub fn preview(dir: &Path, file: &RecipeFile, threads: usize, budget: Option<TimeBudget>) -> Result<Beginning> {
    on_threads(threads, || {
        let start = Instant::now();
        let mut recipe = file.recipe.clone();
        let first = recipe.before().map(recipe::find).transpose()?;
        if let (Some((text, name)), None) = (&first, budget) {
            recipe = Recipe::parse(name, text)?;
        }
        let (mut plan, known) = match budget {
            Some(budget) => {
                let fitted = cost::budget::fit(file, None, dir, budget, start)?;
                (fitted.plan, Some((fitted.need, fitted.measured)))
            }
            None => (Plan::new(&recipe, None)?, None),
        };
        note_choice(&mut plan)?;
        if let Some((_, name)) = first {
            plan.splits
                .notes
                .push(format!("this is the recipe {name}, which comes first; the one asked for starts from its model"));
        }
        let Recipe { train, optim, schedule, .. } = &plan.recipe;
        let steps = format!("{} steps, the rate up to {:.1e} after {}", train.steps, optim.rate, schedule.warmup);
        plan.splits.notes.push(steps);
        let need = known.map_or_else(|| Need::of(&plan), |(need, _)| Ok(need))?;
        let measuring = known.map_or(Duration::ZERO, |(_, m): (_, Measured)| Duration::from_secs_f64(m.took));
        let mut beginning = Beginning::of(&plan, dir, need, start.elapsed().saturating_sub(measuring));
        // What the machine cannot give is told, not tried.
        if let Err(error) = need.ensure() {
            beginning.notes.push(format!("warning: {}: {}; the time was not measured", error.place, error.what));
            return Ok(beginning);
        }
        let numbers = (beginning.parameters, plan.learning().0);
        let measured = known.map_or_else(|| cost::measure(&mut plan, dir, u64::MAX), |(_, measured)| Ok(measured))?;
        beginning.forecast = Some(Forecast::of(&plan.recipe, measured, need, numbers, 0));
        Ok(beginning)
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_says_what_would_be_done_and_writes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("run");
        let text = "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfamily = \"bert\"\nwidth = 16\nlayers = 1\nheads = 2\n\
             [train]\nsteps = 30\n[schedule]\nwarmup = 3\n[eval]\nmetric = \"accuracy\"";
        let told = preview(&place, &RecipeFile::parse("test", text).expect("a recipe"), 1, None).expect("a beginning");
        let lines = told.lines().join("\n");
        for part in [
            "bert from builtin:reviews",
            "chosen by accuracy on the 5",
            "30 steps, the rate up to 1.0e-3 after 3",
            "time: about ",
        ] {
            assert!(lines.contains(part), "{part}\n{lines}");
        }
        assert!(!place.exists());
        let json = told.json();
        assert!(json["seconds"].as_f64().is_some_and(|s| s > 0.0) && json["forecast"]["steps"] == 30, "{json}");
    }
}
