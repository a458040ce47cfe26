//! What a run was begun with. A run that goes on must find it again.

use crate::checkpoint::State;
use crate::recipe::{self, Recipe};
use qkv_base::{Error, Result};

/// What a run was begun with, besides its data. Files of a run directory can be edited: what was trained by one recipe
/// must not go on by another in silence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// the recipe as it was written; empty where there is none
    pub recipe: String,
    /// a hash of the tokenizer's files; empty where there is none
    pub tokenizer: String,
}

/// Refuses to go on with other data, another tokenizer or another recipe than a checkpoint was made with, and says what
/// is different. What an older checkpoint does not know is not compared.
pub(crate) fn same_origin(before: &State, now: &State) -> Result<()> {
    let refuse = |place: &str, what: String| {
        Err(Error::new(place, what, "bring it back as it was, or go on all the same with --force"))
    };
    if before.data != now.data {
        let (before, now) = (&before.data, &now.data);
        return refuse("data", format!("the data are not those that the run was begun with: {before} → {now}"));
    }
    if !before.tokenizer.is_empty() && before.tokenizer != now.tokenizer {
        let (before, now) = (&before.tokenizer, &now.tokenizer);
        return refuse("tokenizer", format!("is not the one that the run was begun with: {before} → {now}"));
    }
    if before.recipe.is_empty() || before.recipe == now.recipe {
        return Ok(());
    }
    let read = |text: &str| Recipe::read("recipe.toml", text);
    match (read(&before.recipe), read(&now.recipe)) {
        (Ok(before), Ok(now)) => match recipe::differences(&before, &now).as_slice() {
            [] => Ok(()), // another comment
            changed => refuse("recipe.toml", format!("is not the one of the run: {}", changed.join("; "))),
        },
        _ => refuse("recipe.toml", "is not the one of the run".into()),
    }
}
