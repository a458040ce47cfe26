//! The judge: a corpus made into rows as in training, every row looked at once, then the scores of the task.

use super::look::Look;
use super::{Judged, Metric, Scores};
use crate::recipe::Goal;
use crate::search::{self, Limits};
use crate::step::logits;
use burn::module::Module;
use qkv_base::{Error, Result};
use qkv_data::batch::Side;
use qkv_data::objective::{Borders, Labels, Made, Packed, Prepared, Sample};
use qkv_data::{Batch, Corpus, Key, Objective};
use qkv_model::Transformer;
use qkv_nn::Cx;
use qkv_text::Tokenizer;

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
pub(super) struct Ready {
    pub(super) example: usize,
    pub(super) sample: Sample,
}

impl Judge<'_> {
    /// Every score of the task on `corpus`.
    pub fn scores(&self, corpus: &dyn Corpus) -> Result<Scores> {
        let mut scores = Scores::default();
        let ready = self.prepare(corpus, &mut scores)?;
        let looks = match self.goal {
            Goal::Answer => self.answers(corpus, &ready, &mut scores)?,
            _ => self.looks(&ready)?,
        };
        let targets: usize = looks.iter().map(Look::targets).sum();
        let nats: f64 = looks.iter().map(|l| l.nats).sum();
        if targets == 0 {
            return Err(Error::new("data", "no target counts", "give examples that fit the model"));
        }
        scores.put([(Metric::Loss, nats / targets as f64)]);
        match self.goal {
            Goal::Translate => self.text(corpus, &ready, &looks, &mut scores)?,
            Goal::Classify | Goal::Image => self.classes(corpus, &ready, &looks, &mut scores)?,
            Goal::Tag => self.tags(corpus, &ready, &looks, &mut scores)?,
            Goal::Answer => {}
            _ => self.language(corpus, &ready, &looks, &mut scores)?,
        }
        Ok(scores)
    }

    /// All samples, short ones first so that batches waste little.
    fn prepare(&self, corpus: &dyn Corpus, scores: &mut Scores) -> Result<Vec<Ready>> {
        let key = Key::new(0, 0, 0).named("judge");
        let mut ready = vec![];
        if let Objective::NextToken(next) = self.objective {
            let documents: Result<Vec<Vec<u32>>> = corpus.examples().map(|e| next.document(&e?)).collect();
            let packed = Packed::new(documents?, next.length, Borders::Open);
            ready.extend((0..packed.rows()).filter_map(|i| Some(Ready { example: i, sample: packed.row(i)? })));
        } else {
            for (i, example) in corpus.examples().enumerate() {
                let items = match self.objective.prepare(&example?)? {
                    Made::Items { items, .. } => items,
                    Made::Dropped(why) => {
                        *scores.left_out.entry(why.name().into()).or_default() += 1;
                        continue;
                    }
                };
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
            let why: Vec<String> = scores.left_out.iter().map(|(why, n)| format!("{n} {why}")).collect();
            let what = format!("0 examples can be judged ({})", why.join(", "));
            return Err(Error::new("data", what, "check the task, the labels and the length"));
        }
        ready.sort_by_key(|r| r.sample.length());
        Ok(ready)
    }

    fn looks(&self, ready: &[Ready]) -> Result<Vec<Look>> {
        let mut looks = vec![];
        self.each(ready, |part, batch, rows, v| {
            looks.extend((0..part.len()).map(|i| Look::at(batch, i, &rows, v)));
            Ok(())
        })?;
        Ok(looks)
    }

    /// Rows of scores of every batch, with the part it was made of.
    pub(super) fn each(
        &self,
        ready: &[Ready],
        mut see: impl FnMut(&[Ready], &Batch, Vec<f32>, usize) -> Result<()>,
    ) -> Result<()> {
        let model = self.model.valid();
        let longest = ready.last().map_or(1, |r| r.sample.length()).max(1);
        // A quarter of a gigabyte of scores at most.
        let most = (1 << 26) / (longest * model.spec().vocabulary().unwrap_or(1)).max(1);
        for part in ready.chunks(most.clamp(1, 32)) {
            let samples: Vec<Sample> = part.iter().map(|r| r.sample.clone()).collect();
            let batch = Batch::new(&samples, self.objective.pad(), Side::Right)?;
            let scores = logits(&model, &batch, &mut Cx::eval())?;
            let v = scores.dims()[1];
            see(part, &batch, scores.into_data().try_to_vec::<f32>().unwrap_or_default(), v)?;
        }
        Ok(())
    }

    /// How a language model goes on after the first half of the first `n` texts (of their beginnings, where they are
    /// longer than a row): something to look at, not a score.
    pub fn go_on(&self, corpus: &dyn Corpus, n: usize) -> Result<Vec<Judged>> {
        let (Objective::NextToken(next), Some(tokenizer)) = (self.objective, self.tokenizer) else { return Ok(vec![]) };
        let mut all = vec![];
        for i in 0..n.min(corpus.len()) {
            let mut ids = next.document(&corpus.get(i)?)?;
            ids.truncate(next.length);
            let (given, rest) = ids.split_at(ids.len() / 2);
            let limits = Limits { end: next.end, most: rest.len().min(40) };
            let said = search::go_on(self.model, given, limits)?;
            let text = |ids: &[u32]| Ok::<_, Error>(tokenizer.decode(ids, true)?.replace('\n', " "));
            let (source, expected, got) = (text(given)?, text(&rest[..limits.most])?, text(&said)?);
            all.push(Judged { source, expected, got, score: 0.0, counts: vec![] });
        }
        Ok(all)
    }
}
