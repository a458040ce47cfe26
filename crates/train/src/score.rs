//! Judging a network on examples that it has not seen, by the scores of its task.

use crate::recipe::Goal;
use crate::search::{self, Until, largest};
use crate::step::{logits, mean_loss};
use burn::module::Module;
use qkv_base::{Error, Result, nearest};
use qkv_data::batch::Side;
use qkv_data::objective::{IGNORED, Labels, Made, Prepared, Sample};
use qkv_data::{Batch, Corpus, Example, Key, Objective};
use qkv_metric::{Additive, Bleu, Chrf, Classification, Rouge, RougeKind, Scheme, SquadVersion, Ter};
use qkv_model::Transformer;
use qkv_nn::Cx;
use qkv_text::Tokenizer;
use serde::Serialize;
use std::collections::BTreeMap;

/// What one number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// the mean loss of a target; lower is better
    Loss,
    /// sacreBLEU's BLEU
    Bleu,
    /// chrF
    Chrf,
    /// translation edit rate; lower is better
    Ter,
    /// ROUGE-L
    RougeL,
    /// share of right answers, in percent
    Accuracy,
    /// macro F1 of classes, F1 of entities, or of the words of answers, in percent
    F1,
    /// whole outputs or answers that are right, in percent
    Exact,
}

impl Metric {
    const ALL: [(&'static str, Metric); 8] = [
        ("loss", Metric::Loss),
        ("bleu", Metric::Bleu),
        ("chrf", Metric::Chrf),
        ("ter", Metric::Ter),
        ("rouge-l", Metric::RougeL),
        ("accuracy", Metric::Accuracy),
        ("f1", Metric::F1),
        ("exact", Metric::Exact),
    ];

    /// The metric of this name.
    ///
    /// ```
    /// use qkv_train::score::Metric;
    /// assert_eq!(Metric::parse("bleu")?, Metric::Bleu);
    /// assert!(Metric::parse("belu").unwrap_err().hint.contains("`bleu`"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(name: &str) -> Result<Self> {
        let names = Self::ALL.map(|(name, _)| name);
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, m)| m).ok_or_else(|| {
            let near = nearest(name, names).unwrap_or_default();
            let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
            Error::new("eval.metric", format!("there is no metric `{name}`"), hint)
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, m)| *m == self).map_or("", |(name, _)| name)
    }

    /// Whether `score` is as good as `goal`.
    pub fn reaches(self, score: f64, goal: f64) -> bool {
        match self {
            Self::Loss | Self::Ter => score <= goal,
            _ => score >= goal,
        }
    }
}

/// One example with what the network made of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// what it was given
    pub source: String,
    /// what is right
    pub expected: String,
    /// what it said
    pub got: String,
}

/// What came of a judgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// each metric of the task
    pub values: BTreeMap<String, f64>,
    /// every example; empty where only the loss is known
    #[serde(skip)]
    pub judged: Vec<Judged>,
    /// how the main score was computed
    pub signature: Option<String>,
    /// a table of classes
    #[serde(skip)]
    pub table: Option<String>,
}

impl Scores {
    /// The value of a metric, an error where the task has no such one.
    pub fn get(&self, metric: Metric) -> Result<f64> {
        self.values.get(metric.name()).copied().ok_or_else(|| {
            let there: Vec<&str> = self.values.keys().map(String::as_str).collect();
            let what = format!("the task has no `{}`", metric.name());
            Error::new("eval.metric", what, format!("it has {}", there.join(", ")))
        })
    }
}

/// What judges: a network with all that it needs to be asked.
pub struct Judge<'a> {
    /// the network
    pub model: &'a Transformer,
    /// what it learnt
    pub objective: &'a Objective,
    /// which kind that is
    pub goal: Goal,
    /// text to ids
    pub tokenizer: Option<&'a Tokenizer>,
    /// classes or tags
    pub labels: &'a Labels,
}

/// An example with its samples: several where its text is long.
struct Ready {
    example: usize,
    sample: Sample,
}

impl Judge<'_> {
    /// Every score of the task on `corpus`.
    pub fn scores(&self, corpus: &dyn Corpus) -> Result<Scores> {
        let mut scores = Scores::default();
        let ready = self.prepare(corpus)?;
        let batches = ready.chunks(32).map(|part| self.batch(part));
        let (loss, _) = mean_loss(self.model, batches)?;
        scores.values.insert("loss".into(), loss);
        match self.goal {
            Goal::Translate => self.text(corpus, &ready, &mut scores)?,
            Goal::Classify | Goal::Image => self.classes(corpus, &ready, &mut scores)?,
            Goal::Tag => self.tags(corpus, &ready, &mut scores)?,
            Goal::Answer => self.answers(corpus, &ready, &mut scores)?,
            Goal::NextToken | Goal::Masked | Goal::SpanCorruption | Goal::Denoise => {
                scores.values.insert("perplexity".into(), loss.exp());
            }
        }
        Ok(scores)
    }

    /// All samples, short ones first so that batches waste little.
    fn prepare(&self, corpus: &dyn Corpus) -> Result<Vec<Ready>> {
        let key = Key::new(0, 0, 0).named("judge");
        let mut ready = vec![];
        if let Objective::NextToken(next) = self.objective {
            let documents: Result<Vec<Vec<u32>>> = corpus.examples().map(|e| next.document(&e?)).collect();
            let packed = qkv_data::objective::Packed::new(documents?, next.length, qkv_data::objective::Borders::Open);
            ready.extend((0..packed.rows()).filter_map(|i| Some(Ready { example: i, sample: packed.row(i)? })));
        } else {
            for (i, example) in corpus.examples().enumerate() {
                let Made::Items { items, .. } = self.objective.prepare(&example?)? else { continue };
                for item in &items {
                    let sample = match item {
                        Prepared::Ready(sample) => sample.clone(),
                        raw => Box::new(self.objective.sample(raw, key.child(i as u64))?),
                    };
                    ready.push(Ready { example: i, sample: *sample });
                }
            }
        }
        if ready.is_empty() {
            return Err(Error::new("data", "0 examples can be judged", "check the task and the length"));
        }
        ready.sort_by_key(|r| r.sample.length());
        Ok(ready)
    }

    fn batch(&self, part: &[Ready]) -> Result<Batch> {
        let samples: Vec<Sample> = part.iter().map(|r| r.sample.clone()).collect();
        Batch::new(&samples, self.objective.pad(), Side::Right)
    }

    /// Rows of scores of every batch, with the part it was made of.
    fn each(
        &self,
        ready: &[Ready],
        mut see: impl FnMut(&[Ready], &Batch, Vec<f32>, usize) -> Result<()>,
    ) -> Result<()> {
        let model = self.model.valid();
        for part in ready.chunks(32) {
            let batch = self.batch(part)?;
            let scores = logits(&model, &batch, &mut Cx::eval())?;
            let v = scores.dims()[1];
            see(part, &batch, scores.into_data().try_to_vec::<f32>().unwrap_or_default(), v)?;
        }
        Ok(())
    }

    fn text(&self, corpus: &dyn Corpus, ready: &[Ready], scores: &mut Scores) -> Result<()> {
        let (Objective::Translate(task), Some(tokenizer)) = (self.objective, self.tokenizer) else { return Ok(()) };
        let end = task.family.target.close.first().copied().unwrap_or(0);
        let until = Until { end, most: task.target_length };
        let mut judged = BTreeMap::new();
        for part in ready.chunks(50) {
            let sources: Vec<Vec<u32>> = part.iter().filter_map(|r| r.sample.memory.clone()).collect();
            for (r, ids) in part.iter().zip(search::write(self.model, &sources, task.family.start, until)?) {
                let (source, expected) = two_texts(&corpus.get(r.example)?);
                judged.insert(r.example, Judged { source, expected, got: tokenizer.decode(&ids, true)?.trim().into() });
            }
        }
        scores.judged = judged.into_values().collect();
        let said: Vec<&str> = scores.judged.iter().map(|j| j.got.as_str()).collect();
        let right: Vec<Vec<&str>> = scores.judged.iter().map(|j| vec![j.expected.as_str()]).collect();
        let bleu = Bleu::default();
        let exact = scores.judged.iter().filter(|j| j.got == j.expected).count() as f64 / said.len().max(1) as f64;
        let lines = scores.judged.iter().map(|j| Rouge::default().score(&j.expected, &j.got, RougeKind::L).f1);
        let values = [
            ("bleu", bleu.corpus(&said, &right)?.score),
            ("chrf", Chrf::default().corpus(&said, &right)?.score),
            ("ter", Ter::default().corpus(&said, &right)?.score),
            ("rouge-l", 100.0 * lines.sum::<f64>() / said.len().max(1) as f64),
            ("exact", 100.0 * exact),
        ];
        scores.values.extend(values.map(|(name, value)| (name.to_string(), value)));
        scores.signature = Some(bleu.signature(qkv_metric::References::of(&right), None));
        Ok(())
    }

    fn classes(&self, corpus: &dyn Corpus, ready: &[Ready], scores: &mut Scores) -> Result<()> {
        let mut judged = BTreeMap::new();
        self.each(ready, |part, batch, rows, v| {
            for ((r, row), target) in part.iter().zip(rows.chunks(v)).zip(&batch.targets) {
                let name = |i: usize| self.labels.names().get(i).cloned().unwrap_or_default();
                let source = corpus.get(r.example)?.text().into_owned();
                let (expected, got) = (name(usize::try_from(*target).unwrap_or(usize::MAX)), name(largest(row)));
                judged.insert(r.example, Judged { source, expected, got });
            }
            Ok(())
        })?;
        scores.judged = judged.into_values().collect();
        let column = |of: fn(&Judged) -> &String| scores.judged.iter().map(of).collect::<Vec<_>>();
        let table = Classification::new(&column(|j| &j.expected), &column(|j| &j.got))?;
        scores.values.insert("accuracy".into(), 100.0 * table.accuracy);
        scores.values.insert("f1".into(), 100.0 * table.averages.macro_.f1);
        scores.table = Some(table.confusion.render());
        Ok(())
    }

    fn tags(&self, corpus: &dyn Corpus, ready: &[Ready], scores: &mut Scores) -> Result<()> {
        let name = |i: usize| self.labels.names().get(i).cloned().unwrap_or_default();
        let mut judged: BTreeMap<usize, (Vec<String>, Vec<String>)> = BTreeMap::new();
        self.each(ready, |part, batch, rows, v| {
            let width = batch.length;
            for (i, r) in part.iter().enumerate() {
                let both = judged.entry(r.example).or_default();
                for t in (i * width..(i + 1) * width).filter(|t| batch.targets[*t] != IGNORED) {
                    both.0.push(name(usize::try_from(batch.targets[t]).unwrap_or(usize::MAX)));
                    both.1.push(name(largest(&rows[t * v..(t + 1) * v])));
                }
            }
            Ok(())
        })?;
        let (truth, said): (Vec<_>, Vec<_>) = judged.values().cloned().unzip();
        let pairs = || truth.iter().flatten().zip(said.iter().flatten());
        let right = pairs().filter(|(a, b)| a == b).count() as f64 / pairs().count().max(1) as f64;
        let found = qkv_metric::score_entities(&truth, &said, Scheme::default())?;
        scores.values.insert("accuracy".into(), 100.0 * right);
        scores.values.insert("f1".into(), 100.0 * found.averages.micro.f1);
        for (example, (truth, said)) in judged {
            let source = corpus.get(example)?.text().into_owned();
            scores.judged.push(Judged { source, expected: truth.join(" "), got: said.join(" ") });
        }
        Ok(())
    }

    fn answers(&self, corpus: &dyn Corpus, ready: &[Ready], scores: &mut Scores) -> Result<()> {
        // The best span of all windows of an example.
        let mut best: BTreeMap<usize, (f32, u32, u32)> = BTreeMap::new();
        self.each(ready, |part, batch, rows, v| {
            for (i, r) in part.iter().enumerate() {
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
            scores.judged.push(Judged { source: question, expected: answer, got });
        }
        let said: Vec<&str> = scores.judged.iter().map(|j| j.got.as_str()).collect();
        let right: Vec<Vec<&str>> = scores.judged.iter().map(|j| vec![j.expected.as_str()]).collect();
        let all = qkv_metric::score_answers(&said, &right, SquadVersion::default())?.all;
        scores.values.insert("exact".into(), all.exact);
        scores.values.insert("f1".into(), all.f1);
        Ok(())
    }
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

    #[test]
    fn a_loss_is_good_when_it_is_small() {
        assert!(Metric::Loss.reaches(1.8, 1.9) && !Metric::Loss.reaches(2.0, 1.9) && Metric::Bleu.reaches(91.0, 90.0));
    }
}
