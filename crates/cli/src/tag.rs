//! `qkv tag`: a label for each word, and the entities that labels in BIO form make.

use crate::fail::Fail;
use crate::model::{self, Model, in_batches, largest, softmax};
use crate::say;
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tag MODEL \"Ada Lovelace lived in London\"     entities with their places and scores
  qkv tag MODEL --file lines.txt --words --json    every word with its label")]
pub(crate) struct Args {
    /// A model, then the texts; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Every word with its label, not only entities
    #[arg(long = "words")]
    all: bool,
    /// Texts in a batch
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// One line of JSON for each text
    #[arg(long)]
    json: bool,
}

/// A word (or an entity) with its label: bytes from–to of the text.
#[derive(Clone, Debug, PartialEq)]
struct Labelled {
    from: usize,
    to: usize,
    label: String,
    score: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, given) = model::resolve(&args.words)?;
    let model = Model::open(&path)?;
    let Head::Tag { labels } = model.it.spec().head else { return model.needs(false, "tag", "a head that tags") };
    let names = model.labels(labels)?;
    let texts = model::texts(given, args.file.as_deref())?;
    let encodings = model::encode(&model.tokenizer()?, &texts, model.longest())?;
    let bar = model::progress(texts.len(), "tagging");
    let tagged = in_batches(&encodings, args.batch, &bar, |batch, tokens| {
        let logits = model.it.model.answer(&tokens, &mut Cx::eval())?;
        let t = logits.dims()[1];
        let values: Vec<f32> = logits.into_data().try_to_vec().unwrap_or_default();
        let row = |(b, i): (usize, &usize)| {
            let encoding = &encodings[*i];
            let mut words: Vec<Labelled> = vec![];
            let mut last = None;
            for (at, (word, bytes)) in encoding.word_ids.iter().zip(&encoding.bytes).enumerate() {
                if word.is_none() || encoding.special_mask[at] {
                    continue;
                }
                // The label of a word is that of its first piece; later pieces only make it longer.
                if *word == last {
                    if let Some(w) = words.last_mut() {
                        w.to = bytes.1;
                    }
                    continue;
                }
                last = *word;
                let p = softmax(&values[(b * t + at) * labels..][..labels]);
                let best = largest(&p, 1)[0];
                words.push(Labelled { from: bytes.0, to: bytes.1, label: names[best].clone(), score: p[best] });
            }
            words
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })?;
    for (text, words) in texts.iter().zip(tagged) {
        let found = if args.all { words } else { entities(&words) };
        let part = |w: &Labelled| text.get(w.from..w.to).unwrap_or_default().trim().to_string();
        if args.json {
            let list: Vec<_> = found
                .iter()
                .map(|w| json!({"text": part(w), "label": w.label, "score": w.score, "start": w.from, "end": w.to}))
                .collect();
            say(json!({"text": text, if args.all { "words" } else { "entities" }: list}))?;
            continue;
        }
        say(text)?;
        for w in &found {
            say(format!("  {:<12} {:>6.2} %  {}", w.label, 100.0 * w.score, part(w)))?;
        }
    }
    Ok(())
}

/// B-X begins an entity and I-X goes on with it; an I-X that continues nothing begins one too. The score is the mean.
fn entities(words: &[Labelled]) -> Vec<Labelled> {
    let mut found: Vec<(Labelled, usize)> = vec![];
    let mut open: Option<String> = None;
    for word in words {
        let (mark, kind) = word.label.split_once('-').unwrap_or(("", word.label.as_str()));
        if word.label == "O" {
            open = None;
        } else if mark == "I" && open.as_deref() == Some(kind) {
            if let Some((entity, n)) = found.last_mut() {
                entity.to = word.to;
                entity.score = (entity.score * *n as f64 + word.score) / (*n + 1) as f64;
                *n += 1;
            }
        } else {
            open = Some(kind.to_string());
            found.push((Labelled { label: kind.to_string(), ..word.clone() }, 1));
        }
    }
    found.into_iter().map(|(entity, _)| entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_joined() {
        let word = |from: usize, label: &str| Labelled { from, to: from + 1, label: label.into(), score: 0.5 };
        let labels = ["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"];
        let words: Vec<_> = labels.iter().enumerate().map(|(i, l)| word(i, l)).collect();
        let found: Vec<(usize, usize, String)> =
            entities(&words).into_iter().map(|e| (e.from, e.to, e.label)).collect();
        let want = [(0, 2, "PER"), (3, 4, "LOC"), (4, 5, "LOC"), (5, 6, "PER")];
        assert_eq!(found, want.map(|(a, b, l)| (a, b, l.to_string())));
    }
}
