//! Recipes: everything a run depends on, in a TOML file with every key commented. The text is the truth: `--set` edits
//! it, the run directory keeps it, and what it does not say has the default that is written here.

mod check;
mod network;
mod sections;
mod text;

pub use network::Model;
pub use sections::{AdapterStart, Data, Dist, Eval, Keep, Lora, Optim, Pieces, Rate, Train};
pub use text::{full, set};

use qkv_base::{Error, MOST_TEXT, Result, nearest, read_text};
use serde::{Deserialize, Serialize};

/// The recipes that qkv brings along, by name.
pub const ALL: &[(&str, &str)] = &[
    ("translate", include_str!("../recipes/translate.toml")),
    ("translate-seq2seq", include_str!("../recipes/translate-seq2seq.toml")),
    ("translate-bahdanau", include_str!("../recipes/translate-bahdanau.toml")),
    ("idioms", include_str!("../recipes/idioms.toml")),
    ("reverse", include_str!("../recipes/reverse.toml")),
    ("char-gpt", include_str!("../recipes/char-gpt.toml")),
    ("char-lstm", include_str!("../recipes/char-lstm.toml")),
    ("names", include_str!("../recipes/names.toml")),
    ("names-gpt", include_str!("../recipes/names-gpt.toml")),
    ("markup", include_str!("../recipes/markup.toml")),
    ("gpt", include_str!("../recipes/gpt.toml")),
    ("llama", include_str!("../recipes/llama.toml")),
    ("bert", include_str!("../recipes/bert.toml")),
    ("sentiment", include_str!("../recipes/sentiment.toml")),
    ("subjects", include_str!("../recipes/subjects.toml")),
    ("entities", include_str!("../recipes/entities.toml")),
    ("answers", include_str!("../recipes/answers.toml")),
    ("pronouns", include_str!("../recipes/pronouns.toml")),
    ("typos", include_str!("../recipes/typos.toml")),
    ("corrections", include_str!("../recipes/corrections.toml")),
    ("style", include_str!("../recipes/style.toml")),
    ("programs", include_str!("../recipes/programs.toml")),
    ("t5", include_str!("../recipes/t5.toml")),
    ("t5-tasks", include_str!("../recipes/t5-tasks.toml")),
    ("bart", include_str!("../recipes/bart.toml")),
    ("summaries", include_str!("../recipes/summaries.toml")),
    ("vit", include_str!("../recipes/vit.toml")),
];

/// Every key with its default and what it means.
pub const EVERY_KEY: &str = include_str!("../recipes/every-key.toml");

/// What `qkv finetune` starts from.
pub const FINETUNE: &str = include_str!("../recipes/finetune.toml");

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
    /// how several ranks share the steps
    pub dist: Dist,
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
    fn a_recipe_that_is_printed_whole_has_every_key_and_says_the_same() {
        let every = Recipe::read("every-key", EVERY_KEY).unwrap();
        assert_eq!(every, Recipe::default());
        let keys = |text: &str| text.lines().filter(|l| l.contains(" = ") && !l.starts_with('#')).count();
        let all: usize = toml::Table::try_from(&every).unwrap().values().map(|s| s.as_table().unwrap().len()).sum();
        assert_eq!(keys(EVERY_KEY), all, "a key is missing in every-key.toml");
        for (name, text) in ALL.iter().chain(&[("finetune", FINETUNE)]) {
            let recipe = Recipe::parse(name, text).unwrap();
            let whole = full(text, &recipe).unwrap();
            assert_eq!(Recipe::parse(name, &whole).unwrap(), recipe, "{name}");
            assert_eq!(keys(&whole), all, "{name}");
            assert_eq!(whole.lines().next(), text.lines().next(), "{name}");
        }
    }

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
