//! Several files as one corpus: those that were named, and those that a pattern (`reviews/*.csv`) stands for.

use super::{Opened, Reader, Tally};
use crate::corpus::past_end;
use crate::{Corpus, Error, Example, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Corpora one behind the other.
struct Joined {
    parts: Vec<Arc<dyn Corpus>>,
    /// where each part ends
    ends: Vec<usize>,
}

impl Joined {
    fn new(parts: Vec<Arc<dyn Corpus>>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.len();
            end
        });
        Self { ends: ends.collect(), parts }
    }

    /// The part of an example, and its index there.
    fn find(&self, index: usize) -> Option<(&dyn Corpus, usize)> {
        let part = self.ends.partition_point(|end| *end <= index);
        let begin = part.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some((&**self.parts.get(part)?, index - begin))
    }
}

impl Corpus for Joined {
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn get(&self, index: usize) -> Result<Example> {
        let (part, index) = self.find(index).ok_or_else(|| past_end(index, self.len()))?;
        part.get(index)
    }

    fn answers(&self, index: usize) -> Result<Vec<String>> {
        let (part, index) = self.find(index).ok_or_else(|| past_end(index, self.len()))?;
        part.answers(index)
    }

    fn place(&self, index: usize) -> String {
        self.find(index).map_or_else(|| format!("example {}", index + 1), |(part, index)| part.place(index))
    }
}

/// The files that a pattern stands for, by name; none where `path` is no pattern, or a file of that very name.
pub(super) fn matched(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let text = path.to_string_lossy();
    if !text.contains(['*', '?', '[']) || path.exists() {
        return Ok(None);
    }
    let fail = |what: String, hint: &str| Error::new(text.to_string(), what, hint);
    let paths = glob::glob(&text).map_err(|e| fail(format!("is no pattern: {}", e.msg), "as in reviews/*.csv"))?;
    let mut found: Vec<PathBuf> = paths.filter_map(std::result::Result::ok).collect();
    found.sort();
    match found.is_empty() {
        true => Err(fail("no file has such a name".into(), "* stands for any letters, ? for one, ** for folders")),
        false => Ok(Some(found)),
    }
}

impl Reader {
    /// Opens several files (or patterns) as one corpus, one behind the other.
    ///
    /// ```
    /// use qkv_data::{Reader, Task};
    /// let folder = tempfile::tempdir().unwrap();
    /// for (name, text) in [("a.tsv", "fine\tgood\n"), ("b.tsv", "dull\tbad\npoor\tbad\n")] {
    ///     std::fs::write(folder.path().join(name), text).unwrap();
    /// }
    /// let opened = Reader::new(Task::Classify).open_all(&[folder.path().join("*.tsv")])?;
    /// assert_eq!((opened.corpus.len(), opened.corpus.get(2)?.text().into_owned()), (3, "poor".to_string()));
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn open_all(&self, paths: &[PathBuf]) -> Result<Opened> {
        let mut files = vec![];
        for path in paths {
            files.extend(matched(path)?.unwrap_or_else(|| vec![path.clone()]));
        }
        if let [only] = files.as_slice() {
            return self.open(only);
        }
        let (mut parts, mut tally, mut notes) = (vec![], Tally::default(), vec![]);
        for file in &files {
            let opened = self.open(file)?;
            tally.rows += opened.tally.rows;
            tally.bad += opened.tally.bad;
            let room = Tally::KEPT.saturating_sub(tally.first.len());
            tally.first.extend(opened.tally.first.into_iter().take(room));
            // What was decided for one file was decided for all, mostly.
            opened
                .notes
                .into_iter()
                .filter(|note| !notes.contains(note))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|n| notes.push(n));
            parts.push(opened.corpus);
        }
        notes.push(format!("{} files as one corpus of {} examples", files.len(), tally.rows));
        Ok(Opened { corpus: Arc::new(Joined::new(parts)), tally, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;

    #[test]
    fn files_stand_one_behind_the_other_and_keep_their_places() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, rows) in [("b.tsv", 1), ("a.tsv", 2), ("c.txt", 9)] {
            let text: String = (0..rows).map(|i| format!("{name} {i}\tx\n")).collect();
            std::fs::write(dir.path().join(name), text).expect("written");
        }
        let opened = Reader::new(Task::Classify).open(dir.path().join("*.tsv")).expect("read");
        let texts: Vec<String> = (0..3).map(|i| opened.corpus.get(i).expect("a row").text().into_owned()).collect();
        assert_eq!(texts, ["a.tsv 0", "a.tsv 1", "b.tsv 0"]);
        assert!(opened.corpus.place(2).contains("b.tsv:1"), "{}", opened.corpus.place(2));
        assert!(opened.corpus.get(3).is_err());
        assert_eq!(opened.notes.last().map(String::as_str), Some("2 files as one corpus of 3 examples"));
        let none = Reader::new(Task::Classify).open(dir.path().join("*.csv")).expect_err("none");
        assert_eq!(none.what, "no file has such a name");
    }
}
