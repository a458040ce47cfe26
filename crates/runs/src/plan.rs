//! From a recipe to everything that a run needs: corpus, tokenizer, objective, batches, network. Whatever cannot be is
//! said here, before the first step.

pub use crate::tokenizer::shared_tokenizer;

use crate::corpus::{Splits, picture_of};
use crate::network::{begin, load, of_its_own, unused_sizes};
use crate::pace::{paced, usual_rate};
use crate::range_test::range_test;
use crate::recipe::{AdapterStart, Data, Recipe};
use crate::run::{Job, Origin, RunSettings};
use crate::tokenizer::tokenizer;
use qkv_base::{Error, Result, Task};
use qkv_data::batch::{Keep, Policy, Rows, Turn};
use qkv_data::objective::{ClassWeights, Labels, Normalisation, class_weights};
use qkv_data::{Loader, Objective};
use qkv_kernels::ProductPrecision;
use qkv_model::spec::Input;
use qkv_model::{Pretrained, Transformer};
use qkv_nn::device;
use qkv_optim::{Groups, Optimizer};
use qkv_tasks::locate::Located;
use qkv_tasks::sheet::{self, ObjectiveParts};
use qkv_text::Tokenizer;
use qkv_train::freeze::{freeze, hollow, learning, thaw};
use qkv_train::schedule::Schedule;
use std::path::Path;
use std::sync::Arc;

/// What a run in bf16 says of a processor that has no products for it.
const NO_BF16: &str = "warning: this processor has no products in bf16 (AVX512_BF16): numbers are rounded and multiplied in f32, \
                       which is slower than train.precision = \"f32\"";

/// Everything that a run needs.
pub struct Plan {
    /// the recipe
    pub recipe: Recipe,
    /// the corpus
    pub splits: Splits,
    /// text to ids; none for pictures
    pub tokenizer: Option<Tokenizer>,
    /// classes or tags, where there are any
    pub labels: Labels,
    /// what is to be learnt
    pub objective: Objective,
    /// batches to learn from
    pub train: Arc<Loader>,
    /// batches to validate by
    pub valid: Arc<Loader>,
    /// the network and its configuration
    pub pretrained: Pretrained,
    /// what the corpus is recognised by
    pub fingerprint: String,
}

impl Plan {
    /// Makes everything ready. A tokenizer in `kept` (of a run that is resumed) is taken instead of a new one.
    pub fn new(recipe: &Recipe, kept: Option<&Path>) -> Result<Self> {
        let from = match recipe.model.from.as_str() {
            "" => None,
            name => Some(qkv_tasks::locate::model(Path::new(name))?),
        };
        // A network that has learnt before reads pictures of its own size; a new one is made for those of the corpus.
        let picture = match (&from, recipe.data.objective) {
            (Some(from), Task::Image) => picture_of(&from.describe()?.2),
            _ => None,
        };
        let mut splits = Splits::open_for(&recipe.data, recipe.train.seed, picture)?;
        // A new network that looks at pictures reads colour, as other programs hand it every picture, grey ones too.
        if from.is_none() && recipe.data.objective == Task::Image {
            splits.in_colour();
        }
        let tokenizer = match recipe.data.objective {
            Task::Image => None,
            _ => Some(tokenizer(recipe, &splits, kept, from.as_ref().map(Located::place))?),
        };
        let labels = match recipe.data.objective {
            task if task.has_labels() && !splits.labels.is_empty() => Labels::new(splits.labels.clone()),
            task if task.has_labels() => Labels::from_examples(&*splits.train)?,
            _ => Labels::default(),
        };
        if let (Task::Classify | Task::ClassifyPair | Task::Image, [only]) = (recipe.data.objective, labels.names()) {
            let what = format!("there is one label only: `{only}`");
            return Err(Error::new(recipe.data.name(), what, "give examples of two classes or more"));
        }
        if from.is_some() {
            splits.notes.extend(unused_sizes(&recipe.model));
        }
        let device = device::trainable(&recipe.train.device)?;
        let mut pretrained = match &from {
            Some(from) => load(from, recipe, &labels, &device)?,
            None => begin(recipe, &splits, tokenizer.as_ref(), &labels, &device)?,
        };
        if from.is_none() {
            splits.notes.extend(of_its_own(&pretrained));
        }
        if recipe.train.recompute && pretrained.spec().recurrence().is_some() {
            let what = "recurrent layers have no blocks that could be run again";
            return Err(Error::new("train.recompute", what, "leave it out"));
        }
        if recipe.train.precision != ProductPrecision::F32 && pretrained.spec().recurrence().is_some() {
            let what = "recurrent layers compute in f32";
            return Err(Error::new("train.precision", what, "leave it out"));
        }
        if recipe.train.precision == ProductPrecision::Bf16 && !ProductPrecision::native_bf16() {
            splits.notes.push(NO_BF16.into());
        }
        if recipe.lora.rank > 0 {
            let targets: Vec<&str> = recipe.lora.targets.iter().map(String::as_str).collect();
            let lora = &recipe.lora;
            let mut model = pretrained.model.with_lora(&targets, lora.size(), recipe.train.seed)?;
            if lora.start == AdapterStart::Gaussian {
                model = model.with_gaussian_adapters(recipe.train.seed);
            }
            // A new head has nothing to be adapted from: it learns whole.
            let fresh = |target: &&&str| pretrained.report.fresh.iter().any(|path| path.starts_with(**target));
            if let Some(head) = targets.iter().find(fresh) {
                let what = format!("`{head}` is new and learns whole");
                return Err(Error::new("lora.targets", what, "leave it out"));
            }
            pretrained.model = thaw(model, &pretrained.report.fresh);
        }
        pretrained.model = freeze(pretrained.model, &recipe.model.freeze)?;
        let scale = match pretrained.spec().input {
            Input::Patches { channels, .. } => Some(scale(from.as_ref(), channels)?),
            Input::Tokens { .. } => None,
        };
        let length = room(&pretrained, recipe.data.length, &mut splits.notes);
        let objective = sheet::of(recipe.data.objective).rows(&ObjectiveParts {
            family: pretrained.sheet,
            tokenizer: tokenizer.as_ref(),
            labels: &labels,
            length,
            prefix: &recipe.data.prefix,
            scale,
        })?;
        let policy = policy(recipe);
        let seed = recipe.train.seed;
        let straight = Policy { turn: Turn::Straight, ..policy };
        let (train, valid) = match splits.shards.clone() {
            Some(shards) => {
                let data = Data { length, ..recipe.data.clone() };
                crate::shards::loaders(&shards, &data, &mut splits, &objective, (policy, straight), seed)?
            }
            None => (
                Loader::new(splits.train.clone(), objective.clone(), policy, seed)?,
                Loader::new(splits.valid.clone(), objective.clone(), straight, seed)?,
            ),
        };
        let train = weighted(train, recipe.train.class_weights, &labels, &mut splits.notes);
        let (train, valid) = (Arc::new(train), Arc::new(valid));
        let fingerprint = splits.fingerprint()?;
        let recipe = Recipe { data: Data { length, ..recipe.data.clone() }, ..recipe.clone() };
        let mut recipe = paced(recipe, train.batches(0), &mut splits.notes);
        if recipe.optim.rate == 0.0 && !recipe.optim.find {
            recipe.optim.rate = usual_rate(pretrained.spec().width, recipe.lora.rank > 0);
            splits.notes.push(format!("the rate is {:.1e}, by the width of the network", recipe.optim.rate));
        }
        let mut plan = Self { recipe, splits, tokenizer, labels, objective, train, valid, pretrained, fingerprint };
        if plan.recipe.optim.find {
            let found = range_test(&plan)?;
            plan.recipe.optim.rate = found.rate;
            plan.splits.notes.push(found.to_string());
        }
        Ok(plan)
    }

    /// The learning rate of every step.
    pub fn schedule(&self) -> Schedule {
        let Recipe { train, optim, schedule, .. } = &self.recipe;
        Schedule {
            curve: schedule.curve,
            rate: optim.rate,
            warmup: schedule.warmup,
            floor: schedule.floor,
            steps: train.steps,
            width: self.pretrained.spec().width,
        }
    }

    /// How many numbers learn, and how many there are, adapters included.
    pub fn learning(&self) -> (u64, u64) {
        learning(&self.pretrained.model)
    }

    /// How many numbers the network has, adapters included.
    pub fn parameters(&self) -> u64 {
        qkv_model::count::parameters(&self.pretrained.model).iter().map(|p| p.elements()).sum()
    }

    /// What a run of this plan is made of. The network is handed over: what the plan keeps of it has no weights, so that
    /// those of the start do not stay in memory all the way.
    pub fn job(&mut self) -> Result<Job<Transformer>> {
        let empty = hollow(&self.pretrained.model);
        Ok(Job {
            optimizer: self.optimizer()?,
            schedule: self.schedule(),
            network: std::mem::replace(&mut self.pretrained.model, empty),
            train: self.train.clone(),
            valid: self.valid.clone(),
            data: self.fingerprint.clone(),
            origin: Origin::default(),
            settings: RunSettings::of(&self.recipe),
        })
    }

    /// A new optimiser.
    pub fn optimizer(&self) -> Result<Optimizer> {
        let optim = &self.recipe.optim;
        let spec = self.pretrained.spec();
        let layers = spec.decoder().or(spec.encoder()).map_or(0, |s| s.layers);
        let groups = Groups::NoDecayOnNorms { layer_rate: optim.layer_rate, layers };
        Ok(Optimizer::with(self.recipe.rule()?, optim.decay, (optim.clip > 0.0).then_some(optim.clip), groups))
    }
}

/// How pictures become numbers: as the checkpoint's own files say, else as ViT does.
fn scale(from: Option<&Located>, channels: usize) -> Result<Normalisation> {
    match from {
        Some(from) => Normalisation::load(from.dir(), channels),
        None => Ok(Normalisation::vit(channels)),
    }
}

fn policy(recipe: &Recipe) -> Policy {
    let rows = match recipe.train.tokens {
        0 => Rows::Fixed(recipe.train.rows),
        tokens => Rows::Tokens(tokens),
    };
    // Rows of one length need no looking for their like.
    let window = if recipe.data.objective == Task::NextToken { 1 } else { 4096 };
    // None are made ahead: with all tokens in memory a batch takes 0.02 to 0.14 ms of steps of 90 to 990 ms (translate, gpt,
    // sentiment, bert, vit, bart), and another thread would take its time from those that compute.
    Policy { rows, turn: Turn::Shuffled { window }, keep: Keep::Tokens, ahead: 0, ..Policy::default() }
}

/// Batches in which rare classes count more, where some are rare, which is noted.
fn weighted(train: Loader, how: ClassWeights, labels: &Labels, notes: &mut Vec<String>) -> Loader {
    let counts = train.items().class_counts().to_vec();
    match how.of(&counts) {
        Some(weights) => {
            notes.push(class_weights::told(labels.names(), &counts, &weights));
            train.with_class_weights(weights)
        }
        None => train,
    }
}

/// The tokens of a row: as asked for, or as many as the network has positions, which is noted.
fn room(it: &Pretrained, asked: usize, notes: &mut Vec<String>) -> usize {
    match it.spec().position.max() {
        Some(most) if most < asked && matches!(it.spec().input, Input::Tokens { .. }) => {
            notes.push(format!("rows are cut to {most} tokens: the network has no more positions"));
            most
        }
        _ => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_model::families;
    use qkv_model::pretrained::Values;

    /// The deviation that the token table has at the start.
    fn spread(family: &str, goal: &str, start: f64) -> Result<f64> {
        let text = format!(
            "[data]\ncorpus = \"builtin:{}\"\nobjective = \"{goal}\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nvocab = 300\n[model]\nfamily = \"{family}\"\nwidth = 64\nlayers = 1\nheads = 2\nstart = {start}\n\
             [train]\nrows = 4",
            if goal == "translate" { "en-it" } else { "stories" }
        );
        let plan = Plan::new(&Recipe::parse("test", &text)?, None)?;
        let table = Values::of(&plan.pretrained.model).read("tokens.weight");
        Ok((table.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / table.len() as f64).sqrt())
    }

    /// A recipe of a small network of this family, with one more line about the network.
    fn small(family: &str, goal: &str, more: &str) -> Result<Plan> {
        let plan = |heads: usize, layers: usize| {
            let text = format!(
                "[data]\ncorpus = \"builtin:{}\"\nobjective = \"{goal}\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
                 [tokenizer]\nkind = \"\"\nvocab = 300\n[model]\nfamily = \"{family}\"\nwidth = 32\nlayers = {layers}\nheads = {heads}\n\
                 {more}\n[train]\nrows = 4",
                if goal == "translate" { "en-it" } else { "stories" }
            );
            Plan::new(&Recipe::parse("test", &text)?, None)
        };
        match plan(4, 2) {
            Err(error) if error.place == "model.heads" => match plan(1, 2) {
                Err(error) if error.place == "model.layers" => plan(1, 1), // and one layer
                plan => plan,                                              // there is no attention
            },
            plan => plan,
        }
    }

    /// What a family that reads text learns first.
    fn goal_of(sheet: &qkv_model::families::Sheet) -> &'static str {
        use qkv_model::families::HeadKind;
        match sheet.architectures.iter().any(|(_, task)| *task == HeadKind::Masked) {
            true => "masked",
            false if sheet.target_start.is_some() => "translate",
            false => "next-token",
        }
    }

    /// A new family needs its sheet alone: tokenizer, framing and network follow from it.
    #[test]
    fn every_family_that_reads_text_starts_from_a_recipe() {
        for sheet in families::ALL.iter().filter(|sheet| sheet.tokenizer.is_some()) {
            let plan = small(sheet.name, goal_of(sheet), "").unwrap_or_else(|e| panic!("{}: {e}", sheet.name));
            assert_eq!(plan.pretrained.sheet.name, sheet.name);
            assert_eq!(plan.pretrained.spec().vocabulary(), plan.tokenizer.map(|t| t.vocab_size()));
        }
    }

    #[test]
    fn epochs_become_steps_and_a_warmup_fits_them() {
        let with = |more: &str| {
            small("gpt2", "next-token", "").and_then(|_| {
            let text = format!(
                "[data]\ncorpus = \"builtin:stories\"\nobjective = \"next-token\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
                 [tokenizer]\nkind = \"\"\nvocab = 300\n[model]\nfamily = \"gpt2\"\nwidth = 32\nlayers = 1\nheads = 4\n\
                 [train]\nrows = 4\n{more}"
            );
            Plan::new(&Recipe::parse("test", &text)?, None)
        })
        };
        let plan = with("epochs = 2.0\naccumulate = 2").expect("a plan");
        let batches = plan.train.batches(0);
        assert_eq!(plan.recipe.train.steps, batches, "two epochs, two batches a step");
        assert!(plan.splits.notes.iter().any(|n| n.contains("2 epochs of")), "{:?}", plan.splits.notes);
        let short = with("steps = 50").expect("a plan");
        assert_eq!((short.recipe.schedule.warmup, short.schedule().warmup), (5, 5));
        assert_eq!(with("steps = 500").expect("a plan").recipe.schedule.warmup, 100);
    }

    #[test]
    fn sizes_are_honoured_or_refused_with_their_key() {
        let inner = |plan: Plan| plan.pretrained.spec().decoder().expect("a decoder").ffn.inner();
        for sheet in families::ALL.iter().filter(|s| s.tokenizer.is_some() && goal_of(s) != "masked") {
            match small(sheet.name, goal_of(sheet), "inner = 48") {
                Ok(plan) => assert_eq!(inner(plan), 48, "{}", sheet.name),
                Err(error) => assert_eq!(error.place, "model.inner", "{}", sheet.name),
            }
        }
        let refused = |family: &str, goal: &str, more: &str| small(family, goal, more).err().expect("refused");
        assert_eq!(refused("lstm", "next-token", "kv_heads = 2").place, "model.kv_heads");
        assert_eq!(refused("lstm", "next-token", "position = \"rope\"").place, "model.position");
        assert_eq!(refused("bert", "masked", "mask = \"causal\"").place, "model.mask");
        let near = refused("gpt2", "next-token", "position = \"rop\"").hint;
        assert!(near.starts_with("did you mean `rope`?"), "{near}");
        assert_eq!(refused("gpt2", "next-token", "patch = 8").place, "model.patch");
        assert!(small("llama", "next-token", "kv_heads = 2").is_ok());
        assert_eq!(refused("brt", "masked", "").hint.split('`').nth(1), Some("bert"));
        assert_eq!(refused("brt", "masked", "").place, "model.family");
    }

    /// What Hugging Face can say stays in the family; what it cannot is kept in our own words, and said.
    #[test]
    fn what_no_family_can_say_is_kept_as_our_own() {
        let name = |family: &str, goal: &str, more: &str| {
            let plan = small(family, goal, more).unwrap_or_else(|e| panic!("{family} {more}: {e}"));
            let noted = plan.splits.notes.iter().any(|n| n.contains("qkv-transformer"));
            assert_eq!(noted, plan.pretrained.sheet.name == "qkv-transformer", "{:?}", plan.splits.notes);
            plan.pretrained.sheet.name
        };
        assert_eq!(name("gpt2", "next-token", "activation = \"relu\""), "gpt2");
        assert_eq!(name("llama", "next-token", "kv_heads = 2\ntie = true"), "llama");
        assert_eq!(name("gpt2", "next-token", "kv_heads = 2"), "qkv-transformer");
        assert_eq!(name("bert", "masked", "wiring = \"pre\""), "qkv-transformer");
        assert_eq!(name("marian", "translate", "position = \"alibi\"\ngated = true"), "qkv-transformer");
    }

    #[test]
    fn the_start_that_is_asked_for_is_the_start_of_the_weights() {
        let families =
            [("marian", "translate", 0.5 / 8.0), ("gpt2", "next-token", 0.5 / 8.0), ("bart", "denoise", 0.5 / 8.0)];
        for (family, goal, own) in families {
            for (asked, got) in [(0.0, own), (0.07, 0.07)] {
                let is = spread(family, goal, asked).unwrap();
                assert!((is / got - 1.0).abs() < 0.03, "{family} from {asked}: {is}, not {got}");
            }
        }
        assert!((spread("t5", "translate", 0.0).unwrap() - 1.0).abs() < 0.03, "a t5 knows its widths");
        assert_eq!(spread("t5", "translate", 0.02).unwrap_err().place, "model.start");
    }
}
