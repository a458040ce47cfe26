//! What a recipe may say: every refusal names the key and a way out.

use super::Recipe;
use qkv_base::{Error, Result};
use qkv_data::objective::ClassWeights;
use qkv_tasks::Metric;

/// The most micro-batches of a step: they are prepared together.
const ACCUMULATE: usize = 100_000;

/// The most pieces of a step.
const SHARDS: usize = 4096;

impl Recipe {
    /// Refuses keys that were set and that nothing reads, because of another key.
    fn check_unread(&self, place: &str) -> Result<()> {
        let (usual, optim, lora) = (Recipe::default(), &self.optim, &self.lora);
        let read: &[&str] = match optim.name.as_str() {
            "adamw" | "adam" => &["beta1", "beta2", "eps"],
            "lion" => &["beta1", "beta2"],
            "sgd" => &["momentum"],
            _ => &[],
        };
        // Recipes list all keys, so the usual values may stand there.
        let set = [
            ("beta1", optim.beta1 != usual.optim.beta1),
            ("beta2", optim.beta2 != usual.optim.beta2),
            // Two usual ones: the default, and that of the paper, which the first recipe has.
            ("eps", ![usual.optim.eps, 1e-9].contains(&optim.eps)),
            ("momentum", optim.momentum != usual.optim.momentum),
        ];
        let refuse = |key: String, what: String, hint: &str| Err(Error::new(format!("{place}: {key}"), what, hint));
        if let Some((key, _)) = set.iter().find(|(key, set)| *set && !read.contains(key)) {
            let what = format!("`{}` does not read it", optim.name);
            return refuse(format!("optim.{key}"), what, "leave it out, or choose another optim.name");
        }
        let adapters = (lora.alpha, &lora.targets, lora.dropout, lora.start)
            != (usual.lora.alpha, &usual.lora.targets, usual.lora.dropout, usual.lora.start);
        if lora.rank == 0 && adapters {
            return refuse(
                "lora".into(),
                "lora.rank is 0: there are no adapters".into(),
                "set lora.rank, or leave it out",
            );
        }
        let meeting = (self.dist.rate, self.dist.momentum) != (usual.dist.rate, usual.dist.momentum);
        if self.dist.every == 1 && meeting {
            let what = "dist.every is 1: ranks exchange gradients, and there is no meeting".into();
            return refuse("dist.rate".into(), what, "set dist.every, or leave dist.rate and dist.momentum out");
        }
        if self.dist.every == 1 && self.dist.shards == 1 && !self.dist.wire.is_empty() {
            let what = "dist.shards is 1: a step is not shared, and nothing travels".into();
            return refuse("dist.wire".into(), what, "set dist.shards, or leave it out");
        }
        let weighted = [ClassWeights::Root, ClassWeights::Balanced].contains(&self.train.class_weights);
        if weighted && !self.data.objective.has_labels() {
            let what = format!("`{}` has no classes that could count more", self.data.objective.name());
            return refuse("train.class_weights".into(), what, "leave it out");
        }
        if self.train.tokens > 0 && ![0, usual.train.rows].contains(&self.train.rows) {
            let what = format!("train.tokens = {} says how large a batch is", self.train.tokens);
            return refuse("train.rows".into(), what, "set train.tokens=0 to count rows");
        }
        Ok(())
    }

    /// Refuses what cannot be meant.
    pub(super) fn check(&self, place: &str) -> Result<()> {
        let ensure = |ok: bool, key: &str, what: &str, hint: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(format!("{place}: {key}"), what, hint)),
        };
        let Self { data, model, train, optim, schedule, checkpoint, eval, lora, dist, .. } = self;
        let some = "use 1 or more";
        ensure(train.steps > 0, "train.steps", "0 steps learn nothing", some)?;
        let epochs = train.epochs.is_finite() && (0.0..=1e6).contains(&train.epochs);
        ensure(epochs, "train.epochs", "is not a number of times", "use 3 or so; 0: count train.steps")?;
        ensure(train.accumulate > 0, "train.accumulate", "a step of 0 micro-batches", some)?;
        ensure(
            train.accumulate <= ACCUMULATE,
            "train.accumulate",
            "a step of so many micro-batches would not end",
            "use at most 100,000",
        )?;
        ensure(train.tokens > 0 || train.rows > 0, "train.rows", "a batch of 0 rows", some)?;
        ensure((1..=SHARDS).contains(&dist.shards), "dist.shards", "is not a number of pieces", "use 1 to 4096")?;
        ensure(dist.every > 0, "dist.every", "0 steps between two meetings", some)?;
        let wires = ["", "f32", "bf16"];
        ensure(
            wires.contains(&dist.wire.as_str()),
            "dist.wire",
            "is not a way for numbers to travel",
            "use f32 or bf16",
        )?;
        ensure(dist.rate.is_finite() && dist.rate > 0.0, "dist.rate", "is not a rate", "use about 0.7")?;
        ensure((0.0..1.0).contains(&dist.momentum), "dist.momentum", "is not a share that is kept", "use 0.5 to 0.9")?;
        ensure(
            dist.every == 1 || train.average == 0.0,
            "train.average",
            "dist.every is above 1: between two meetings there is no common network to average",
            "leave one of them out",
        )?;
        ensure(train.log > 0, "train.log", "0 steps between two lines", some)?;
        qkv_nn::device::choose(&train.device)
            .map_err(|e| Error::new(format!("{place}: train.device"), e.what, e.hint))?;
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
        let chosen = model.choices().chosen().into_iter().find(|key| *key != "kv_heads" && !model.from.is_empty());
        if let Some(key) = chosen {
            let hint = format!("leave model.{key} or model.from out");
            return Err(Error::new(
                format!("{place}: model.{key}"),
                "model.from is said as well, which has its own",
                hint,
            ));
        }
        ensure((0.0..1.0).contains(&train.smoothing), "train.smoothing", "is not a share", "use 0 up to, but not, 1")?;
        ensure((0.0..1.0).contains(&train.average), "train.average", "is not a share", "use 0 up to, but not, 1")?;
        ensure(
            train.leap.is_finite() && train.leap >= 0.0,
            "train.leap",
            "is not a number of deviations",
            "use 0 or about 6",
        )?;
        // What `finetune` starts from says neither yet.
        let by_width = optim.rate == 0.0 && (!model.from.is_empty() || data.corpus.is_empty());
        let rate = optim.rate.is_finite() && (optim.rate > 0.0 || by_width || (optim.find && optim.rate == 0.0));
        ensure(rate, "optim.rate", "is not a learning rate", "use about 1e-3")?;
        ensure(
            (0.0..1.0).contains(&schedule.warmup_share),
            "schedule.warmup_share",
            "is not a share of the steps",
            "use about 0.1; 0: count schedule.warmup",
        )?;
        ensure(optim.decay.is_finite() && optim.decay >= 0.0, "optim.decay", "is not a decay", "use 0 to 0.1")?;
        for (key, beta) in
            [("optim.beta1", optim.beta1), ("optim.beta2", optim.beta2), ("optim.momentum", optim.momentum)]
        {
            ensure((0.0..1.0).contains(&beta), key, "is not a share that is kept", "use 0 up to, but not, 1")?;
        }
        ensure(
            optim.eps.is_finite() && optim.eps > 0.0,
            "optim.eps",
            "must be above 0, and a number",
            "use about 1e-8",
        )?;
        ensure(
            optim.clip.is_finite() && optim.clip >= 0.0,
            "optim.clip",
            "is not a norm of gradients",
            "use about 1; 0: any norm is let through",
        )?;
        ensure(
            optim.layer_rate > 0.0 && optim.layer_rate <= 1.0,
            "optim.layer_rate",
            "is not a share of the rate",
            "use above 0 up to 1, such as 0.9",
        )?;
        ensure(
            (0.0..1.0).contains(&model.dropout),
            "model.dropout",
            "is not a probability",
            "use 0 up to, but not, 1",
        )?;
        ensure((0.0..1.0).contains(&lora.dropout), "lora.dropout", "is not a probability", "use 0 up to, but not, 1")?;
        ensure(
            lora.alpha.is_finite() && lora.alpha > 0.0,
            "lora.alpha",
            "is not a strength of an adapter",
            "use once or twice the rank",
        )?;
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
        let made = data.corpus.starts_with("builtin:");
        let (one, many) = (!data.corpus.is_empty(), !data.mix.is_empty());
        ensure(
            !made || data.columns.is_empty(),
            "data.columns",
            "a corpus that is made has no columns",
            "leave it out",
        )?;
        let keys = [
            ("data.more", data.more.is_empty()),
            ("data.valid_file", data.valid_file.is_empty()),
            ("data.test_file", data.test_file.is_empty()),
        ];
        for (key, unset) in keys {
            let what = if many { "a mixture has its own sides" } else { "a corpus that is made has its own sides" };
            ensure(unset || !(made || many), key, what, "give a file of yours: --data FILE")?;
        }
        ensure(!(one && many), "data.mix", "data.corpus is said as well", "leave one of them empty")?;
        ensure(
            data.prefix.is_empty() || !many,
            "data.prefix",
            "a mixture has its own prefixes",
            "put it into data.mix",
        )?;
        self.check_unread(place)?;
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
        assert!(say("[model]\nposition = \"rope\"\nfrom = \"run\"").place.ends_with("model.position"));
        assert!(say("[model]\nmask = \"windw 3\"").what.contains("there is no mask `windw 3`"));
        assert!(say("[model]\ngated = 3").hint.contains("TOML"));
        assert!(say("[train]\ndevice = \"gpu\"").hint.contains("this build has cpu"));
        assert!(say("[data]\nmix = { a = \"b\" }").hint.contains("leave one"));
        for wrong in [
            "clip = -1.0",
            "clip = nan",
            "eps = 0.0",
            "eps = -1e-8",
            "beta1 = 1.0",
            "beta2 = 2.0",
            "momentum = 5.0",
            "momentum = nan",
            "decay = inf",
            "rate = -1.0",
            "layer_rate = 0.0",
            "layer_rate = 1.5",
        ] {
            let key = wrong.split(' ').next().unwrap();
            assert!(say(&format!("[optim]\n{wrong}")).place.ends_with(&format!("optim.{key}")), "{wrong}");
        }
        assert!(say("[train]\naccumulate = 1000000000").hint.contains("100,000"));
        assert!(say("[lora]\nalpha = nan").place.ends_with("lora.alpha"));
        assert!(find("translat").unwrap_err().hint.starts_with("did you mean `translate`?"));
    }
}
