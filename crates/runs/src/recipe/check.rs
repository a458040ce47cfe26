//! What a recipe may say: every refusal names the key and a way out.

use super::Recipe;
use qkv_base::{Error, Result};
use qkv_tasks::Metric;

impl Recipe {
    /// Refuses what cannot be meant.
    pub(super) fn check(&self, place: &str) -> Result<()> {
        let ensure = |ok: bool, key: &str, what: &str, hint: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(format!("{place}: {key}"), what, hint)),
        };
        let Self { data, model, train, optim, schedule, checkpoint, eval, .. } = self;
        let some = "use 1 or more";
        ensure(train.steps > 0, "train.steps", "0 steps learn nothing", some)?;
        ensure(train.accumulate > 0, "train.accumulate", "a step of 0 micro-batches", some)?;
        ensure(train.tokens > 0 || train.rows > 0, "train.rows", "a batch of 0 rows", some)?;
        ensure(train.log > 0, "train.log", "0 steps between two lines", some)?;
        ensure(data.length > 1, "data.length", "too short for anything", "use 2 or more")?;
        ensure(data.valid > 0 && data.test > 0, "data.valid", "nothing to judge by", some)?;
        ensure(
            (0.0..=1.0).contains(&model.start),
            "model.start",
            "is not a deviation of weights",
            "use about 0.02; 0: what suits the width",
        )?;
        ensure(
            model.start == 0.0 || model.from.is_empty(),
            "model.start",
            "model.from is said as well, whose weights have started",
            "set model.start=0, or leave model.from out",
        )?;
        ensure((0.0..1.0).contains(&train.smoothing), "train.smoothing", "is not a share", "use 0 up to, but not, 1")?;
        ensure((0.0..1.0).contains(&train.average), "train.average", "is not a share", "use 0 up to, but not, 1")?;
        ensure(
            train.leap.is_finite() && train.leap >= 0.0,
            "train.leap",
            "is not a number of deviations",
            "use 0 or about 6",
        )?;
        ensure(optim.rate.is_finite() && optim.rate > 0.0, "optim.rate", "is not a learning rate", "use about 1e-3")?;
        ensure(optim.decay >= 0.0, "optim.decay", "is below 0", "use 0 to 0.1")?;
        ensure((0.0..=1.0).contains(&schedule.floor), "schedule.floor", "is not a share", "use 0 to 1")?;
        ensure(
            checkpoint.keep >= 2,
            "checkpoint.keep",
            "is less than two",
            "a damaged checkpoint needs one before it",
        )?;
        let mean = checkpoint.average_last;
        ensure(
            mean == 0 || (checkpoint.every > 0 && train.average == 0.0),
            "checkpoint.average_last",
            "wants checkpoints at regular steps, and no running average",
            "set checkpoint.every, and train.average = 0",
        )?;
        let made = data.corpus.starts_with("builtin:") && !data.columns.is_empty();
        ensure(!made, "data.columns", "a corpus that is made has no columns", "leave it out")?;
        let (one, many) = (!data.corpus.is_empty(), !data.mix.is_empty());
        ensure(!(one && many), "data.mix", "data.corpus is said as well", "leave one of them empty")?;
        ensure(
            data.prefix.is_empty() || !many,
            "data.prefix",
            "a mixture has its own prefixes",
            "put it into data.mix",
        )?;
        ensure(eval.goal.is_finite(), "eval.goal", "is not a score", "use a number")?;
        self.rule()?;
        let (metric, there) = (Metric::parse(&eval.metric)?, Metric::of(data.objective));
        // Found out after the last step it would be too late.
        match there.contains(&metric) {
            true => Ok(()),
            false => Err(metric.missing(&format!("{place}: eval.metric"), there.iter().map(|m| m.name()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::find;
    use super::*;

    #[test]
    fn wrong_keys_and_values_are_answered() {
        let say = |text: &str| Recipe::parse("r", text).unwrap_err();
        assert!(say("[modl]\nwidth = 3").hint.starts_with("did you mean `model`?"));
        let choice = say("[schedule]\ncurve = \"cosin\"");
        assert!(choice.hint.starts_with("did you mean `cosine`?"), "{choice} {}", choice.hint);
        assert_eq!(say("[train]\nsteps = 0").to_string(), "r: train.steps: 0 steps learn nothing");
        assert!(say("[optim]\nname = \"adamv\"").hint.starts_with("did you mean `adamw`?"));
        assert!(say("[train]\nsteps = \"many\"").to_string().starts_with("r, line 2: "));
        assert!(say("[eval]\nmetric = \"blue\"").hint.contains("`bleu`"));
        let other = say("[eval]\nmetric = \"accuracy\"");
        assert_eq!(other.to_string(), "r: eval.metric: the task has no `accuracy`");
        assert!(other.hint.contains("bleu"), "{}", other.hint);
        assert_eq!(say("[model]\nstart = 2.0").to_string(), "r: model.start: is not a deviation of weights");
        assert!(say("[model]\nstart = 0.02\nfrom = \"run\"").hint.starts_with("set model.start=0"));
        assert!(say("[data]\nmix = { a = \"b\" }").hint.contains("leave one"));
        assert!(find("translat").unwrap_err().hint.starts_with("did you mean `translate`?"));
    }
}
