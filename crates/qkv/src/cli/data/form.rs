//! How a person says that a file is written.

use qkv_data::Format;
use qkv_data::readers::{Documents, Header, LabelColumn};

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Form {
    /// separated by commas
    Csv,
    /// separated by tabs
    Tsv,
    /// an object a line
    Jsonl,
    /// text, blank lines between documents
    Text,
    /// text, a document a line
    Lines,
    /// text, a document a file
    Files,
    /// a word and its tag a line
    Conll,
    /// SQuAD's JSON
    Squad,
    /// a folder with a subfolder of pictures for each class
    Folder,
    /// MNIST's files
    Idx,
    /// a table of pixel values, the label first
    DigitsFirst,
    /// a table of pixel values, the label last
    DigitsLast,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum FirstRow {
    /// the first row names the columns
    Yes,
    /// the first row is data
    No,
}

/// The same in the library's words.
pub(super) fn format(form: Form) -> Format {
    match form {
        Form::Csv => Format::Csv,
        Form::Tsv => Format::Tsv,
        Form::Jsonl => Format::JsonLines,
        Form::Text => Format::Text(Documents::Paragraphs),
        Form::Lines => Format::Text(Documents::Lines),
        Form::Files => Format::Text(Documents::Files),
        Form::Conll => Format::Conll,
        Form::Squad => Format::Squad,
        Form::Folder => Format::Folder(None),
        Form::Idx => Format::Idx { labels: None },
        Form::DigitsFirst => Format::Digits { label: LabelColumn::First, size: None },
        Form::DigitsLast => Format::Digits { label: LabelColumn::Last, size: None },
    }
}

/// Whether the first row is a header.
pub(super) fn header(said: Option<FirstRow>) -> Header {
    match said {
        None => Header::Detect,
        Some(FirstRow::Yes) => Header::Yes,
        Some(FirstRow::No) => Header::No,
    }
}
