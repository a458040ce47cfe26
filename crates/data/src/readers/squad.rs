//! SQuAD's JSON, versions 1 and 2: articles of paragraphs of questions. The file is one JSON value, so it is held in
//! memory; each paragraph's context is kept once, not once a question.
//!
//! A question with several answers is learnt by the first and judged by all; a question that is impossible has none.

use super::{Opened, Reader, Tally, fields, source};
use crate::{Corpus, Error, Example, Result, corpus::past_end};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// 2 GiB of JSON; SQuAD itself has 40 MB.
const LARGEST: u64 = 2 << 30;

#[derive(Deserialize)]
struct File {
    data: Vec<Article>,
}

#[derive(Deserialize)]
struct Article {
    #[serde(default)]
    title: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    context: String,
    qas: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    #[serde(default)]
    id: String,
    question: String,
    #[serde(default)]
    answers: Vec<Answer>,
    #[serde(default)]
    is_impossible: bool,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    answer_start: usize,
}

/// One question, sharing its context.
struct Row {
    context: Arc<str>,
    question: Question,
    title: String,
}

struct Squad {
    rows: Vec<Row>,
    file: String,
}

impl Corpus for Squad {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let row = self.rows.get(index).ok_or_else(|| past_end(index, self.rows.len()))?;
        let answer = row.question.answers.first().filter(|_| !row.question.is_impossible);
        let (text, start) = answer.map_or((String::new(), None), |a| (a.text.clone(), Some(a.answer_start)));
        Ok(fields::question(row.context.to_string(), row.question.question.clone(), text, start))
    }

    fn answers(&self, index: usize) -> Result<Vec<String>> {
        let row = self.rows.get(index).ok_or_else(|| past_end(index, self.rows.len()))?;
        let right = row.question.answers.iter().filter(|_| !row.question.is_impossible);
        Ok(right.map(|answer| answer.text.clone()).collect())
    }

    fn place(&self, index: usize) -> String {
        match self.rows.get(index) {
            Some(row) => format!("{}: question {} of `{}`", self.file, row.question.id, row.title),
            None => self.file.clone(),
        }
    }
}

/// Opens SQuAD JSON.
pub(crate) fn open(reader: &Reader, path: &Path) -> Result<Opened> {
    let file = path.display().to_string();
    let bytes = source::whole(path, LARGEST)?;
    let parsed: File = serde_json::from_slice(qkv_base::without_bom(&bytes)).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line").next().unwrap_or_default();
        let hint = r#"SQuAD is {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": […]}]}]}]}"#;
        Error::new(format!("{file}:{}, column {}", error.line(), error.column()), format!("no SQuAD: {what}"), hint)
    })?;
    let (mut rows, mut tally) = (Vec::new(), Tally::default());
    for article in parsed.data {
        for paragraph in article.paragraphs {
            let context: Arc<str> = paragraph.context.into();
            for question in paragraph.qas {
                if question.answers.is_empty() && !question.is_impossible {
                    let place = format!("{file}: question {} of `{}`", question.id, article.title);
                    let error = Error::new(place, "no answer", "give an answer, or say `is_impossible`");
                    tally.bad_row(error, reader.bad_rows)?;
                    continue;
                }
                rows.push(Row { context: context.clone(), question, title: article.title.clone() });
            }
        }
    }
    tally.rows = rows.len();
    Opened::new(path, Squad { rows, file }, tally, Vec::new())
}

#[cfg(test)]
mod tests {
    use crate::{Example, Result, Task, read};

    #[test]
    fn both_versions_are_read_and_starts_become_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("squad.json");
        let json = r#"{"version": "v2.0", "data": [{"title": "T", "paragraphs": [{"context": "Née à Rome.", "qas": [
            {"id": "1", "question": "Où ?", "answers": [{"text": "Rome", "answer_start": 6}, {"text": "à Rome", "answer_start": 4}], "is_impossible": false},
            {"id": "2", "question": "Quand ?", "answers": [], "is_impossible": true},
            {"id": "3", "question": "v1", "answers": [{"text": "Née", "answer_start": 1}]}]}]}]}"#;
        std::fs::write(&path, json).unwrap();
        let opened = read(&path, Task::Answer).unwrap();
        assert_eq!(opened.corpus.answers(0).unwrap(), ["Rome", "à Rome"], "it is judged by all of them");
        assert_eq!(opened.corpus.answers(1).unwrap(), [""; 0]);
        let got: Vec<Example> = opened.corpus.examples().collect::<Result<_>>().unwrap();
        assert_eq!(got[0], Example::question("Née à Rome.", "Où ?", "Rome"));
        assert_eq!(got[1], Example::question("Née à Rome.", "Quand ?", ""));
        assert!(got[0].answer_stands() && !got[2].answer_stands(), "a wrong start is kept for the check to find");
        std::fs::write(&path, json.replace("\"context\"", "\"contxt\"")).unwrap();
        let error = read(&path, Task::Answer).unwrap_err();
        assert!(error.what.contains("missing field `context`"), "{error}");
    }
}
