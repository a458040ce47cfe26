//! One example as a person thinks of it, before any tokenizer: a pair, a labelled text, tagged words, a question.

use qkv_base::Task;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One row of somebody's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Example {
    /// a text and the text to make of it: translation, correction, summary
    Pair {
        /// what is read
        source: String,
        /// what is to be written
        target: String,
    },
    /// a text and its class
    Labelled {
        /// what is read
        text: String,
        /// its class
        label: String,
    },
    /// two texts and the class of their relation
    LabelledPair {
        /// the first text
        first: String,
        /// the second text
        second: String,
        /// their class
        label: String,
    },
    /// words, each with a tag (BIO)
    Tagged {
        /// the words
        words: Vec<String>,
        /// as many tags
        tags: Vec<String>,
    },
    /// a question whose answer is a stretch of the context
    Question {
        /// where the answer stands
        context: String,
        /// what is asked
        question: String,
        /// the words of the context that answer; empty when the context does not answer
        answer: String,
        /// byte offset of the answer in the context
        start: usize,
    },
    /// a document
    Text(String),
    /// a picture and its class
    Image {
        /// columns
        width: usize,
        /// rows
        height: usize,
        /// 1 for grey, 3 for colour
        channels: usize,
        /// row by row, the channels of a pixel side by side: `[H, W, C]`
        pixels: Vec<u8>,
        /// its class
        label: String,
    },
}

impl Example {
    /// A pair of texts.
    ///
    /// ```
    /// assert_eq!(qkv_data::Example::pair("the house", "la casa").text(), "the house");
    /// ```
    pub fn pair(source: impl Into<String>, target: impl Into<String>) -> Self {
        Example::Pair { source: source.into(), target: target.into() }
    }

    /// A text and its class.
    pub fn labelled(text: impl Into<String>, label: impl Into<String>) -> Self {
        Example::Labelled { text: text.into(), label: label.into() }
    }

    /// Words and their tags.
    pub fn tagged<S: Into<String>>(words: impl IntoIterator<Item = (S, S)>) -> Self {
        let (words, tags) = words.into_iter().map(|(word, tag)| (word.into(), tag.into())).unzip();
        Example::Tagged { words, tags }
    }

    /// A question; the answer is looked for in the context, and where it is not there, `start` is the context's end.
    pub fn question(context: impl Into<String>, question: impl Into<String>, answer: impl Into<String>) -> Self {
        let (context, answer) = (context.into(), answer.into());
        let start = if answer.is_empty() { 0 } else { context.find(&answer).unwrap_or(context.len()) };
        Example::Question { context, question: question.into(), answer, start }
    }

    /// What the model reads: the text by which two examples are the same one, and by which splits must not overlap.
    /// For a question it is the context, for a picture nothing.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Example::Pair { source, .. } => source.into(),
            Example::Labelled { text, .. } | Example::Text(text) => text.into(),
            Example::LabelledPair { first, second, .. } => format!("{first}\n{second}").into(),
            Example::Tagged { words, .. } => words.join(" ").into(),
            Example::Question { context, .. } => context.into(),
            Example::Image { .. } => "".into(),
        }
    }

    /// The class, where there is one for the whole example.
    pub fn label(&self) -> Option<&str> {
        match self {
            Example::Labelled { label, .. } | Example::LabelledPair { label, .. } | Example::Image { label, .. } => {
                Some(label)
            }
            _ => None,
        }
    }

    /// The example as one for `task`: its text alone where text alone is learnt from, and its label as the text to write
    /// where a text is made of another (as T5 does). Any other stays as it is.
    ///
    /// ```
    /// use qkv_data::{Example, Task};
    /// assert_eq!(Example::labelled("fine", "good").for_task(Task::Translate), Example::pair("fine", "good"));
    /// assert_eq!(Example::pair("the house", "la casa").for_task(Task::NextToken), Example::Text("the house".into()));
    /// ```
    pub fn for_task(self, task: Task) -> Self {
        match self {
            Example::Text(_) | Example::Image { .. } => self,
            other if task.is_of_text_alone() => Example::Text(other.text().into_owned()),
            Example::Labelled { text, label } if task == Task::Translate => {
                Example::Pair { source: text, target: label }
            }
            other => other,
        }
    }

    /// Is a side that the model must read or write empty?
    pub fn is_empty(&self) -> bool {
        let blank = |text: &str| text.trim().is_empty();
        match self {
            Example::Pair { source, target } => blank(source) || blank(target),
            Example::Labelled { text, label } => blank(text) || blank(label),
            Example::LabelledPair { first, second, label } => blank(first) || blank(second) || blank(label),
            Example::Tagged { words, .. } => words.is_empty(),
            Example::Question { context, question, .. } => blank(context) || blank(question),
            Example::Text(text) => blank(text),
            Example::Image { pixels, .. } => pixels.is_empty(),
        }
    }

    /// Does the answer stand in the context where it is said to? True for an example that is not a question, and for a
    /// question without an answer.
    ///
    /// ```
    /// use qkv_data::Example;
    /// assert!(Example::question("Ada lives in Rome.", "Where?", "Rome").answer_stands());
    /// assert!(!Example::question("Ada lives in Rome.", "Where?", "Oslo").answer_stands());
    /// ```
    pub fn answer_stands(&self) -> bool {
        match self {
            Example::Question { context, answer, start, .. } if !answer.is_empty() => {
                context.get(*start..).is_some_and(|rest| rest.starts_with(answer.as_str()))
            }
            _ => true,
        }
    }
}

/// A column that a task needs: its name, and what else people call it.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// our name
    pub name: &'static str,
    /// other usual names
    pub also: &'static [&'static str],
    /// may it be missing?
    pub optional: bool,
}

const fn field(name: &'static str, also: &'static [&'static str]) -> Field {
    Field { name, also, optional: false }
}

const TEXT: Field = field("text", &["sentence", "review", "content", "document"]);
const LABEL: Field = field("label", &["class", "category", "sentiment", "labels"]);

/// The columns that a task needs, in the order they have in a file without a header.
pub fn fields(task: Task) -> &'static [Field] {
    const PAIR: &[Field] =
        &[field("source", &["src", "input", "input_text"]), field("target", &["tgt", "output", "target_text"])];
    const CLASSIFY: &[Field] = &[TEXT, LABEL];
    const CLASSIFY_PAIR: &[Field] = &[
        field("first", &["sentence1", "premise", "text1", "question1"]),
        field("second", &["sentence2", "hypothesis", "text2", "question2"]),
        LABEL,
    ];
    const TAG: &[Field] = &[field("words", &["tokens"]), field("tags", &["ner_tags", "labels"])];
    const ANSWER: &[Field] = &[
        field("context", &["passage", "paragraph"]),
        field("question", &["query"]),
        field("answer", &["answers", "answer_text"]),
        Field { name: "start", also: &["answer_start"], optional: true },
    ];
    match task {
        Task::Translate => PAIR,
        Task::Classify => CLASSIFY,
        Task::ClassifyPair => CLASSIFY_PAIR,
        Task::Tag => TAG,
        Task::Answer => ANSWER,
        Task::NextToken | Task::Masked | Task::SpanCorruption | Task::Denoise => const { &[TEXT] },
        Task::Image => const { &[LABEL] },
    }
}

/// Is this example one for this task?
pub fn takes(task: Task, example: &Example) -> bool {
    match example {
        Example::Pair { .. } => task == Task::Translate,
        Example::Labelled { .. } => task == Task::Classify,
        Example::LabelledPair { .. } => task == Task::ClassifyPair,
        Example::Tagged { .. } => task == Task::Tag,
        Example::Question { .. } => task == Task::Answer,
        Example::Text(_) => task.is_of_text_alone(),
        Example::Image { .. } => task == Task::Image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_only_where_it_is_said_to() {
        let mut question = Example::question("né à Rome, à Rome", "où ?", "Rome");
        assert!(question.answer_stands());
        if let Example::Question { start, .. } = &mut question {
            assert_eq!(*start, 7, "bytes, not letters");
            *start = 2; // inside the two bytes of é
        }
        assert!(!question.answer_stands());
        assert!(Example::question("c", "q", "").answer_stands(), "no answer is not a wrong answer");
    }

    #[test]
    fn blank_sides_are_empty() {
        assert!(Example::pair("a", " ").is_empty() && !Example::pair("a", "b").is_empty());
        assert!(Example::Text("\n".into()).is_empty());
        assert!(Example::tagged::<&str>([]).is_empty());
    }
}
