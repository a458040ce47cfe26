//! Texts of a Parquet file: one column of strings, a group of rows after the other, a thousand rows in memory at a time.
//!
//! The column is found like that of a table: as said, else by the usual names; `data.text` reaches into a group. What is
//! packed with Snappy, gzip or LZ4 is read, and what is not packed; Zstandard and Brotli are not built in.

use super::source::{Meter, open_file};
use super::text_stream::{FilePlace, TextPart};
use super::{Column, Reader, fields};
use crate::{Error, Result};
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

/// So many rows are read at a time.
const ROWS: usize = 1024;

/// The texts of a file.
pub(super) struct Texts {
    reader: SerializedFileReader<File>,
    file: String,
    column: usize,
    /// the value is there when a row's level is this
    full: i16,
    /// the group to be opened next
    group: usize,
    open: Option<ColumnReaderImpl<ByteArrayType>>,
    waiting: VecDeque<Option<ByteArray>>,
    /// rows given out
    rows: u64,
    all: u64,
    bytes: u64,
    meter: Meter,
}

impl Texts {
    /// Opens a file behind its first `skip` rows.
    pub(super) fn open(reader: &Reader, path: &Path, skip: u64, meter: &Meter) -> Result<Self> {
        let file = path.display().to_string();
        let disk = open_file(path)?;
        let bytes = disk.metadata().map_or(0, |about| about.len());
        let opened = SerializedFileReader::new(disk).map_err(|e| broken(&file, &e))?;
        let about = opened.metadata().file_metadata();
        let column =
            pick(reader, &file, &about.schema_descr().columns().iter().map(|c| c.path().string()).collect::<Vec<_>>())?;
        let schema = about.schema_descr().column(column);
        let name = schema.path().string();
        if schema.physical_type() != Type::BYTE_ARRAY || schema.max_rep_level() > 0 {
            let what = format!("the column `{name}` holds no texts ({:?})", schema.physical_type());
            return Err(Error::new(file, what, "name another: --column text=NAME"));
        }
        let all = u64::try_from(about.num_rows()).unwrap_or(0);
        let (full, meter) = (schema.max_def_level(), meter.clone());
        let mut texts = Self {
            reader: opened,
            file,
            column,
            full,
            group: 0,
            open: None,
            waiting: VecDeque::new(),
            rows: 0,
            all,
            bytes,
            meter,
        };
        texts.skip(skip)?;
        Ok(texts)
    }

    fn skip(&mut self, rows: u64) -> Result<()> {
        while self.rows < rows {
            let left = rows - self.rows;
            let Some(group) = self.reader.metadata().row_groups().get(self.group) else {
                let what = format!("has {} rows, but {rows} of it were read before", self.rows);
                return Err(Error::new(&self.file, what, "bring the file back as it was"));
            };
            let has = u64::try_from(group.num_rows()).unwrap_or(0);
            if has <= left {
                self.group += 1;
                self.rows += has;
                continue;
            }
            self.next_group()?;
            if let Some(open) = &mut self.open {
                open.skip_records(left as usize).map_err(|e| broken(&self.file, &e))?;
            }
            self.rows += left;
        }
        Ok(())
    }

    fn next_group(&mut self) -> Result<()> {
        let group = self.reader.get_row_group(self.group).map_err(|e| broken(&self.file, &e))?;
        self.group += 1;
        self.open = match group.get_column_reader(self.column).map_err(|e| broken(&self.file, &e))? {
            ColumnReader::ByteArrayColumnReader(column) => Some(column),
            _ => return Err(Error::new(&self.file, "the column holds no texts", "name another: --column text=NAME")),
        };
        Ok(())
    }

    /// Reads rows until some wait; false at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.waiting.is_empty() {
            let Some(open) = &mut self.open else {
                if self.group >= self.reader.num_row_groups() {
                    return Ok(false);
                }
                self.next_group()?;
                continue;
            };
            let (mut levels, mut values) = (vec![], vec![]);
            let read = open.read_records(ROWS, Some(&mut levels), None, &mut values);
            let (records, ..) = read.map_err(|e| broken(&self.file, &e))?;
            if records == 0 {
                self.open = None;
                continue;
            }
            let mut values = values.into_iter();
            match self.full {
                // A column that must have a value has no levels.
                0 => self.waiting.extend(values.map(Some)),
                full => {
                    self.waiting.extend(levels.iter().map(|level| if *level == full { values.next() } else { None }))
                }
            }
        }
        Ok(true)
    }

    /// The next text; a row without one is an empty text.
    pub(super) fn next(&mut self) -> Result<Option<TextPart>> {
        if !self.fill()? {
            return Ok(None);
        }
        let value = self.waiting.pop_front().flatten();
        self.rows += 1;
        self.meter.set((self.bytes as f64 * self.rows as f64 / self.all.max(1) as f64) as u64);
        let text = value.as_ref().map_or(Ok(""), |value| value.as_utf8()).map_err(|_| {
            let place = format!("{}, row {}", self.file, self.rows);
            Error::new(place, "the text is not UTF-8", "write the column as UTF-8 strings")
        })?;
        let after = FilePlace { rows: self.rows, ..FilePlace::default() };
        Ok(Some(TextPart { text: text.into(), begins: true, ends: true, after: Some(after) }))
    }
}

/// Which column holds the texts.
fn pick(reader: &Reader, file: &str, columns: &[String]) -> Result<usize> {
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let wanted = crate::fields(reader.task).first().ok_or_else(|| Error::internal(file, "a task without fields"))?;
    match reader.columns.get(wanted.name) {
        Some(Column::At(at)) if *at < names.len() => Ok(*at),
        Some(Column::At(at)) => {
            let what = format!("column {} of {}", at + 1, names.len());
            Err(Error::new(file, what, "count from 1, or name the column"))
        }
        Some(Column::Named(name)) => {
            names.iter().position(|n| n == name).ok_or_else(|| fields::missing(file, name, wanted, &names))
        }
        None => fields::find(wanted, &names).ok_or_else(|| fields::missing(file, wanted.name, wanted, &names)),
    }
}

fn broken(file: &str, error: &ParquetError) -> Error {
    let said = error.to_string();
    let hint = match said.contains("Disabled feature") {
        true => "the file is packed in a way that is not built in: write it with snappy, gzip, lz4 or none",
        false => "is this a Parquet file, and whole?",
    };
    Error::new(file, format!("cannot be read as Parquet: {said}"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    /// Two groups of rows, every seventh without a text.
    fn write(path: &Path, compression: Compression) -> Vec<String> {
        let schema = "message m { required int64 id; optional binary text (UTF8); }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let how = Arc::new(WriterProperties::builder().set_compression(compression).build());
        let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, how).unwrap();
        let mut all = vec![];
        for group in 0..2 {
            let mut rows = writer.next_row_group().unwrap();
            let ids: Vec<i64> = (0..1500).collect();
            let texts: Vec<Option<String>> =
                ids.iter().map(|i| (i % 7 != 0).then(|| format!("group {group}, row {i}: è"))).collect();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<parquet::data_type::Int64Type>().write_batch(&ids, None, None).unwrap();
            column.close().unwrap();
            let values: Vec<ByteArray> = texts.iter().flatten().map(|t| ByteArray::from(t.as_str())).collect();
            let levels: Vec<i16> = texts.iter().map(|t| i16::from(t.is_some())).collect();
            let mut column = rows.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
            column.close().unwrap();
            rows.close().unwrap();
            all.extend(texts.into_iter().map(Option::unwrap_or_default));
        }
        writer.close().unwrap();
        all
    }

    #[test]
    fn texts_are_read_from_any_row_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let reader = Reader::new(Task::NextToken);
        for packed in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::LZ4_RAW,
        ] {
            let want = write(&path, packed);
            for from in [0u64, 1, 1023, 1024, 1499, 1500, 1501, 2999, 3000] {
                let place = FilePlace { rows: from, ..FilePlace::default() };
                let got: Vec<String> = reader.texts(&path, place).unwrap().map(|part| part.unwrap().text).collect();
                assert!(got == want[from as usize..], "{packed:?} from {from}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        write(&path, Compression::SNAPPY);
        let open = |reader: &Reader, rows: u64| {
            reader.texts(&path, FilePlace { rows, ..FilePlace::default() }).err().expect("refused")
        };
        let reader = Reader::new(Task::NextToken);
        assert!(open(&reader.clone().column("text", "txet").unwrap(), 0).hint.contains("did you mean `text`?"));
        assert!(open(&reader.clone().column("text", "id").unwrap(), 0).what.contains("holds no texts"));
        assert!(open(&reader, 5000).what.contains("has 3000 rows"));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(open(&reader, 0).what.starts_with("cannot be read as Parquet"));
        assert!(crate::read(&path, Task::NextToken).unwrap_err().hint.contains("data shard FILE.parquet"));
    }
}
