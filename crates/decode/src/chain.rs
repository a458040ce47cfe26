//! The chain: an ordered list of steps, and a pick at its end. The order is the meaning, so it is one list that one can
//! read, print and write: `dry 0.8, top_k 40, top_p 0.95, temperature 0.7, random`.
//!
//! Commas part steps; a step is its name and its parameters, bare in their order or by name (`dry 0.8 allowed=3`). The names,
//! ranges and defaults come from the sheets in [`STEPS`] and [`PICKS`], and so do `--help` and the book.

use std::fmt::{self, Display};
use std::str::FromStr;

use qkv_base::{Error, Result, nearest};

use crate::pick::{PICKS, Pick, PickState, Picked};
use crate::row::Row;
use crate::trace::Stage;
use crate::transform::{History, STEPS, Step, StepSheet, Transform, Value};

/// Steps in their order, and the pick.
///
/// ```
/// use qkv_decode::{Chain, Row, History};
/// let chain: Chain = "top_k 2, temperature 0.5, greedy".parse().unwrap();
/// let mut row = Row::of(&[1.0, 3.0, 2.0]).unwrap();
/// let (picked, _) = chain.choose(&mut row, &History::default(), chain.pick.start()).unwrap();
/// assert_eq!(picked.id, 1);
/// assert_eq!(row.logits(), [f32::NEG_INFINITY, 6.0, 4.0]);
/// assert_eq!(chain.to_string(), "top_k 2, temperature 0.5, greedy");
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Chain {
    /// the steps, first to last
    pub steps: Vec<Step>,
    /// what chooses the token
    pub pick: Pick,
}

impl Chain {
    /// Runs the steps. A step that leaves no token possible is an error that names it.
    pub fn apply(&self, row: &mut Row, said: &History) -> Result<()> {
        for (i, step) in self.steps.iter().enumerate() {
            step.apply(row, said);
            self.alive(i, row)?;
        }
        Ok(())
    }

    /// Runs the steps and tells, before the first and after each, the `top` best tokens and what was lost.
    pub fn apply_traced(&self, row: &mut Row, said: &History, top: usize, watched: Option<u32>) -> Result<Vec<Stage>> {
        let mut stages = vec![Stage::first(row, watched, top)];
        for (i, step) in self.steps.iter().enumerate() {
            let before = row.clone();
            step.apply(row, said);
            self.alive(i, row)?;
            stages.push(Stage::after(step.to_string(), before, row, stages.last(), watched, top));
        }
        Ok(stages)
    }

    /// Runs the steps and chooses a token by the key of `said`.
    pub fn choose(&self, row: &mut Row, said: &History, state: PickState) -> Result<(Picked, PickState)> {
        self.apply(row, said)?;
        self.pick.choose(row, said.key, state)
    }

    fn alive(&self, i: usize, row: &Row) -> Result<()> {
        if row.alive().is_empty() {
            let place = format!("chain, step {}, `{}`", i + 1, self.steps[i]);
            let hint =
                "let it forbid less, or take the step out; together with the steps before it nothing can be said";
            return Err(Error::new(place, "leaves no token possible", hint));
        }
        Ok(())
    }

    /// Every id that a step names must be one of the vocabulary's.
    pub fn check(&self, vocabulary: usize) -> Result<()> {
        for (i, step) in self.steps.iter().enumerate() {
            if let Some(id) = ids(&step.values()).into_iter().find(|id| *id as usize >= vocabulary) {
                let place = format!("chain, step {}, `{}`", i + 1, step);
                let what = format!("names token {id}, but the vocabulary has {vocabulary}");
                return Err(Error::new(place, what, format!("ids go from 0 to {}", vocabulary.saturating_sub(1))));
            }
        }
        Ok(())
    }

    /// What in this chain has no effect, one sentence each.
    ///
    /// ```
    /// let chain: qkv_decode::Chain = "top_k 0, temperature 0.7, greedy".parse().unwrap();
    /// assert_eq!(chain.effects(), [
    ///     "`top_k 0` does nothing: 0 keeps all tokens",
    ///     "`temperature 0.7` does nothing: greedy says the most probable token, and that stays the same",
    /// ]);
    /// ```
    pub fn effects(&self) -> Vec<String> {
        // Greedy sees only the best token: the steps at the end that never change which one that is do nothing.
        let tail = self.steps.iter().rev().take_while(|step| step.keeps_best() || step.idle()).count();
        let greedy = self.steps.len() - if self.pick == Pick::Greedy { tail } else { 0 };
        // Temperature 0 leaves one token: what only thins out or bends has nothing left to do.
        let frozen = self.steps.iter().position(|step| step.to_string() == "temperature 0").unwrap_or(self.steps.len());
        let why = |(i, step): (usize, &Step)| {
            let reason = if step.idle() {
                step.sheet().off
            } else if i > frozen && step.keeps_best() {
                "temperature 0 has left one token"
            } else if i >= greedy {
                "greedy says the most probable token, and that stays the same"
            } else {
                return None;
            };
            Some(format!("`{step}` does nothing: {reason}"))
        };
        self.steps.iter().enumerate().filter_map(why).collect()
    }

    /// What all steps and picks do: the text behind `--help`.
    pub fn help() -> String {
        STEPS.iter().chain(PICKS).map(StepSheet::help).collect::<Vec<_>>().join("\n")
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write!(f, "{step}, ")?;
        }
        write!(f, "{}", self.pick)
    }
}

impl FromStr for Chain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut chain = Chain::default();
        let mut picked: Option<Pick> = None;
        for (i, part) in text.split(',').map(str::trim).enumerate() {
            if text.trim().is_empty() {
                break;
            }
            let wrong = |e: Error| Error { place: format!("chain, step {}, {}", i + 1, e.place), ..e };
            if let Some(pick) = picked {
                let place = format!("chain, step {}, `{part}`", i + 1);
                let hint = format!("`{pick}` chooses the token: move it to the end");
                return Err(Error::new(place, format!("nothing can follow `{pick}`"), hint));
            }
            match Part::read(part).map_err(wrong)? {
                Part::Step(step) => chain.steps.push(step),
                Part::Pick(pick) => picked = Some(pick),
            }
        }
        chain.pick = picked.unwrap_or_default();
        Ok(chain)
    }
}

/// What stands between two commas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Step(Step),
    Pick(Pick),
}

impl Part {
    pub(crate) fn read(text: &str) -> Result<Self> {
        let (name, words) = split(text);
        if let Some(step) = Step::named(name, &words) {
            return step.map(Part::Step);
        }
        if let Some(pick) = Pick::named(name, &words) {
            return pick.map(Part::Pick);
        }
        Err(unknown(name))
    }
}

/// `dry 0.8 base=1.75` and `dry=0.8 base=1.75` are `dry` with `0.8` and `base=1.75`.
pub(crate) fn split(text: &str) -> (&str, Vec<&str>) {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return ("", words);
    }
    match words[0].split_once('=') {
        Some((name, value)) => {
            words[0] = value;
            (name, words)
        }
        None => (words.remove(0), words),
    }
}

pub(crate) fn unknown(name: &str) -> Error {
    if name.is_empty() {
        return Error::new("``", "a step is missing between the commas", "write `top_k 40, temperature 0.7`");
    }
    let names =
        STEPS.iter().chain(PICKS).flat_map(|sheet| [sheet.name].into_iter().chain(sheet.aliases.iter().copied()));
    let near = nearest(&name.to_lowercase().replace('-', "_"), names).unwrap_or_default();
    Error::new(format!("`{name}`"), "there is no such step", format!("did you mean `{near}`? `--chain help` lists all"))
}

/// All token ids that a step's values name.
fn ids(values: &[Value]) -> Vec<u32> {
    let of = |value: &Value| match value {
        Value::Ids(ids) => ids.clone(),
        Value::Sequences(all) => all.concat(),
        Value::Biases(all) => all.iter().flat_map(|(ids, _)| ids.clone()).collect(),
        Value::Places(all) => all.iter().map(|(_, id)| *id).collect(),
        Value::Number(_) | Value::Whole(_) => Vec::new(),
    };
    values.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(text: &str) -> Chain {
        text.parse().unwrap_or_else(|e: Error| panic!("{e}; {}", e.hint))
    }

    #[test]
    fn texts_and_what_they_mean() {
        for (text, canonical) in [
            ("", "random"),
            ("greedy", "greedy"),
            (
                "dry 0.8, top_k 40, top_p 0.95, temperature 0.7",
                "dry 0.8, top_k 40, top_p 0.95, temperature 0.7, random",
            ),
            ("dry multiplier=0.8 base=1.75 allowed=2", "dry 0.8, random"),
            ("dry 0.8 2 3", "dry 0.8 base=2 allowed=3, random"),
            ("DRY 0.8 range=64 breakers=13|5+7", "dry 0.8 range=64 breakers=13|5+7, random"),
            (" Top-K=40 ,temp  0.70,  mirostat ", "top_k 40, temperature 0.7, mirostat 5"),
            ("typ_p 0.9 keep=2, eta 1e-4", "typical 0.9 keep=2, eta_cutoff 0.0001, random"),
            ("logit_bias 5:-inf|6+7:0.5, bad_words 1+2", "logit_bias 5:-inf|6+7:0.5, bad_words 1+2, random"),
        ] {
            assert_eq!(chain(text).to_string(), canonical);
            assert_eq!(chain(canonical), chain(text));
        }
    }

    #[test]
    fn errors_say_what_where_and_what_to_do() {
        for (text, message, hint) in [
            ("top_k 40, top_q 0.9", "chain, step 2, `top_q`: there is no such step", "did you mean `top_k`?"),
            ("temprature 1", "chain, step 1, `temprature`: there is no such step", "did you mean `temperature`?"),
            ("top_p 1.5", "chain, step 1, `top_p`: p is `1.5`, but must be a number from 0 to 1", "`top_p 0.95`"),
            ("temperature NaN", "`temperature`: temperature is `NaN`, but must be a number from 0", "0 keeps only"),
            ("temperature -1", "temperature is `-1`, but must be a number from 0", "1 changes nothing"),
            ("top_k -3", "k is `-3`, but must be a whole number from 0", "`top_k 40`"),
            ("top_k", "chain, step 1, `top_k`: needs its k", "a whole number from 0"),
            ("top_k 1 2 3", "`top_k`: does not know what to do with `3`", "it takes 2"),
            ("dry 1 bse=2", "`dry`: has no parameter `bse`", "did you mean `base`?"),
            ("dry 1 multiplier=2", "`dry`: multiplier is given twice", "`dry 0.8"),
            ("top_k 4,, top_p 1", "chain, step 2, ``: a step is missing", "top_k 40"),
            ("top_k 4,", "chain, step 2, ``: a step is missing", "top_k 40"),
            ("greedy, top_k 4", "chain, step 2, `top_k 4`: nothing can follow `greedy`", "move it to the end"),
            ("bad_words 1+x", "words is `1+x`, but must be sequences of token ids", "5+7|9"),
            ("greedy now", "`greedy`: does not know what to do with `now`", "it takes 0"),
        ] {
            let error = text.parse::<Chain>().expect_err(text);
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(error.hint.contains(hint), "{text}: {}", error.hint);
        }
    }

    #[test]
    fn every_example_makes_the_round_trip() {
        let all: Vec<&str> = STEPS.iter().map(|sheet| sheet.example).collect();
        for pick in PICKS {
            let text = format!("{}, {}", all.join(", "), pick.example);
            assert_eq!(chain(&text).to_string(), text);
            assert!(Chain::help().contains(pick.about));
        }
    }

    #[test]
    fn what_does_nothing_is_said() {
        let silent = |text: &str| chain(text).effects().len();
        for sheet in STEPS {
            assert_eq!(silent(sheet.example), 0, "{}", sheet.example);
        }
        assert_eq!(silent("temperature 1, top_p 1, min_p 0, dry 0, xtc 0.6 probability=1, repetition_penalty 1"), 6);
        // Before a step that can change who is best, top_k matters even to greedy.
        assert_eq!(silent("top_k 5, typical 0.5, top_k 4, greedy"), 1);
        assert_eq!(silent("temperature 2, presence_penalty 1, greedy"), 0);
        assert_eq!(
            chain("temperature 0, top_p 0.9").effects(),
            ["`top_p 0.9` does nothing: temperature 0 has left one token"]
        );
    }

    #[test]
    fn an_emptied_row_names_the_step() {
        let mut row = Row::of(&[1.0, 2.0]).unwrap();
        let error = chain("top_k 1, suppress 0|1, top_p 0.5").apply(&mut row, &History::default()).unwrap_err();
        assert_eq!(error.to_string(), "chain, step 2, `suppress 0|1`: leaves no token possible");
    }

    #[test]
    fn ids_outside_the_vocabulary_are_found() {
        for (text, id) in
            [("suppress 3|50", 50), ("bad_words 3+77", 77), ("logit_bias 60:1", 60), ("forced_tokens 0:99", 99)]
        {
            let error = chain(text).check(50).unwrap_err();
            assert!(error.what.contains(&format!("token {id}, but the vocabulary has 50")), "{error}");
        }
        assert!(chain("top_k 99, suppress 49").check(50).is_ok());
    }

    /// 0.5, 0.3, 0.15, 0.05: top_p 0.6 keeps two. At T = 4 the row is flatter, and three are needed.
    #[test]
    fn temperature_before_and_after_top_p_keep_different_tokens() {
        let left = |text: &str| {
            let mut row = Row::of(&[0.5f32, 0.3, 0.15, 0.05].map(f32::ln)).unwrap();
            chain(text).apply(&mut row, &History::default()).unwrap();
            row.alive().to_vec()
        };
        assert_eq!(left("top_p 0.6, temperature 4"), [0, 1]);
        assert_eq!(left("temperature 4, top_p 0.6"), [0, 1, 2]);
    }

    #[test]
    fn temperature_towards_zero_is_greedy() {
        let key = |step| History { key: qkv_base::Key::new(1, step, 0), ..History::default() };
        for step in 0..100 {
            let logits: Vec<f32> = qkv_base::Key::new(2, step, 0).normals(30);
            let say = |text: &str| {
                let chain = chain(text);
                chain.choose(&mut Row::of(&logits).unwrap(), &key(step), chain.pick.start()).unwrap().0.id
            };
            assert_eq!(say("temperature 0.00001, random"), say("greedy"));
            assert_eq!(say("temperature 0, random"), say("greedy"));
        }
    }

    proptest! {
        /// Whatever the text, an answer or an error, and what parses prints to what parses to itself.
        #[test]
        fn no_text_breaks_the_parser(text in "[a-z_0-9 ,=|+:.-]{0,40}") {
            if let Ok(chain) = text.parse::<Chain>() {
                prop_assert_eq!(chain.to_string().parse::<Chain>().unwrap(), chain);
            }
        }

        /// Any chain on any row: an error or a token that is possible, never NaN.
        #[test]
        fn any_chain_leaves_numbers(
            logits in prop::collection::vec(prop_oneof![4 => -30f32..30.0, 1 => Just(f32::NEG_INFINITY), 1 => -3e38f32..3e38], 1..40),
            picks in prop::collection::vec(0..STEPS.len(), 0..6),
            said in prop::collection::vec(0u32..45, 0..12),
        ) {
            let Ok(mut row) = Row::of(&logits) else { return Ok(()) };
            let text = picks.iter().map(|i| STEPS[*i].example).collect::<Vec<_>>().join(", ");
            let said = History { generated: &said, ends: &[0], limit: Some(9), ..History::default() };
            let chain = chain(&text);
            if let Ok((picked, _)) = chain.choose(&mut row, &said, chain.pick.start()) {
                prop_assert!(row.alive().contains(&picked.id) && picked.probability > 0.0 && picked.probability <= 1.0 + 1e-9);
                prop_assert!(row.alive().iter().all(|id| row.logit(*id).is_finite()));
                prop_assert_eq!(row.alive().len(), row.logits().iter().filter(|x| **x > f32::NEG_INFINITY).count());
            }
        }
    }
}
