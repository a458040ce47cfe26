//! The lectures' own arguments, ready to be run. Some train small networks, some only measure; each is a minute or a few on two
//! cores, and none says more than its numbers do.

mod cost;
mod gradients;
mod leak;
mod norms;
mod positions;

use super::{Budget, Compared, Entry, Setup, compare, variations};
use crate::{Recipe, Result};
use qkv_base::{Error, nearest};
use qkv_runs::observe::Observer;
use std::sync::atomic::AtomicBool;

/// One of them.
pub struct Ready {
    /// the word that asks for it
    pub name: &'static str,
    /// what it shows
    pub about: &'static str,
    /// what each network may spend, where nothing else is said; nothing where none is trained
    pub budget: Option<Budget>,
    run: fn(&mut Asked) -> Result<Compared>,
}

/// How it is asked for.
pub struct Asked<'a> {
    /// where it is kept, what it may spend, how many seeds
    pub setup: Setup,
    /// changes of the recipes' keys: `data.examples=100`
    pub set: &'a [String],
    /// asks the run to stop
    pub stop: &'a AtomicBool,
    /// is told what happens
    pub observer: &'a mut (dyn Observer + Send),
}

impl Asked<'_> {
    /// The recipe of this name with these changes, and those that were asked for behind them.
    fn recipe(&self, name: &str, changes: &[&str]) -> Result<Recipe> {
        let changes = changes.iter().copied().chain(self.set.iter().map(String::as_str));
        changes.clone().try_fold(Recipe::named(name)?, Recipe::assign)
    }

    /// Runs the entries and puts them side by side.
    fn compare(&mut self, name: &str, entries: &[Entry]) -> Result<Compared> {
        compare(name, entries, &self.setup, self.stop, self.observer)
    }
}

/// Every one, in the order of the lectures.
pub const ALL: &[Ready] = &[
    Ready {
        name: "gradients",
        about: "how far back an output feels its inputs: RNN, GRU, LSTM, attention",
        budget: None,
        run: gradients::run,
    },
    Ready {
        name: "bottleneck",
        about: "what a state of one size cannot hold: rows turned around, by length",
        budget: Some(Budget::Steps(800)),
        run: bottleneck,
    },
    Ready {
        name: "lineage",
        about: "seq2seq, Bahdanau and the Transformer translate, each after a minute of training",
        budget: Some(Budget::Seconds(60.0)),
        run: lineage,
    },
    Ready {
        name: "cost",
        about: "seconds a step against length: one step after the other, or all at once with N²",
        budget: None,
        run: cost::run,
    },
    Ready {
        name: "norms",
        about: "who else is in the batch, and BatchNorm; LayerNorm, RMSNorm and none in training",
        budget: Some(Budget::Steps(200)),
        run: norms::run,
    },
    Ready {
        name: "leak",
        about: "the mask taken off: a lower loss in training, and a higher one where it has to write",
        budget: Some(Budget::Steps(400)),
        run: leak::run,
    },
    Ready {
        name: "positions",
        about: "every way to tell order: words that change places, and rows longer than in training",
        budget: Some(Budget::Steps(600)),
        run: positions::run,
    },
];

/// The one of this name.
pub fn find(name: &str) -> Option<&'static Ready> {
    ALL.iter().find(|ready| ready.name == name)
}

/// What to say of a name that is neither one of these nor a recipe.
pub fn unknown(name: &str) -> Error {
    let names: Vec<&str> = ALL.iter().map(|ready| ready.name).collect();
    let near = nearest(name, names.iter().copied().chain(qkv_runs::recipe::ALL.iter().map(|(n, _)| *n)));
    let hint = format!("did you mean `{}`? there are {}, and every recipe", near.unwrap_or_default(), names.join(", "));
    Error::new(name, "is neither a comparison nor a recipe", hint)
}

impl Ready {
    /// Runs it.
    pub fn run(&self, asked: &mut Asked) -> Result<Compared> {
        (self.run)(asked)
    }
}

/// Rows of letters are turned around, once through a state of one size and once with a look back.
fn bottleneck(asked: &mut Asked) -> Result<Compared> {
    let recipe = asked.recipe("reverse", &[])?;
    let entries = variations(&recipe, &["model.family=seq2seq,bahdanau".into()])?;
    asked.compare("bottleneck", &entries)
}

/// Three generations translate, each with its own recipe.
fn lineage(asked: &mut Asked) -> Result<Compared> {
    let mut entries = vec![];
    for (label, recipe) in
        [("two LSTMs", "translate-seq2seq"), ("with attention", "translate-bahdanau"), ("Transformer", "translate")]
    {
        entries.push(Entry { label: label.into(), recipe: asked.recipe(recipe, &[])? });
    }
    asked.compare("lineage", &entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_no_recipe_has_them() {
        for (i, ready) in ALL.iter().enumerate() {
            assert!(!ready.about.is_empty() && ALL[..i].iter().all(|other| other.name != ready.name));
            assert!(qkv_runs::recipe::ALL.iter().all(|(name, _)| *name != ready.name), "{}", ready.name);
        }
        assert!(unknown("gradient").hint.starts_with("did you mean `gradients`?"));
    }
}
