//! Tagging: a label for each word, and the entities that labels in BIO form make.

use crate::TextModel;
use crate::batches::{Listener, encode, finite, in_batches, largest, softmax};
use crate::judge::Judging;
use crate::look::Look;
use crate::metric::{Judged, Metric};
use crate::sheet::{Given, ObjectiveParts, TaskSheet, Wants};
use qkv_base::{Result, Task};
use qkv_data::Objective;
use qkv_metric::{LabelScore, Scheme, score_entities};
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use qkv_text::Encoding;
use serde::Serialize;
use std::collections::BTreeMap;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Tag,
    verb: Some(("tag", Given::Text)),
    metrics: &[Metric::Loss, Metric::Accuracy, Metric::F1],
    main: Metric::F1,
    wants: Wants::Reader,
    head: |labels, _| Some(Head::Tag { labels }),
    objective,
    judge,
    of_counts,
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    let (tokenizer, frame, labels) = (parts.source()?, parts.frame()?, parts.labels.clone());
    Ok(Objective::Tag(qkv_data::objective::Tag { tokenizer, frame, labels, length: parts.length }))
}

/// Entities: found and right, said, true.
fn of_counts(sum: &[f64]) -> f64 {
    match sum {
        [right, said, truth] if said + truth > 0.0 => 200.0 * right / (said + truth),
        _ => 0.0,
    }
}

/// A tag for each word, and the entities that the tags make.
fn judge(on: &mut Judging) -> Result<()> {
    on.looks = on.judge.looks(on.ready)?;
    let mut both: BTreeMap<usize, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for (r, look) in on.ready.iter().zip(&on.looks) {
        let (truth, said) = both.entry(r.example).or_default();
        truth.extend(look.said.iter().map(|(target, _)| on.judge.label(*target)));
        said.extend(look.said.iter().map(|(_, best)| on.judge.label(*best as i64)));
    }
    let (truth, said): (Vec<_>, Vec<_>) = both.values().cloned().unzip();
    let (right, all) = on.looks.iter().fold((0, 0), |(r, n), l: &Look| (r + l.right(), n + l.targets()));
    let found = score_entities(&truth, &said, Scheme::default())?;
    on.scores.put([
        (Metric::Accuracy, 100.0 * right as f64 / all.max(1) as f64),
        (Metric::F1, 100.0 * found.averages.micro.f1),
    ]);
    let kind = |(name, s): (&String, &LabelScore)| {
        format!(
            "{name:<10} {:>9.2} {:>9.2} {:>9.2} {:>7}",
            100.0 * s.precision,
            100.0 * s.recall,
            100.0 * s.f1,
            s.support
        )
    };
    let head = format!("{:<10} {:>9} {:>9} {:>9} {:>7}", "", "precision", "recall", "f1", "n");
    let lines = found.kinds.iter().map(kind);
    on.scores.table = Some(std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n"));
    for (example, (truth, said)) in both {
        let source = on.corpus.get(example)?.text().into_owned();
        let (a, b) =
            (qkv_metric::entities(&truth, Scheme::default())?, qkv_metric::entities(&said, Scheme::default())?);
        let hits = b.iter().filter(|span| a.contains(span)).count();
        let same = truth.iter().zip(&said).filter(|(a, b)| a == b).count();
        on.scores.judged.push(Judged {
            source,
            score: same as f64 / truth.len().max(1) as f64,
            counts: [hits, b.len(), a.len()].map(|n| n as f64).to_vec(),
            expected: truth.join(" "),
            got: said.join(" "),
            ..Judged::default()
        });
    }
    Ok(())
}

/// A word (or an entity) with its label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaggedSpan {
    /// the words themselves
    pub text: String,
    /// what they are
    pub label: String,
    /// how probable that is; of an entity the mean of its words
    pub score: f64,
    /// the first byte in the text
    pub start: usize,
    /// the byte behind the last
    pub end: usize,
}

/// Every word of each text with its label.
pub fn words<S: AsRef<str> + Sync>(
    model: &TextModel,
    texts: &[S],
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<TaggedSpan>>> {
    let Head::Tag { labels } = model.spec().head else {
        model.needs(false, "tag", "a head that tags")?;
        return Ok(vec![]);
    };
    let names = model.labels(labels)?;
    let encodings = encode(model.tokenizer()?, texts, model.longest(), listener)?;
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let logits = model.network.model.answer(&tokens, &mut Cx::eval())?;
        let t = logits.dims()[1];
        let values = finite(logits, "tag", model)?;
        let row = |(b, i): (usize, &usize)| {
            let at = |t0: usize| &values[(b * t + t0) * labels..][..labels];
            of_pieces(texts[*i].as_ref(), &encodings[*i], at, &names)
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })
}

/// The entities of each text.
pub fn entities<S: AsRef<str> + Sync>(
    model: &TextModel,
    texts: &[S],
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<TaggedSpan>>> {
    let words = words(model, texts, rows, listener)?;
    Ok(words.iter().zip(texts).map(|(words, text)| join(words, text.as_ref())).collect())
}

/// The label of a word is that of its first piece; later pieces only make it longer.
fn of_pieces<'a>(
    text: &str,
    encoding: &Encoding,
    logits: impl Fn(usize) -> &'a [f32],
    names: &[String],
) -> Vec<TaggedSpan> {
    let mut words: Vec<TaggedSpan> = vec![];
    let mut last = None;
    for (at, (word, bytes)) in encoding.word_ids.iter().zip(&encoding.bytes).enumerate() {
        if word.is_none() || encoding.special_mask[at] {
            continue;
        }
        if *word == last {
            if let Some(w) = words.last_mut() {
                w.end = bytes.1;
            }
            continue;
        }
        last = *word;
        let p = softmax(logits(at));
        let best = largest(&p, 1)[0];
        let (label, score) = (names[best].clone(), p[best]);
        words.push(TaggedSpan { text: String::new(), label, score, start: bytes.0, end: bytes.1 });
    }
    words.iter_mut().for_each(|w| w.text = part(text, w));
    words
}

fn part(text: &str, span: &TaggedSpan) -> String {
    text.get(span.start..span.end).unwrap_or_default().trim().to_string()
}

/// Words that belong together become one entity: `B-X I-X` is one, `I-X` after anything else begins one, `O` is none. `E` and `L`
/// end one, `S` and `U` are one of a single word (BIOES, BILOU); a label without a mark stands for itself.
fn join(words: &[TaggedSpan], text: &str) -> Vec<TaggedSpan> {
    let mut found: Vec<(TaggedSpan, usize)> = vec![];
    let mut open: Option<String> = None;
    for word in words {
        let marked = word.label.split_once('-').filter(|(mark, _)| ["B", "I", "E", "S", "L", "U"].contains(mark));
        let (mark, kind) = marked.unwrap_or(("", word.label.as_str()));
        let ends = ["E", "L", "S", "U"].contains(&mark);
        if word.label == "O" {
            open = None;
        } else if ["I", "E", "L"].contains(&mark) && open.as_deref() == Some(kind) {
            if let Some((entity, n)) = found.last_mut() {
                entity.end = word.end;
                entity.score = (entity.score * *n as f64 + word.score) / (*n + 1) as f64;
                *n += 1;
            }
            open = open.filter(|_| !ends);
        } else {
            open = Some(kind.to_string()).filter(|_| !ends);
            found.push((TaggedSpan { label: kind.to_string(), ..word.clone() }, 1));
        }
    }
    found.into_iter().map(|(entity, _)| TaggedSpan { text: part(text, &entity), ..entity }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_joined() {
        let word = |start: usize, label: &str| TaggedSpan {
            text: String::new(),
            label: label.into(),
            score: 0.5,
            start,
            end: start + 1,
        };
        let labels = ["B-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER"];
        let words: Vec<_> = labels.iter().enumerate().map(|(i, l)| word(i, l)).collect();
        let found: Vec<(String, String)> = join(&words, "abcdef").into_iter().map(|e| (e.text, e.label)).collect();
        let want = [("ab", "PER"), ("d", "LOC"), ("e", "LOC"), ("f", "PER")];
        assert_eq!(found, want.map(|(a, b)| (a.to_string(), b.to_string())));
        let joined = |labels: &[&str]| -> Vec<(String, String)> {
            let words: Vec<_> = labels.iter().enumerate().map(|(i, l)| word(i, l)).collect();
            join(&words, "abcdef").into_iter().map(|e| (e.text, e.label)).collect()
        };
        let want = [("a", "LOC"), ("b", "LOC"), ("cde", "work-of-art")].map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(joined(&["U-LOC", "U-LOC", "B-work-of-art", "I-work-of-art", "L-work-of-art", "O"]), want);
        assert_eq!(joined(&["S-LOC", "S-LOC", "B-work-of-art", "I-work-of-art", "E-work-of-art", "O"]), want);
        assert_eq!(joined(&["proper-noun"]), [("a".to_string(), "proper-noun".to_string())]);
    }
}
