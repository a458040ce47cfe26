//! A look at the data before any training: how much there is, how long, which labels, and everything in it that would
//! spoil the training or the numbers it ends with. The report says whether training can start.

mod report;

use crate::objective::Labels;
use crate::split::fingerprint;
use crate::{Corpus, Example, Result, Task, Tokenize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

pub use report::{Bucket, DataReport, Finding, Severity};

/// What the data is checked against.
#[derive(Clone, Copy, Default)]
pub struct Against<'a> {
    /// the tokenizer: lengths are then in tokens, not words, and unknown characters are found
    pub tokenizer: Option<&'a dyn Tokenize>,
    /// tokens a row may have
    pub max_length: Option<usize>,
    /// the other splits by name: validation and test, when the data is for training
    pub others: &'a [(&'a str, &'a dyn Corpus)],
    /// rows that the reader left out
    pub bad_rows: usize,
}

/// Checks training data.
///
/// ```
/// use qkv_data::{Against, Example, Task, check};
/// let rows: Vec<Example> = (0..40).map(|i| Example::labelled(format!("text {i}"), ["good", "bad"][i % 2])).collect();
/// let report = check(&rows, Task::Classify, Against::default())?;
/// assert!(report.can_train());
/// let report = check(&rows, Task::Tag, Against::default())?;
/// assert!(!report.can_train());
/// # Ok::<(), qkv_data::Error>(())
/// ```
pub fn check(data: &dyn Corpus, task: Task, against: Against) -> Result<DataReport> {
    let mut seen = Seen::default();
    for index in 0..data.len() {
        seen.add(&data.get(index)?, index, task, &against)?;
    }
    let mut report = seen.report(data, task, &against);
    for (name, other) in against.others {
        compare(&mut report, &seen, name, *other, task)?;
    }
    Ok(report)
}

/// What is gathered in one pass.
#[derive(Default)]
struct Seen {
    rows: usize,
    wrong: Places,
    empty: Places,
    lengths: Vec<u32>,
    labels: BTreeMap<String, usize>,
    /// by what the model reads: a fingerprint of the answer
    read: HashMap<u64, u64>,
    whole: HashSet<u64>,
    duplicates: Places,
    conflicts: Places,
    broken_tags: Places,
    missing_answers: Places,
    cut: Places,
    tokens_cut: usize,
    unknown: BTreeMap<String, usize>,
    unknown_rows: usize,
}

/// How often something was met, and where first.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    count: usize,
    first: usize,
}

impl Places {
    fn note(&mut self, index: usize) {
        if self.count == 0 {
            self.first = index;
        }
        self.count += 1;
    }
}

impl Seen {
    fn add(&mut self, example: &Example, index: usize, task: Task, against: &Against) -> Result<()> {
        self.rows += 1;
        if !crate::takes(task, example) {
            self.wrong.note(index);
            return Ok(());
        }
        if example.is_empty() {
            self.empty.note(index);
            return Ok(());
        }
        self.repeats(example, index);
        if let Some(label) = example.label() {
            *self.labels.entry(label.trim().into()).or_default() += 1;
        }
        if let Example::Tagged { tags, .. } = example {
            tags.iter().for_each(|tag| *self.labels.entry(tag.clone()).or_default() += 1);
            if breaks_bio(tags) {
                self.broken_tags.note(index);
            }
        }
        if !example.answer_stands() {
            self.missing_answers.note(index);
        }
        self.measure(example, index, task, against)
    }

    fn repeats(&mut self, example: &Example, index: usize) {
        let (read, answer) = (reads(example), answers(example));
        let whole = read.rotate_left(17) ^ answer;
        if !self.whole.insert(whole) {
            self.duplicates.note(index);
        } else if *self.read.entry(read).or_insert(answer) != answer && example.label().is_some() {
            self.conflicts.note(index);
        }
    }

    /// Lengths, and what does not fit. A long document or context is read in windows, so nothing of it is lost.
    fn measure(&mut self, example: &Example, index: usize, task: Task, against: &Against) -> Result<()> {
        let (mut longest, mut lost, mut unknown) = (0, 0, false);
        for text in texts(example) {
            let length = match against.tokenizer {
                None => text.split_whitespace().count(),
                Some(tokenizer) => {
                    for piece in tokenizer.unknown(&text)? {
                        unknown = true;
                        *self.unknown.entry(piece).or_default() += 1;
                    }
                    tokenizer.encode(&text)?.ids.len()
                }
            };
            longest = longest.max(length);
            lost += length.saturating_sub(against.max_length.unwrap_or(usize::MAX));
        }
        self.unknown_rows += usize::from(unknown);
        if task != Task::Image {
            self.lengths.push(longest as u32);
        }
        if lost > 0 && against.tokenizer.is_some() && !(task.is_of_text_alone() || task == Task::Answer) {
            self.cut.note(index);
            self.tokens_cut += lost;
        }
        Ok(())
    }

    fn report(&mut self, data: &dyn Corpus, task: Task, against: &Against) -> DataReport {
        let usable = self.rows - self.wrong.count - self.empty.count - self.missing_answers.count;
        let unit = if against.tokenizer.is_some() { "tokens" } else { "words" };
        let mut report = DataReport::new(task, self.rows, usable, unit, &mut self.lengths);
        report.bad_rows = against.bad_rows;
        report.empty = self.empty.count;
        report.labels = self.labels.iter().map(|(name, count)| (name.clone(), *count)).collect();
        report.labels.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        report.duplicates = self.duplicates.count;
        report.conflicts = self.conflicts.count;
        report.broken_tags = self.broken_tags.count;
        report.missing_answers = self.missing_answers.count;
        report.cut = self.cut.count;
        report.tokens_cut = self.tokens_cut;
        let mut unknown: Vec<(String, usize)> = self.unknown.iter().map(|(piece, n)| (piece.clone(), *n)).collect();
        unknown.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        unknown.truncate(20);
        report.unknown = unknown;
        self.judge(&mut report, data, task, against);
        report
    }

    fn judge(&self, report: &mut DataReport, data: &dyn Corpus, task: Task, against: &Against) {
        let at = |places: &Places| data.place(places.first);
        let mut say = |level, count: usize, what: String, hint: &str| {
            if count > 0 {
                report.findings.push(Finding { level, what, hint: hint.into() });
            }
        };
        let n = self.wrong.count;
        let what = format!("{} not for the task {}; the first: {}", count(n, "row"), task.name(), at(&self.wrong));
        say(Severity::Stop, n, what, "choose the task that the data is for");
        let n = against.bad_rows;
        say(Severity::Warning, n, format!("{} skipped", count(n, "bad row")), "mend them, or leave it at that");
        let n = self.empty.count;
        say(
            Severity::Warning,
            n,
            format!("{}; the first: {}", count(n, "empty row"), at(&self.empty)),
            "they are skipped",
        );
        let n = self.missing_answers.count;
        let what = format!("{} not in the context; the first: {}", count(n, "answer"), at(&self.missing_answers));
        say(Severity::Warning, n, what, "they are skipped; give the answer in the context's own words and its start");
        let n = self.broken_tags.count;
        let what = format!(
            "{} with an I- tag that no B- or I- of its kind precedes; the first: {}",
            count(n, "row"),
            at(&self.broken_tags)
        );
        say(Severity::Warning, n, what, "begin every entity with B-; scorers treat such tags differently");
        let n = self.duplicates.count;
        say(
            Severity::Warning,
            n,
            format!("{} there already; the first: {}", count(n, "row"), at(&self.duplicates)),
            "drop all but one of each",
        );
        let n = self.conflicts.count;
        let what = format!(
            "{} with the text of another row and another label; the first: {}",
            count(n, "row"),
            at(&self.conflicts)
        );
        say(Severity::Warning, n, what, "which label is right? no model can learn both");
        let n = self.cut.count;
        let length = against.max_length.unwrap_or_default();
        let what = format!(
            "{} longer than {length} tokens: {} would be cut off",
            count(n, "row"),
            count(self.tokens_cut, "token")
        );
        say(Severity::Warning, n, what, "raise the length, or split these rows");
        let n = self.unknown_rows;
        let pieces: Vec<String> = report.unknown.iter().take(8).map(|(piece, n)| format!("{piece} ({n})")).collect();
        let what = format!("{} with something the tokenizer does not know: {}", count(n, "row"), pieces.join(", "));
        let unknown = Finding { level: Severity::Warning, what, hint: "train the tokenizer on this data too".into() };
        report.findings.extend((n > 0).then_some(unknown));
        self.judge_labels(report, task);
        if report.usable == 0 {
            let what = format!("0 examples left of {} rows", report.rows);
            let hint = "name a file with data for this task".to_string();
            report.findings.push(Finding { level: Severity::Stop, what, hint });
        }
    }

    fn judge_labels(&self, report: &mut DataReport, task: Task) {
        let classes = matches!(task, Task::Classify | Task::ClassifyPair | Task::Image);
        let mut say =
            |level, what: String, hint: &str| report.findings.push(Finding { level, what, hint: hint.into() });
        if (classes || task == Task::Tag) && self.labels.len() == 1 {
            let only = self.labels.keys().next().cloned().unwrap_or_default();
            say(
                Severity::Stop,
                format!("every label is `{only}`"),
                "there is nothing to learn: is it the right column?",
            );
        }
        if !classes || self.labels.len() < 2 {
            return;
        }
        let rare: Vec<&str> = self.labels.iter().filter(|(_, n)| **n < FEW).map(|(l, _)| l.as_str()).collect();
        if !rare.is_empty() {
            let what = format!("{} with fewer than {FEW} rows: {}", count(rare.len(), "label"), some(&rare));
            say(Severity::Warning, what, "find more examples of them, or join them with others");
        }
        let (most, least) = (self.labels.values().max().copied(), self.labels.values().min().copied());
        if let (Some(most), Some(least)) = (most, least)
            && most > 10 * least
        {
            let what = format!("the commonest label has {most} rows, the rarest {least}");
            say(Severity::Warning, what, "look at F1 rather than accuracy");
        }
        if self.labels.len() * 2 > report.usable && report.usable > 20 {
            let what = format!("{} labels for {} rows", self.labels.len(), report.usable);
            say(Severity::Warning, what, "is the label column a text column?");
        }
    }
}

/// A label with fewer rows is hardly learned.
const FEW: usize = 5;

/// Another split: what it shares with the training data, and which of its labels that has never seen.
fn compare(report: &mut DataReport, seen: &Seen, name: &str, other: &dyn Corpus, task: Task) -> Result<()> {
    let mut shared = Places::default();
    for index in 0..other.len() {
        let example = other.get(index)?;
        if !example.is_empty() && seen.read.contains_key(&reads(&example)) {
            shared.note(index);
        }
    }
    report.overlaps.push((name.into(), shared.count));
    if shared.count > 0 {
        let what = format!(
            "{} of {} rows of {name} also in the training data; the first: {}",
            shared.count,
            other.len(),
            other.place(shared.first)
        );
        let hint = "take them out of one side: a score on them says nothing".into();
        report.findings.push(Finding { level: Severity::Warning, what, hint });
    }
    if !matches!(task, Task::Classify | Task::ClassifyPair | Task::Image | Task::Tag) || other.is_empty() {
        return Ok(());
    }
    let labels: BTreeSet<String> = Labels::from_examples(other)?.names().iter().cloned().collect();
    let unseen: Vec<&str> = labels.iter().filter(|l| !seen.labels.contains_key(*l)).map(String::as_str).collect();
    report.unseen_labels.extend(unseen.iter().map(|label| label.to_string()));
    if !unseen.is_empty() {
        let what = format!("{} of {name} not in the training data: {}", count(unseen.len(), "label"), some(&unseen));
        let hint = "rows with such labels are skipped: split anew, or mend the labels".into();
        report.findings.push(Finding { level: Severity::Warning, what, hint });
    }
    Ok(())
}

/// `1 row`, `2 rows`.
fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

fn some(names: &[&str]) -> String {
    let shown = names.iter().take(8).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown}, …") } else { shown }
}

/// An I- tag must follow a B- or I- tag of its kind.
fn breaks_bio(tags: &[String]) -> bool {
    let mut before = "O";
    for tag in tags {
        if let Some(kind) = tag.strip_prefix("I-") {
            let follows = before.strip_prefix("B-").or_else(|| before.strip_prefix("I-")) == Some(kind);
            if !follows {
                return true;
            }
        }
        before = tag;
    }
    false
}

/// The texts a model reads and writes.
fn texts(example: &Example) -> Vec<String> {
    match example {
        Example::Pair { source, target } => vec![source.clone(), target.clone()],
        Example::LabelledPair { first, second, .. } => vec![format!("{first} {second}")],
        Example::Question { context, question, .. } => vec![context.clone(), question.clone()],
        Example::Image { .. } => Vec::new(),
        other => vec![other.text().into_owned()],
    }
}

/// What the model reads, as a number.
fn reads(example: &Example) -> u64 {
    match example {
        Example::Question { context, question, .. } => fingerprint(&Example::Text(format!("{context}\n{question}"))),
        other => fingerprint(other),
    }
}

/// What it is to say, as a number.
fn answers(example: &Example) -> u64 {
    let answer = match example {
        Example::Pair { target, .. } => target.clone(),
        Example::Tagged { tags, .. } => tags.join(" "),
        Example::Question { answer, .. } => answer.clone(),
        other => other.label().unwrap_or_default().into(),
    };
    fingerprint(&Example::Text(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    fn warnings(report: &DataReport) -> Vec<&str> {
        report.findings.iter().map(|f| f.what.as_str()).collect()
    }

    #[test]
    fn bio_is_kept_or_broken() {
        let broken = |tags: &[&str]| breaks_bio(&tags.iter().map(|t| t.to_string()).collect::<Vec<_>>());
        assert!(!broken(&["B-PER", "I-PER", "I-PER", "O", "B-LOC"]));
        assert!(broken(&["I-PER"]) && broken(&["B-PER", "I-LOC"]) && broken(&["B-PER", "O", "I-PER"]));
    }

    #[test]
    fn duplicates_conflicts_and_balance() {
        let mut rows: Vec<Example> = (0..60).map(|i| Example::labelled(format!("text {i}"), "good")).collect();
        rows.push(Example::labelled("TEXT  1", "good"));
        rows.push(Example::labelled("text 2", "bad"));
        let report = check(&rows, Task::Classify, Against::default()).unwrap();
        assert_eq!((report.duplicates, report.conflicts), (1, 1));
        assert_eq!(report.labels, [("good".to_string(), 61), ("bad".to_string(), 1)]);
        assert!(report.can_train());
        assert!(warnings(&report).contains(&"the commonest label has 61 rows, the rarest 1"));
        let one: Vec<Example> = (0..9).map(|i| Example::labelled(format!("{i}"), "x")).collect();
        assert!(!check(&one, Task::Classify, Against::default()).unwrap().can_train());
    }

    #[test]
    fn a_translation_may_say_one_thing_in_two_ways() {
        let rows = vec![Example::pair("a b", "x"), Example::pair("a b", "y"), Example::pair("a b", "x")];
        let report = check(&rows, Task::Translate, Against::default()).unwrap();
        assert_eq!((report.duplicates, report.conflicts), (1, 0));
    }

    #[test]
    fn what_does_not_fit_and_what_is_unknown() {
        let words = Words::of(["a b c"]);
        let rows = vec![Example::pair("a b c a b", "a"), Example::pair("a", "z z"), Example::pair("", "a")];
        let against = Against { tokenizer: Some(&words), max_length: Some(3), ..Against::default() };
        let report = check(&rows, Task::Translate, against).unwrap();
        assert_eq!((report.cut, report.tokens_cut, report.empty), (1, 2, 1));
        assert_eq!(report.unknown, [("z".to_string(), 2)]);
    }

    #[test]
    fn other_splits_are_compared() {
        let train: Vec<Example> = (0..40).map(|i| Example::labelled(format!("{i}"), ["a", "b"][i % 2])).collect();
        let valid = vec![Example::labelled("3", "b"), Example::labelled("new", "c")];
        let others: [(&str, &dyn Corpus); 1] = [("valid", &valid)];
        let report = check(&train, Task::Classify, Against { others: &others, ..Against::default() }).unwrap();
        assert_eq!(report.overlaps, [("valid".to_string(), 1)]);
        assert_eq!(report.unseen_labels, ["c"]);
        assert!(report.can_train());
    }

    #[test]
    fn nothing_usable_stops() {
        let rows = vec![Example::question("a", "q", "z")];
        let report = check(&rows, Task::Answer, Against::default()).unwrap();
        assert!(!report.can_train());
        let none: Vec<Example> = Vec::new();
        assert!(!check(&none, Task::NextToken, Against::default()).unwrap().can_train());
    }
}
