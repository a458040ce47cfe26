//! Recipes: everything a run depends on, in a TOML file with every key commented. The text is the truth: `--set` edits
//! it, the run directory keeps it, and what it does not say has the default that is written here.

mod check;
mod network;
mod text;

pub use network::Model;
pub use text::set;

use qkv_base::{Error, MOST_TEXT, Result, Task, nearest, read_text};
use qkv_train::schedule::Curve;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The recipes that qkv brings along, by name.
pub const ALL: &[(&str, &str)] = &[
    ("translate", include_str!("../../../recipes/translate.toml")),
    ("translate-seq2seq", include_str!("../../../recipes/translate-seq2seq.toml")),
    ("translate-bahdanau", include_str!("../../../recipes/translate-bahdanau.toml")),
    ("reverse", include_str!("../../../recipes/reverse.toml")),
    ("char-gpt", include_str!("../../../recipes/char-gpt.toml")),
    ("char-lstm", include_str!("../../../recipes/char-lstm.toml")),
    ("names", include_str!("../../../recipes/names.toml")),
    ("gpt", include_str!("../../../recipes/gpt.toml")),
    ("llama", include_str!("../../../recipes/llama.toml")),
    ("bert", include_str!("../../../recipes/bert.toml")),
    ("sentiment", include_str!("../../../recipes/sentiment.toml")),
    ("entities", include_str!("../../../recipes/entities.toml")),
    ("answers", include_str!("../../../recipes/answers.toml")),
    ("typos", include_str!("../../../recipes/typos.toml")),
    ("t5", include_str!("../../../recipes/t5.toml")),
    ("t5-tasks", include_str!("../../../recipes/t5-tasks.toml")),
    ("bart", include_str!("../../../recipes/bart.toml")),
    ("summaries", include_str!("../../../recipes/summaries.toml")),
    ("vit", include_str!("../../../recipes/vit.toml")),
];

/// What `qkv finetune` starts from.
pub const FINETUNE: &str = include_str!("../../../recipes/finetune.toml");

/// A whole recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// what is learnt from
    pub data: Data,
    /// how text is cut
    pub tokenizer: Pieces,
    /// the network
    pub model: Model,
    /// the steps
    pub train: Train,
    /// how gradients become changes
    pub optim: Optim,
    /// how the rate goes
    pub schedule: Rate,
    /// what is kept
    pub checkpoint: Keep,
    /// how it is judged
    pub eval: Eval,
    /// small adapters instead of all weights
    pub lora: Lora,
}

/// What is learnt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// `builtin:NAME`, or a file
    pub corpus: String,
    /// what is to be learnt from it
    pub objective: Task,
    /// training examples at most; 0: all there are
    pub examples: usize,
    /// validation examples
    pub valid: usize,
    /// test examples
    pub test: usize,
    /// tokens of a row at most
    pub length: usize,
    /// what stands before every source
    pub prefix: String,
    /// several corpora instead of one, each with what stands before its sources
    pub mix: BTreeMap<String, String>,
    /// which column of a table holds a field, where it has another name: `{ label = "stars" }`
    pub columns: BTreeMap<String, String>,
}

impl Default for Data {
    fn default() -> Self {
        let corpus = "builtin:en-it".into();
        Self {
            corpus,
            objective: Task::default(),
            examples: 0,
            valid: 500,
            test: 500,
            length: 128,
            prefix: String::new(),
            mix: BTreeMap::new(),
            columns: BTreeMap::new(),
        }
    }
}

impl Data {
    /// How it is called: the corpus, or all of a mixture.
    pub fn name(&self) -> String {
        match self.mix.is_empty() {
            true => self.corpus.clone(),
            false => self.mix.keys().map(String::as_str).collect::<Vec<_>>().join(" + "),
        }
    }
}

/// How text is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pieces {
    /// `unigram`, `bpe`, `wordpiece`, `char` or `word`; empty: what the family is used to
    pub kind: String,
    /// pieces at most
    pub vocab: usize,
    /// a tokenizer that is there already
    pub path: String,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { kind: "unigram".into(), vocab: 4000, path: String::new() }
    }
}

/// The steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Train {
    /// names all randomness
    pub seed: u64,
    /// how many steps
    pub steps: u64,
    /// times that all examples are read, in the place of steps; 0: count steps
    pub epochs: f64,
    /// tokens of a micro-batch, padding counted; 0: count rows instead
    pub tokens: usize,
    /// rows of a micro-batch, where tokens is 0
    pub rows: usize,
    /// micro-batches of a step
    pub accumulate: usize,
    /// label smoothing
    pub smoothing: f32,
    /// share that a running average of the weights keeps at each step; 0: none
    pub average: f32,
    /// run blocks again in the backward instead of keeping what they computed: less memory, more time, the same bits
    pub recompute: bool,
    /// steps whose loss or gradient lies so many deviations above the last 128 are skipped; 0: none are
    pub leap: f64,
    /// steps between two lines of the log
    pub log: u64,
    /// where it is computed: `cpu`
    pub device: String,
}

impl Default for Train {
    fn default() -> Self {
        Self {
            seed: 1,
            steps: 1000,
            epochs: 0.0,
            tokens: 0,
            rows: 32,
            accumulate: 1,
            smoothing: 0.0,
            average: 0.0,
            recompute: false,
            leap: 0.0,
            log: 20,
            device: "cpu".into(),
        }
    }
}

/// How gradients become changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optim {
    /// `adamw`, `adam`, `sgd`, `lion` or `adafactor`
    pub name: String,
    /// the peak of the learning rate
    pub rate: f64,
    /// β₁
    pub beta1: f32,
    /// β₂
    pub beta2: f32,
    /// ε
    pub eps: f32,
    /// μ of SGD
    pub momentum: f32,
    /// weight decay (not on norms, biases and tables)
    pub decay: f32,
    /// the largest norm of the gradients; 0: any
    pub clip: f32,
    /// the rate of a layer as a share of the one above
    pub layer_rate: f32,
}

impl Default for Optim {
    fn default() -> Self {
        let (beta1, beta2, eps) = (0.9, 0.98, 1e-8);
        Self {
            name: "adamw".into(),
            rate: 1e-3,
            beta1,
            beta2,
            eps,
            momentum: 0.9,
            decay: 0.01,
            clip: 1.0,
            layer_rate: 1.0,
        }
    }
}

/// How the rate goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rate {
    /// `constant`, `linear`, `cosine`, `inverse-sqrt` or `noam`
    pub curve: Curve,
    /// steps in which it rises
    pub warmup: u64,
    /// the share of the peak that it ends at
    pub floor: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { curve: Curve::Cosine, warmup: 100, floor: 0.0 }
    }
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keep {
    /// steps between two checkpoints; 0: only the best and the last
    pub every: u64,
    /// how many are kept, the best not counted; at least 2
    pub keep: usize,
    /// at the end, the mean of so many of the last checkpoints is tried against the best one; 0: none is made
    pub average_last: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { every: 500, keep: 2, average_last: 0 }
    }
}

/// How it is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Eval {
    /// steps between two looks at the validation loss; 0: only at the end
    pub every: u64,
    /// batches of the validation side that are looked at; 0: all
    pub batches: u64,
    /// evaluations without a better score (or loss, see metric) after which the run ends; 0: never
    pub patience: u64,
    /// what the test is judged by, and the best network chosen by where nothing has to be written for it: `loss`, `bleu`, `chrf`, `accuracy`, `f1`, `exact`, `rouge-l` and others
    pub metric: String,
    /// the score that the run must reach to say PASS; 0: none is asked for
    pub goal: f64,
    /// examples that are shown
    pub samples: usize,
}

impl Default for Eval {
    fn default() -> Self {
        Self { every: 250, batches: 8, patience: 0, metric: "loss".into(), goal: 0.0, samples: 4 }
    }
}

/// Small adapters instead of all weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// the rank; 0: no adapters
    pub rank: usize,
    /// α
    pub alpha: f64,
    /// ends of the paths of the layers that are adapted
    pub targets: Vec<String>,
    /// probability of dropping what an adapter reads
    pub dropout: f64,
    /// how A starts: `uniform`, as PEFT draws it, or `gaussian`, as the paper says
    pub start: AdapterStart,
}

/// How A of an adapter starts; B starts at nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterStart {
    /// within ±1/√in
    #[default]
    Uniform,
    /// with a deviation of 1/√in
    Gaussian,
}

impl Default for Lora {
    fn default() -> Self {
        Self { rank: 0, alpha: 16.0, targets: vec!["q".into(), "v".into()], dropout: 0.0, start: AdapterStart::Uniform }
    }
}

impl Lora {
    /// How large and how strong the adapters are.
    pub fn size(&self) -> qkv_nn::LoraSize {
        qkv_nn::LoraSize { rank: self.rank, alpha: self.alpha, dropout: self.dropout }
    }
}

impl Recipe {
    /// Reads the text of a recipe; `place` is named in errors. A key that there is not is answered with the nearest one.
    ///
    /// ```
    /// use qkv_runs::recipe::Recipe;
    /// assert_eq!(Recipe::parse("r.toml", "[train]\nsteps = 7")?.train.steps, 7);
    /// let error = Recipe::parse("r.toml", "[train]\nstep = 7").unwrap_err();
    /// assert_eq!(error.to_string(), "r.toml, line 2: there is no key `step` here");
    /// assert!(error.hint.starts_with("did you mean `steps`?"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let recipe = Self::read(place, text)?;
        recipe.check(place)?;
        Ok(recipe)
    }

    /// Reads the text of a recipe that may still change: every key must be one that there is, but their values need not
    /// fit each other yet.
    pub fn read(place: &str, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|e| text::told(place, text, &e))
    }

    /// The recipe that is run before this one.
    pub fn before(&self) -> Option<&str> {
        self.model.from.strip_prefix("recipe:")
    }

    /// The optimiser's rule.
    pub fn rule(&self) -> Result<qkv_train::Rule> {
        use qkv_train::Rule;
        let Optim { beta1, beta2, eps, momentum, .. } = self.optim;
        let names = ["adamw", "adam", "sgd", "lion", "adafactor"];
        Ok(match self.optim.name.as_str() {
            "adamw" => Rule::AdamW { beta1, beta2, eps },
            "adam" => Rule::Adam { beta1, beta2, eps },
            "sgd" => Rule::Sgd { momentum },
            "lion" => Rule::Lion { beta1, beta2 },
            "adafactor" => Rule::Adafactor,
            other => {
                let near = nearest(other, names).unwrap_or_default();
                let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
                return Err(Error::new("optim.name", format!("there is no optimiser `{other}`"), hint));
            }
        })
    }
}

/// A recipe with the text that it was read from: parsed once, kept as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipeFile {
    /// as a person wrote it
    pub text: String,
    /// what it says
    pub recipe: Recipe,
}

impl RecipeFile {
    /// Reads the text of a recipe; `place` is named in errors.
    pub fn parse(place: &str, text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        Ok(Self { recipe: Recipe::parse(place, &text)?, text })
    }
}

/// Where two recipes differ: `train.steps: 20 → 40`.
pub fn differences(a: &Recipe, b: &Recipe) -> Vec<String> {
    let table = |r: &Recipe| toml::Table::try_from(r).unwrap_or_default();
    let (a, b) = (table(a), table(b));
    let mut found = vec![];
    for (section, keys) in a.iter().filter_map(|(s, v)| Some((s, v.as_table()?))) {
        let other = b.get(section).and_then(toml::Value::as_table);
        for (key, value) in keys {
            match other.and_then(|o| o.get(key)) {
                Some(new) if new != value => found.push(format!("{section}.{key}: {value} → {new}")),
                _ => {}
            }
        }
    }
    found
}

/// The recipe of this name, or the file at this path: its text and how it is called.
pub fn find(name: &str) -> Result<(String, String)> {
    if let Some((known, text)) = ALL.iter().find(|(known, _)| *known == name) {
        return Ok((text.to_string(), known.to_string()));
    }
    let path = std::path::Path::new(name);
    let stem = path.file_stem().map_or(name.into(), |s| s.to_string_lossy().to_string());
    if path.exists() {
        return Ok((read_text(path, MOST_TEXT, "a recipe is a TOML file")?, stem));
    }
    let near = nearest(name, ALL.iter().map(|(n, _)| *n)).unwrap_or_default();
    let names: Vec<&str> = ALL.iter().map(|(n, _)| *n).collect();
    let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
    Err(Error::new(name, "neither a recipe of qkv's nor a file", hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_read_and_every_line_of_it_is_commented() {
        for (name, text) in ALL.iter().chain(&[("finetune", FINETUNE)]) {
            Recipe::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}; {}", e.hint));
            for line in text.lines().filter(|l| l.contains('=') && !l.trim_start().starts_with('#')) {
                assert!(text::comment_of(line).is_some(), "{name}: {line}");
            }
        }
    }
}
