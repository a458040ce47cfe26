//! JSON lines: an object a line. Keys are found like the columns of a table; `translation.en` reaches into objects.

use super::fields::{self, TableCell};
use super::records::{Cut, Indexed, Parse, Record};
use super::{Column, Opened, Reader};
use crate::example::Field;
use crate::{Error, Example, Result, Task};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Lines of JSON to examples.
pub(crate) struct Lines {
    task: Task,
    columns: BTreeMap<String, Column>,
}

impl Parse for Lines {
    fn parse(&self, record: &Record, file: &str) -> Result<Option<Example>> {
        let text = record.text(file)?;
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let place = format!("{}, column {}", record.place(file), error.column());
            let what = error.to_string();
            let what = what.split(" at line").next().unwrap_or_default();
            Error::new(place, format!("not JSON: {what}"), "one whole object a line; or skip bad rows")
        })?;
        let place = record.place(file);
        let Value::Object(object) = value else {
            let hint = r#"write {"text": …} on every line"#;
            return Err(Error::new(place, "the line is not an object", hint));
        };
        let wanted = crate::fields(self.task);
        fields::example(self.task, &place, |i| match wanted.get(i) {
            Some(field) => self.cell(&object, field, &place),
            None => Ok(None),
        })
        .map(Some)
    }
}

impl Lines {
    fn cell(&self, object: &Map<String, Value>, field: &Field, place: &str) -> Result<Option<TableCell>> {
        let keys: Vec<&str> = object.keys().map(String::as_str).collect();
        let (name, value) = match self.columns.get(field.name) {
            Some(Column::Named(name)) => (name.as_str(), reach(object, name)),
            Some(Column::At(at)) => {
                let what = format!("column {} of an object", at + 1);
                return Err(Error::new(place, what, "objects have no order: name the key"));
            }
            None => (field.name, fields::find(field, &keys).and_then(|i| keys.get(i)).and_then(|key| object.get(*key))),
        };
        match value {
            Some(Value::Null) | None if field.optional => Ok(None),
            None => Err(fields::missing(place, name, field, &keys)),
            Some(value) => cell(value).map(Some).ok_or_else(|| {
                Error::new(place, format!("`{name}` is {}", kind(value)), "give a text, a number or a list of texts")
            }),
        }
    }
}

/// `a.b` is the key `b` of the object under `a`, unless there is a key called `a.b`.
fn reach<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        reach(object.get(first)?.as_object()?, rest)
    })
}

fn cell(value: &Value) -> Option<TableCell> {
    match value {
        Value::Object(answers) => {
            // SQuAD as flattened by others: {"text": ["Rome"], "answer_start": [13]}, both empty without an answer.
            let text = first(answers.get("text")?);
            let start = first(answers.get("answer_start")?).and_then(Value::as_u64);
            let text = text.and_then(Value::as_str).unwrap_or_default().into();
            Some(TableCell::Answer { text, start: start.map(|s| usize::try_from(s).unwrap_or(usize::MAX)) })
        }
        Value::Array(list) => list.iter().map(scalar).collect::<Option<_>>().map(TableCell::List),
        value => scalar(value).map(TableCell::Text),
    }
}

fn first(value: &Value) -> Option<&Value> {
    match value {
        Value::Array(list) => list.first(),
        value => Some(value),
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Object(_) => "an object",
        Value::Array(_) => "a list of other things than texts",
        _ => "a value",
    }
}

/// What reads the lines as `reader` says.
pub(crate) fn lines(reader: &Reader) -> Lines {
    Lines { task: reader.task, columns: reader.columns.clone() }
}

/// Opens a file of JSON lines.
pub(crate) fn open(reader: &Reader, path: &Path) -> Result<Opened> {
    let lines = lines(reader);
    let (indexed, tally) = Indexed::build(path, Cut::Line, reader.bad_rows, |_, _| Ok((lines, Vec::new())))?;
    Opened::new(path, indexed, tally, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(task: Task, text: &str) -> Result<Example> {
        let lines = Lines { task, columns: BTreeMap::new() };
        let record = Record { offset: 0, line: 3, bytes: text.into() };
        lines.parse(&record, "f.jsonl").map(|e| e.unwrap())
    }

    #[test]
    fn values_of_every_kind_become_text() {
        assert_eq!(parse(Task::Classify, r#"{"sentence": "a", "label": 1}"#), Ok(Example::labelled("a", "1")));
        let tagged = parse(Task::Tag, r#"{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"]}"#);
        assert_eq!(tagged, Ok(Example::tagged([("Ada", "B-PER"), ("left", "O")])));
        let squad = r#"{"context": "né à Rome", "question": "où", "answers": {"text": ["Rome"], "answer_start": [5]}}"#;
        assert_eq!(parse(Task::Answer, squad), Ok(Example::question("né à Rome", "où", "Rome")));
        let none = r#"{"context": "c", "question": "q", "answers": {"text": [], "answer_start": []}}"#;
        assert_eq!(parse(Task::Answer, none), Ok(Example::question("c", "q", "")));
    }

    #[test]
    fn a_nested_key_is_reached() {
        let columns = [("source", "translation.en"), ("target", "translation.it")];
        let columns = columns.map(|(f, c)| (f.to_string(), Column::Named(c.into()))).into();
        let record = Record { offset: 0, line: 1, bytes: br#"{"translation": {"en": "house", "it": "casa"}}"#.into() };
        let got = Lines { task: Task::Translate, columns }.parse(&record, "f").unwrap();
        assert_eq!(got, Some(Example::pair("house", "casa")));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = parse(Task::NextToken, r#"{"text": "a""#).unwrap_err();
        assert_eq!(error.to_string(), "f.jsonl:3, column 12: not JSON: EOF while parsing an object");
        let error = parse(Task::NextToken, r#"{"txet": "a"}"#).unwrap_err();
        assert_eq!(error.to_string(), "f.jsonl:3: no column `text`; there are: txet");
        assert_eq!(error.hint, "did you mean `txet`? say --column text=txet");
        assert!(parse(Task::NextToken, "[1]").is_err() && parse(Task::NextToken, r#"{"text": null}"#).is_err());
        let deep = format!("{{\"text\": {}", "[".repeat(100_000));
        assert!(parse(Task::NextToken, &deep).is_err(), "a deep line is an error, not a crash");
    }
}
