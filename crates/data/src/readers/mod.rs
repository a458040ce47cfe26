//! Readers: a file of one of the usual formats, plain or gzip, to a [`Corpus`].
//!
//! The format follows from the name, or is said. Opening reads the file once, so every bad row is found before any
//! training, named by file, line and column; after that a plain table, JSON-lines, text, CoNLL or parallel file is read
//! in place (24 bytes of index a row), while gzip, SQuAD, IDX and digit tables are held in memory.
//!
//! ```
//! use qkv_data::{Example, Task, read};
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("pairs.tsv");
//! std::fs::write(&path, "the house\tla casa\nthe dog\til cane\n").unwrap();
//! let opened = read(&path, Task::Translate)?;
//! assert_eq!(opened.corpus.get(1)?, Example::pair("the dog", "il cane"));
//! assert_eq!(opened.notes, ["first row taken as data: no header"]);
//! # Ok::<(), qkv_data::Error>(())
//! ```

mod columns;
mod fields;
mod images;
mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;
mod picture;
mod records;
mod several;
mod source;
mod squad;
mod table;
mod text;
mod text_stream;

use crate::{Corpus, Error, Result, Task};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use images::LabelColumn;
pub use picture::{Fitted, Picture, read_picture};
pub use records::LONGEST;
pub(crate) use source::unreadable;
pub use source::{MOST_UNPACKED, Meter};
pub use table::{Header, Quotes};
pub use text::{Documents, lines};
pub use text_stream::{FilePlace, PART, TextPart, TextStream};

/// How a file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// separated by commas
    Csv,
    /// separated by tabs
    Tsv,
    /// an object a line
    JsonLines,
    /// plain text
    Text(Documents),
    /// this file and a second one, line by line
    Parallel {
        /// the file of the translations
        target: PathBuf,
    },
    /// Apache Parquet, a column of texts; it is read as a stream only, into shards
    Parquet,
    /// a word and its tag a line, a blank line between sentences
    Conll,
    /// SQuAD's JSON
    Squad,
    /// a folder with a subfolder a class; a size that every picture is brought to
    Folder(Option<Picture>),
    /// MNIST's files; the labels, where they are not beside the pictures under their usual name
    Idx {
        /// the file of the labels
        labels: Option<PathBuf>,
    },
    /// a table of pixel values
    Digits {
        /// where the label is
        label: LabelColumn,
        /// width, height and channels; a grey square when not said
        size: Option<Picture>,
    },
}

/// Which column holds a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// the one with this name in the header
    Named(String),
    /// the one at this place, from 0
    At(usize),
}

/// What to do with rows that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadRows {
    /// stop at the first
    #[default]
    Refuse,
    /// leave them out, and count them
    Skip,
}

/// How many rows were read and how many were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// good rows
    pub rows: usize,
    /// rows left out
    pub bad: usize,
    /// why, for the first few
    pub first: Vec<Error>,
}

impl Tally {
    /// So many reasons are kept.
    const KEPT: usize = 5;

    fn bad_row(&mut self, error: Error, bad_rows: BadRows) -> Result<()> {
        if bad_rows == BadRows::Refuse {
            return Err(error);
        }
        self.bad += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(error);
        }
        Ok(())
    }
}

/// An opened file.
pub struct Opened {
    /// the examples
    pub corpus: Arc<dyn Corpus>,
    /// how many rows
    pub tally: Tally,
    /// what was decided on the way, to be shown: is there a header, which column is what
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("tally", &self.tally).field("notes", &self.notes).finish()
    }
}

impl Opened {
    fn new(path: &Path, corpus: impl Corpus + 'static, tally: Tally, notes: Vec<String>) -> Result<Self> {
        if tally.rows == 0 && tally.bad > 0 {
            let first = tally.first.first().map_or_else(String::new, |error| format!("; the first: {error}"));
            let what = format!("0 examples after filtering ({} dropped: bad rows{first})", tally.bad);
            return Err(Error::new(path.display().to_string(), what, "is this the right format and task?"));
        }
        if tally.rows == 0 {
            return Err(nothing(&path.display().to_string()));
        }
        if u32::try_from(tally.rows).is_err() {
            let hint = "split the file";
            return Err(Error::new(path.display().to_string(), "more than 4 thousand million rows", hint));
        }
        Ok(Self { corpus: Arc::new(corpus), tally, notes })
    }
}

/// The error of a file without examples.
fn nothing(file: &str) -> Error {
    Error::new(file, "0 examples: the file is empty or holds nothing but a header", "name a file with data")
}

/// Opens `path` for `task`, everything else by the usual rules. Two parallel files are named `train.de,train.en`.
pub fn read(path: impl AsRef<Path>, task: Task) -> Result<Opened> {
    Reader::new(task).open(path)
}

/// How to read a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// what is to be learned, and so which columns are needed
    pub task: Task,
    /// the format; by the file's name when not said
    pub format: Option<Format>,
    /// the column of a field (`label`, `source`), where it has another name or place
    pub columns: BTreeMap<String, Column>,
    /// is the first row of a table a header?
    pub header: Header,
    /// what quotes mean; CSV's rules in CSV and those of one line in TSV when not said
    pub quotes: Option<Quotes>,
    /// what to do with bad rows
    pub bad_rows: BadRows,
    /// what pictures are brought to; when not said, they stay as they are, and all of a folder must be of one size
    pub picture: Option<Picture>,
}

impl Reader {
    /// The usual rules for `task`.
    pub fn new(task: Task) -> Self {
        let (columns, header) = (BTreeMap::new(), Header::default());
        Self { task, format: None, columns, header, quotes: None, bad_rows: BadRows::default(), picture: None }
    }

    /// The same, with the column called `column` (or the one at that number, from 1) as `field`.
    ///
    /// ```
    /// use qkv_data::{Reader, Task};
    /// assert!(Reader::new(Task::Classify).column("label", "stars").is_ok());
    /// assert_eq!(Reader::new(Task::Classify).column("lable", "2").unwrap_err().hint, "did you mean `label`?");
    /// ```
    pub fn column(mut self, field: &str, column: &str) -> Result<Self> {
        let names = crate::fields(self.task).iter().map(|f| f.name);
        if !names.clone().any(|name| name == field) {
            let nearest = qkv_base::nearest(field, names).unwrap_or_default();
            let what = format!("the task {} has no field `{field}`", self.task.name());
            return Err(Error::new("column", what, format!("did you mean `{nearest}`?")));
        }
        let at = column.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        self.columns.insert(field.into(), at.map_or_else(|| Column::Named(column.into()), Column::At));
        Ok(self)
    }

    /// Opens a file or folder: reads it once, and says which rows are bad.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Opened> {
        let path = path.as_ref();
        if let Some(files) = several::matched(path)? {
            return self.open_all(&files);
        }
        let (path, format) = match &self.format {
            Some(format) => (path.to_path_buf(), format.clone()),
            None => guess(path, self.task)?,
        };
        match format {
            Format::Csv => table::open(self, &path, b',', self.quotes.unwrap_or(Quotes::Full)),
            Format::Tsv => table::open(self, &path, b'\t', self.quotes.unwrap_or(Quotes::SameLine)),
            Format::JsonLines => jsonl::open(self, &path),
            Format::Parquet => Err(only_streamed(&path)),
            Format::Text(documents) => {
                self.only(Task::NextToken, &path).and_then(|_| text::open(self, &path, documents))
            }
            Format::Parallel { target } => {
                self.only(Task::Translate, &path).and_then(|_| text::open_parallel(&path, &target))
            }
            Format::Conll => self.only(Task::Tag, &path).and_then(|_| text::open_conll(self, &path)),
            Format::Squad => self.only(Task::Answer, &path).and_then(|_| squad::open(self, &path)),
            Format::Folder(size) => {
                self.only(Task::Image, &path).and_then(|_| images::open_folder(self, &path, size.or(self.picture)))
            }
            Format::Idx { labels } => self
                .only(Task::Image, &path)
                .and_then(|_| images::open_idx(&path, labels.as_deref()))
                .and_then(|o| self.fitted(o)),
            Format::Digits { label, size } => self
                .only(Task::Image, &path)
                .and_then(|_| images::open_digits(self, &path, label, size))
                .and_then(|o| self.fitted(o)),
        }
    }

    /// Pictures brought to the size that is said.
    fn fitted(&self, opened: Opened) -> Result<Opened> {
        match self.picture {
            Some(size) => images::fitted(opened, size),
            None => Ok(opened),
        }
    }

    /// Some formats hold the examples of one task only.
    fn only(&self, task: Task, path: &Path) -> Result<&Self> {
        if self.task == task || (task == Task::NextToken && self.task.is_of_text_alone()) {
            return Ok(self);
        }
        let what = format!("a file of this format is for the task {}, not {}", task.name(), self.task.name());
        Err(Error::new(path.display().to_string(), what, "choose that task, or another format: tsv, csv, jsonl"))
    }
}

fn parquet_name(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet"))
}

/// The error of a Parquet file where examples are asked for in any order.
fn only_streamed(path: &Path) -> Error {
    let hint = "make shards of it first: qkv data shard FILE.parquet --vocab 8000 -o DIR; then train with --data DIR";
    Error::new(path.display().to_string(), "a Parquet file is read as a stream only", hint)
}

/// The error of a build that cannot read Parquet.
#[cfg(not(feature = "parquet"))]
fn no_parquet(file: &str) -> Error {
    let hint = "build it in: cargo build --release --features parquet; or write the column out as JSON lines";
    Error::new(file, "this build cannot read Parquet: it was made without the feature `parquet`", hint)
}

/// The format by the name of the file.
fn guess(path: &Path, task: Task) -> Result<(PathBuf, Format)> {
    crate::shards::refuse_shards(path)?;
    if parquet_name(path) {
        return Err(only_streamed(path));
    }
    let name = path.to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let extension = name.rsplit(['/', '\\']).next().and_then(|file| file.rsplit_once('.')).map_or("", |(_, ext)| ext);
    if let (Task::Translate, Some((source, target))) = (task, path.to_string_lossy().split_once(',')) {
        return Ok((source.into(), Format::Parallel { target: target.into() }));
    }
    let format = match (task, extension) {
        (Task::Image, "csv") => Format::Digits { label: label_column(path)?, size: None },
        (Task::Image, _) if path.is_dir() => Format::Folder(None),
        (Task::Image, _) if name.contains("idx") => Format::Idx { labels: None },
        (task, _) if task.is_of_text_alone() && path.is_dir() => Format::Text(Documents::Files),
        (_, "csv") => Format::Csv,
        (_, "tsv" | "tab") => Format::Tsv,
        (_, "jsonl" | "ndjson") => Format::JsonLines,
        (Task::Answer, "json") => Format::Squad,
        (Task::Tag, _) => Format::Conll,
        (task, _) if task.is_of_text_alone() => Format::Text(Documents::Paragraphs),
        _ => {
            let what = format!("the name does not say how the file is written (for the task {})", task.name());
            let hint = "say the format: csv, tsv, jsonl, …; two parallel files are named train.de,train.en";
            return Err(Error::new(path.display().to_string(), what, hint));
        }
    };
    Ok((path.to_path_buf(), format))
}

/// First or last, by the header; pixel values alone cannot tell.
fn label_column(path: &Path) -> Result<LabelColumn> {
    let file = path.display().to_string();
    let mut records = records::Records::new(source::stream(path)?, &file, records::Cut::Line);
    let first = records.next()?.ok_or_else(|| nothing(&file))?;
    let columns = table::split(first.text(&file)?, b',', Quotes::SameLine);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    match crate::fields(Task::Image).first().and_then(|label| fields::find(label, &columns)) {
        Some(0) => Ok(LabelColumn::First),
        Some(i) if i + 1 == columns.len() => Ok(LabelColumn::Last),
        _ => {
            let hint = "say the format: digits with the label first or last";
            Err(Error::new(format!("{file}:1"), "no header says which column is the label", hint))
        }
    }
}

/// The files of a folder and its subfolders by name, or the one file itself; hidden ones left out.
fn files_under(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        source::open_file(path)?;
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let name = folder.display().to_string();
        let entries = std::fs::read_dir(&folder).map_err(|error| source::unreadable(&name, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| source::unreadable(&name, &error))?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            // A link to a folder is not followed: it could lead back here.
            let kind = entry.file_type().map_err(|error| source::unreadable(&name, &error))?;
            match kind.is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}
