//! The faults of real data, each with the words the person reads: what, where, and what to do.

use insta::assert_snapshot;
use qkv_data::batch::{Loader, Policy, Rows};
use qkv_data::objective::{Frame, Labels};
use qkv_data::readers::{BadRows, Quotes};
use qkv_data::tokenize::{Pieces, Role, Tokenize, Words};
use qkv_data::{Against, Corpus, Error, Example, Objective, Opened, Reader, Result, Task, check, read};
use std::path::PathBuf;
use std::sync::Arc;

/// A file in a folder of its own; the folder's name is left out of messages.
struct File {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl File {
    fn new(name: &'static str, bytes: impl AsRef<[u8]>) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap(), name };
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn message(&self, error: &Error) -> String {
        let folder = format!("{}/", self.folder.path().display());
        format!("{error}\nhint: {}", error.hint).replace(&folder, "")
    }

    fn refused(&self, task: Task) -> String {
        self.message(&read(self.path(), task).unwrap_err())
    }

    fn skipping(&self, task: Task) -> Result<Opened> {
        Reader { bad_rows: BadRows::Skip, ..Reader::new(task) }.open(self.path())
    }
}

fn all(opened: &Opened) -> Vec<Example> {
    opened.corpus.examples().collect::<Result<_>>().unwrap()
}

/// 16
#[test]
fn fault_16_marks_line_ends_and_bad_bytes() {
    let file = File::new("a.tsv", "\u{feff}source\ttarget\r\nthe house\tla casa\r\n");
    assert_eq!(all(&read(file.path(), Task::Translate).unwrap()), [Example::pair("the house", "la casa")]);
    let file = File::new("a.tsv", b"one\tuno\ntwo\tdu\xe9\nthree\ttre\n");
    assert_snapshot!(file.refused(Task::Translate), @r"
    a.tsv:2: byte 0xe9 at offset 14 is not UTF-8
    hint: save the file as UTF-8 (iconv -f LATIN1 -t UTF-8), or skip bad rows
    ");
    let opened = file.skipping(Task::Translate).unwrap();
    assert_eq!((opened.tally.rows, opened.tally.bad), (2, 1));
}

/// 17
#[test]
fn fault_17_nothing_to_learn_from() {
    assert_snapshot!(File::new("a.csv", "").refused(Task::Translate), @r"
    a.csv: 0 examples: the file is empty or holds nothing but a header
    hint: name a file with data
    ");
    assert_snapshot!(File::new("a.csv", "text,label\n").refused(Task::Classify), @r"
    a.csv: 0 examples: the file is empty or holds nothing but a header
    hint: name a file with data
    ");
    let file = File::new("a.jsonl", "{\n[]\n");
    assert_snapshot!(file.message(&file.skipping(Task::NextToken).unwrap_err()), @r"
    a.jsonl: 0 examples after filtering (2 dropped: bad rows; the first: a.jsonl:1, column 1: not JSON: EOF while parsing an object)
    hint: is this the right format and task?
    ");
    let rows: Vec<Example> = (0..3).map(|_| Example::question("a", "q ".repeat(40), "a")).collect();
    let words = Arc::new(Words::of(["a q"]));
    let answer = qkv_data::objective::Answer {
        question_length: 64,
        ..qkv_data::objective::Answer::new(words.clone(), Frame::bert(&*words).unwrap(), 16)
    };
    let error = Loader::new(Arc::new(rows), Objective::Answer(answer), Policy::default(), 1).err().unwrap();
    assert_snapshot!(format!("{error}\nhint: {}", error.hint), @r"
    data: 0 examples after filtering (3 dropped: 3 too long)
    hint: check the task, the columns and the length: qkv data check FILE --task TASK
    ");
}

/// 18
#[test]
fn fault_18_tables_with_quotes_and_without() {
    let file = File::new("a.csv", "text,label\n\"He said \"\"no\"\",\nand left\",bad\nfine,good\n");
    let opened = read(file.path(), Task::Classify).unwrap();
    assert_eq!(
        all(&opened),
        [Example::labelled("He said \"no\",\nand left", "bad"), Example::labelled("fine", "good")]
    );
    assert_eq!(opened.notes, ["first row taken as a header: text, label"]);
    assert!(opened.corpus.place(1).ends_with("a.csv:4"), "lines are those of the file");
    assert_snapshot!(File::new("a.csv", "text,label\nfine,good\none,two,three\n").refused(Task::Classify), @r"
    a.csv:3, column 3: 3 columns where the first row has 2
    hint: a comma inside a field? put the field in double quotes
    ");
    assert_snapshot!(File::new("a.csv", "text,label\nfine\n").refused(Task::Classify), @r"
    a.csv:2, column 2: 1 column where the first row has 2
    hint: is a comma missing, or a quote not closed?
    ");
    assert_snapshot!(File::new("a.csv", "text,lable\nfine,good\n").refused(Task::Classify), @r"
    a.csv:1: no column `label`; there are: text, lable
    hint: say which is which; perhaps --column label=lable
    ");
    assert_snapshot!(File::new("a.csv", "text,label\n\"fine,good\nbad,bad\n").refused(Task::Classify), @r"
    a.csv:2: a quote opened in this row is never closed
    hint: close the quote, or say that quotes are plain characters (quotes = none)
    ");
    let file = File::new("a.csv", "text,label\n\"fine,good\n");
    let reader = Reader { quotes: Some(Quotes::None), ..Reader::new(Task::Classify) };
    assert_eq!(all(&reader.open(file.path()).unwrap()), [Example::labelled("\"fine", "good")]);
}

/// 18: columns asked for by name and by number, and a header of other names.
#[test]
fn fault_18_columns_are_named_or_counted() {
    let file = File::new("a.tsv", "id\tstars\tbody\n1\tfive\tgood film\n");
    let reader = Reader::new(Task::Classify).column("text", "body").unwrap().column("label", "2").unwrap();
    assert_eq!(all(&reader.open(file.path()).unwrap()), [Example::labelled("good film", "five")]);
    let reader = Reader::new(Task::Classify).column("text", "boddy").unwrap();
    assert_snapshot!(file.message(&reader.open(file.path()).unwrap_err()), @r"
    a.tsv:1: no column `boddy`; there are: id, stars, body
    hint: did you mean `body`? say --column text=body
    ");
    let file = File::new("a.tsv", "en\tit\nhouse\tcasa\n");
    let reader = Reader { header: qkv_data::readers::Header::Yes, ..Reader::new(Task::Translate) };
    let opened = reader.open(file.path()).unwrap();
    assert_eq!(opened.notes[1], "columns taken in order: en → source, it → target");
    assert_snapshot!(File::new("a.tsv", "one, uno\n").refused(Task::Translate), @r"
    a.tsv:1, column 2: `target` should be column 2 but the row has 1
    hint: is it separated by tabs (.tsv) or commas (.csv)? name the format, or the column: --column NAME=N
    ");
    assert_snapshot!(File::new("a.dat", "x").refused(Task::Translate), @r"
    a.dat: the name does not say how the file is written (for the task translate)
    hint: say the format: csv, tsv, jsonl, …; two parallel files are named train.de,train.en
    ");
}

/// 19
#[test]
fn fault_19_one_bad_line_among_many() {
    let mut text = "{\"text\": \"fine\"}\n".repeat(20_000);
    text.insert_str(17 * 12_344, "{\"text\": fine}\n");
    let file = File::new("a.jsonl", text);
    assert_snapshot!(file.refused(Task::NextToken), @r"
    a.jsonl:12345, column 11: not JSON: expected ident
    hint: one whole object a line; or skip bad rows
    ");
    let opened = file.skipping(Task::NextToken).unwrap();
    assert_eq!((opened.tally.rows, opened.tally.bad, opened.tally.first.len()), (20_000, 1, 1));
}

/// 20, 22, 23
#[test]
fn fault_20_fault_23_the_check_counts_what_would_spoil_training() {
    let words = Words::of(["Ada left Rome", "Bob saw Oslo"]);
    let train = vec![
        Example::tagged([("Ada", "B-PER"), ("left", "O"), ("Rome", "B-LOC")]),
        Example::tagged([("Bob", "I-PER"), ("saw", "O"), ("Oslo", "B-LOC")]),
        Example::tagged([("Bob", "I-PER"), ("saw", "O"), ("Oslo", "B-LOC")]),
        Example::tagged([("Ada", "B-PER"), ("Ada", "B-PER"), ("Ada", "B-PER"), ("Ada", "B-PER"), ("Eve", "B-PER")]),
        Example::tagged::<&str>([]),
    ];
    let valid = vec![train[0].clone(), Example::tagged([("Acme", "B-ORG")])];
    let others: [(&str, &dyn Corpus); 1] = [("valid", &valid)];
    let against = Against { tokenizer: Some(&words), max_length: Some(4), others: &others, bad_rows: 2 };
    let report = check(&train, Task::Tag, against).unwrap();
    assert_snapshot!(report.to_string(), @r"
    task     tag
    rows     5 (4 usable)
    length   tokens: median 3, 99 % ≤ 5, longest 5
                   3 ████████████████████████████████ 3
                   4 0
                   5 ██████████▋ 1
    labels   4
               B-PER ████████▌ 6 (42.9 %)
               B-LOC ████▎ 3 (21.4 %)
                   O ████▎ 3 (21.4 %)
               I-PER ██▊ 2 (14.3 %)
    warning: 2 bad rows skipped
      hint: mend them, or leave it at that
    warning: 1 empty row; the first: example 5
      hint: they are skipped
    warning: 2 rows with an I- tag that no B- or I- of its kind precedes; the first: example 2
      hint: begin every entity with B-; scorers treat such tags differently
    warning: 1 row there already; the first: example 3
      hint: drop all but one of each
    warning: 1 row longer than 4 tokens: 1 token would be cut off
      hint: raise the length, or split these rows
    warning: 1 row with something the tokenizer does not know: Eve (1)
      hint: train the tokenizer on this data too
    warning: 1 of 2 rows of valid also in the training data; the first: example 1
      hint: take them out of one side: a score on them says nothing
    warning: 1 label of valid not in the training data: B-ORG
      hint: rows with such labels are skipped: split anew, or mend the labels
    training can start
    ");
    let rows = vec![
        Example::question("Ada left Rome", "What?", "Rome"),
        Example::question("Ada left Rome", "Who?", "Eve"),
        Example::question("Ada left Rome", "Why?", ""),
    ];
    let report = check(&rows, Task::Answer, Against::default()).unwrap();
    assert_eq!((report.missing_answers, report.usable), (1, 2));
    assert_snapshot!(report.findings[0].what, @"1 answer not in the context; the first: example 2");
}

/// 21: a tokenizer that says one thing and does another.
struct Liar;

impl Tokenize for Liar {
    fn encode(&self, text: &str) -> Result<Pieces> {
        Ok(Pieces { ids: vec![50_000], spans: vec![(0, text.len())], first_of_word: vec![true] })
    }

    fn role(&self, _: Role) -> Option<u32> {
        Some(0)
    }

    fn vocab_size(&self) -> usize {
        100
    }
}

#[test]
fn fault_21_ids_outside_the_vocabulary_are_named_before_any_lookup() {
    let objective = Objective::classify(Arc::new(Liar), Frame::bert(&Liar).unwrap(), Labels::new(["x"]), 8);
    let rows = vec![Example::labelled("a", "x")];
    let loader =
        Loader::new(Arc::new(rows), objective, Policy { rows: Rows::Fixed(1), ..Policy::default() }, 1).unwrap();
    let error = loader.batch(0).unwrap_err();
    assert_snapshot!(format!("{error}\nhint: {}", error.hint), @r"
    the batch of example 1: token id 50000 but the vocabulary ends at 100
    hint: the tokenizer and the model do not belong together, or the labels are not those it was made with
    ");
}

/// 22: what is cut is counted, what is empty is skipped and counted.
#[test]
fn fault_22_cutting_is_counted() {
    let words = Arc::new(Words::of(["a"]));
    let objective = Objective::classify(words.clone(), Frame::bert(&*words).unwrap(), Labels::new(["x"]), 6);
    let rows = vec![
        Example::labelled("a a a a a a a", "x"),
        Example::labelled("a", "x"),
        Example::labelled(" ", "x"),
        Example::labelled("a", "y"),
    ];
    let loader = Loader::new(Arc::new(rows), objective, Policy::default(), 1).unwrap();
    assert_snapshot!(loader.counts().to_string(), @"4 examples, 2 samples; 1 cut (3 tokens lost); 2 dropped: 1 empty, 1 label unknown");
}

#[test]
fn the_report_is_readable_by_programs() {
    let rows: Vec<Example> = (0..12).map(|i| Example::pair(format!("a {i}"), "b")).collect();
    let report = check(&rows, Task::Translate, Against::default()).unwrap();
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (json["rows"].as_u64(), json["task"].as_str(), json["median"].as_u64()),
        (Some(12), Some("translate"), Some(2))
    );
}
