//! From the cells of a row to an example: the same for tables and for JSON lines.

use crate::example::Field;
use crate::{Error, Example, Result, Task};

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableCell {
    Text(String),
    List(Vec<String>),
    /// SQuAD's answers: a text and where it starts, in characters; no text when there is no answer
    Answer {
        text: String,
        start: Option<usize>,
    },
}

/// Builds the example of `task`; `cell(i)` is the cell of the task's `i`-th field, none where an optional one is missing.
pub(crate) fn example(task: Task, place: &str, cell: impl Fn(usize) -> Result<Option<TableCell>>) -> Result<Example> {
    let text = |i: usize| one_text(task, i, place, cell(i)?);
    Ok(match task {
        Task::Translate => Example::Pair { source: text(0)?, target: text(1)? },
        Task::Classify => Example::Labelled { text: text(0)?, label: text(1)? },
        Task::ClassifyPair => Example::LabelledPair { first: text(0)?, second: text(1)?, label: text(2)? },
        Task::NextToken | Task::Masked | Task::SpanCorruption | Task::Denoise => Example::Text(text(0)?),
        Task::Tag => tagged(place, words(cell(0)?), words(cell(1)?))?,
        Task::Answer => {
            let start = cell(3)?.map(|c| number(c, place)).transpose()?;
            match cell(2)? {
                Some(TableCell::Answer { text: answer, start: at }) => {
                    question(text(0)?, text(1)?, answer, at.or(start))
                }
                answer => question(text(0)?, text(1)?, one_text(task, 2, place, answer)?, start),
            }
        }
        Task::Image => {
            let hint = "pictures are read from a folder, an IDX file or a table of pixel values";
            return Err(Error::new(place, "a row of text is not a picture", hint));
        }
    })
}

/// A question; `start` counts characters, as SQuAD does, and is found when it is not said.
pub(crate) fn question(context: String, question: String, answer: String, start: Option<usize>) -> Example {
    let Some(letters) = start.filter(|_| !answer.is_empty()) else {
        return Example::question(context, question, answer);
    };
    let start = context.char_indices().nth(letters).map_or(context.len(), |(at, _)| at);
    Example::Question { context, question, answer, start }
}

/// Words and as many tags.
pub(crate) fn tagged(place: &str, words: Vec<String>, tags: Vec<String>) -> Result<Example> {
    if words.len() != tags.len() {
        let what = format!("{} words but {} tags", words.len(), tags.len());
        return Err(Error::new(place, what, "give every word one tag, O for none"));
    }
    Ok(Example::Tagged { words, tags })
}

fn one_text(task: Task, i: usize, place: &str, cell: Option<TableCell>) -> Result<String> {
    match cell {
        Some(TableCell::Text(text) | TableCell::Answer { text, .. }) => Ok(text),
        Some(TableCell::List(list)) => Ok(list.join(" ")),
        None => {
            let name = crate::fields(task).get(i).map_or("?", |f| f.name);
            Err(Error::new(place, format!("no `{name}`"), "every row needs it"))
        }
    }
}

fn words(cell: Option<TableCell>) -> Vec<String> {
    match cell {
        Some(TableCell::List(list)) => list,
        Some(TableCell::Text(text) | TableCell::Answer { text, .. }) => {
            text.split_whitespace().map(String::from).collect()
        }
        None => Vec::new(),
    }
}

fn number(cell: TableCell, place: &str) -> Result<usize> {
    match cell {
        TableCell::Text(text) => text.trim().parse().map_err(|_| {
            Error::new(place, format!("`start` is `{text}`"), "give the first character of the answer, counted from 0")
        }),
        _ => Err(Error::new(place, "`start` is a list", "give one number")),
    }
}

/// Which of `columns` holds `field`: by its name, else by another usual name.
pub(crate) fn find(field: &Field, columns: &[&str]) -> Option<usize> {
    let named = |name: &str| columns.iter().position(|c| c.trim().eq_ignore_ascii_case(name));
    named(field.name).or_else(|| field.also.iter().find_map(|name| named(name)))
}

/// The error of a column that is not there, with the nearest one that is.
pub(crate) fn missing(place: &str, name: &str, field: &Field, columns: &[&str]) -> Error {
    let listed = columns.join(", ");
    let hint = match qkv_base::nearest(name, columns.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? say --column {}={near}", field.name),
        None => "the row has no columns at all".into(),
    };
    Error::new(place, format!("no column `{name}`; there are: {listed}"), hint)
}
