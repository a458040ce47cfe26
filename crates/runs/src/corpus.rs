//! The splits of a corpus: what is learnt from, what settings are chosen by, and what the end is judged by.

use crate::recipe::Data;
use qkv_base::{Error, Result, Task};
use qkv_data::readers::{Fitted, Picture};
use qkv_data::shards::{Shards, is_shards};
use qkv_data::{Corpus, Example, Reader, Split, Subset, builtin, overlap, split};
use qkv_model::spec::{Input, Spec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most examples that are made for a run: they are held in memory, at some hundred bytes each.
const MADE: usize = 10_000_000;

/// A corpus in its splits.
#[derive(Clone)]
pub struct Splits {
    /// what is learnt from
    pub train: Arc<dyn Corpus>,
    /// what settings are chosen by
    pub valid: Arc<dyn Corpus>,
    /// new examples of the same kind
    pub test: Arc<dyn Corpus>,
    /// combinations that training never shows, where the corpus has such a side
    pub compositional: Option<Arc<dyn Corpus>>,
    /// labels in the corpus' own order, where it has one
    pub labels: Vec<String>,
    /// the test of each corpus of a mixture, by what stands before its sources
    pub parts: Vec<(String, Arc<dyn Corpus>)>,
    /// the shards that they are rows of, where the corpus is one of shards
    pub shards: Option<Arc<Shards>>,
    /// what was decided on the way
    pub notes: Vec<String>,
}

impl Splits {
    /// What the corpus of a run is recognised by: a resumed run must find the same.
    pub fn fingerprint(&self) -> Result<String> {
        let side = |name: &str, corpus: &dyn Corpus| -> Result<String> {
            let known = match &self.shards {
                // Every token has a checksum already.
                Some(shards) if corpus.tokens(0)?.is_some() => shards.index().fingerprint(),
                _ => fingerprint(corpus)?,
            };
            Ok(format!("{} examples to {name} by ({known})", corpus.len()))
        };
        Ok(format!("{}, {}", side("learn", &*self.train)?, side("validate", &*self.valid)?))
    }

    /// Opens the corpus of a recipe, or its mixture.
    pub fn open(data: &Data, seed: u64) -> Result<Self> {
        Self::open_for(data, seed, None)
    }

    /// Grey pictures become colour, the same in all three channels, when they are asked for; which is noted.
    pub(crate) fn in_colour(&mut self) {
        let Ok(Example::Image { width, height, channels: 1, .. }) = self.train.get(0) else { return };
        let size = Picture { width, height, channels: 3 };
        let coloured = |corpus: &Arc<dyn Corpus>| Arc::new(Fitted { corpus: corpus.clone(), size }) as Arc<dyn Corpus>;
        (self.train, self.valid, self.test) = (coloured(&self.train), coloured(&self.valid), coloured(&self.test));
        self.compositional = self.compositional.as_ref().map(coloured);
        self.notes.push("grey pictures are read as colour, the same in all three channels".into());
    }

    /// The same for a network that reads pictures of one size: every picture is brought to it.
    pub fn open_for(data: &Data, seed: u64, picture: Option<Picture>) -> Result<Self> {
        if !data.mix.is_empty() {
            return Self::mixed(data, seed, picture);
        }
        if data.corpus.starts_with("builtin:") {
            return Self::made(data, seed, picture);
        }
        if is_shards(Path::new(&data.corpus)) {
            return crate::shards::open(data, seed);
        }
        let reader = Reader { picture, ..reader(data.objective, &data.columns)? };
        let files: Vec<PathBuf> = std::iter::once(&data.corpus).chain(&data.more).map(PathBuf::from).collect();
        let opened = reader.open_all(&files)?;
        let (whole, mut notes) = (opened.corpus, opened.notes);
        let side = |file: &str| -> Result<Option<Arc<dyn Corpus>>> {
            if file.is_empty() { Ok(None) } else { Ok(Some(reader.open(Path::new(file))?.corpus)) }
        };
        let given = [side(&data.valid_file)?, side(&data.test_file)?];
        let cut = match (whole.len(), data.objective) {
            (1, task) if task.is_of_text_alone() => documents(&whole, given, &mut notes)?,
            _ => rows(&whole, data, given, seed, &mut notes)?,
        };
        let [train, valid, test] = cut;
        let (labels, parts) = (vec![], vec![]);
        Ok(Self { train, valid, test, compositional: None, labels, parts, shards: None, notes })
    }

    /// Several corpora, an example of each in turn, every source behind the prefix of its corpus.
    fn mixed(data: &Data, seed: u64, picture: Option<Picture>) -> Result<Self> {
        let one = |(corpus, prefix): (&String, &String)| {
            let data = Data { corpus: corpus.clone(), mix: Default::default(), ..data.clone() };
            Ok((prefix.clone(), Self::open_for(&data, seed, picture)?))
        };
        let all: Vec<(String, Self)> = data.mix.iter().map(one).collect::<Result<_>>()?;
        let side = |of: fn(&Self) -> Option<&Arc<dyn Corpus>>| -> Result<Vec<Vec<Example>>> {
            all.iter().filter_map(|(prefix, s)| Some(prefixed(&**of(s)?, prefix))).collect()
        };
        let test = side(|s| Some(&s.test))?;
        let name = |(corpus, prefix): (&String, &String)| {
            if prefix.is_empty() { corpus } else { prefix }.trim().trim_end_matches(':').to_string()
        };
        let parts = data.mix.iter().map(name).zip(&test).map(|(n, t)| (n, Arc::new(t.clone()) as Arc<dyn Corpus>));
        Ok(Self {
            parts: parts.collect(),
            train: in_turn(side(|s| Some(&s.train))?),
            valid: in_turn(side(|s| Some(&s.valid))?),
            test: in_turn(test),
            compositional: Some(in_turn(side(|s| s.compositional.as_ref())?)).filter(|c| !c.is_empty()),
            labels: vec![],
            shards: None,
            notes: all.into_iter().flat_map(|(_, s)| s.notes).collect(),
        })
    }

    /// A corpus that qkv makes itself. The splits that judge are the same for every seed.
    fn made(data: &Data, seed: u64, picture: Option<Picture>) -> Result<Self> {
        use builtin::Split as Side;
        let corpus = builtin::Corpus::find(&data.corpus)?;
        for (key, n) in [("data.examples", data.examples), ("data.valid", data.valid), ("data.test", data.test)] {
            if n > MADE {
                let what = format!("{n} examples that are made would be held in memory");
                return Err(Error::new(key, what, "use at most 10,000,000"));
            }
        }
        let side = |side: Side, seed: u64, n: usize| -> Result<Arc<dyn Corpus>> {
            let n = if n == 0 { corpus.size(side) } else { n };
            Ok(Arc::new(made(corpus.examples(seed, side).take(n), data.objective, picture)?))
        };
        Ok(Self {
            train: side(Side::Train, seed, data.examples)?,
            valid: side(Side::Valid, 1, data.valid)?,
            test: side(Side::Test, 1, data.test)?,
            compositional: Some(side(Side::Compositional, 1, data.test)?).filter(|c| !c.is_empty()),
            labels: corpus.labels().iter().map(|l| l.to_string()).collect(),
            parts: vec![],
            shards: None,
            notes: vec![],
        })
    }
}

/// Examples that are made, for a task, and for a network that reads pictures of one size.
pub(crate) fn made(
    examples: impl Iterator<Item = Example>,
    task: Task,
    picture: Option<Picture>,
) -> Result<Vec<Example>> {
    let fit = |example: Example| match picture {
        Some(size) => size.fit(example),
        None => Ok(example),
    };
    examples.map(|example| fit(example.for_task(task))).collect()
}

/// The pictures that a network reads; none where it reads text.
pub(crate) fn picture_of(spec: &Spec) -> Option<Picture> {
    match spec.input {
        Input::Patches { image, channels, .. } => Some(Picture { width: image, height: image, channels }),
        Input::Tokens { .. } => None,
    }
}

/// What reads a file for a goal, with the columns that a person named.
pub(crate) fn reader(task: Task, columns: &BTreeMap<String, String>) -> Result<Reader> {
    columns.iter().try_fold(Reader::new(task), |reader, (field, column)| reader.column(field, column))
}

/// The examples of a corpus, with a text before every source.
fn prefixed(corpus: &dyn Corpus, prefix: &str) -> Result<Vec<Example>> {
    let put = |example: Example| match example {
        Example::Pair { source, target } => Example::Pair { source: format!("{prefix}{source}"), target },
        Example::Text(text) => Example::Text(format!("{prefix}{text}")),
        other => other,
    };
    corpus.examples().map(|e| Ok(put(e?))).collect()
}

/// The first of each, the second of each, and so on; a short list ends early.
fn in_turn(lists: Vec<Vec<Example>>) -> Arc<dyn Corpus> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let all: Vec<Example> =
        (0..longest).flat_map(|i| lists.iter().filter_map(move |l| l.as_slice().get(i))).cloned().collect();
    Arc::new(all)
}

/// A text, and files to judge by: one that is not given is the other; without any, the last tenth of the text is.
fn documents(
    whole: &Arc<dyn Corpus>,
    given: [Option<Arc<dyn Corpus>>; 2],
    notes: &mut Vec<String>,
) -> Result<[Arc<dyn Corpus>; 3]> {
    let [valid, test] = given;
    match (valid.clone().or(test.clone()), test.or(valid)) {
        (Some(valid), Some(test)) => Ok([whole.clone(), valid, test]),
        _ => {
            notes.push("split: the last tenth of the text is kept apart, to validate and to test".into());
            one_document(&whole.get(0)?)
        }
    }
}

/// One long text: the last tenth is kept apart, cut at a line where there is one.
fn one_document(example: &Example) -> Result<[Arc<dyn Corpus>; 3]> {
    let Example::Text(text) = example else {
        return Err(Error::new("data.corpus", "one example cannot be split", "give more rows"));
    };
    let at = (text.len() / 10 * 9..text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
    let line = text.get(at..).and_then(|rest| rest.find('\n')).filter(|n| *n < text.len() / 100).map_or(0, |n| n + 1);
    let (train, rest) = text.split_at(at + line);
    if train.trim().is_empty() || rest.trim().is_empty() {
        return Err(Error::new("data.corpus", "the text is too short to keep a tenth apart", "give more text"));
    }
    let side = |text: &str| -> Arc<dyn Corpus> { Arc::new(vec![Example::Text(text.to_string())]) };
    Ok([side(train), side(rest), side(rest)])
}

/// Rows in three sides. A side that is not given as a file is kept apart by a hash of what is read, so that a text that
/// stands there twice is on one side, with a share of every label.
fn rows(
    whole: &Arc<dyn Corpus>,
    data: &Data,
    given: [Option<Arc<dyn Corpus>>; 2],
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<[Arc<dyn Corpus>; 3]> {
    let n = whole.len() as f64;
    let [valid, test] = given;
    let share = |given: bool, wanted: usize| if given { 0.0 } else { (wanted as f64 / n).min(0.1) };
    let shares = (share(valid.is_some(), data.valid), share(test.is_some(), data.test));
    let splits = split(&**whole, Split { valid: shares.0, test: shares.1, seed })?;
    let empty = |given: &Option<Arc<dyn Corpus>>, cut: &[u32]| given.is_none() && cut.is_empty();
    if splits.train.is_empty() || empty(&valid, &splits.valid) || empty(&test, &splits.test) {
        let what = format!("{} rows are too few: some are kept apart to validate and to test", whole.len());
        return Err(Error::new(&data.corpus, what, "give 20 or more"));
    }
    let side = |mut chosen: Vec<u32>, most: usize| -> Arc<dyn Corpus> {
        if most > 0 {
            chosen.truncate(most);
        }
        Arc::new(Subset::new(whole.clone(), chosen))
    };
    let cut = valid.is_none() || test.is_none();
    let train = side(splits.train, data.examples);
    for (name, given) in [("validation", &valid), ("test", &test)] {
        let Some(other) = given else { continue };
        let twice = overlap(&*train, &**other)?;
        if twice > 0 {
            notes.push(format!(
                "warning: {twice} of {} rows of the {name} file are in the training data, too: a score on them says little",
                other.len()
            ));
        }
    }
    let [valid, test] =
        [(valid, splits.valid), (test, splits.test)].map(|(given, cut)| given.unwrap_or_else(|| side(cut, 0)));
    let how = match (cut, data.objective.has_labels() && data.objective != Task::Tag) {
        (false, _) => "as the files say",
        (true, true) => "by a hash of the text: labels in proportion, duplicates together",
        (true, false) => "by a hash of the text: duplicates together",
    };
    notes.push(format!(
        "split: {} to learn from, {} to validate, {} to test, {how}",
        train.len(),
        valid.len(),
        test.len()
    ));
    Ok([train, valid, test])
}

/// A hash of every example.
pub fn fingerprint(corpus: &dyn Corpus) -> Result<String> {
    let mut hash = blake3::Hasher::new();
    for example in corpus.examples() {
        let line = serde_json::to_vec(&example?).map_err(|e| Error::internal("corpus", e.to_string()))?;
        hash.update(&line).update(b"\n");
    }
    Ok(hash.finalize().to_hex()[..16].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(corpus: &str, objective: Task) -> Data {
        Data { corpus: corpus.into(), objective, examples: 50, valid: 10, test: 10, ..Data::default() }
    }

    #[test]
    fn made_sides_share_nothing_and_are_the_same_for_every_seed() {
        let a = Splits::open(&data("builtin:en-it", Task::Translate), 1).unwrap();
        let b = Splits::open(&data("builtin:en-it", Task::Translate), 2).unwrap();
        assert_ne!(fingerprint(&*a.train), fingerprint(&*b.train));
        assert_eq!(fingerprint(&*a.test), fingerprint(&*b.test));
        let texts = |c: &Arc<dyn Corpus>| c.examples().map(|e| e.unwrap().text().into_owned()).collect::<Vec<_>>();
        assert!(texts(&a.train).iter().all(|t| !texts(&a.test).contains(t)));
        assert_eq!(a.compositional.unwrap().len(), 10);
    }

    #[test]
    fn a_mixture_takes_turns_and_keeps_its_parts_apart() {
        let mix = [("builtin:typos", "correct: "), ("builtin:en-it", "to Italian: ")];
        let mix = mix.map(|(corpus, prefix)| (corpus.to_string(), prefix.to_string())).into();
        let splits = Splits::open(&Data { mix, ..data("", Task::Translate) }, 1).unwrap();
        assert_eq!((splits.train.len(), splits.valid.len(), splits.test.len()), (100, 20, 20));
        let starts = |i| splits.test.get(i).unwrap().text().split(": ").next().unwrap().to_string();
        assert_eq!([0, 1, 2, 3].map(starts), ["to Italian", "correct", "to Italian", "correct"]);
        let parts: Vec<(&str, usize)> = splits.parts.iter().map(|(n, c)| (n.as_str(), c.len())).collect();
        assert_eq!(parts, [("to Italian", 10), ("correct", 10)]);
    }

    #[test]
    fn a_label_is_a_text_to_write_where_texts_are_written() {
        let splits = Splits::open(&data("builtin:reviews", Task::Translate), 1).unwrap();
        let Example::Pair { target, .. } = splits.test.get(0).unwrap() else { panic!("no pair") };
        assert!(splits.labels.contains(&target), "{target}");
    }

    #[test]
    fn files_to_validate_and_test_by_are_taken_whole() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, rows: std::ops::Range<usize>| {
            let text: String = rows.map(|i| format!("text number {i}\t{}\n", i % 2)).collect();
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (train, valid, test) = (put("a.tsv", 0..100), put("v.tsv", 98..110), put("t.tsv", 200..203));
        let with = |valid: &str, test: &str| {
            let files = Data { valid_file: valid.into(), test_file: test.into(), ..data(&train, Task::Classify) };
            Splits::open(&Data { examples: 0, ..files }, 1).unwrap()
        };
        let sizes = |s: &Splits| (s.train.len(), s.valid.len(), s.test.len());
        let both = with(&valid, &test);
        assert_eq!(sizes(&both), (100, 12, 3));
        assert!(both.notes.iter().any(|n| n.contains("2 of 12 rows of the validation file")), "{:?}", both.notes);
        assert_eq!(sizes(&with(&valid, "")), (90, 12, 10), "a test is kept apart all the same");
        let none = with("", "");
        assert_eq!(sizes(&none), (80, 10, 10));
        assert!(none.notes.iter().any(|n| n.contains("labels in proportion")), "{:?}", none.notes);
        let more = Data { more: vec![test.clone()], ..data(&train, Task::Classify) };
        assert_eq!(sizes(&Splits::open(&Data { examples: 0, ..more }, 1).unwrap()), (83, 10, 10));
    }

    #[test]
    fn a_text_keeps_its_last_tenth_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("book.txt");
        let text: String = (0..1000).map(|i| format!("line {i} is here\n")).collect();
        std::fs::write(&path, &text).unwrap();
        let splits = Splits::open(&data(&path.display().to_string(), Task::NextToken), 1).unwrap();
        let (train, valid) = (splits.train.get(0).unwrap(), splits.valid.get(0).unwrap());
        assert_eq!(splits.train.len(), 1);
        assert_eq!(format!("{}{}", train.text(), valid.text()).trim_end(), text.trim_end()); // the reader drops the last line's end
        assert!(valid.text().len() * 11 > text.len() && valid.text().starts_with("line "));
    }
}
