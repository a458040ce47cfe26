//! Corpora that qkv makes itself: every task can be learned with nothing downloaded.
//!
//! The example at `(corpus, seed, split, index)` is a pure function of these four, so any position can be made without
//! the ones before it. A generator draws a candidate; the candidate itself says to which split it belongs:
//!
//! - a *combination* of words chosen by hash (this adjective with this noun) sends it to [`Split::Compositional`];
//! - otherwise a hash of its source sends 5 in 100 to [`Split::Valid`], 5 to [`Split::Test`], the rest to
//!   [`Split::Train`];
//!
//! and candidates are drawn until one belongs to the wanted split. Splits are thus disjoint by construction, across all
//! seeds: the test sentences of seed 1 are not in the training data of seed 2 either.
//!
//! ```
//! use qkv_data::{Example, builtin::{Corpus, Split}};
//! let corpus = Corpus::find("builtin:reverse")?;
//! let Example::Pair { source, target } = corpus.example(1, Split::Train, 0) else { panic!() };
//! let back: Vec<&str> = source.split(' ').rev().collect();
//! assert_eq!(target, back.join(" "));
//! # Ok::<(), qkv_base::Error>(())
//! ```

mod draw;
mod entities;
mod facts;
mod grammar;
mod markup;
mod names;
mod programs;
mod pronouns;
mod reviews;
mod senses;
mod sequences;
mod shapes;
mod stories;
mod style;
mod summaries;
mod topics;
mod typos;
mod world;

use crate::Example;
use draw::Draw;
use qkv_base::{Error, Key, Result, Task, nearest};
use std::collections::HashSet;

/// A corpus that qkv makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corpus {
    /// English to Italian
    EnIt,
    /// English to Hindi
    EnHi,
    /// reviews that praise or blame
    Reviews,
    /// words with the names among them tagged
    Entities,
    /// questions whose answer stands in the context
    Facts,
    /// short stories
    Stories,
    /// sentences with slips, and as they should be
    Typos,
    /// reports and their summary in one sentence
    Summaries,
    /// small pictures of shapes
    Shapes,
    /// the source again
    Copy,
    /// the source from the end
    Reverse,
    /// the letters of the source in order
    Sort,
    /// the sum of two numbers
    Add,
    // At the end: the place of a corpus in this list is part of what it draws from.
    /// questions that climb from what is asked for to whom it belongs
    People,
    /// sentences in which words are known by those around them
    Senses,
    /// notices about six subjects
    Topics,
    /// first names
    Names,
    /// which noun a pronoun means
    Pronouns,
    /// a message to a stranger and to a friend
    Style,
    /// sentences with faults of grammar, and as they should be
    Corrections,
    /// English to Italian, with words that mean something else together
    Idioms,
    /// what is to be computed, and a program that does it
    Programs,
    /// texts with tags within tags
    Markup,
}

/// A part of a corpus. No source is in two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// to learn from
    Train,
    /// to choose settings by
    Valid,
    /// new sources of the same kind
    Test,
    /// combinations that training never shows: words it shows only apart, or longer sequences
    Compositional,
}

impl Split {
    /// Every split.
    pub const ALL: [Split; 4] = [Split::Train, Split::Valid, Split::Test, Split::Compositional];

    /// Its name in files and commands.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Valid => "valid",
            Split::Test => "test",
            Split::Compositional => "compositional",
        }
    }

    /// The split of this name.
    pub fn find(name: &str) -> Result<Split> {
        let known = || Split::ALL.map(Split::name);
        Split::ALL.into_iter().find(|split| split.name() == name).ok_or_else(|| unknown("split", name, &known()))
    }
}

impl Corpus {
    /// Every corpus.
    pub const ALL: [Corpus; 23] = [
        Corpus::EnIt,
        Corpus::EnHi,
        Corpus::Idioms,
        Corpus::Reviews,
        Corpus::Topics,
        Corpus::Entities,
        Corpus::People,
        Corpus::Facts,
        Corpus::Pronouns,
        Corpus::Stories,
        Corpus::Senses,
        Corpus::Names,
        Corpus::Markup,
        Corpus::Typos,
        Corpus::Corrections,
        Corpus::Style,
        Corpus::Programs,
        Corpus::Summaries,
        Corpus::Shapes,
        Corpus::Copy,
        Corpus::Reverse,
        Corpus::Sort,
        Corpus::Add,
    ];

    /// The corpus of this name, with or without `builtin:` before it.
    ///
    /// ```
    /// use qkv_data::builtin::Corpus;
    /// assert_eq!(Corpus::find("builtin:en-hi")?, Corpus::find("en-hi")?);
    /// assert!(Corpus::find("en-hindi").unwrap_err().hint.contains("`en-hi`"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn find(name: &str) -> Result<Corpus> {
        let short = name.strip_prefix("builtin:").unwrap_or(name);
        let known = || Corpus::ALL.map(Corpus::name);
        Corpus::ALL.into_iter().find(|c| c.name() == short).ok_or_else(|| unknown("built-in corpus", short, &known()))
    }

    /// Its name in recipes and commands.
    pub fn name(self) -> &'static str {
        match self {
            Corpus::EnIt => "en-it",
            Corpus::EnHi => "en-hi",
            Corpus::Reviews => "reviews",
            Corpus::Entities => "entities",
            Corpus::People => "people",
            Corpus::Facts => "facts",
            Corpus::Stories => "stories",
            Corpus::Typos => "typos",
            Corpus::Summaries => "summaries",
            Corpus::Shapes => "shapes",
            Corpus::Copy => "copy",
            Corpus::Reverse => "reverse",
            Corpus::Sort => "sort",
            Corpus::Add => "add",
            Corpus::Senses => "senses",
            Corpus::Topics => "topics",
            Corpus::Names => "names",
            Corpus::Pronouns => "pronouns",
            Corpus::Style => "style",
            Corpus::Corrections => "corrections",
            Corpus::Idioms => "idioms",
            Corpus::Programs => "programs",
            Corpus::Markup => "markup",
        }
    }

    /// What it holds, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Corpus::EnIt => "English to Italian: agreement, articles, six tenses, clitics, questions",
            Corpus::EnHi => "English to Hindi: verb last, postpositions, oblique forms, the ergative past",
            Corpus::Reviews => "reviews, positive or negative, with negation and contrast",
            Corpus::Entities => "words tagged PER, LOC, ORG and DATE; the same word can be a name or not",
            Corpus::People => {
                "two or three people, a question that climbs from the fact to the person, the answer as a span"
            }
            Corpus::Facts => "the same, harder: everybody has facts of the same kinds, so only the person tells",
            Corpus::Stories => "stories of five to twelve sentences, for language models",
            Corpus::Typos => "a sentence with slips of the keyboard, and the sentence meant",
            Corpus::Summaries => "a report of four to eight sentences and its summary in one",
            Corpus::Shapes => "grey pictures, 32 by 32, of eight shapes in any place, size and turn, with noise",
            Corpus::Copy => "letters, and the same letters again",
            Corpus::Reverse => "letters, and the same letters from the end",
            Corpus::Sort => "letters, and the same letters in alphabetical order",
            Corpus::Add => "two numbers, and their sum",
            Corpus::Senses => "sentences with two banks, two apples, kings and queens, for vectors of words",
            Corpus::Topics => "notices about six subjects, some of which mention another",
            Corpus::Names => "first names, put together of syllables, for language models of letters",
            Corpus::Pronouns => "which noun `it` or `they` means, told by what can be tired or wide, as a span",
            Corpus::Style => "a message to a stranger and the same to a friend, either way",
            Corpus::Corrections => "a sentence with faults of agreement, article, form or tense, and the right one",
            Corpus::Idioms => "English to Italian, most of it idioms; the same words also mean what they say",
            Corpus::Programs => "a task in words, and a program for a stack machine; judged by running it",
            Corpus::Markup => "texts with tags within tags, each to be closed in its order, for language models",
        }
    }

    /// What there is to learn from it.
    pub fn task(self) -> Task {
        match self {
            Corpus::Reviews | Corpus::Topics => Task::Classify,
            Corpus::Entities => Task::Tag,
            Corpus::People | Corpus::Facts | Corpus::Pronouns => Task::Answer,
            Corpus::Stories | Corpus::Senses | Corpus::Names | Corpus::Markup => Task::NextToken,
            Corpus::Shapes => Task::Image,
            _ => Task::Translate,
        }
    }

    /// The labels or tags it uses, in a fixed order; none for tasks without them.
    pub fn labels(self) -> &'static [&'static str] {
        match self {
            Corpus::Reviews => &reviews::LABELS,
            Corpus::Topics => &topics::LABELS,
            Corpus::Entities => &entities::TAGS,
            Corpus::Shapes => &shapes::LABELS,
            _ => &[],
        }
    }

    /// How many examples of a split make a good default.
    pub fn size(self, split: Split) -> usize {
        match (split, self) {
            (Split::Train, Corpus::EnIt | Corpus::EnHi | Corpus::Typos | Corpus::People) => 100_000,
            (Split::Train, Corpus::Corrections | Corpus::Idioms) => 100_000,
            (Split::Train, Corpus::Shapes) => 10_000,
            (Split::Train, _) => 20_000,
            _ => 1_000,
        }
    }

    /// The example at `index` of this split. Any index will do; two may hold the same example, which
    /// [`Corpus::examples`] leaves out.
    pub fn example(self, seed: u64, split: Split, index: u64) -> Example {
        let stream = Key::new(seed, self as u64, split as u64).child(index);
        let mut attempt = 0;
        loop {
            if let Some(example) = self.candidate(Draw::new(stream.child(attempt)), split) {
                return example;
            }
            attempt += 1;
        }
    }

    /// The examples of a split in order of their index, each once. The iterator ends where the corpus has nothing new
    /// to say; take [`Corpus::size`] of them, or as many as you want.
    ///
    /// ```
    /// use qkv_data::builtin::{Corpus, Split};
    /// let corpus = Corpus::EnIt;
    /// let test: Vec<_> = corpus.examples(1, Split::Test).take(100).collect();
    /// assert_eq!(test.len(), 100);
    /// ```
    pub fn examples(self, seed: u64, split: Split) -> Examples {
        Examples { corpus: self, seed, split, index: 0, seen: HashSet::new() }
    }

    /// One candidate, if it belongs to `split`.
    fn candidate(self, mut draw: Draw, split: Split) -> Option<Example> {
        let draw = &mut draw;
        match self {
            // The target is only worth writing once the source is known to be wanted.
            Corpus::EnIt | Corpus::EnHi => {
                let sentence = grammar::sentence(draw);
                let source = grammar::english(&sentence);
                let target = if self == Corpus::EnIt { grammar::italian } else { grammar::hindi };
                (home(&source, draw.novel) == split).then(|| Example::Pair { target: target(&sentence), source })
            }
            Corpus::Idioms => {
                let sentence = grammar::idiom(draw);
                let source = grammar::english(&sentence);
                let target = || grammar::italian(&sentence);
                (home(&source, draw.novel) == split).then(|| Example::Pair { target: target(), source })
            }
            Corpus::Corrections => {
                let sentence = grammar::sentence(draw);
                let target = grammar::english(&sentence);
                if home(&target, draw.novel) != split {
                    return None;
                }
                Some(Example::Pair { source: grammar::wrong(draw, &sentence)?, target })
            }
            // A right sentence and all its slips belong to one split.
            Corpus::Typos => {
                let right = grammar::english(&grammar::sentence(draw));
                (home(&right, draw.novel) == split).then(|| typos::pair(draw, right))
            }
            _ => {
                let example = self.draw(draw);
                let home = if draw.novel { Split::Compositional } else { of_hash(identity(&example)) };
                (home == split).then_some(example)
            }
        }
    }

    fn draw(self, draw: &mut Draw) -> Example {
        match self {
            Corpus::Reviews => reviews::example(draw),
            Corpus::Entities => entities::example(draw),
            Corpus::People => facts::climbing(draw),
            Corpus::Facts => facts::example(draw),
            Corpus::Stories => stories::example(draw),
            Corpus::Senses => senses::example(draw),
            Corpus::Topics => topics::example(draw),
            Corpus::Names => names::example(draw),
            Corpus::Pronouns => pronouns::example(draw),
            Corpus::Style => style::example(draw),
            Corpus::Programs => programs::example(draw),
            Corpus::Markup => markup::example(draw),
            Corpus::Summaries => summaries::example(draw),
            Corpus::Shapes => shapes::example(draw),
            Corpus::Copy => sequences::copy(draw),
            Corpus::Reverse => sequences::reverse(draw),
            Corpus::Sort => sequences::sort(draw),
            Corpus::Add => sequences::add(draw),
            Corpus::EnIt | Corpus::EnHi | Corpus::Idioms | Corpus::Typos | Corpus::Corrections => {
                unreachable!("drawn by `candidate`")
            }
        }
    }
}

/// The examples of one split, each once: see [`Corpus::examples`].
#[derive(Clone, Debug)]
pub struct Examples {
    corpus: Corpus,
    seed: u64,
    split: Split,
    index: u64,
    /// 64 bits of each source: a million examples cost 16 MB, and lose one to chance once in 10⁷ runs
    seen: HashSet<u64>,
}

impl Iterator for Examples {
    type Item = Example;

    fn next(&mut self) -> Option<Example> {
        /// So many known ones in a row mean that hardly anything new is left.
        const PATIENCE: usize = 2_000;
        for _ in 0..PATIENCE {
            let example = self.corpus.example(self.seed, self.split, self.index);
            self.index += 1;
            if self.seen.insert(identity(&example)) {
                return Some(example);
            }
        }
        None
    }
}

/// 64 bits that tell an example's source from others; two examples with one source are duplicates.
fn identity(example: &Example) -> u64 {
    use draw::{hash, hash_bytes};
    match example {
        Example::Pair { source, .. } => hash(&[source]),
        Example::Labelled { text, .. } | Example::Text(text) => hash(&[text]),
        Example::LabelledPair { first, second, .. } => hash(&[first, second]),
        Example::Tagged { words, .. } => hash(&words.iter().map(String::as_str).collect::<Vec<_>>()),
        Example::Question { context, question, .. } => hash(&[context, question]),
        Example::Image { pixels, .. } => hash_bytes(&[pixels]),
    }
}

/// Where a source belongs.
fn home(source: &str, novel: bool) -> Split {
    if novel { Split::Compositional } else { of_hash(draw::hash(&[source])) }
}

fn of_hash(hash: u64) -> Split {
    match hash % 20 {
        0 => Split::Valid,
        1 => Split::Test,
        _ => Split::Train,
    }
}

fn unknown(what: &str, name: &str, known: &[&'static str]) -> Error {
    let meant = nearest(name, known.iter().copied()).unwrap_or_default();
    let hint = format!("did you mean `{meant}`? there are: {}", known.join(", "));
    Error::new(format!("{what} `{name}`"), "no such name", hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_mistakes_are_answered() {
        for corpus in Corpus::ALL {
            assert_eq!(Corpus::find(&format!("builtin:{}", corpus.name())), Ok(corpus));
            assert!(!corpus.about().is_empty());
        }
        for split in Split::ALL {
            assert_eq!(Split::find(split.name()), Ok(split));
        }
        let error = Corpus::find("builtin:storeys").unwrap_err();
        assert_eq!(error.to_string(), "built-in corpus `storeys`: no such name");
        assert!(error.hint.starts_with("did you mean `stories`?"), "{}", error.hint);
        assert!(Split::find("tset").unwrap_err().hint.starts_with("did you mean `test`?"));
    }

    #[test]
    fn an_example_is_a_function_of_its_four_coordinates() {
        for corpus in Corpus::ALL {
            for split in Split::ALL {
                assert_eq!(corpus.example(3, split, 17), corpus.example(3, split, 17));
            }
            assert_ne!(corpus.example(3, Split::Train, 17), corpus.example(4, Split::Train, 17));
            assert_ne!(corpus.example(3, Split::Train, 17), corpus.example(3, Split::Train, 18));
        }
    }

    #[test]
    fn the_shape_of_an_example_is_its_task() {
        for corpus in Corpus::ALL {
            let example = corpus.example(1, Split::Test, 0);
            assert!(crate::takes(corpus.task(), &example), "{}", corpus.name());
            assert!(example.label().is_none_or(|label| corpus.labels().contains(&label)), "{}", corpus.name());
        }
    }
}
