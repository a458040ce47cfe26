//! The scores of each task, from what the network said of each row.

use super::judge::{Judge, Ready};
use super::look::Look;
use super::{Judged, Metric, Scores};
use crate::search::{self, Limits};
use qkv_base::Result;
use qkv_data::objective::Seq2Seq;
use qkv_data::{Corpus, Example, Objective};
use qkv_metric::{
    Additive, Bleu, Chrf, Classification, Perplexity, References, Rouge, RougeKind, Scheme, SquadVersion, Ter,
    entities, score_answers, score_entities,
};
use std::collections::BTreeMap;

impl Judge<'_> {
    /// A text from another: what is written is compared with what should have been.
    pub(super) fn text(&self, corpus: &dyn Corpus, ready: &[Ready], looks: &[Look], scores: &mut Scores) -> Result<()> {
        let Objective::Translate(task) = self.objective else { return Ok(()) };
        let said = self.written(ready, &task.family, task.target_length)?;
        let mut judged = BTreeMap::new();
        for (r, got) in ready.iter().zip(said) {
            let (source, expected) = two_texts(&corpus.get(r.example)?);
            let counts = Bleu::default().row(&got, &[&expected]);
            let score = Chrf::default().sentence(&got, &[&expected])?.score;
            judged.insert(r.example, Judged { source, expected, got, score, counts });
        }
        let bytes = judged.values().map(|j| j.expected.len() as u64).sum();
        scores.judged = judged.into_values().collect();
        let said: Vec<&str> = scores.judged.iter().map(|j| j.got.as_str()).collect();
        let right: Vec<Vec<&str>> = scores.judged.iter().map(|j| vec![j.expected.as_str()]).collect();
        let n = said.len().max(1) as f64;
        let exact = scores.judged.iter().filter(|j| j.got == j.expected).count() as f64 / n;
        let rouge =
            |kind| scores.judged.iter().map(|j| Rouge::default().score(&j.expected, &j.got, kind).f1).sum::<f64>();
        let bleu = Bleu::default();
        let values = [
            (Metric::Bleu, bleu.corpus(&said, &right)?.score),
            (Metric::Chrf, Chrf::default().corpus(&said, &right)?.score),
            (Metric::Ter, Ter::default().corpus(&said, &right)?.score),
            (Metric::Rouge1, 100.0 * rouge(RougeKind::N(1)) / n),
            (Metric::Rouge2, 100.0 * rouge(RougeKind::N(2)) / n),
            (Metric::RougeL, 100.0 * rouge(RougeKind::L) / n),
            (Metric::Exact, 100.0 * exact),
        ];
        scores.signature = Some(bleu.signature(References::of(&right), None));
        scores.put(values);
        surprises(looks, bytes, scores);
        Ok(())
    }

    /// What is written for each source, greedily.
    fn written(&self, ready: &[Ready], family: &Seq2Seq, most: usize) -> Result<Vec<String>> {
        let Some(tokenizer) = self.tokenizer else { return Ok(vec![]) };
        let end = family.target.close.first().copied().unwrap_or(0);
        let limits = Limits { end, most };
        let mut all = vec![];
        for part in ready.chunks(50) {
            let sources: Vec<Vec<u32>> = part.iter().map(|r| r.sample.memory.clone().unwrap_or_default()).collect();
            for ids in search::write(self.model, &sources, family.start, limits)? {
                all.push(tokenizer.decode(&ids, true)?.trim().to_string());
            }
        }
        Ok(all)
    }

    /// One class for each example.
    pub(super) fn classes(
        &self,
        corpus: &dyn Corpus,
        ready: &[Ready],
        looks: &[Look],
        scores: &mut Scores,
    ) -> Result<()> {
        let mut judged = BTreeMap::new();
        for (r, look) in ready.iter().zip(looks) {
            let Some((target, best)) = look.said.first() else { continue };
            let example = corpus.get(r.example)?;
            let source = match example {
                Example::Image { .. } => format!("picture {}", r.example + 1),
                other => other.text().into_owned(),
            };
            let (expected, got) = (self.label(*target), self.label(*best as i64));
            let counts = vec![f64::from(u8::from(got == expected)), 1.0];
            judged.insert(r.example, Judged { source, expected, got, score: -look.nats, counts });
        }
        scores.judged = judged.into_values().collect();
        let column = |of: fn(&Judged) -> &String| scores.judged.iter().map(of).collect::<Vec<_>>();
        let table = Classification::new(&column(|j| &j.expected), &column(|j| &j.got))?;
        scores.put([
            (Metric::Accuracy, 100.0 * table.accuracy),
            (Metric::F1, 100.0 * table.averages.macro_.f1),
            (Metric::MicroF1, 100.0 * table.averages.micro.f1),
        ]);
        scores.table = Some(table.confusion.render());
        Ok(())
    }

    fn label(&self, i: i64) -> String {
        usize::try_from(i).ok().and_then(|i| self.labels.names().get(i)).cloned().unwrap_or_default()
    }

    /// A tag for each word, and the entities that the tags make.
    pub(super) fn tags(&self, corpus: &dyn Corpus, ready: &[Ready], looks: &[Look], scores: &mut Scores) -> Result<()> {
        let mut both: BTreeMap<usize, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for (r, look) in ready.iter().zip(looks) {
            let (truth, said) = both.entry(r.example).or_default();
            truth.extend(look.said.iter().map(|(target, _)| self.label(*target)));
            said.extend(look.said.iter().map(|(_, best)| self.label(*best as i64)));
        }
        let (truth, said): (Vec<_>, Vec<_>) = both.values().cloned().unzip();
        let (right, all) = looks.iter().fold((0, 0), |(r, n), l| (r + l.right(), n + l.targets()));
        let found = score_entities(&truth, &said, Scheme::default())?;
        scores.put([
            (Metric::Accuracy, 100.0 * right as f64 / all.max(1) as f64),
            (Metric::F1, 100.0 * found.averages.micro.f1),
        ]);
        let kind = |(name, s): (&String, &qkv_metric::LabelScore)| {
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
        scores.table = Some(std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n"));
        for (example, (truth, said)) in both {
            let source = corpus.get(example)?.text().into_owned();
            let (a, b) = (entities(&truth, Scheme::default())?, entities(&said, Scheme::default())?);
            let hits = b.iter().filter(|span| a.contains(span)).count();
            let same = truth.iter().zip(&said).filter(|(a, b)| a == b).count();
            scores.judged.push(Judged {
                source,
                score: same as f64 / truth.len().max(1) as f64,
                counts: [hits, b.len(), a.len()].map(|n| n as f64).to_vec(),
                expected: truth.join(" "),
                got: said.join(" "),
            });
        }
        Ok(())
    }

    /// Where the answer stands: the best span of all windows of an example.
    pub(super) fn answers(&self, corpus: &dyn Corpus, ready: &[Ready], scores: &mut Scores) -> Result<Vec<Look>> {
        let mut best: BTreeMap<usize, (f32, u32, u32)> = BTreeMap::new();
        let mut looks = vec![];
        self.each(ready, |part, batch, rows, v| {
            for (i, r) in part.iter().enumerate() {
                looks.push(Look::at(batch, i, &rows, v));
                let [starts, ends] = [2 * i, 2 * i + 1].map(|n| &rows[n * v..(n + 1) * v]);
                let found = best_span(&starts[..batch.lengths[i]], &ends[..batch.lengths[i]], &r.sample.spans);
                if let Some(found) = found
                    && best.get(&r.example).is_none_or(|held| found.0 > held.0)
                {
                    best.insert(r.example, found);
                }
            }
            Ok(())
        })?;
        for (example, (_, from, to)) in best {
            let Example::Question { context, question, answer, .. } = corpus.get(example)? else { continue };
            let got = context.get(from as usize..to as usize).unwrap_or_default().to_string();
            let counts = vec![];
            scores.judged.push(Judged { source: question, expected: answer, got, score: 0.0, counts });
        }
        let said: Vec<&str> = scores.judged.iter().map(|j| j.got.as_str()).collect();
        let right: Vec<Vec<&str>> = scores.judged.iter().map(|j| vec![j.expected.as_str()]).collect();
        let answers = score_answers(&said, &right, SquadVersion::default())?;
        for (judged, each) in scores.judged.iter_mut().zip(&answers.each) {
            (judged.score, judged.counts) = (each.f1, vec![each.f1, 1.0]);
        }
        scores.put([(Metric::Exact, answers.all.exact), (Metric::F1, answers.all.f1)]);
        Ok(looks)
    }

    /// A text itself: how well each token of it was foretold.
    pub(super) fn language(
        &self,
        corpus: &dyn Corpus,
        ready: &[Ready],
        looks: &[Look],
        scores: &mut Scores,
    ) -> Result<()> {
        let Some(tokenizer) = self.tokenizer else { return Ok(()) };
        let (right, all) = looks.iter().fold((0, 0), |(r, n), l| (r + l.right(), n + l.targets()));
        scores.put([(Metric::Accuracy, 100.0 * right as f64 / all.max(1) as f64)]);
        surprises(looks, self.bytes(corpus)?, scores);
        let most = ready.iter().map(|r| r.sample.target.len()).max().unwrap_or(0);
        let written = match self.objective {
            Objective::SpanCorruption(task) => self.written(ready, &task.family, most)?,
            Objective::Denoise(task) => self.written(ready, &task.family, most)?,
            _ => vec![],
        };
        for (i, (r, look)) in ready.iter().zip(looks).enumerate() {
            let ids = |all: &mut dyn Iterator<Item = i64>| -> Vec<u32> {
                all.filter_map(|id| u32::try_from(id).ok()).collect()
            };
            let targets = || look.said.iter().map(|(target, _)| *target);
            let (read, expected, got) = match (self.objective, written.get(i)) {
                (Objective::NextToken(_), _) => (ids(&mut targets()), vec![], String::new()),
                (_, Some(got)) => (r.sample.memory.clone().unwrap_or_default(), ids(&mut targets()), got.clone()),
                _ => {
                    let said = ids(&mut look.said.iter().map(|(_, best)| *best as i64));
                    (r.sample.input.clone(), ids(&mut targets()), tokenizer.decode(&said, false)?)
                }
            };
            let (expected, n) = (tokenizer.decode(&expected, true)?, look.targets().max(1) as f64);
            scores.judged.push(Judged {
                source: tokenizer.decode(&read, false)?,
                expected: expected.trim().into(),
                got,
                score: -look.nats / n,
                counts: vec![look.nats, look.targets() as f64],
            });
        }
        Ok(())
    }

    /// The bytes that the targets of a language model spell; 0 where a part of the text only is foretold.
    fn bytes(&self, corpus: &dyn Corpus) -> Result<u64> {
        let (Objective::NextToken(next), Some(tokenizer)) = (self.objective, self.tokenizer) else { return Ok(0) };
        let mut bytes = 0;
        for (i, example) in corpus.examples().enumerate() {
            let example = example?;
            bytes += example.text().len() as u64;
            // The very first token is given, not foretold.
            if let (0, None, Some(first)) = (i, next.begin, next.document(&example)?.first()) {
                bytes = bytes.saturating_sub(tokenizer.decode(&[*first], true)?.len() as u64);
            }
        }
        Ok(bytes)
    }
}

/// Perplexities: per token, and per byte where the bytes are known.
fn surprises(looks: &[Look], bytes: u64, scores: &mut Scores) {
    let all = Perplexity {
        nll: looks.iter().map(|l| l.nats).sum(),
        tokens: looks.iter().map(|l| l.targets() as u64).sum(),
        bytes,
    };
    let values = [
        (Metric::Perplexity, all.per_token()),
        (Metric::BytePerplexity, all.per_byte()),
        (Metric::BitsPerByte, all.bits_per_byte()),
    ];
    let known = values.into_iter().filter_map(|(metric, value)| Some((metric.name().to_string(), value?)));
    scores.values.extend(known);
}

/// The likeliest `start ≤ end` of at most 30 tokens that lie in the context, with its bytes.
fn best_span(starts: &[f32], ends: &[f32], spans: &[(u32, u32)]) -> Option<(f32, u32, u32)> {
    let mut best: Option<(f32, u32, u32)> = None;
    let inside = |t: usize| spans.get(t).copied().filter(|(from, to)| to > from);
    for (s, a) in starts.iter().enumerate() {
        let Some((from, _)) = inside(s) else { continue };
        for (e, b) in ends.iter().enumerate().skip(s).take(30) {
            let Some((_, to)) = inside(e) else { continue };
            if best.is_none_or(|held| a + b > held.0) {
                best = Some((a + b, from, to));
            }
        }
    }
    best
}

/// What a text-to-text example reads and should write.
fn two_texts(example: &Example) -> (String, String) {
    match example {
        Example::Pair { source, target } => (source.clone(), target.clone()),
        other => (other.text().into_owned(), other.label().unwrap_or_default().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_lies_in_the_context_and_does_not_run_backwards() {
        let spans = [(0, 0), (0, 0), (0, 3), (4, 8), (9, 12)];
        let starts = [9.0, 9.0, 0.0, 2.0, 3.0];
        let ends = [9.0, 9.0, 5.0, 2.0, 0.0];
        assert_eq!(best_span(&starts, &ends, &spans), Some((5.0, 0, 3)));
        assert_eq!(best_span(&[1.0], &[1.0], &[(0, 0)]), None);
    }
}
