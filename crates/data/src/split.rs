//! Training, validation and test from one corpus, the same at every call, and with no text on two sides.
//!
//! Where examples have labels, every side has its share of each. Examples that read the same (case, blanks and line ends aside) are one group and stay together; for questions the
//! context is the group. Groups stand in the order of a keyed hash of their text, so a row keeps its side, or nearly, when
//! the file grows or is sorted anew. The test side is filled first, then validation, and the rest is for training.

use crate::{Corpus, Error, Example, Key, Result, Subset};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much goes where; the rest is for training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// share of the validation side
    pub valid: f64,
    /// share of the test side
    pub test: f64,
    /// another seed, another split
    pub seed: u64,
}

impl Default for Split {
    /// 10 % for validation, 10 % for the test.
    fn default() -> Self {
        Self { valid: 0.1, test: 0.1, seed: 0 }
    }
}

/// Which examples are on which side, each in the order of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitIndices {
    /// for training
    pub train: Vec<u32>,
    /// for validation
    pub valid: Vec<u32>,
    /// for the test
    pub test: Vec<u32>,
}

impl SplitIndices {
    /// The three sides as corpora.
    pub fn of(&self, whole: &Arc<dyn Corpus>) -> [Subset; 3] {
        [&self.train, &self.valid, &self.test].map(|side| Subset::new(whole.clone(), side.clone()))
    }
}

/// Splits a corpus.
///
/// ```
/// use qkv_data::{Example, Split, split};
/// let rows: Vec<Example> = (0..100).map(|i| Example::Text(format!("line {i}"))).collect();
/// let sides = split(&rows, Split::default())?;
/// assert_eq!((sides.train.len(), sides.valid.len(), sides.test.len()), (80, 10, 10));
/// # Ok::<(), qkv_data::Error>(())
/// ```
pub fn split(corpus: &dyn Corpus, how: Split) -> Result<SplitIndices> {
    let share = |part: f64| (0.0..1.0).contains(&part);
    if !share(how.valid) || !share(how.test) || how.valid + how.test >= 1.0 {
        let what = format!("{} for validation and {} for the test", how.valid, how.test);
        return Err(Error::new("split", what, "give shares from 0 to 1 that leave something for training"));
    }
    let key = Key::new(how.seed, 0, 0).named("split");
    let mut groups: BTreeMap<u64, (String, Vec<u32>)> = BTreeMap::new();
    for (i, example) in (0u32..).zip(corpus.examples()) {
        let example = example?;
        let [high, low, ..] = key.child(fingerprint(&example)).block(0);
        // A text that stands there twice with two labels is one group all the same: it has the first one's.
        let group = groups.entry(u64::from(high) << 32 | u64::from(low));
        group.or_insert_with(|| (label(&example).to_string(), vec![])).1.push(i);
    }
    let mut strata: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
    groups.into_values().for_each(|(label, group)| strata.entry(label).or_default().push(group));
    let count = |rows: usize, part: f64| (rows as f64 * part).round() as usize;
    let (mut sides, mut before) = (SplitIndices::default(), 0);
    for groups in strata.into_values() {
        let rows = before + groups.iter().map(Vec::len).sum::<usize>();
        // What is due after this label less what was due before it: rare labels get their rows, and the sum is right.
        let due = |part: f64| count(rows, part) - count(before, part);
        let (mut test, mut valid) = (due(how.test), due(how.valid));
        for group in groups {
            let (side, left) = match group.len() {
                n if n <= test => (&mut sides.test, &mut test),
                n if n <= valid => (&mut sides.valid, &mut valid),
                _ => {
                    sides.train.extend(group);
                    continue;
                }
            };
            *left -= group.len();
            side.extend(group);
        }
        before = rows;
    }
    [&mut sides.train, &mut sides.valid, &mut sides.test].into_iter().for_each(|side| side.sort_unstable());
    Ok(sides)
}

/// The label of an example; empty where it has none.
fn label(example: &Example) -> &str {
    match example {
        Example::Labelled { label, .. } | Example::LabelledPair { label, .. } | Example::Image { label, .. } => label,
        _ => "",
    }
}

/// How many examples of `other` read like one of `train`: a score on them says little.
pub fn overlap(train: &dyn Corpus, other: &dyn Corpus) -> Result<usize> {
    let read = |corpus: &dyn Corpus| corpus.examples().map(|e| Ok(fingerprint(&e?))).collect::<Result<Vec<u64>>>();
    let known: std::collections::BTreeSet<u64> = read(train)?.into_iter().collect();
    Ok(read(other)?.iter().filter(|print| known.contains(print)).count())
}

/// What makes two examples the same one: a hash (FNV-1a, 64 bits) of what the model reads, blanks and case aside.
pub(crate) fn fingerprint(example: &Example) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let start = 0xcbf2_9ce4_8422_2325;
    if let Example::Image { pixels, width, .. } = example {
        return pixels.iter().fold(start ^ *width as u64, |hash, byte| step(hash, *byte));
    }
    let mut hash = start;
    let mut buffer = [0; 4];
    for word in example.text().split_whitespace() {
        for letter in word.chars().flat_map(char::to_lowercase) {
            hash = letter.encode_utf8(&mut buffer).bytes().fold(hash, step);
        }
        hash = step(hash, b' ');
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn rows() -> Vec<Example> {
        // Every text twice, the second time in other clothes.
        (0..300).map(|i| Example::labelled(format!(" Line\t{} ", i / 2), if i % 2 == 0 { "a" } else { "b" })).collect()
    }

    #[test]
    fn no_text_is_on_two_sides_and_none_is_lost() {
        let rows = rows();
        let sides = split(&rows, Split::default()).unwrap();
        let mut all = [sides.train.clone(), sides.valid.clone(), sides.test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..300).collect::<Vec<u32>>());
        let texts = |side: &[u32]| side.iter().map(|i| i / 2).collect::<BTreeSet<u32>>();
        let (train, valid, test) = (texts(&sides.train), texts(&sides.valid), texts(&sides.test));
        assert!(train.is_disjoint(&valid) && train.is_disjoint(&test) && valid.is_disjoint(&test));
        assert_eq!((sides.valid.len(), sides.test.len()), (30, 30));
    }

    #[test]
    fn the_split_follows_the_text_not_the_place() {
        let rows = rows();
        let mut turned = rows.clone();
        turned.reverse();
        let texts = |rows: &Vec<Example>, seed| {
            let sides = split(rows, Split { seed, ..Split::default() }).unwrap();
            sides.test.iter().map(|i| rows[*i as usize].text().to_string()).collect::<BTreeSet<String>>()
        };
        assert_eq!(texts(&rows, 0), texts(&turned, 0));
        assert_ne!(texts(&rows, 0), texts(&rows, 1));
    }

    #[test]
    fn every_side_has_its_share_of_each_label() {
        let label = |i: usize| if i.is_multiple_of(10) { "rare" } else { "common" };
        let rows: Vec<Example> = (0..1000).map(|i| Example::labelled(format!("line {i}"), label(i))).collect();
        let sides = split(&rows, Split::default()).unwrap();
        let rare = |side: &[u32]| side.iter().filter(|i| **i % 10 == 0).count();
        assert_eq!(
            [&sides.train, &sides.valid, &sides.test].map(|s| (s.len(), rare(s))),
            [(800, 80), (100, 10), (100, 10)]
        );
        // As many labels as a tenth of the rows: none has a row due to it alone, but all of them together have.
        let rows: Vec<Example> =
            (0..400).map(|i| Example::labelled(format!("line {i}"), format!("{}", i % 100))).collect();
        let sides = split(&rows, Split::default()).unwrap();
        assert_eq!((sides.valid.len(), sides.test.len()), (40, 40));
    }

    #[test]
    fn rows_on_two_sides_are_counted() {
        let rows = |n: std::ops::Range<usize>| n.map(|i| Example::Text(format!("Line {i}"))).collect::<Vec<_>>();
        let again = vec![Example::Text("line  3".into()), Example::Text("new".into())];
        assert_eq!((overlap(&rows(0..9), &again).unwrap(), overlap(&rows(0..9), &rows(9..12)).unwrap()), (1, 0));
    }

    #[test]
    fn impossible_shares_are_refused() {
        for (valid, test) in [(0.6, 0.4), (-0.1, 0.1), (f64::NAN, 0.1)] {
            assert!(split(&rows(), Split { valid, test, seed: 0 }).is_err());
        }
    }

    #[test]
    fn case_and_blanks_make_no_other_text() {
        let text = |t: &str| fingerprint(&Example::Text(t.into()));
        assert_eq!(text("The  House\n"), text("the house"));
        assert_ne!(text("the house"), text("thehouse"));
    }
}
