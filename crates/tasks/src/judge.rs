//! The judge: a corpus made into rows as in training, every row looked at once, then the scores of the task's sheet.

use crate::chain::{BeamOptions, ChainOptions};
use crate::generate::{Generation, Search};
use crate::look::Look;
use crate::metric::{Metric, Scores};
use crate::{TextModel, sheet};
use qkv_base::{Error, Kind, Result, Task};
use qkv_data::batch::Side;
use qkv_data::objective::{Borders, Labels, Made, Packed, Prepared, Sample, shifted};
use qkv_data::{Batch, Corpus, Key, Objective};
use qkv_nn::Cx;
use qkv_train::Trainable;

/// What judges: a model with all that it needs to be asked.
pub struct Judge<'a> {
    /// the model
    pub model: &'a TextModel,
    /// what it learnt
    pub task: Task,
    /// how its rows are made
    pub objective: &'a Objective,
    /// classes or tags
    pub labels: &'a Labels,
    /// how texts are written, where the task writes
    pub writing: &'a Writing,
}

/// How texts are written while a model is judged: as the verb would, unless something else is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writing {
    /// what bends each row of logits
    pub chain: ChainOptions,
    /// the beam
    pub beam: BeamOptions,
}

impl Writing {
    /// The most probable token each time: quick looks while a run is under way.
    pub fn greedy() -> Self {
        let beam = BeamOptions { width: Some(1), ..BeamOptions::default() };
        Self { chain: ChainOptions { greedy: true, ..ChainOptions::default() }, beam }
    }
}

/// An example with its sample: several where its text is long.
pub(crate) struct Ready {
    pub(crate) example: usize,
    pub(crate) sample: Sample,
}

/// What a sheet judges by: the rows, what the network said of each, and where the scores go.
pub(crate) struct Judging<'a> {
    pub(crate) judge: &'a Judge<'a>,
    pub(crate) corpus: &'a dyn Corpus,
    pub(crate) ready: &'a [Ready],
    pub(crate) looks: Vec<Look>,
    pub(crate) scores: Scores,
}

impl Judge<'_> {
    /// Every score of the task on `corpus`.
    pub fn scores(&self, corpus: &dyn Corpus) -> Result<Scores> {
        let mut scores = Scores::default();
        let ready = self.prepare(corpus, &mut scores)?;
        let mut judging = Judging { judge: self, corpus, ready: &ready, looks: vec![], scores };
        (sheet::of(self.task).judge)(&mut judging)?;
        let targets: usize = judging.looks.iter().map(Look::targets).sum();
        let nats: f64 = judging.looks.iter().map(|l| l.nats).sum();
        if targets == 0 {
            return Err(Error::new("data", "no target counts", "give examples that fit the model"));
        }
        if !nats.is_finite() {
            let place = self.model.path.display().to_string();
            return Err(self.model.not_finite(&place, format!("the loss is {nats}")).of_kind(Kind::Failed));
        }
        let mut scores = judging.scores;
        scores.put([(Metric::Loss, nats / targets as f64)]);
        Ok(scores)
    }

    /// All samples, short ones first so that batches waste little.
    fn prepare(&self, corpus: &dyn Corpus, scores: &mut Scores) -> Result<Vec<Ready>> {
        let key = Key::new(0, 0, 0).named("judge");
        let mut ready = vec![];
        if !corpus.is_empty() && corpus.tokens(0)?.is_some() {
            // Rows of tokens are looked at as they stand: nothing follows from the end of one for the beginning of another.
            for i in 0..corpus.len() {
                ready.extend(corpus.tokens(i)?.map(|ids| Ready { example: i, sample: shifted(&ids) }));
            }
        } else if let Objective::NextToken(next) = self.objective {
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

    /// What the network says of every row.
    pub(crate) fn looks(&self, ready: &[Ready]) -> Result<Vec<Look>> {
        let mut looks = vec![];
        self.each(ready, |part, batch, rows, v| {
            looks.extend((0..part.len()).map(|i| Look::at(batch, i, &rows, v)));
            Ok(())
        })?;
        Ok(looks)
    }

    /// Rows of scores of every batch, with the part it was made of.
    pub(crate) fn each(
        &self,
        ready: &[Ready],
        mut see: impl FnMut(&[Ready], &Batch, Vec<f32>, usize) -> Result<()>,
    ) -> Result<()> {
        let model = self.model.network.model.answering();
        let longest = ready.last().map_or(1, |r| r.sample.length()).max(1);
        // A quarter of a gigabyte of scores at most.
        let most = (1 << 26) / (longest * model.spec().vocabulary().unwrap_or(1)).max(1);
        for part in ready.chunks(most.clamp(1, 32)) {
            let samples: Vec<Sample> = part.iter().map(|r| r.sample.clone()).collect();
            let batch = Batch::new(&samples, self.objective.pad(), Side::Right)?;
            let scores = model.forward(&batch, &mut Cx::eval())?;
            let v = scores.dims()[1];
            see(part, &batch, scores.into_data().try_to_vec::<f32>().unwrap_or_default(), v)?;
        }
        Ok(())
    }

    /// What is written for each source, as the verb would write it.
    pub(crate) fn written(&self, ready: &[Ready], generation: &Generation) -> Result<Vec<String>> {
        // A beam has as many rows as it is wide for each source.
        let rows = if let Search::Beam(beam) = &generation.search { (64 / beam.width.max(1)).max(4) } else { 50 };
        let mut all = vec![];
        for part in ready.chunks(rows) {
            let sources: Vec<Vec<u32>> = part.iter().map(|r| r.sample.memory.clone().unwrap_or_default()).collect();
            let (written, _) = generation.run(&sources, all.len() as u64, &mut |_, _, _| Ok(()), &|| false)?;
            let best = |texts: Vec<crate::generate::Written>| texts.into_iter().next().and_then(|t| t.text);
            all.extend(written.into_iter().map(|texts| best(texts).unwrap_or_default().trim().to_string()));
        }
        Ok(all)
    }

    /// The name of a class or tag.
    pub(crate) fn label(&self, i: i64) -> String {
        usize::try_from(i).ok().and_then(|i| self.labels.names().get(i)).cloned().unwrap_or_default()
    }
}
