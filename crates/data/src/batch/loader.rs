//! Batches by counter. The counter is the whole state: batch c of a run is the same bytes whether the run was broken off
//! before it or not, whatever thread makes it and however many are made ahead.

use super::items::{Counts, Items, Keep};
use super::plan::{Members, Plan, Rows, Turn};
use super::{Batch, Side, join};
use crate::shards::ShardRows;
use crate::{Corpus, Error, Key, Objective, Result, Sample};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// How batches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// rows of a batch
    pub rows: Rows,
    /// the order of the samples
    pub turn: Turn,
    /// the side of the padding
    pub side: Side,
    /// what is kept in memory
    pub keep: Keep,
    /// so many batches are made ahead, on a thread of their own; 0 for none
    pub ahead: usize,
}

impl Default for Policy {
    /// 4096 tokens a batch, shuffled, rows of like length together, padded on the right, two batches ahead.
    fn default() -> Self {
        let turn = Turn::Shuffled { window: 4096 };
        Self { rows: Rows::Tokens(4096), turn, side: Side::Right, keep: Keep::Tokens, ahead: 2 }
    }
}

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// which epoch, from 0
    pub epoch: u64,
    /// which batch of it, from 0
    pub batch: u64,
    /// how many batches it has
    pub batches: u64,
}

/// The batches of a corpus.
pub struct Loader {
    items: Items,
    policy: Policy,
    seed: u64,
    /// how much each class counts; empty: all the same
    class_weights: Vec<f32>,
    recent: Mutex<Recent>,
}

/// What was planned last, so that the next batch is found at once. It changes how fast a batch is found, never which.
#[derive(Default)]
struct Recent {
    /// how many batches each epoch has, as far as it has been asked
    epochs: Vec<u64>,
    plan: Option<(u64, Arc<Plan>)>,
    window: Option<(u64, usize, Arc<Vec<Members>>)>,
}

impl Loader {
    /// Tokenises the corpus (with all threads), counts what is cut and dropped, and stands ready at any counter.
    pub fn new(corpus: Arc<dyn Corpus>, objective: Objective, policy: Policy, seed: u64) -> Result<Self> {
        let items = Items::new(corpus, objective, policy.keep, seed)?;
        if let Rows::Packed { length, .. } = policy.rows
            && let Some(at) = (0..items.lengths().len()).find(|i| items.lengths().get(*i) as usize > length)
        {
            let what = format!("a sample of {} tokens in rows of {length}", items.lengths().get(at));
            return Err(Error::new(items.place(at), what, "make the rows longer, or the samples shorter"));
        }
        Ok(Self { items, policy, seed, class_weights: vec![], recent: Mutex::default() })
    }

    /// The rows of shards, which are tokens already: nothing is read before it is asked for.
    pub fn of_shards(rows: Arc<ShardRows>, objective: Objective, policy: Policy, seed: u64) -> Result<Self> {
        // Rows of one length: a budget of tokens is a number of rows, and no plan has to look at every row to count.
        let fixed = match policy.rows {
            Rows::Tokens(tokens) => Rows::Fixed((tokens / rows.length()).max(1)),
            Rows::Packed { rows, .. } => Rows::Fixed(rows),
            fixed => fixed,
        };
        let policy = Policy { rows: fixed, ..policy };
        let items = Items::of_shards(rows, objective)?;
        Ok(Self { items, policy, seed, class_weights: vec![], recent: Mutex::default() })
    }

    /// The same batches, in which a target of class k counts `weights[k]` times while it is learnt from.
    pub fn with_class_weights(mut self, weights: Vec<f32>) -> Self {
        self.class_weights = weights;
        self
    }

    /// What became of the examples.
    pub fn counts(&self) -> &Counts {
        self.items.counts()
    }

    /// The samples.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// How many batches an epoch has.
    pub fn batches(&self, epoch: u64) -> u64 {
        match (self.policy.rows, self.policy.turn) {
            (Rows::Fixed(rows), _) => self.items.lengths().len().div_ceil(rows.max(1)) as u64,
            (_, Turn::Straight) => self.plan(0).batches() as u64,
            _ => {
                if let Some(batches) = self.recent().epochs.get(epoch as usize) {
                    return *batches;
                }
                self.plan(epoch).batches() as u64
            }
        }
    }

    /// The epoch and place of batch `counter` of a run.
    pub fn locate(&self, counter: u64) -> Place {
        let constant = matches!((self.policy.rows, self.policy.turn), (Rows::Fixed(_), _) | (_, Turn::Straight));
        if constant {
            let batches = self.batches(0).max(1);
            return Place { epoch: counter / batches, batch: counter % batches, batches };
        }
        let (mut epoch, mut batch) = (0, counter);
        loop {
            let batches = self.batches(epoch).max(1);
            {
                let mut recent = self.recent();
                if recent.epochs.len() as u64 == epoch {
                    recent.epochs.push(batches);
                }
            }
            if batch < batches {
                return Place { epoch, batch, batches };
            }
            batch -= batches;
            epoch += 1;
        }
    }

    /// Batch `counter` of a run: a pure function of the seed and the counter.
    pub fn batch(&self, counter: u64) -> Result<Batch> {
        let place = self.locate(counter);
        self.batch_at(place.epoch, place.batch)
    }

    /// Batch `index` of an epoch.
    pub fn batch_at(&self, epoch: u64, index: u64) -> Result<Batch> {
        let plan = self.plan(epoch);
        let index = usize::try_from(index).ok().filter(|i| *i < plan.batches()).ok_or_else(|| {
            let what = format!("batch {index} of an epoch of {}", plan.batches());
            Error::new("batch", what, "count from 0")
        })?;
        let (window, place) = plan.locate(index);
        let batches = self.window(epoch, window, &plan);
        let members = batches.get(place).cloned().unwrap_or_default();
        let key = Key::new(self.seed, epoch, 0).named("sample");
        let rows: Vec<Sample> = members.iter().map(|row| self.row(row, key)).collect::<Result<_>>()?;
        let mut batch = Batch::new(&rows, self.items.objective().pad(), self.policy.side)?;
        batch.members = members;
        if !self.class_weights.is_empty() {
            let times = |target: &i64| usize::try_from(*target).ok().and_then(|k| self.class_weights.get(k).copied());
            batch.times = batch.targets.iter().map(|target| times(target).unwrap_or(1.0)).collect();
        }
        if let Some(vocab) = self.items.objective().vocab_size() {
            batch.within(vocab, usize::MAX).map_err(|error| self.named(error, &batch))?;
        }
        Ok(batch)
    }

    fn row(&self, members: &[usize], key: Key) -> Result<Sample> {
        let sample = |i: &usize| self.items.sample(*i, key.child(*i as u64));
        match (self.policy.rows, members) {
            (Rows::Packed { .. }, members) => join(&members.iter().map(sample).collect::<Result<Vec<_>>>()?),
            (_, [one]) => sample(one),
            _ => Err(Error::new("batch", "a row of several samples", "pack them")),
        }
    }

    fn named(&self, error: Error, batch: &Batch) -> Error {
        let first = batch.members.first().and_then(|row| row.first());
        Error { place: first.map_or(error.place, |i| format!("the batch of {}", self.items.place(*i))), ..error }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn plan(&self, epoch: u64) -> Arc<Plan> {
        if let Some((of, plan)) = &self.recent().plan
            && *of == epoch
        {
            return plan.clone();
        }
        let lengths = self.items.lengths().clone();
        let plan = Arc::new(Plan::new(lengths, self.policy.rows, self.policy.turn, self.seed, epoch));
        self.recent().plan = Some((epoch, plan.clone()));
        plan
    }

    fn window(&self, epoch: u64, window: usize, plan: &Plan) -> Arc<Vec<Members>> {
        if let Some((of, at, batches)) = &self.recent().window
            && (*of, *at) == (epoch, window)
        {
            return batches.clone();
        }
        let batches = Arc::new(plan.batches_of(window));
        self.recent().window = Some((epoch, window, batches.clone()));
        batches
    }

    /// Batches from `from` on, up to `until` if there is an end, made ahead on a thread.
    pub fn stream(self: &Arc<Self>, from: u64, until: Option<u64>) -> Stream {
        Stream::new(self.clone(), from, until)
    }
}

/// Batches one after the other, with their counters.
pub struct Stream {
    loader: Arc<Loader>,
    next: u64,
    until: u64,
    ahead: Option<(Receiver<Result<Batch>>, JoinHandle<()>)>,
}

impl Stream {
    fn new(loader: Arc<Loader>, from: u64, until: Option<u64>) -> Self {
        let until = until.unwrap_or(u64::MAX);
        let ahead = (loader.policy.ahead > 0).then(|| Self::thread(loader.clone(), from, until)).flatten();
        Self { loader, next: from, until, ahead }
    }

    /// None when the system gives no thread: then batches are made when asked for, and are the same.
    fn thread(loader: Arc<Loader>, from: u64, until: u64) -> Option<(Receiver<Result<Batch>>, JoinHandle<()>)> {
        let (give, take) = sync_channel(loader.policy.ahead);
        let make = move || {
            for counter in from..until {
                let batch = loader.batch(counter);
                let failed = batch.is_err();
                // Nobody takes any more: the stream was dropped.
                if give.send(batch).is_err() || failed {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("batches".into()).spawn(make).ok().map(|thread| (take, thread))
    }
}

impl Iterator for Stream {
    type Item = Result<(u64, Batch)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.until {
            return None;
        }
        let counter = self.next;
        let batch = match &self.ahead {
            None => self.loader.batch(counter),
            Some((take, _)) => take.recv().unwrap_or_else(|_| {
                Err(Error::new(
                    "batches",
                    "the thread that makes them has stopped",
                    "this is a fault of qkv; report it",
                ))
            }),
        };
        self.next = if batch.is_ok() { counter + 1 } else { self.until };
        Some(batch.map(|batch| (counter, batch)))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((take, thread)) = self.ahead.take() {
            drop(take);
            // A panic there has been told as an error here already.
            _ = thread.join();
        }
    }
}
