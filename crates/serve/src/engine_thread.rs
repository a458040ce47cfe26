//! One thread computes for one model. Requests come over a channel and join at the next step; tokens go out as they are chosen.
//! Between steps the thread does what was asked of the model besides: prompts that are scored a chunk at a time, and calls that
//! read a whole input (embeddings, classes, …).
//!
//! A step that panics or fails takes nobody down but who caused it. What a request says depends on the request alone, so
//! everybody who was there is asked again from the beginning, one at a time; what was already told is not told again; and who
//! breaks it when alone is the one that gets the error.

use crate::adapters::Adapter;
use crate::error::ApiError;
use crate::metrics::{EngineLoad, Metrics};
use qkv_base::Error;
use qkv_decode::score::{PromptScoring, PromptToken};
use qkv_decode::{
    Decoder, Detokenizer, Engine, EngineConfig, Finished, NewToken, PrefixCache, Request, RequestId, Sequence, Stats,
    StepEvent,
};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// What is asked of the thread for one prompt.
pub struct Work {
    /// how to go on with the prompt; none: it is only scored
    pub request: Option<Request>,
    /// the prompt to score
    pub score: Option<PromptScoring>,
    /// the adapter that it is computed with: it stays as long as the work does
    pub adapter: Option<Arc<Adapter>>,
    /// whose events they are, where several prompts share a channel
    pub tag: usize,
    /// where events go
    pub events: UnboundedSender<(usize, WorkEvent)>,
}

/// What happens to a piece of work.
#[derive(Clone, Debug)]
pub enum WorkEvent {
    /// the prompt's tokens but the first, scored
    Scored(Vec<PromptToken>),
    /// a token was chosen
    Token(NewToken),
    /// all is said
    Finished {
        /// the continuations
        sequences: Vec<Sequence>,
        /// tokens of the prompt that were not computed, because another request began with them
        cached: usize,
    },
    /// it cannot go on
    Failed(ApiError),
}

enum Command {
    Begin(u64, Box<Work>),
    Cancel(u64),
    Call(Box<dyn FnOnce() + Send>),
}

/// Counters that the thread and its clients share.
#[derive(Debug, Default)]
struct Counters {
    pending: AtomicU64,
    rows: AtomicU64,
    tokens: AtomicU64,
    prefix_bytes: AtomicU64,
}

/// How to reach the thread of a model.
pub struct EngineThread {
    commands: mpsc::Sender<Command>,
    counters: Arc<Counters>,
    metrics: Arc<Metrics>,
    next: AtomicU64,
    /// rows that compute or wait, at most
    most: u64,
}

/// A place among the requests of a model; giving it up takes the request out.
pub struct Ticket {
    id: Option<u64>,
    rows: u64,
    commands: mpsc::Sender<Command>,
    counters: Arc<Counters>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _ = self.commands.send(Command::Cancel(id)); // a thread that is gone has nothing to cancel
        }
        self.counters.pending.fetch_sub(self.rows, Relaxed);
    }
}

impl EngineThread {
    /// Starts the thread; a model that writes nothing has no decoder.
    pub fn spawn(
        decoder: Option<Arc<dyn Decoder>>,
        detokenizer: Option<Arc<dyn Detokenizer>>,
        config: EngineConfig,
        prefix_bytes: u64,
        queue: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (commands, inbox) = mpsc::channel();
        let counters = Arc::<Counters>::default();
        let most = (config.max_rows as u64).saturating_add(queue as u64);
        let worker = Worker {
            inbox,
            engine: None,
            prefixes: PrefixCache::new(prefix_bytes),
            prefix_bytes,
            decoder,
            detokenizer,
            config,
            live: BTreeMap::new(),
            scoring: VecDeque::new(),
            suspects: VecDeque::new(),
            held: VecDeque::new(),
            counters: counters.clone(),
            metrics: metrics.clone(),
        };
        std::thread::Builder::new().name("qkv-engine".into()).spawn(move || worker.run()).ok();
        Self { commands, counters, metrics, next: AtomicU64::new(0), most }
    }

    /// What it is doing.
    pub fn load(&self) -> EngineLoad {
        let Counters { pending, rows, tokens, prefix_bytes } = &*self.counters;
        EngineLoad {
            pending: pending.load(Relaxed),
            rows: rows.load(Relaxed),
            tokens: tokens.load(Relaxed),
            prefix_bytes: prefix_bytes.load(Relaxed),
            adapters: 0,
        }
    }

    /// Whether another request would be refused.
    pub fn is_full(&self) -> bool {
        self.load().pending >= self.most
    }

    fn place(&self, rows: u64) -> Result<Ticket, ApiError> {
        let before = self.counters.pending.fetch_add(rows, Relaxed);
        let ticket = Ticket { id: None, rows, commands: self.commands.clone(), counters: self.counters.clone() };
        if before.saturating_add(rows) > self.most {
            self.metrics.refused.fetch_add(1, Relaxed);
            let what = format!("{before} of {} places are taken; try again later", self.most);
            return Err(ApiError::overloaded(what, 1));
        }
        Ok(ticket)
    }

    /// Begins work, or refuses it because everything is taken.
    pub fn begin(&self, work: Work) -> Result<Ticket, ApiError> {
        let rows = work.request.as_ref().map_or(1, |r| r.search.rows()) as u64;
        let mut ticket = self.place(rows)?;
        let id = self.next.fetch_add(1, Relaxed);
        let gone = |_| ApiError::internal("the thread of this model has ended");
        self.commands.send(Command::Begin(id, Box::new(work))).map_err(gone)?;
        ticket.id = Some(id);
        Ok(ticket)
    }

    /// Runs a function on the thread, between steps. Who does not wait for it any more before it begins saves the work.
    pub async fn call<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let _place = self.place(1)?;
        let (send, answer) = oneshot::channel();
        let metrics = self.metrics.clone();
        let run = move || {
            if send.is_closed() {
                metrics.cancelled.fetch_add(1, Relaxed);
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
                metrics.panics.fetch_add(1, Relaxed);
                ApiError::internal("the computation broke off")
            });
            let _ = send.send(done); // nobody waits any more: then nobody misses it
        };
        let gone = || ApiError::internal("the thread of this model has ended");
        self.commands.send(Command::Call(Box::new(run))).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// A request that the thread holds.
struct Live {
    work: Work,
    request: Option<RequestId>,
    /// how many tokens of each continuation were told
    told: Vec<usize>,
}

struct Worker {
    inbox: mpsc::Receiver<Command>,
    engine: Option<Engine>,
    /// prompts that were read, while there is no engine to keep them
    prefixes: PrefixCache,
    prefix_bytes: u64,
    decoder: Option<Arc<dyn Decoder>>,
    detokenizer: Option<Arc<dyn Detokenizer>>,
    config: EngineConfig,
    live: BTreeMap<u64, Live>,
    scoring: VecDeque<(u64, PromptScoring)>,
    /// those who were there when a step broke, to be asked again one at a time
    suspects: VecDeque<u64>,
    /// those who came meanwhile
    held: VecDeque<u64>,
    counters: Arc<Counters>,
    metrics: Arc<Metrics>,
}

impl Worker {
    fn run(mut self) {
        loop {
            if self.live.is_empty() {
                // The rooms of the cache are given back where nobody needs them; prompts that were read stay.
                if let Some(engine) = self.engine.take() {
                    self.prefixes = engine.into_prefixes();
                }
                self.report();
                match self.inbox.recv() {
                    Ok(command) => self.obey(command),
                    Err(_) => return,
                }
            }
            while let Ok(command) = self.inbox.try_recv() {
                self.obey(command);
            }
            self.score();
            self.step();
            self.report();
        }
    }

    fn report(&self) {
        let stats = self
            .engine
            .as_ref()
            .map(Engine::stats)
            .unwrap_or_else(|| Stats { prefix_bytes: self.prefixes.bytes(), ..Stats::default() });
        self.counters.prefix_bytes.store(stats.prefix_bytes, Relaxed);
        self.counters.rows.store(stats.rows as u64, Relaxed);
        self.counters.tokens.store(stats.tokens as u64, Relaxed);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Call(work) => work(),
            Command::Cancel(id) => self.cancel(id),
            Command::Begin(id, mut work) => {
                let score = work.score.take();
                self.live.insert(id, Live { work: *work, request: None, told: vec![] });
                match score {
                    Some(scoring) => self.scoring.push_back((id, scoring)),
                    None => self.admit(id),
                }
            }
        }
    }

    fn cancel(&mut self, id: u64) {
        let Some(live) = self.live.remove(&id) else { return };
        self.metrics.cancelled.fetch_add(1, Relaxed);
        self.scoring.retain(|(scored, _)| *scored != id);
        self.suspects.retain(|suspect| *suspect != id);
        self.held.retain(|held| *held != id);
        if let (Some(engine), Some(request)) = (&mut self.engine, live.request) {
            engine.cancel(request);
        }
    }

    fn tell(&mut self, id: u64, event: WorkEvent) {
        let Some(live) = self.live.get(&id) else { return };
        let over = matches!(event, WorkEvent::Finished { .. } | WorkEvent::Failed(_));
        let _ = live.work.events.send((live.work.tag, event)); // who does not listen gives up the ticket as well
        if over {
            self.live.remove(&id);
        }
    }

    /// Lets a request into the engine, or has it wait until those that broke a step were asked again.
    fn admit(&mut self, id: u64) {
        if !self.suspects.is_empty() {
            self.held.push_back(id);
            return;
        }
        let Some(live) = self.live.get_mut(&id) else { return };
        let Some(request) = live.work.request.clone() else {
            return self.tell(id, WorkEvent::Finished { sequences: vec![], cached: 0 });
        };
        let Some(decoder) = &self.decoder else {
            return self.tell(id, WorkEvent::Failed(ApiError::bad("this model writes nothing")));
        };
        let engine = self.engine.get_or_insert_with(|| {
            let prefixes = std::mem::take(&mut self.prefixes);
            let engine = Engine::new(decoder.clone(), self.config).with_prefixes(prefixes);
            match &self.detokenizer {
                Some(detokenizer) => engine.with_text(detokenizer.clone()),
                None => engine,
            }
        });
        match engine.admit(request) {
            Ok(request) => live.request = Some(request),
            Err(error) => self.tell(id, WorkEvent::Failed(ApiError::library(error))),
        }
    }

    /// One chunk of one prompt that is scored.
    fn score(&mut self) {
        let Some((id, mut scoring)) = self.scoring.pop_front() else { return };
        let Some(decoder) = self.decoder.clone() else {
            return self.tell(id, WorkEvent::Failed(ApiError::bad("this model writes nothing, and so scores nothing")));
        };
        let chunk = self.config.prefill_chunk;
        match catch_unwind(AssertUnwindSafe(|| scoring.advance(&*decoder, chunk))) {
            Ok(Ok(())) if scoring.is_done() => {
                self.tell(id, WorkEvent::Scored(scoring.finish()));
                self.admit(id);
            }
            Ok(Ok(())) => self.scoring.push_back((id, scoring)),
            Ok(Err(error)) => self.tell(id, WorkEvent::Failed(ApiError::library(error))),
            Err(_) => {
                self.metrics.panics.fetch_add(1, Relaxed);
                self.tell(id, WorkEvent::Failed(broken(None)));
            }
        }
    }

    fn step(&mut self) {
        let idle = self.engine.as_ref().is_none_or(Engine::is_idle);
        if idle && let Some(suspect) = self.suspects.pop_front() {
            let others = std::mem::take(&mut self.suspects);
            self.admit(suspect);
            self.suspects = others;
        } else if idle {
            let held = std::mem::take(&mut self.held);
            held.into_iter().for_each(|id| self.admit(id));
        }
        let Some(engine) = &mut self.engine else { return };
        match catch_unwind(AssertUnwindSafe(|| engine.step())) {
            Ok(Ok(events)) => events.into_iter().for_each(|event| self.deliver(event)),
            Ok(Err(error)) => self.recover(Some(error)),
            Err(_) => {
                self.metrics.panics.fetch_add(1, Relaxed);
                self.recover(None);
            }
        }
    }

    fn deliver(&mut self, event: StepEvent) {
        let request = match &event {
            StepEvent::Token(new) => new.request,
            StepEvent::Finished(finished) => finished.request,
            StepEvent::Failed { request, .. } => *request,
        };
        let Some((id, live)) = self.live.iter_mut().find(|(_, live)| live.request == Some(request)) else { return };
        let id = *id;
        match event {
            StepEvent::Token(new) => {
                if live.told.len() <= new.number {
                    live.told.resize(new.number + 1, 0);
                }
                // Asked again after a step that broke, it says the same again.
                if new.step >= live.told[new.number] {
                    live.told[new.number] = new.step + 1;
                    self.metrics.completion_tokens.fetch_add(1, Relaxed);
                    self.tell(id, WorkEvent::Token(new));
                }
            }
            StepEvent::Finished(Finished { sequences, cached, .. }) => {
                self.tell(id, WorkEvent::Finished { sequences, cached });
            }
            StepEvent::Failed { error, .. } => self.tell(id, WorkEvent::Failed(ApiError::library(error))),
        }
    }

    /// After a step that broke: who was alone is to blame, several are asked again one at a time.
    fn recover(&mut self, error: Option<Error>) {
        self.engine = None;
        self.prefixes = PrefixCache::new(self.prefix_bytes);
        let there: Vec<u64> = self.live.iter().filter(|(_, l)| l.request.is_some()).map(|(id, _)| *id).collect();
        for live in self.live.values_mut() {
            live.request = None;
        }
        match there[..] {
            [one] => self.tell(one, WorkEvent::Failed(broken(error))),
            _ => there.into_iter().rev().for_each(|id| self.suspects.push_front(id)),
        }
    }
}

fn broken(error: Option<Error>) -> ApiError {
    match error {
        Some(error) => ApiError { status: hyper::StatusCode::INTERNAL_SERVER_ERROR, ..ApiError::library(error) },
        None => ApiError::internal("the computation broke off"),
    }
}
