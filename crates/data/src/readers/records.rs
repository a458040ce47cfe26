//! A file as records: where one ends and the next begins, which line it stands on, and how to come back to it.
//!
//! Streaming keeps one record in memory. [`Indexed`] keeps 24 bytes a record (offset, length, line) and reads the
//! record again when it is asked for, so a file larger than memory can still be visited in any order.

use super::source::{self, Source};
use super::{BadRows, Tally};
use crate::{Corpus, Error, Example, Result, corpus::past_end};
use std::io::{BufRead, Read};
use std::path::Path;

/// A record longer than this is a mistake of the file, not a record: 64 MiB.
pub const LONGEST: u64 = 64 << 20;

/// Where records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// at the end of a line; blank lines are nothing
    Line,
    /// at the end of a line, blank lines too: the lines of parallel files must stay in step
    EveryLine,
    /// at the end of a line on which no quote is open
    Quoted { delimiter: u8 },
    /// at a blank line
    Paragraph,
}

/// One record as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    /// the line it begins on, from 1
    pub(crate) line: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Record {
    /// The text without the line end; bad bytes are named by line and place in the file.
    pub(crate) fn text(&self, file: &str) -> Result<&str> {
        Ok(self.whole_text(file)?.trim_end_matches(['\n', '\r']))
    }

    /// The same with the line end.
    pub(crate) fn whole_text(&self, file: &str) -> Result<&str> {
        std::str::from_utf8(&self.bytes).map_err(|error| {
            let good = &self.bytes[..error.valid_up_to()];
            let line = self.line + good.iter().filter(|b| **b == b'\n').count() as u64;
            let at = self.offset + good.len() as u64;
            let byte = self.bytes.get(good.len()).copied().unwrap_or_default();
            Error::new(
                format!("{file}:{line}"),
                format!("byte 0x{byte:02x} at offset {at} is not UTF-8"),
                "save the file as UTF-8 (iconv -f LATIN1 -t UTF-8), or skip bad rows",
            )
        })
    }

    pub(crate) fn place(&self, file: &str) -> String {
        format!("{file}:{}", self.line)
    }
}

/// Records, one after the other.
pub(crate) struct Records<R> {
    reader: R,
    file: String,
    cut: Cut,
    offset: u64,
    line: u64,
    /// a line that was read but belongs to the next record
    ended: bool,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(reader: R, file: &str, cut: Cut) -> Self {
        Self::after(reader, file, cut, 0, 0)
    }

    /// The same of a reader that stands at `offset` of the file, behind so many lines.
    pub(crate) fn after(reader: R, file: &str, cut: Cut, offset: u64, lines: u64) -> Self {
        Self { reader, file: file.into(), cut, offset, line: lines, ended: false }
    }

    /// How many bytes and lines have been read.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.offset, self.line)
    }

    /// The next record, or none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let mut record: Option<Record> = None;
        let mut open = false;
        while let Some(line) = self.line()? {
            let blank = line.bytes.iter().all(u8::is_ascii_whitespace);
            match self.cut {
                Cut::EveryLine => return Ok(Some(line)),
                Cut::Line | Cut::Quoted { .. } if blank && record.is_none() => continue,
                Cut::Line => return Ok(Some(line)),
                Cut::Paragraph if blank && record.is_none() => continue,
                Cut::Paragraph if blank => return Ok(record),
                Cut::Paragraph => self.join(&mut record, line)?,
                Cut::Quoted { delimiter } => {
                    open = still_open(&line.bytes, open, delimiter);
                    self.join(&mut record, line)?;
                    if !open {
                        return Ok(record);
                    }
                }
            }
        }
        match record {
            Some(record) if open => Err(self.never_closed(&record)),
            record => Ok(record),
        }
    }

    fn join(&self, record: &mut Option<Record>, line: Record) -> Result<()> {
        match record {
            None => *record = Some(line),
            Some(record) if (record.bytes.len() + line.bytes.len()) as u64 > LONGEST => {
                return Err(match self.cut {
                    Cut::Quoted { .. } => self.never_closed(record),
                    _ => self.too_long(record.line),
                });
            }
            Some(record) => record.bytes.extend(line.bytes),
        }
        Ok(())
    }

    /// One line with its end, without a byte-order mark.
    fn line(&mut self) -> Result<Option<Record>> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(LONGEST + 1).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| source::unreadable(&self.file, &error))?;
        self.line += 1;
        if read as u64 > LONGEST {
            return Err(self.too_long(self.line));
        }
        let mut offset = self.offset;
        self.offset += read as u64;
        if read == 0 {
            self.ended = true;
            return Ok(None);
        }
        if offset == 0 && bytes.starts_with(qkv_base::BOM) {
            bytes.drain(..3);
            offset = 3;
        }
        Ok(Some(Record { offset, line: self.line, bytes }))
    }

    fn never_closed(&self, record: &Record) -> Error {
        let hint = "close the quote, or say that quotes are plain characters (quotes = none)";
        Error::new(record.place(&self.file), "a quote opened in this row is never closed", hint)
    }

    fn too_long(&self, line: u64) -> Error {
        let hint = "is this the right format? rows are told apart by line ends";
        Error::new(format!("{}:{line}", self.file), "a row of more than 64 MiB", hint)
    }
}

/// Is a quoted field open after this line? `open` says whether one was before it.
fn still_open(line: &[u8], mut open: bool, delimiter: u8) -> bool {
    let mut field_start = !open;
    let mut bytes = line.iter().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if open && bytes.peek() == Some(&&b'"') => _ = bytes.next(),
            b'"' if open => open = false,
            b'"' if field_start => open = true,
            _ => {}
        }
        field_start = !open && (*byte == delimiter || *byte == b'\n' || *byte == b'\r');
    }
    open
}

/// A record to an example.
pub(crate) trait Parse: Send + Sync {
    /// `None` for a record that is none: a document mark, a comment.
    fn parse(&self, record: &Record, file: &str) -> Result<Option<Example>>;
}

/// The records of a file by number.
pub(crate) struct Indexed<P> {
    source: Source,
    file: String,
    /// offset, length, line
    spans: Vec<(u64, u64, u64)>,
    parse: P,
}

impl<P: Parse> Indexed<P> {
    /// Reads the file once, keeps where each good record stands and counts the bad ones. `head` takes the records that
    /// come before the data (a header) and makes the parser.
    pub(crate) fn build(
        path: &Path,
        cut: Cut,
        bad_rows: BadRows,
        head: impl FnOnce(&mut dyn FnMut() -> Result<Option<Record>>, &str) -> Result<(P, Vec<Record>)>,
    ) -> Result<(Self, Tally)> {
        let file = path.display().to_string();
        let source = Source::open(path)?;
        let mut tally = Tally::default();
        let mut spans = Vec::new();
        let parse = {
            let mut records = Records::new(source.reader()?, &file, cut);
            let (parse, held) = head(&mut || records.next(), &file)?;
            let mut held = held.into_iter();
            while let Some(record) = held.next().map_or_else(|| records.next(), |r| Ok(Some(r)))? {
                match parse.parse(&record, &file) {
                    Ok(None) => {}
                    Ok(Some(_)) => spans.push((record.offset, record.bytes.len() as u64, record.line)),
                    Err(error) => tally.bad_row(error, bad_rows)?,
                }
            }
            parse
        };
        tally.rows = spans.len();
        spans.shrink_to_fit();
        Ok((Self { source, file, spans, parse }, tally))
    }
}

impl<P: Parse> Corpus for Indexed<P> {
    fn len(&self) -> usize {
        self.spans.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let &(offset, length, line) = self.spans.get(index).ok_or_else(|| past_end(index, self.spans.len()))?;
        let bytes = self.source.bytes(offset, usize::try_from(length).unwrap_or(usize::MAX))?;
        let changed = || {
            let hint = "leave data files alone during a run";
            Error::new(format!("{}:{line}", self.file), "the file has changed since it was opened", hint)
        };
        self.parse.parse(&Record { offset, line, bytes }, &self.file)?.ok_or_else(changed)
    }

    fn place(&self, index: usize) -> String {
        self.spans.get(index).map_or_else(|| self.file.clone(), |(_, _, line)| format!("{}:{line}", self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, cut: Cut) -> Vec<(u64, u64, String)> {
        let mut records = Records::new(text.as_bytes(), "f", cut);
        std::iter::from_fn(|| records.next().unwrap())
            .map(|r| (r.offset, r.line, String::from_utf8(r.bytes).unwrap()))
            .collect()
    }

    #[test]
    fn records_know_their_place() {
        assert_eq!(cut("\u{feff}a\r\n\nb", Cut::Line), [(3, 1, "a\r\n".into()), (7, 3, "b".into())]);
        assert_eq!(cut("a\n\nb\n", Cut::EveryLine).len(), 3);
        let paragraphs = cut("\n\na\nb\n \nc", Cut::Paragraph);
        assert_eq!(paragraphs, [(2, 3, "a\nb\n".into()), (8, 6, "c".into())]);
    }

    #[test]
    fn a_quoted_field_may_hold_line_ends() {
        let rows = cut("a,\"b\nc\"\n5\" pipe,d\n\"e\"\"\n\",f\n", Cut::Quoted { delimiter: b',' });
        let text: Vec<&str> = rows.iter().map(|r| r.2.as_str()).collect();
        assert_eq!(text, ["a,\"b\nc\"\n", "5\" pipe,d\n", "\"e\"\"\n\",f\n"]);
        let mut rows = Records::new("a\n\"b\nc\n".as_bytes(), "f", Cut::Quoted { delimiter: b',' });
        assert!(rows.next().is_ok());
        assert_eq!(rows.next().unwrap_err().to_string(), "f:2: a quote opened in this row is never closed");
    }

    #[test]
    fn bad_bytes_are_named_by_line_and_offset() {
        let record = Record { offset: 10, line: 3, bytes: b"ab\ncd\xe9f".to_vec() };
        assert_eq!(record.text("f").unwrap_err().to_string(), "f:4: byte 0xe9 at offset 15 is not UTF-8");
    }
}
