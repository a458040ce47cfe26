//! The sections of a recipe, each with its defaults: what a recipe does not say is as it is here.

use qkv_base::Task;
use qkv_data::objective::ClassWeights;
use qkv_kernels::ProductPrecision;
use qkv_train::dist::Wire;
use qkv_train::schedule::Curve;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is learnt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// `builtin:NAME`, a file, or a pattern of files
    pub corpus: String,
    /// further files that belong to the corpus
    pub more: Vec<String>,
    /// a file to validate by; empty: a part of the corpus
    pub valid_file: String,
    /// a file for the score at the end; empty: a part of the corpus
    pub test_file: String,
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
            more: vec![],
            valid_file: String::new(),
            test_file: String::new(),
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
            true if !self.more.is_empty() => format!("{} and {} more", self.corpus, self.more.len()),
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
    /// steps at least, where epochs are counted: few examples are read more often; 0: any
    pub least: u64,
    /// tokens of a micro-batch, padding counted; 0: count rows instead
    pub tokens: usize,
    /// rows of a micro-batch, where tokens is 0
    pub rows: usize,
    /// micro-batches of a step
    pub accumulate: usize,
    /// label smoothing
    pub smoothing: f32,
    /// how much each class counts: `auto`, `none`, `root` or `balanced`
    pub class_weights: ClassWeights,
    /// share that a running average of the weights keeps at each step; 0: none
    pub average: f32,
    /// run blocks again in the backward instead of keeping what they computed: less memory, more time, the same bits
    pub recompute: bool,
    /// what linear layers round the factors of their products to while learning: `f32` or `bf16`; weights and sums stay f32
    pub precision: ProductPrecision,
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
            least: 0,
            tokens: 0,
            rows: 32,
            accumulate: 1,
            smoothing: 0.0,
            class_weights: ClassWeights::Auto,
            average: 0.0,
            recompute: false,
            precision: ProductPrecision::F32,
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
    /// the peak of the learning rate; 0: what suits the width of a network that is fine-tuned
    pub rate: f64,
    /// find the rate by a short test, in the place of rate
    pub find: bool,
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
            find: false,
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
    /// share of the steps in which it rises, in the place of warmup; 0: count steps
    pub warmup_share: f64,
    /// the share of the peak that it ends at
    pub floor: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { curve: Curve::Cosine, warmup: 100, warmup_share: 0.0, floor: 0.0 }
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
    /// looks at the validation side in the whole run, in the place of every; 0: count steps
    pub looks: u64,
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
        Self { every: 250, looks: 0, batches: 8, patience: 0, metric: "loss".into(), goal: 0.0, samples: 4 }
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

/// How several ranks share the steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dist {
    /// pieces of a step at least; what is learnt depends on it, and not on how many ranks share them
    pub shards: usize,
    /// steps between two meetings of the ranks; 1: they exchange gradients at every step
    pub every: u64,
    /// η of a meeting
    pub rate: f32,
    /// μ of a meeting
    pub momentum: f32,
    /// how numbers travel: `f32` or `bf16`; empty: f32, and bf16 where every is above 1
    pub wire: String,
}

impl Default for Dist {
    /// One piece a batch; where ranks meet seldom, as "DiLoCo" found best.
    fn default() -> Self {
        Self { shards: 1, every: 1, rate: 0.7, momentum: 0.9, wire: String::new() }
    }
}

impl Dist {
    /// How numbers travel.
    pub fn wire(&self) -> Wire {
        match self.wire.as_str() {
            "bf16" => Wire::Bf16,
            "" if self.every > 1 => Wire::Bf16,
            _ => Wire::F32,
        }
    }
}
