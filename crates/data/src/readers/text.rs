//! Plain text, CoNLL columns and parallel files: formats whose records are lines or runs of lines.

use super::fields;
use super::records::{Cut, Indexed, Parse, Record, Records};
use super::{Opened, Reader, Tally, source};
use crate::{Corpus, Error, Example, Result, corpus::past_end};
use std::path::{Path, PathBuf};

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Documents {
    /// a file, or every file of a directory
    Files,
    /// a line
    Lines,
    /// lines up to a blank one
    Paragraphs,
}

/// A record is a document.
pub(crate) struct Whole;

impl Parse for Whole {
    fn parse(&self, record: &Record, file: &str) -> Result<Option<Example>> {
        Ok(Some(Example::Text(record.text(file)?.replace("\r\n", "\n"))))
    }
}

/// Opens plain text.
pub(crate) fn open(reader: &Reader, path: &Path, documents: Documents) -> Result<Opened> {
    let cut = match documents {
        Documents::Files => return open_files(reader, path),
        Documents::Lines => Cut::Line,
        Documents::Paragraphs => Cut::Paragraph,
    };
    let (indexed, tally) = Indexed::build(path, cut, reader.bad_rows, |_, _| Ok((Whole, Vec::new())))?;
    Opened::new(path, indexed, tally, Vec::new())
}

/// The lines of a text file, plain or gzip, as they come: one in memory at a time, blank ones left out.
///
/// ```
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("lines.txt");
/// std::fs::write(&path, "one\r\n\ntwo").unwrap();
/// let lines = qkv_data::readers::lines(&path)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(lines, ["one", "two"]);
/// # Ok::<(), qkv_data::Error>(())
/// ```
pub fn lines(path: &Path) -> Result<impl Iterator<Item = Result<String>> + use<>> {
    let file = path.display().to_string();
    let mut records = Records::new(source::stream(path)?, &file, Cut::Line);
    let text = move |record: Record| record.text(&file).map(str::to_string);
    Ok(std::iter::from_fn(move || records.next().transpose().map(|record| record.and_then(&text))))
}

/// The files of a directory, each a document, by name; read when asked for.
struct Files(Vec<PathBuf>);

/// A document of one file is held in memory: not more than 1 GiB of it.
const LARGEST_DOCUMENT: u64 = 1 << 30;

impl Files {
    fn document(path: &Path) -> Result<String> {
        let mut bytes = source::whole(path, LARGEST_DOCUMENT)?;
        if bytes.starts_with(qkv_base::BOM) {
            bytes.drain(..3);
        }
        let record = Record { offset: 0, line: 1, bytes };
        Ok(record.text(&path.display().to_string())?.replace("\r\n", "\n"))
    }
}

impl Corpus for Files {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let path = self.0.get(index).ok_or_else(|| past_end(index, self.0.len()))?;
        Self::document(path).map(Example::Text)
    }

    fn place(&self, index: usize) -> String {
        self.0.get(index).map_or_else(String::new, |path| path.display().to_string())
    }
}

fn open_files(reader: &Reader, path: &Path) -> Result<Opened> {
    let mut tally = Tally::default();
    let mut good = Vec::new();
    for path in super::files_under(path)? {
        match Files::document(&path) {
            Ok(_) => good.push(path),
            Err(error) => tally.bad_row(error, reader.bad_rows)?,
        }
    }
    tally.rows = good.len();
    Opened::new(path, Files(good), tally, Vec::new())
}

/// CoNLL columns: a word a line, its tag in the last column, a blank line between sentences.
struct Conll;

impl Parse for Conll {
    fn parse(&self, record: &Record, file: &str) -> Result<Option<Example>> {
        let (mut words, mut tags) = (Vec::new(), Vec::new());
        for (i, line) in record.text(file)?.lines().enumerate() {
            let comment = line.starts_with("# ") && line.contains(" = ");
            if comment || line.starts_with("-DOCSTART-") {
                continue;
            }
            let place = format!("{file}:{}", record.line + i as u64);
            let mut columns = line.split_whitespace();
            match (columns.next(), columns.next_back()) {
                (Some(word), Some(tag)) => {
                    words.push(word.to_string());
                    tags.push(tag.to_string());
                }
                _ => {
                    let what = format!("`{}` has no tag", line.trim());
                    return Err(Error::new(place, what, "write the word first and its tag last, O for none"));
                }
            }
        }
        let empty = words.is_empty();
        Ok(Some(fields::tagged(&record.place(file), words, tags)?).filter(|_| !empty))
    }
}

/// Opens CoNLL columns.
pub(crate) fn open_conll(reader: &Reader, path: &Path) -> Result<Opened> {
    let (indexed, tally) = Indexed::build(path, Cut::Paragraph, reader.bad_rows, |_, _| Ok((Conll, Vec::new())))?;
    Opened::new(path, indexed, tally, Vec::new())
}

/// Two files in step: line n of one is the translation of line n of the other.
struct Parallel {
    source: Indexed<Whole>,
    target: Indexed<Whole>,
}

impl Corpus for Parallel {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        match (self.source.get(index)?, self.target.get(index)?) {
            (Example::Text(source), Example::Text(target)) => Ok(Example::Pair { source, target }),
            _ => Err(past_end(index, self.len())),
        }
    }

    fn place(&self, index: usize) -> String {
        self.source.place(index)
    }
}

/// Opens two parallel files. A line that is not UTF-8 would put them out of step, so bad lines are never skipped here.
pub(crate) fn open_parallel(path: &Path, target: &Path) -> Result<Opened> {
    let lines = |path: &Path| {
        Indexed::build(path, Cut::EveryLine, super::BadRows::Refuse, |_, _| Ok((Whole, Vec::new())))
            .map(|(lines, _)| lines)
    };
    let (source, other) = (lines(path)?, lines(target)?);
    if source.len() != other.len() {
        let what = format!("{} lines, but {} has {}", source.len(), target.display(), other.len());
        let hint = "parallel files need as many lines: line n of one is the translation of line n of the other";
        return Err(Error::new(path.display().to_string(), what, hint));
    }
    let tally = Tally { rows: source.len(), ..Tally::default() };
    Opened::new(path, Parallel { source, target: other }, tally, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::Format;
    use crate::{Result, Task, read};

    fn all(opened: &Opened) -> Vec<Example> {
        opened.corpus.examples().collect::<Result<_>>().unwrap()
    }

    #[test]
    fn documents_are_files_lines_or_paragraphs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.txt");
        std::fs::write(&path, "\u{feff}one\r\ntwo\r\n\r\nthree\r\n").unwrap();
        std::fs::write(folder.path().join("a.txt"), "zero").unwrap();
        let documents = |documents| {
            let reader = Reader { format: Some(Format::Text(documents)), ..Reader::new(Task::NextToken) };
            all(&reader.open(&path).unwrap())
        };
        let texts = |texts: &[&str]| texts.iter().map(|t| Example::Text(t.to_string())).collect::<Vec<_>>();
        assert_eq!(documents(Documents::Lines), texts(&["one", "two", "three"]));
        assert_eq!(documents(Documents::Paragraphs), texts(&["one\ntwo", "three"]));
        assert_eq!(documents(Documents::Files), texts(&["one\ntwo\n\nthree"]));
        assert_eq!(all(&read(folder.path(), Task::NextToken).unwrap()), texts(&["zero", "one\ntwo\n\nthree"]));
    }

    #[test]
    fn conll_takes_the_first_and_the_last_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.conll");
        let text = "-DOCSTART- -X- O O\n\n# id = 1\nAda NNP B-NP B-PER\nleft VBD B-VP O\n\n\n# SYM O O\n";
        std::fs::write(&path, text).unwrap();
        let opened = read(&path, Task::Tag).unwrap();
        assert_eq!(all(&opened), [Example::tagged([("Ada", "B-PER"), ("left", "O")]), Example::tagged([("#", "O")])]);
        assert!(opened.corpus.place(1).ends_with("x.conll:8"));
        std::fs::write(&path, "Ada B-PER\nleft\n").unwrap();
        let error = read(&path, Task::Tag).unwrap_err();
        assert!(error.to_string().ends_with("x.conll:2: `left` has no tag"), "{error}");
    }

    #[test]
    fn parallel_files_stay_in_step_over_blank_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (de, en) = (folder.path().join("t.de"), folder.path().join("t.en"));
        std::fs::write(&de, "eins\n\ndrei\n").unwrap();
        std::fs::write(&en, "one\ntwo\nthree").unwrap();
        let both = format!("{},{}", de.display(), en.display());
        let got = all(&read(&both, Task::Translate).unwrap());
        assert_eq!(got, [("eins", "one"), ("", "two"), ("drei", "three")].map(|(a, b)| Example::pair(a, b)));
        std::fs::write(&en, "one\ntwo\n").unwrap();
        let error = read(&both, Task::Translate).unwrap_err();
        assert!(error.what.starts_with("3 lines, but") && error.what.ends_with("t.en has 2"), "{error}");
    }
}
