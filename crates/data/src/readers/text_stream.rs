//! The texts of a file as they come, and a place to go on from: for corpora that are larger than memory.
//!
//! A [`TextStream`] holds one part of one document at a time. A document of more than [`PART`] bytes comes in several parts,
//! cut where a tokenizer of words cuts, too: behind the end of a line, or before a blank between two words. A part says
//! whether its document begins and ends with it, and the [`FilePlace`] behind it, from which a new stream goes on as if
//! the first had never stopped: a plain file by a seek, a gzip file by unpacking what lies before.
//!
//! ```
//! use qkv_data::{Reader, Task};
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("two.txt");
//! std::fs::write(&path, "one\n\ntwo\nlines\n").unwrap();
//! let reader = Reader::new(Task::NextToken);
//! let first = reader.texts(&path, Default::default())?.next().unwrap()?;
//! let second = reader.texts(&path, first.after.unwrap())?.next().unwrap()?;
//! assert_eq!((first.text.as_str(), second.text.as_str()), ("one", "two\nlines"));
//! # Ok::<(), qkv_data::Error>(())
//! ```

use super::records::{Cut, LONGEST, Parse, Record, Records};
use super::source::{self, Meter};
use super::{BadRows, Documents, Format, Quotes, Reader, Tally, guess, jsonl, several, table, text};
use crate::{Error, Example, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// So many bytes of text are a part, more or less: what a tokenizer is given at one time.
pub const PART: usize = 256 << 10;

/// Where a stream can go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePlace {
    /// bytes before it, unpacked
    pub offset: u64,
    /// lines before it
    pub lines: u64,
    /// rows before it, in a file that is read by rows
    pub rows: u64,
    /// in the middle of a document?
    pub inside: bool,
}

/// Some text of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPart {
    /// the text
    pub text: String,
    /// the document begins here
    pub begins: bool,
    /// the document ends here
    pub ends: bool,
    /// the place behind it, where one can go on
    pub after: Option<FilePlace>,
}

type Bytes = Box<dyn BufRead + Send>;

enum Units {
    /// lines, of which documents are put together
    Lines { records: Records<Bytes>, documents: Documents, held: Option<Record>, inside: bool },
    /// records, each a document
    Rows { records: Records<Bytes>, parse: Box<dyn Parse>, first: Option<Record> },
    #[cfg(feature = "parquet")]
    Parquet(Box<super::parquet::Texts>),
}

/// The documents of one file, part by part.
pub struct TextStream {
    file: String,
    units: Units,
    bad_rows: BadRows,
    /// parts of a document that was cut
    waiting: VecDeque<TextPart>,
    failed: bool,
    /// rows left out
    pub tally: Tally,
    /// what was decided on the way
    pub notes: Vec<String>,
    /// how much of the file, as it lies on disk, has been read
    pub meter: Meter,
}

impl Reader {
    /// The files that `paths` stand for: patterns spelt out, folders looked through, by name.
    pub fn text_files(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let mut files = vec![];
        for path in paths {
            for path in several::matched(path)?.unwrap_or_else(|| vec![path.clone()]) {
                crate::shards::refuse_shards(&path)?;
                files.extend(super::files_under(&path)?);
            }
        }
        match files.is_empty() {
            true => Err(Error::new("data", "no files to read", "name a file, a pattern or a folder with files")),
            false => Ok(files),
        }
    }

    /// The texts of one file, from its beginning (`FilePlace::default()`) or from a place that a stream has told.
    pub fn texts(&self, path: &Path, from: FilePlace) -> Result<TextStream> {
        let format = match &self.format {
            Some(format) => format.clone(),
            None if super::parquet_name(path) => Format::Parquet,
            None => guess(path, self.task)?.1,
        };
        let (file, meter, mut notes) = (path.display().to_string(), Meter::default(), vec![]);
        let records = |cut: Cut| -> Result<Records<Bytes>> {
            let bytes = source::stream_from(path, from.offset, &meter)?;
            Ok(Records::after(bytes, &file, cut, from.offset, from.lines))
        };
        let rows = |records, parse: Box<dyn Parse>, first| Units::Rows { records, parse, first };
        let table = |delimiter: u8, quotes: Quotes, notes: &mut Vec<String>| -> Result<Units> {
            let cut = table::cut_of(delimiter, quotes);
            let mut start = Records::new(source::stream(path)?, &file, cut);
            let first = start.next()?.ok_or_else(|| super::nothing(&file))?;
            let (parse, header) = table::rows_of(self, path, delimiter, quotes, &first, notes)?;
            if from.offset > 0 {
                return Ok(rows(records(cut)?, Box::new(parse), None));
            }
            let mut again = records(cut)?;
            again.next()?;
            Ok(rows(again, Box::new(parse), (!header).then_some(first)))
        };
        let units = match format {
            Format::Csv => table(b',', self.quotes.unwrap_or(Quotes::Full), &mut notes)?,
            Format::Tsv => table(b'\t', self.quotes.unwrap_or(Quotes::SameLine), &mut notes)?,
            Format::JsonLines => rows(records(Cut::Line)?, Box::new(jsonl::lines(self)), None),
            Format::Text(Documents::Lines) => rows(records(Cut::Line)?, Box::new(text::Whole), None),
            Format::Text(documents) => {
                Units::Lines { records: records(Cut::EveryLine)?, documents, held: None, inside: from.inside }
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Units::Parquet(Box::new(super::parquet::Texts::open(self, path, from.rows, &meter)?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(super::no_parquet(&file)),
            other => {
                let what = format!("a file of this format ({other:?}) holds no plain texts");
                return Err(Error::new(file, what, "give text, JSON lines, a table or Parquet"));
            }
        };
        let (waiting, tally) = (VecDeque::new(), Tally::default());
        Ok(TextStream { file, units, bad_rows: self.bad_rows, waiting, failed: false, tally, notes, meter })
    }
}

impl TextStream {
    /// The next document, or as much of it as is a part; `None` at the end.
    fn unit(&mut self) -> Result<Option<TextPart>> {
        match &mut self.units {
            Units::Lines { records, documents, held, inside } => loop {
                let Some((mut part, bad)) = lines(records, *documents, held, inside, &self.file)? else {
                    return Ok(None);
                };
                let Some(error) = bad else { return Ok(Some(part)) };
                self.tally.bad_row(error, self.bad_rows)?;
                part.text.clear();
                // Of a document in several parts the others stay, and so do its ends.
                if !(part.begins && part.ends) {
                    return Ok(Some(part));
                }
            },
            Units::Rows { records, parse, first } => loop {
                let Some(record) = first.take().map_or_else(|| records.next(), |r| Ok(Some(r)))? else {
                    return Ok(None);
                };
                match parse.parse(&record, &self.file) {
                    Ok(Some(Example::Text(text))) => {
                        let (offset, lines) = records.read();
                        let after = FilePlace { offset, lines, ..FilePlace::default() };
                        return Ok(Some(TextPart { text, begins: true, ends: true, after: Some(after) }));
                    }
                    Ok(_) => {}
                    Err(error) => self.tally.bad_row(error, self.bad_rows)?,
                }
            },
            #[cfg(feature = "parquet")]
            Units::Parquet(texts) => texts.next(),
        }
    }

    fn part(&mut self) -> Result<Option<TextPart>> {
        if self.waiting.is_empty() {
            let Some(unit) = self.unit()? else { return Ok(None) };
            self.waiting = cut_long(unit);
        }
        Ok(self.waiting.pop_front())
    }
}

impl Iterator for TextStream {
    type Item = Result<TextPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let part = self.part();
        self.failed = part.is_err();
        part.transpose()
    }
}

/// Lines up to the end of their document, or until they are a part, and what is wrong with their bytes, if so. A part ends only where the next line has text: so
/// blank lines at the end of a document are seen together with its last words.
fn lines(
    records: &mut Records<Bytes>,
    documents: Documents,
    held: &mut Option<Record>,
    inside: &mut bool,
    file: &str,
) -> Result<Option<(TextPart, Option<Error>)>> {
    let begins = !*inside;
    let done = |record: Record, ends: bool, after: FilePlace| {
        let (text, bad) = match if ends { record.text(file) } else { record.whole_text(file) } {
            Ok(text) => (text.replace("\r\n", "\n"), None),
            Err(error) => (String::new(), Some(error)),
        };
        Ok(Some((TextPart { text, begins, ends, after: Some(after) }, bad)))
    };
    loop {
        let line = records.next()?;
        let (offset, lines) = records.read();
        let here = FilePlace { offset, lines, ..FilePlace::default() };
        let Some(line) = line else {
            *inside = false;
            return held.take().map_or(Ok(None), |record| done(record, true, here));
        };
        let blank = line.bytes.iter().all(u8::is_ascii_whitespace);
        let Some(record) = held else {
            if !(blank && documents == Documents::Paragraphs) {
                *held = Some(line);
            }
            continue;
        };
        if blank && documents == Documents::Paragraphs {
            *inside = false;
            return held.take().map_or(Ok(None), |record| done(record, true, here));
        }
        let long = record.bytes.len() >= PART && !blank && ends_with_words(&record.bytes);
        if long || record.bytes.len() as u64 >= LONGEST {
            *inside = true;
            let before = FilePlace { offset: line.offset, lines: line.line - 1, inside: true, ..here };
            let part = std::mem::replace(record, line);
            return done(part, false, before);
        }
        record.bytes.extend(line.bytes);
    }
}

/// Nothing but the end of the line stands behind the last word: a tokenizer takes blanks before it together with it.
fn ends_with_words(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    bytes.last().is_some_and(|last| !last.is_ascii_whitespace())
}

/// A long part in several; only behind the last of them can one go on.
fn cut_long(unit: TextPart) -> VecDeque<TextPart> {
    let mut parts = VecDeque::new();
    let mut rest = unit.text.as_str();
    let mut begins = unit.begins;
    while rest.len() > 2 * PART {
        let (part, after) = rest.split_at(cut_before(rest, PART));
        parts.push_back(TextPart { text: part.into(), begins, ends: false, after: None });
        (rest, begins) = (after, false);
    }
    let text = if parts.is_empty() { unit.text } else { rest.to_string() };
    parts.push_back(TextPart { text, begins, ..unit });
    parts
}

/// A place at or before `at` where no word is cut: between two lines, or before a single blank; else between characters.
fn cut_before(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let blank = |i: usize| bytes.get(i).is_none_or(u8::is_ascii_whitespace);
    let words = |i: &usize| match (bytes.get(*i - 1), bytes.get(*i)) {
        (Some(b'\n'), Some(_)) => !blank(*i) && !blank(*i - 2),
        (_, Some(b' ')) => !blank(*i - 1) && !blank(*i + 1),
        _ => false,
    };
    let place = (at / 2..=at).rev().filter(|i| *i > 1).find(words);
    place.unwrap_or_else(|| (1..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Task, read};
    use std::collections::BTreeMap;

    /// Whole documents, with the parts of each put together.
    fn joined(parts: &[TextPart]) -> Vec<String> {
        let mut all: Vec<String> = vec![];
        for part in parts {
            match all.last_mut() {
                Some(last) if !part.begins => last.push_str(&part.text),
                _ => all.push(part.text.clone()),
            }
        }
        all
    }

    fn formats() -> Vec<(&'static str, Vec<u8>)> {
        let text = "\u{feff}\n\none\r\ntwo è\r\n\r\n \n\nthree\n \nfour".to_string();
        let long = format!("{}\n\n{}", "a line of words\n".repeat(60_000), "word ".repeat(200_000));
        let rows: String = (0..50).map(|i| format!("{{\"text\": \"row {i}\\nè\", \"n\": {i}}}\n")).collect();
        let csv: String = (0..50).map(|i| format!("{i},\"row, {i}\nsecond\"\n")).collect();
        let zipped = source::tests::gzip(text.as_bytes());
        vec![
            ("a.txt", text.into_bytes()),
            ("b.txt.gz", zipped),
            ("long.txt", long.into_bytes()),
            ("c.jsonl", rows.clone().into_bytes()),
            ("d.jsonl.gz", source::tests::gzip(rows.as_bytes())),
            ("e.csv", format!("id,text\n{csv}").into_bytes()),
            ("f.tsv", "text\nthe first\nthe \"second\"\n".into()),
            ("g.tsv", "no header\nat all\n".into()),
        ]
    }

    /// The twin: what the readers of whole files read; and a stream that is broken off at any place and taken up again.
    #[test]
    fn streams_read_what_readers_read_and_go_on_from_any_place() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in formats() {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let reader = Reader::new(Task::NextToken);
            let parts: Vec<TextPart> =
                reader.texts(&path, FilePlace::default()).unwrap().collect::<Result<_>>().unwrap();
            let want: Vec<String> = read(&path, Task::NextToken)
                .unwrap()
                .corpus
                .examples()
                .map(|e| e.unwrap().text().into_owned())
                .collect();
            assert!(joined(&parts) == want, "{name}");
            assert!(parts.iter().all(|part| part.text.len() <= 3 * PART), "{name}");
            for (i, part) in parts.iter().enumerate() {
                let Some(after) = part.after else { continue };
                let rest: Vec<TextPart> = reader.texts(&path, after).unwrap().collect::<Result<_>>().unwrap();
                assert!(rest == parts[i + 1..], "{name}: after part {i}");
            }
        }
        let whole = Reader { format: Some(Format::Text(Documents::Files)), ..Reader::new(Task::NextToken) };
        let parts: Vec<TextPart> =
            whole.texts(&folder.path().join("long.txt"), FilePlace::default()).unwrap().collect::<Result<_>>().unwrap();
        assert!(parts.len() > 4 && joined(&parts).len() == 1);
        assert_eq!(whole.text_files(&[folder.path().to_path_buf()]).unwrap().len(), 8);
    }

    /// GPT-2's words do not change where a long document is cut.
    #[test]
    fn cuts_are_between_words() {
        let texts = ["some words here\n".repeat(50_000), "x y  z\t\n\n w ".repeat(80_000), "wordé ".repeat(150_000)];
        for text in texts {
            let words =
                |text: &str, all: &mut Vec<String>| qkv_text::gpt2_words(text, &mut |w| all.push(w.to_string()));
            let (mut whole, mut parts) = (vec![], vec![]);
            words(&text, &mut whole);
            let cut = cut_long(TextPart { text, begins: true, ends: true, after: None });
            assert!(cut.len() > 1);
            cut.iter().for_each(|part| words(&part.text, &mut parts));
            assert!(whole == parts);
        }
        let signs = TextPart { text: "é".repeat(2 * PART), begins: true, ends: true, after: None };
        assert_eq!(cut_long(signs.clone()).iter().map(|p| p.text.as_str()).collect::<String>(), signs.text);
    }

    #[test]
    fn bad_rows_are_named_or_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, "{\"text\": \"a\"}\n{\"text\": \n{\"text\": \"b\"}\n").unwrap();
        let reader = Reader::new(Task::NextToken);
        let error = reader.texts(&path, FilePlace::default()).unwrap().find_map(Result::err).unwrap();
        assert!(error.place.ends_with("x.jsonl:2, column 9"), "{error}");
        let skip = Reader { bad_rows: BadRows::Skip, ..reader.clone() };
        let mut stream = skip.texts(&path, FilePlace::default()).unwrap();
        assert_eq!((stream.by_ref().map(|p| p.unwrap().text).collect::<String>(), stream.tally.bad), ("ab".into(), 1));
        let latin = folder.path().join("latin.txt");
        std::fs::write(&latin, b"good\n\nbad \xe9\n").unwrap();
        let error = reader.texts(&latin, FilePlace::default()).unwrap().find_map(Result::err).unwrap();
        assert!(error.place.ends_with("latin.txt:3"), "{error}");
        let columns = BTreeMap::from([("text".to_string(), super::super::Column::Named("body".into()))]);
        let named = Reader { columns, ..reader };
        assert!(named.texts(&path, FilePlace::default()).unwrap().next().unwrap().unwrap_err().what.contains("body"));
    }
}
