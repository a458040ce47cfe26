//! Recipes: everything a run depends on, in a TOML file with every key commented. The text is the truth: `--set` edits
//! it, the run directory keeps it, and what it does not say has the default that is written here.

use crate::schedule::Curve;
use qkv_base::{Error, Result, nearest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The recipes that qkv brings along, by name.
pub const ALL: &[(&str, &str)] = &[
    ("translate", include_str!("../../../recipes/translate.toml")),
    ("char-gpt", include_str!("../../../recipes/char-gpt.toml")),
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

/// What is to be learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// a text from another: translation, correction, summary
    #[default]
    Translate,
    /// the next token
    NextToken,
    /// hidden tokens
    Masked,
    /// hidden spans
    SpanCorruption,
    /// the text before the noise
    Denoise,
    /// one class for a text
    Classify,
    /// one tag for each word
    Tag,
    /// where the answer stands
    Answer,
    /// the class of a picture
    Image,
}

/// What is learnt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// `builtin:NAME`, or a file
    pub corpus: String,
    /// what is to be learnt from it
    pub objective: Goal,
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
            objective: Goal::default(),
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
    /// `unigram`, `bpe`, `wordpiece` or `char`
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

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// `marian`, `gpt2`, `llama`, `bert`, `t5`, `bart` or `vit`
    pub family: String,
    /// C
    pub width: usize,
    /// blocks (of each stack)
    pub layers: usize,
    /// H
    pub heads: usize,
    /// width of the feed-forward; 0: four times the width
    pub inner: usize,
    /// key and value heads (llama); 0: as many as heads
    pub kv_heads: usize,
    /// side of a patch (vit)
    pub patch: usize,
    /// probability of dropping
    pub dropout: f64,
    /// a directory to start from instead of chance; `recipe:NAME`: what that recipe makes, run first in the same place
    pub from: String,
    /// parameters whose path starts so do not learn
    pub freeze: Vec<String>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            family: "marian".into(),
            width: 256,
            layers: 3,
            heads: 4,
            inner: 0,
            kv_heads: 0,
            patch: 4,
            dropout: 0.1,
            from: String::new(),
            freeze: vec![],
        }
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
}

impl Default for Train {
    fn default() -> Self {
        Self {
            seed: 1,
            steps: 1000,
            tokens: 0,
            rows: 32,
            accumulate: 1,
            smoothing: 0.0,
            average: 0.0,
            recompute: false,
            leap: 0.0,
            log: 20,
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
    /// evaluations without a better loss after which the run ends; 0: never
    pub patience: u64,
    /// the metric of the test: `loss`, `bleu`, `chrf`, `accuracy`, `f1`, `exact`, `rouge-l` and others
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
}

impl Default for Lora {
    fn default() -> Self {
        Self { rank: 0, alpha: 16.0, targets: vec!["q".into(), "v".into()], dropout: 0.0 }
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
    /// use qkv_train::recipe::Recipe;
    /// assert_eq!(Recipe::parse("r.toml", "[train]\nsteps = 7")?.train.steps, 7);
    /// let error = Recipe::parse("r.toml", "[train]\nstep = 7").unwrap_err();
    /// assert_eq!(error.to_string(), "r.toml, line 2: there is no key `step` here");
    /// assert!(error.hint.starts_with("did you mean `steps`?"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(place: &str, text: &str) -> Result<Self> {
        let recipe: Self = toml::from_str(text).map_err(|e| told(place, text, &e))?;
        recipe.check(place)?;
        Ok(recipe)
    }

    /// Refuses what cannot be meant.
    fn check(&self, place: &str) -> Result<()> {
        let ensure = |ok: bool, key: &str, what: &str, hint: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(format!("{place}: {key}"), what, hint)),
        };
        let Self { data, train, optim, schedule, checkpoint, eval, .. } = self;
        let some = "use 1 or more";
        ensure(train.steps > 0, "train.steps", "0 steps learn nothing", some)?;
        ensure(train.accumulate > 0, "train.accumulate", "a step of 0 micro-batches", some)?;
        ensure(train.tokens > 0 || train.rows > 0, "train.rows", "a batch of 0 rows", some)?;
        ensure(train.log > 0, "train.log", "0 steps between two lines", some)?;
        ensure(data.length > 1, "data.length", "too short for anything", "use 2 or more")?;
        ensure(data.valid > 0 && data.test > 0, "data.valid", "nothing to judge by", some)?;
        ensure((0.0..1.0).contains(&train.smoothing), "train.smoothing", "is no share", "use 0 up to, but not, 1")?;
        ensure((0.0..1.0).contains(&train.average), "train.average", "is no share", "use 0 up to, but not, 1")?;
        ensure(
            train.leap.is_finite() && train.leap >= 0.0,
            "train.leap",
            "is no number of deviations",
            "use 0 or about 6",
        )?;
        ensure(optim.rate.is_finite() && optim.rate > 0.0, "optim.rate", "is no learning rate", "use about 1e-3")?;
        ensure(optim.decay >= 0.0, "optim.decay", "is below 0", "use 0 to 0.1")?;
        ensure((0.0..=1.0).contains(&schedule.floor), "schedule.floor", "is no share", "use 0 to 1")?;
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
        ensure(eval.goal.is_finite(), "eval.goal", "is no score", "use a number")?;
        self.rule()?;
        crate::score::Metric::parse(&eval.metric).map(|_| ())
    }

    /// The recipe that is run before this one.
    pub fn before(&self) -> Option<&str> {
        self.model.from.strip_prefix("recipe:")
    }

    /// The optimiser's rule.
    pub fn rule(&self) -> Result<crate::optim::Rule> {
        use crate::optim::Rule;
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
    std::fs::read_to_string(path).map(|text| (text, stem)).map_err(|e| {
        let near = nearest(name, ALL.iter().map(|(n, _)| *n)).unwrap_or_default();
        let names: Vec<&str> = ALL.iter().map(|(n, _)| *n).collect();
        Error::new(
            name,
            format!("neither a recipe of qkv's nor a file ({e})"),
            format!("did you mean `{near}`? there are {}", names.join(", ")),
        )
    })
}

/// The text with `section.key` set to `value`, comments kept. The value is TOML where it can be read as such, and a
/// string otherwise.
///
/// ```
/// let text = qkv_train::recipe::set("[train]\nsteps = 9 # how many\n", "train.steps=12")?;
/// assert_eq!(text, "[train]\nsteps = 12 # how many\n");
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn set(text: &str, assignment: &str) -> Result<String> {
    let usage = || {
        Error::new(format!("--set {assignment}"), "is no assignment", "write section.key=value, as in train.steps=100")
    };
    let (path, value) = assignment.split_once('=').ok_or_else(usage)?;
    let (section, key) = path.trim().split_once('.').ok_or_else(usage)?;
    let value = value.trim();
    let known = toml::from_str::<toml::Table>(&format!("x = {value}")).is_ok();
    let value = if known { value.to_string() } else { toml::Value::String(value.into()).to_string() };
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let header = format!("[{section}]");
    let start = lines.iter().position(|line| line.trim() == header);
    let Some(start) = start else {
        lines.extend(["".into(), header, format!("{key} = {value}")]);
        return Ok(lines.join("\n") + "\n");
    };
    let end =
        lines.iter().skip(start + 1).position(|l| l.trim().starts_with('[')).map_or(lines.len(), |n| start + 1 + n);
    let is_key = |line: &String| line.split_once('=').is_some_and(|(k, _)| k.trim() == key);
    match lines[start + 1..end].iter().position(is_key) {
        Some(at) => {
            let line = &mut lines[start + 1 + at];
            let comment = comment_of(line).map_or(String::new(), |c| format!(" {c}"));
            *line = format!("{key} = {value}{comment}");
        }
        None => lines.insert(start + 1, format!("{key} = {value}")),
    }
    Ok(lines.join("\n") + "\n")
}

/// The comment at the end of a line, outside of quotes.
fn comment_of(line: &str) -> Option<&str> {
    let mut quoted = false;
    let at = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    at.map(|(i, _)| line[i..].trim_end())
}

/// A parser's complaint in our words: which line, what, and the nearest name.
fn told(place: &str, text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|s| text.get(..s.start).unwrap_or("").lines().count().max(1));
    let line = match error.span() {
        Some(span) if text.get(..span.start).is_some_and(|t| t.ends_with('\n')) => line.map(|n| n + 1),
        _ => line,
    };
    let place = line.map_or(place.to_string(), |line| format!("{place}, line {line}"));
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field") || message.starts_with("unknown variant"), quoted.next()) {
        (true, Some(wrong)) => {
            let known: Vec<&str> = quoted.collect();
            let near = nearest(wrong, known.iter().copied()).unwrap_or_default();
            let kind = if message.starts_with("unknown field") { "key" } else { "choice" };
            let hint = format!("did you mean `{near}`? there are {}", known.join(", "));
            Error::new(place, format!("there is no {kind} `{wrong}` here"), hint)
        }
        _ => Error::new(place, message.to_string(), "a recipe is TOML: [section], then key = value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_is_read_and_every_line_of_it_is_commented() {
        for (name, text) in ALL.iter().chain(&[("finetune", FINETUNE)]) {
            Recipe::parse(name, text).unwrap_or_else(|e| panic!("{name}: {e}; {}", e.hint));
            for line in text.lines().filter(|l| l.contains('=') && !l.trim_start().starts_with('#')) {
                assert!(comment_of(line).is_some(), "{name}: {line}");
            }
        }
    }

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
        assert!(say("[data]\nmix = { a = \"b\" }").hint.contains("leave one"));
        assert!(find("translat").unwrap_err().hint.starts_with("did you mean `translate`?"));
    }

    #[test]
    fn a_setting_finds_its_place() {
        let text = "[a]\nx = 1\n[train]\nseed = 3\n";
        assert_eq!(set(text, "train.steps=5").unwrap(), "[a]\nx = 1\n[train]\nsteps = 5\nseed = 3\n");
        assert_eq!(set(text, "data.corpus=my file.tsv").unwrap().lines().last(), Some("corpus = \"my file.tsv\""));
        assert_eq!(set("[d]\nc = \"a#b\" # why", "d.c=\"z\"").unwrap(), "[d]\nc = \"z\" # why\n");
        assert!(set(text, "steps").is_err() && set(text, "steps=1").is_err());
    }
}
