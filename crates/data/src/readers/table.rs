//! Tables: comma- or tab-separated, with or without a header, quoted or not.
//!
//! In CSV a field that begins with a quote ends with one, and may hold delimiters, doubled quotes and line ends. In TSV
//! quotes are mostly plain characters (`"Yes" she said`), so there a field is only unquoted when its closing quote ends
//! the field on the same line; a file that needs the full rules says [`Quotes::Full`].

use super::fields::{self, TableCell};
use super::records::{Cut, Indexed, Parse, Record};
use super::{Opened, Reader, columns};
use crate::{Error, Example, Result, Task};
use std::path::Path;

/// What a quote at the beginning of a field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// CSV's rules: the field runs to the closing quote, over line ends too
    Full,
    /// only where the closing quote ends the field on the same line
    SameLine,
    /// nothing: a quote is a character
    None,
}

/// Is the first row a header?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// yes when it holds the name of a column that the task needs, or when columns are asked for by name; the notes of
    /// the reading say what was decided
    #[default]
    Detect,
    /// yes
    Yes,
    /// no: the first row is data
    No,
}

/// Splits a record into its fields.
pub(crate) fn split(text: &str, delimiter: u8, quotes: Quotes) -> Vec<String> {
    let delimiter = delimiter as char;
    let mut out = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let quoted = match quotes {
            Quotes::None => None,
            Quotes::Full | Quotes::SameLine => text.strip_prefix('"'),
        };
        let (field, after) = match quoted {
            Some(inner) => unquote(inner, delimiter, quotes).unwrap_or_else(|| plain(text, delimiter)),
            None => plain(text, delimiter),
        };
        out.push(field);
        rest = after;
    }
    out
}

fn plain(text: &str, delimiter: char) -> (String, Option<&str>) {
    match text.split_once(delimiter) {
        Some((field, rest)) => (field.into(), Some(rest)),
        None => (text.into(), None),
    }
}

/// The field whose opening quote has just been read, and what follows its delimiter. None where the rules are those of
/// one line and the field does not end with its closing quote.
fn unquote(inner: &str, delimiter: char, quotes: Quotes) -> Option<(String, Option<&str>)> {
    let mut field = String::new();
    let mut rest = inner;
    while let Some((before, after)) = rest.split_once('"') {
        field.push_str(before);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
            continue;
        }
        if after.is_empty() {
            return Some((field, None));
        }
        if let Some(after) = after.strip_prefix(delimiter) {
            return Some((field, Some(after)));
        }
        if quotes == Quotes::SameLine {
            return None;
        }
        // `"a"b,c`: what follows the closing quote still belongs to the field, as csv readers take it.
        let (tail, after) = plain(after, delimiter);
        return Some((field + &tail, after));
    }
    (quotes == Quotes::Full).then(|| (field + rest, None))
}

/// Rows of a table to examples.
pub(crate) struct Rows {
    task: Task,
    delimiter: u8,
    quotes: Quotes,
    /// the column of each of the task's fields
    picks: Vec<Option<usize>>,
    /// as many columns as the first row has
    width: usize,
}

impl Parse for Rows {
    fn parse(&self, record: &Record, file: &str) -> Result<Option<Example>> {
        let cells = split(record.text(file)?, self.delimiter, self.quotes);
        let place = record.place(file);
        if cells.len() != self.width {
            return Err(ragged(&place, cells.len(), self.width, self.delimiter));
        }
        fields::example(self.task, &place, |i| {
            let column = self.picks.get(i).copied().flatten();
            Ok(column.and_then(|c| cells.get(c)).map(|cell| TableCell::Text(cell.clone())))
        })
        .map(Some)
    }
}

fn ragged(place: &str, found: usize, width: usize, delimiter: u8) -> Error {
    let plural = |n: usize| if n == 1 { "1 column".into() } else { format!("{n} columns") };
    let mark = if delimiter == b'\t' { "a tab" } else { "a comma" };
    let hint = match found > width {
        true => format!("{mark} inside a field? put the field in double quotes"),
        false => format!("is {mark} missing, or a quote not closed?"),
    };
    Error::new(
        format!("{place}, column {}", found.min(width) + 1),
        format!("{} where the first row has {width}", plural(found)),
        hint,
    )
}

/// Where the records of such a table end.
pub(crate) fn cut_of(delimiter: u8, quotes: Quotes) -> Cut {
    if quotes == Quotes::Full { Cut::Quoted { delimiter } } else { Cut::Line }
}

/// What reads the rows of a table by its first record, and whether that is a header.
pub(crate) fn rows_of(
    reader: &Reader,
    path: &Path,
    delimiter: u8,
    quotes: Quotes,
    first: &Record,
    notes: &mut Vec<String>,
) -> Result<(Rows, bool)> {
    let file = path.display().to_string();
    let columns = split(first.text(&file)?, delimiter, quotes);
    let header = columns::is_header(reader, &columns);
    notes.push(columns::header_note(reader.header, header, &columns));
    let more = || sample(path, cut_of(delimiter, quotes), delimiter, quotes);
    let picks = columns::pick(reader, &first.place(&file), &columns, header, &more, notes)?;
    Ok((Rows { task: reader.task, delimiter, quotes, picks, width: columns.len() }, header))
}

/// Opens a table.
pub(crate) fn open(reader: &Reader, path: &Path, delimiter: u8, quotes: Quotes) -> Result<Opened> {
    let mut notes = Vec::new();
    let (indexed, tally) = Indexed::build(path, cut_of(delimiter, quotes), reader.bad_rows, |next, file| {
        let first = next()?.ok_or_else(|| super::nothing(file))?;
        let (rows, header) = rows_of(reader, path, delimiter, quotes, &first, &mut notes)?;
        Ok((rows, if header { Vec::new() } else { vec![first] }))
    })?;
    Opened::new(path, indexed, tally, notes)
}

/// The cells of some rows behind the first, for a guess at what the columns hold; rows that cannot be read are left out.
fn sample(path: &Path, cut: Cut, delimiter: u8, quotes: Quotes) -> Vec<Vec<String>> {
    let file = path.display().to_string();
    let Ok(stream) = super::source::stream(path) else { return vec![] };
    let mut records = super::records::Records::new(stream, &file, cut);
    let rows = std::iter::from_fn(|| records.next().ok().flatten()).skip(1).take(columns::SAMPLE);
    rows.filter_map(|row| Some(split(row.text(&file).ok()?, delimiter, quotes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tsv_quotes_are_mostly_characters() {
        let fields = |text| split(text, b'\t', Quotes::SameLine);
        assert_eq!(fields("\"Yes\" she said\tx"), ["\"Yes\" she said", "x"]);
        assert_eq!(fields("\"a\tb\"\tc"), ["a\tb", "c"]);
        assert_eq!(fields("\"never closed\tx"), ["\"never closed", "x"]);
        assert_eq!(split("\"a\"\tb", b'\t', Quotes::None), ["\"a\"", "b"]);
    }

    proptest! {
        /// The csv crate is the reference for one record.
        #[test]
        fn fields_are_those_of_the_csv_crate(text in "[ab,\"]{1,12}") {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
            let want: Vec<String> = reader.records().next().unwrap().unwrap().iter().map(String::from).collect();
            prop_assert_eq!(split(&text, b',', Quotes::Full), want);
        }

        /// Whatever the csv crate writes, with line ends inside, is cut and split into what was written.
        #[test]
        fn what_csv_writes_is_read(rows in prop::collection::vec(prop::collection::vec("[aé,\"\n\r ]{0,6}", 3), 1..6)) {
            let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let bytes = writer.into_inner().unwrap();
            let cut = Cut::Quoted { delimiter: b',' };
            let mut records = super::super::records::Records::new(bytes.as_slice(), "f", cut);
            for row in rows {
                let record = records.next().unwrap().unwrap();
                prop_assert_eq!(split(record.text("f").unwrap(), b',', Quotes::Full), row);
            }
            prop_assert!(records.next().unwrap().is_none());
        }
    }
}
