//! How an example is written to a file, so that the readers read it back.
//!
//! | task | TSV fields | other forms |
//! |---|---|---|
//! | pairs | source, target | |
//! | labels | text, label; or first, second, label | |
//! | tags | words, tags (each separated by spaces) | CoNLL |
//! | answers | context, question, answer, start (in characters, as SQuAD counts) | JSON |
//! | text | text | |
//! | images | label, then every pixel | PGM or PPM, PNG |

use crate::{Error, Example, Result};
use serde_json::{Value, json};
use std::io::Cursor;

impl Example {
    /// The names of [`Example::row`]'s fields.
    pub fn header(&self) -> Vec<String> {
        let names: &[&str] = match self {
            Example::Pair { .. } => &["source", "target"],
            Example::Labelled { .. } => &["text", "label"],
            Example::LabelledPair { .. } => &["first", "second", "label"],
            Example::Tagged { .. } => &["words", "tags"],
            Example::Question { .. } => &["context", "question", "answer", "start"],
            Example::Text(_) => &["text"],
            Example::Image { pixels, .. } => {
                return std::iter::once("label".to_owned())
                    .chain((0..pixels.len()).map(|i| format!("pixel{i}")))
                    .collect();
            }
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// The fields of one TSV row. No corpus here writes tabs or newlines, so the fields need no quotes.
    ///
    /// ```
    /// use qkv_data::builtin::{Corpus, Split};
    /// let row = Corpus::Add.example(1, Split::Train, 0).row();
    /// let sum: u64 = row[0].split(" + ").map(|n| n.parse::<u64>().unwrap()).sum();
    /// assert_eq!(row[1], sum.to_string());
    /// ```
    pub fn row(&self) -> Vec<String> {
        match self {
            Example::Pair { source, target } => vec![source.clone(), target.clone()],
            Example::Labelled { text, label } => vec![text.clone(), label.clone()],
            Example::LabelledPair { first, second, label } => vec![first.clone(), second.clone(), label.clone()],
            Example::Tagged { words, tags } => vec![words.join(" "), tags.join(" ")],
            Example::Question { context, question, answer, start } => {
                vec![context.clone(), question.clone(), answer.clone(), letters(context, *start).to_string()]
            }
            Example::Text(text) => vec![text.clone()],
            Example::Image { pixels, label, .. } => {
                std::iter::once(label.clone()).chain(pixels.iter().map(u8::to_string)).collect()
            }
        }
    }

    /// One object of a JSON Lines file, with [`Example::header`]'s names.
    pub fn json(&self) -> Value {
        match self {
            Example::Pair { source, target } => json!({ "source": source, "target": target }),
            Example::Labelled { text, label } => json!({ "text": text, "label": label }),
            Example::LabelledPair { first, second, label } => {
                json!({ "first": first, "second": second, "label": label })
            }
            Example::Tagged { words, tags } => json!({ "words": words, "tags": tags }),
            Example::Question { context, question, answer, start } => {
                json!({ "context": context, "question": question, "answer": answer, "start": letters(context, *start) })
            }
            Example::Text(text) => json!({ "text": text }),
            Example::Image { width, height, channels, pixels, label } => {
                json!({ "label": label, "width": width, "height": height, "channels": channels, "pixels": pixels })
            }
        }
    }

    /// One sentence of a CoNLL file: a word and its tag a line, then an empty line. Only for tagged words.
    pub fn conll(&self) -> Result<String> {
        let Example::Tagged { words, tags } = self else {
            return Err(wrong("CoNLL columns", "tagged words"));
        };
        let lines = words.iter().zip(tags).map(|(word, tag)| format!("{word}\t{tag}\n"));
        Ok(lines.chain(["\n".to_owned()]).collect())
    }

    /// The picture as a PGM file (grey) or a PPM file (colour). Only for images.
    pub fn pnm(&self) -> Result<Vec<u8>> {
        let Example::Image { width, height, channels, pixels, .. } = self else {
            return Err(wrong("a PGM picture", "an image"));
        };
        let magic = if *channels == 1 { "P5" } else { "P6" };
        let mut out = format!("{magic}\n{width} {height}\n255\n").into_bytes();
        out.extend_from_slice(pixels);
        Ok(out)
    }

    /// The picture as a PNG file. Only for images.
    pub fn png(&self) -> Result<Vec<u8>> {
        let Example::Image { width, height, channels, pixels, .. } = self else {
            return Err(wrong("a PNG picture", "an image"));
        };
        let colour = if *channels == 1 { image::ExtendedColorType::L8 } else { image::ExtendedColorType::Rgb8 };
        let mut out = Cursor::new(Vec::new());
        let encoder = image::codecs::png::PngEncoder::new(&mut out);
        image::ImageEncoder::write_image(encoder, pixels, *width as u32, *height as u32, colour).map_err(|e| {
            Error::new("PNG picture", e.to_string(), "check that width × height × channels pixels are given")
        })?;
        Ok(out.into_inner())
    }
}

/// Characters before this byte of a text.
fn letters(text: &str, byte: usize) -> usize {
    text.get(..byte).map_or(0, |before| before.chars().count())
}

fn wrong(form: &str, needs: &str) -> Error {
    Error::new("example", format!("{form} cannot hold this example"), format!("it is for {needs}; use TSV or JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{Corpus, Split};

    #[test]
    fn rows_have_a_name_for_every_field_and_no_tabs() {
        for corpus in Corpus::ALL {
            for index in 0..50 {
                let example = corpus.example(5, Split::Train, index);
                let row = example.row();
                assert_eq!(row.len(), example.header().len());
                assert!(row.iter().all(|field| !field.contains(['\t', '\n', '\r']) && !field.is_empty()), "{row:?}");
                for name in example.header().iter().filter(|name| !name.starts_with("pixel")) {
                    assert!(example.json().get(name).is_some(), "{name}");
                }
            }
        }
    }

    /// What is written is read back as what was made: bytes here, characters in files.
    #[test]
    fn rows_are_read_back_as_the_examples_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let accents = "È a casa.".to_string();
        let question = Example::Question { context: accents, question: "?".into(), answer: "casa".into(), start: 5 };
        for corpus in Corpus::ALL.into_iter().filter(|corpus| *corpus != Corpus::Shapes) {
            let mut made: Vec<Example> = corpus.examples(5, Split::Test).take(20).collect();
            if corpus == Corpus::Facts {
                made.push(question.clone());
            }
            let tsv: String = made.iter().map(|example| example.row().join("\t") + "\n").collect();
            let jsonl: String = made.iter().map(|example| format!("{}\n", example.json())).collect();
            for (name, text) in [("rows.tsv", tsv), ("rows.jsonl", jsonl)] {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                let read = crate::read(&path, corpus.task()).unwrap();
                let read: Vec<Example> = read.corpus.examples().collect::<Result<_>>().unwrap();
                assert_eq!(read, made, "{} as {name}", corpus.name());
            }
        }
    }

    #[test]
    fn tagged_words_are_columns() {
        let example =
            Example::Tagged { words: vec!["Anna".into(), "ran".into()], tags: vec!["B-PER".into(), "O".into()] };
        assert_eq!(example.conll().unwrap(), "Anna\tB-PER\nran\tO\n\n");
        let error = Example::Text("x".into()).conll().unwrap_err();
        assert_eq!(error.hint, "it is for tagged words; use TSV or JSON");
    }

    #[test]
    fn pictures_are_read_back_as_they_were() {
        let example = Corpus::Shapes.example(1, Split::Train, 0);
        let Example::Image { pixels, width, height, .. } = &example else { panic!() };
        let read = image::load_from_memory(&example.png().unwrap()).unwrap().into_luma8();
        assert_eq!((read.width() as usize, read.height() as usize), (*width, *height));
        assert_eq!(read.as_raw(), pixels);
        let pgm = example.pnm().unwrap();
        assert!(pgm.starts_with(b"P5\n32 32\n255\n") && pgm.ends_with(pixels));
        assert!(Example::Text("x".into()).png().is_err());
    }
}
