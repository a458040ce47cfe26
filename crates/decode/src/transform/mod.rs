//! The steps of a chain: each a pure function of a row of logits and of what was said before.
//!
//! One file a step (or a pair of twins), each with its formula, where it comes from, and cases worked by hand. Nothing
//! here draws randomness of its own: XTC, the one step with a die, reads it from the key in [`History`].

pub(crate) mod sheet;
mod value;

use qkv_base::{Key, Result};

use sheet::Stated;
pub use sheet::{StepParameter, StepSheet};
pub use value::{Range, Value};

use crate::grammar::Grammar;
use crate::pattern::Pattern;
use crate::row::Row;

/// What stands before the token to choose, and what the model and the run say about it.
///
/// ```
/// use qkv_decode::History;
/// let said = History { prompt: &[7, 8], generated: &[9], ..History::default() };
/// assert_eq!(said.last(2).collect::<Vec<_>>(), [8, 9]);
/// assert_eq!((said.len(), said.ends_with(&[8, 9])), (3, true));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    /// ids given: the prompt, or the decoder's start token
    pub prompt: &'a [u32],
    /// ids chosen so far
    pub generated: &'a [u32],
    /// ids the encoder read, where there is one
    pub encoder: Option<&'a [u32]>,
    /// ids that end the text
    pub ends: &'a [u32],
    /// how long prompt and answer may be together
    pub limit: Option<usize>,
    /// randomness of this seed and step
    pub key: Key,
}

impl Default for History<'_> {
    fn default() -> Self {
        Self { prompt: &[], generated: &[], encoder: None, ends: &[], limit: None, key: Key::new(0, 0, 0) }
    }
}

impl<'a> History<'a> {
    /// How many ids stand before the token to choose.
    pub fn len(&self) -> usize {
        self.prompt.len() + self.generated.len()
    }

    /// Whether nothing does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id at a position, the prompt's first being 0.
    pub fn at(&self, i: usize) -> Option<u32> {
        if i < self.prompt.len() { self.prompt.get(i) } else { self.generated.get(i - self.prompt.len()) }.copied()
    }

    /// The last `window` ids in their order; 0 means all.
    pub fn last(&self, window: usize) -> impl Iterator<Item = u32> + Clone + use<'a> {
        let skip = if window == 0 { 0 } else { self.len().saturating_sub(window) };
        self.prompt.iter().chain(self.generated).skip(skip).copied()
    }

    /// Whether these ids were the last ones said.
    pub fn ends_with(&self, ids: &[u32]) -> bool {
        ids.len() <= self.len() && self.last(ids.len().max(1)).eq(ids.iter().copied()) || ids.is_empty()
    }

    /// What the encoder read; a model without one reads its prompt.
    pub fn source(&self) -> &'a [u32] {
        self.encoder.unwrap_or(self.prompt)
    }
}

/// A step of a chain.
pub trait Transform {
    /// Changes the row, knowing what was said.
    fn apply(&self, row: &mut Row, said: &History);

    /// Whether its parameters make it do nothing, whatever the row.
    fn idle(&self) -> bool;

    /// Whether the most probable token always stays the most probable one.
    fn keeps_best(&self) -> bool {
        false
    }
}

macro_rules! steps {
    ($($file:ident: $($name:ident),+;)+) => {
        $(mod $file;)+
        $(pub use $file::{$($name),+};)+

        /// One step of a chain, with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Step {
            $($($name($name),)+)+
            Pattern(Pattern),
            Grammar(Grammar),
        }

        $($(impl From<$name> for Step {
            fn from(step: $name) -> Self {
                Step::$name(step)
            }
        })+)+

        /// The sheets of all steps.
        pub static STEPS: &[StepSheet] = &[$($(<$name as Stated>::SHEET),+),+];

        impl Step {
            /// The step's sheet.
            pub fn sheet(&self) -> &'static StepSheet {
                match self {
                    $($(Step::$name(_) => const { &<$name as Stated>::SHEET },)+)+
                    Step::Pattern(_) => &crate::pattern::SHEET,
                    Step::Grammar(_) => &crate::grammar::SHEET,
                }
            }

            /// Its parameters, in the sheet's order.
            pub fn values(&self) -> Vec<Value> {
                match self {
                    $($(Step::$name(step) => step.write(),)+)+
                    Step::Pattern(_) | Step::Grammar(_) => vec![],
                }
            }

            /// The step of a sheet with these values, in the sheet's order.
            fn build(sheet: &StepSheet, values: Vec<Value>) -> Result<Self> {
                sheet.check(&values)?;
                $($(
                    if sheet.name == <$name as Stated>::SHEET.name {
                        return <$name as Stated>::read(values).map(Step::$name).ok_or_else(|| broken(sheet));
                    }
                )+)+
                Err(broken(sheet))
            }

            fn inner(&self) -> &dyn Transform {
                match self {
                    $($(Step::$name(step) => step,)+)+
                    Step::Pattern(step) => step,
                    Step::Grammar(step) => step,
                }
            }
        }
    };
}

steps! {
    logit_bias: LogitBias;
    dry: Dry;
    repetition: EncoderRepetition, Repetition;
    presence: Presence, Frequency;
    ngram: NoRepeatNgram, EncoderNoRepeatNgram;
    bad_words: BadWords;
    min_length: MinLength, MinNewTokens;
    forced: ForcedBos, ForcedEos, ForcedPrefix, ForcedTokens;
    length_decay: LengthDecay;
    suppress: Suppress, SuppressBegin;
    temperature: Temperature;
    dynamic_temperature: DynamicTemperature;
    quadratic: Quadratic;
    top_k: TopK;
    top_p: TopP;
    min_p: MinP;
    top_a: TopA;
    top_n_sigma: TopNSigma;
    tail_free: TailFree;
    typical: Typical;
    epsilon: Epsilon;
    eta: Eta;
    xtc: Xtc;
}

// Patterns and grammars are no rows of the table: they are for one vocabulary, and are not written as a text within a chain.
impl From<Pattern> for Step {
    fn from(step: Pattern) -> Self {
        Step::Pattern(step)
    }
}

impl From<Grammar> for Step {
    fn from(step: Grammar) -> Self {
        Step::Grammar(step)
    }
}

impl Step {
    /// The step that answers to `name`, with parameters as in `["0.8", "base=1.75"]`; none if no step does.
    pub fn named(name: &str, words: &[&str]) -> Option<Result<Self>> {
        let sheet = STEPS.iter().find(|sheet| sheet.answers(name))?;
        Some(sheet.read(words).and_then(|values| Self::build(sheet, values)))
    }

    /// The same step with what `words` say changed.
    pub fn with(&self, words: &[&str]) -> Result<Self> {
        Self::build(self.sheet(), self.sheet().read_over(words, &self.values())?)
    }
}

impl Transform for Step {
    fn apply(&self, row: &mut Row, said: &History) {
        self.inner().apply(row, said);
    }

    fn idle(&self) -> bool {
        self.inner().idle()
    }

    fn keeps_best(&self) -> bool {
        self.inner().keeps_best()
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sheet().write(&self.values()))
    }
}

/// A sheet whose ranges and fields disagree: a mistake of ours that a test finds, not the user's.
pub(crate) fn broken(sheet: &StepSheet) -> qkv_base::Error {
    qkv_base::Error::new(format!("`{}`", sheet.name), "its sheet and its fields disagree", "please report this")
}

/// The tables of the tests: probabilities or logits in, the same out.
#[cfg(test)]
pub(crate) mod table {
    use super::*;

    pub(crate) const NO: f32 = f32::NEG_INFINITY;

    /// Runs the step on ln p and compares the probabilities that come out; 0 is a token taken out.
    pub(crate) fn probabilities(step: impl Transform, cases: &[(&[f64], &[f64])]) {
        for (before, after) in cases {
            let logits: Vec<f32> = before.iter().map(|p| p.ln() as f32).collect();
            let mut row = Row::of(&logits).unwrap();
            step.apply(&mut row, &History::default());
            let scale = row.scale();
            let got: Vec<f64> = row.logits().iter().map(|x| scale.probability(*x)).collect();
            let near = got.iter().zip(*after).all(|(a, b)| (a - b).abs() < 1e-6 && (*a == 0.0) == (*b == 0.0));
            assert!(near && got.len() == after.len(), "{before:?}: {got:?}, not {after:?}");
        }
    }

    /// Runs the step on logits and compares the logits that come out.
    pub(crate) fn logits(step: impl Transform, said: &History, before: &[f32], after: &[f32]) {
        let mut row = Row::of(before).unwrap();
        step.apply(&mut row, said);
        let near = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5 * b.abs().max(1e-3);
        assert!(row.logits().iter().zip(after).all(near), "{before:?}: {:?}, not {after:?}", row.logits());
        let alive: Vec<u32> = (0..after.len() as u32).filter(|id| after[*id as usize] > NO).collect();
        assert_eq!(row.alive(), alive);
    }

    #[test]
    fn said_finds_its_ids() {
        let said = History { prompt: &[1, 2], generated: &[3, 4], ..History::default() };
        assert_eq!((0..5).map(|i| said.at(i)).collect::<Vec<_>>(), [Some(1), Some(2), Some(3), Some(4), None]);
        assert_eq!(said.last(0).count(), 4);
        assert_eq!(said.last(9).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(said.ends_with(&[]) && said.ends_with(&[2, 3, 4]) && !said.ends_with(&[0, 1, 2, 3, 4]));
        assert!(!said.ends_with(&[3]) && said.source() == [1, 2]);
    }

    #[test]
    fn every_sheet_is_whole() {
        let mut names = Vec::new();
        for sheet in STEPS {
            names.push(sheet.name);
            names.extend(sheet.aliases);
            let words: Vec<&str> = sheet.example.split(' ').collect();
            let step = Step::named(words[0], &words[1..]).expect(sheet.name).expect(sheet.name);
            assert_eq!(step.sheet().name, sheet.name);
            assert_eq!(step.to_string(), sheet.example, "the example is canonical");
            assert!(!step.idle(), "{} shows what it does", sheet.example);
            for p in sheet.parameters.iter().filter(|p| p.default.is_some()) {
                assert!(p.range.check(&p.fallback().expect(p.name)), "{} {}", sheet.name, p.name);
            }
            assert!(sheet.help().lines().count() == 2 + sheet.parameters.len());
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "two steps share a name");
    }
}
