//! One example of any task, and how it is written to a file.
//!
//! | task | TSV fields | other forms |
//! |---|---|---|
//! | pairs | source, target | |
//! | labels | text, label | |
//! | tags | words, tags (each separated by spaces) | CoNLL |
//! | answers | context, question, answer, start (in bytes) | JSON |
//! | text | text | |
//! | images | label, then every pixel | PGM or PPM, PNG |

use super::draw::hash;
use qkv_base::{Error, Result};
use serde_json::{Value, json};
use std::io::Cursor;

/// One example. What it holds follows from the corpus' task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Example {
    /// a source and what it becomes
    Pair {
        /// what is read
        source: String,
        /// what is written
        target: String,
    },
    /// a text and its label
    Labelled {
        /// what is read
        text: String,
        /// one of the corpus' labels
        label: String,
    },
    /// words, each with its tag
    Tagged {
        /// what is read, word by word
        words: Vec<String>,
        /// one tag a word
        tags: Vec<String>,
    },
    /// a question about a context
    Question {
        /// what is read
        context: String,
        /// what is asked
        question: String,
        /// the piece of the context that answers it
        answer: String,
        /// the byte of the context where the answer starts
        start: usize,
    },
    /// plain text
    Text(String),
    /// a picture and its label
    Image {
        /// pixels in a row
        width: usize,
        /// rows
        height: usize,
        /// 1 for grey, 3 for red, green and blue
        channels: usize,
        /// row by row, channels side by side
        pixels: Vec<u8>,
        /// one of the corpus' labels
        label: String,
    },
}

impl Example {
    /// 64 bits that tell this example's source from others; two examples with one source are duplicates.
    pub(super) fn identity(&self) -> u64 {
        match self {
            Example::Pair { source, .. } => hash(&[source]),
            Example::Labelled { text, .. } | Example::Text(text) => hash(&[text]),
            Example::Tagged { words, .. } => hash(&words.iter().map(String::as_str).collect::<Vec<_>>()),
            Example::Question { context, question, .. } => hash(&[context, question]),
            Example::Image { pixels, .. } => {
                let text: String = pixels.iter().map(|&p| p as char).collect();
                hash(&[&text])
            }
        }
    }

    /// The names of [`Example::row`]'s fields.
    pub fn header(&self) -> Vec<String> {
        let names: &[&str] = match self {
            Example::Pair { .. } => &["source", "target"],
            Example::Labelled { .. } => &["text", "label"],
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
            Example::Tagged { words, tags } => vec![words.join(" "), tags.join(" ")],
            Example::Question { context, question, answer, start } => {
                vec![context.clone(), question.clone(), answer.clone(), start.to_string()]
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
            Example::Tagged { words, tags } => json!({ "words": words, "tags": tags }),
            Example::Question { context, question, answer, start } => {
                json!({ "context": context, "question": question, "answer": answer, "start": start })
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

fn wrong(form: &str, needs: &str) -> Error {
    Error::new(
        "built-in corpus",
        format!("{form} cannot hold this example"),
        format!("it is for {needs}; use TSV or JSON"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

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
